"""What a model says of itself, as `Network.metadata` has it."""

from __future__ import annotations

from collections.abc import Iterator

from .messages import ModelProto, PropertyProto
from .wire import WireError

PROPERTIES = "metadata_props."
"""Stands before the names that the makers of a model chose."""


def metadata_of(model: ModelProto) -> dict[str, str]:
    """Return what a model says of itself, as text by name; what it does not say is left out.

    An entry of `metadata_props` has that before its own name, so that nothing hides another. One
    that is damaged is left out.
    """
    opset = [f"{one.domain} {one.version}".strip() for one in model.opset_import]
    found = {
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "version": str(model.model_version) if model.has("model_version") else "",
        "domain": model.domain,
        "description": model.doc_string,
        "opset": ", ".join(opset),
    }
    stated = {name: text for name, text in found.items() if text}
    return stated | dict(_properties(model))


def _properties(model: ModelProto) -> Iterator[tuple[str, str]]:
    for encoded in model.metadata_props:
        try:
            entry = PropertyProto.read(encoded)
        except WireError:
            continue
        yield f"{PROPERTIES}{entry.key}", entry.value
