"""What a layer must have to be one of a graph: a kind, inputs, a number of outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ground.errors import ErrorCode, GraphError
from .descriptor import Descriptor
from .tensor import shown

_MAX_OUTPUTS = 1 << 16
"""Outputs that a layer can have: each becomes a slot before anything else is known of it."""


def check_descriptor(descriptor: Descriptor) -> None:
    """Refuse what is no descriptor, or that of no kind.

    Raises:
        GraphError: It is one of these (`ATTRIBUTE_INVALID`).
    """
    if not isinstance(descriptor, Descriptor):
        raise GraphError(
            f"{descriptor!r} is no descriptor",
            code=ErrorCode.ATTRIBUTE_INVALID,
            hint="give an instance of a kind's class, such as Softmax(axis=1)",
        )
    if not descriptor.kind:
        name = type(descriptor).__name__
        raise GraphError(
            f"descriptor class {name} has no kind",
            code=ErrorCode.ATTRIBUTE_INVALID,
            hint=f"declare it: class {name}(Descriptor, kind='vendor.{name}')",
        )


def check_arity(label: str, descriptor: Descriptor, sources: Sequence[Any]) -> None:
    """Refuse a number of inputs that the kind does not take.

    Args:
        label: Name of the layer.
        descriptor: Its kind.
        sources: What its inputs are to read; None for one that is left out.

    Raises:
        GraphError: A required input is missing (`GRAPH_DANGLING`), or there are too many.
    """
    names, required = descriptor.input_names, descriptor.required_inputs
    if required <= len(sources) <= len(names):
        for source in sources[:required]:
            if source is None:
                break
        else:
            return
    missing = [
        names[min(index, len(names) - 1)] for index in range(required) if index >= len(sources) or sources[index] is None
    ]
    if missing:
        raise GraphError(
            f"layer {label!r} ({descriptor.kind}) lacks its input {', '.join(map(repr, missing))}",
            code=ErrorCode.GRAPH_DANGLING,
            hint=f"its inputs are {', '.join(names) or 'none'}; the first {descriptor.required_inputs} are required",
        )
    if len(sources) > len(names) and not descriptor.variadic:
        raise GraphError(
            f"layer {label!r} ({descriptor.kind}) got {len(sources)} inputs",
            hint=f"its inputs are {', '.join(names) or 'none'}",
        )


def check_output_count(descriptor: Descriptor) -> None:
    """Refuse a number of outputs that no layer has.

    Raises:
        GraphError: It is no number of slots, or too large a one (`ATTRIBUTE_INVALID`).
    """
    count = descriptor.output_count
    if type(count) is not int or not 0 <= count <= _MAX_OUTPUTS:
        raise GraphError(
            f"a layer of kind {descriptor.kind} would have {shown(count) if type(count) is int else repr(count)} outputs",
            code=ErrorCode.ATTRIBUTE_INVALID,
            hint=f"a layer has at most {_MAX_OUTPUTS}",
        )
