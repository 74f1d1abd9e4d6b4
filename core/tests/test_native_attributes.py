"""Test that C reads the attributes of every kind as Python has them.

Their types are those that docs/layer_attributes.md promises.
"""

from __future__ import annotations

import dataclasses
import logging
import re
import types
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from dovetail import Device, layers
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import Quantization
from dovetail.ground.errors import BackendError, ErrorCode
from dovetail.native import load_backend
from dovetail.native.attribute_types import AttributeType, attribute_rows

PAGE = Path(__file__).resolve().parents[2] / "docs" / "layer_attributes.md"
KINDS = {
    kind.kind: kind
    for kind in (getattr(layers, name) for name in layers.__all__)
    if isinstance(kind, type) and issubclass(kind, Descriptor) and kind.kind
}
AXES = Quantization((0.5, 0.1, 1e-30), (0, -3, 127), 1)


def documented() -> dict[tuple[str, str], tuple[str, int]]:
    """Return (types, since) of each (kind, attribute) of the page."""
    found, kind = {}, ""
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            kind = line[3:].split(" ")[0]
        elif match := re.match(r"\| (\S+) \| (.*?) \| (\d+) \|", line):
            found[kind, match[1]] = (match[2], int(match[3]))
    return found


def values(hint: Any) -> list[Any]:
    """Return values of an annotation, edges among them."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return [value for one in get_args(hint) for value in values(one)]
    if origin is tuple:
        elements = get_args(hint)
        if Ellipsis in elements:
            some = values(elements[0])
            return [(), tuple(some), tuple(reversed(some))]
        return [tuple(values(one)[0] for one in elements), tuple(values(one)[-1] for one in elements)]
    if hint is type(None):
        return [None]
    if hint is Quantization:
        return [AXES, Quantization((0.25,), (3,), None)]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return list(hint)
    plain: dict[Any, list[Any]] = {
        bool: [True, False],
        int: [0, -1, 2**63 - 1, -(2**63)],
        float: [0.1, -0.0, 1.0, 1e308, 5e-324, float("inf")],
        str: ["", "two words", "Ünïcödé"],
    }
    if hint in plain:
        return plain[hint]
    return [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7, np.int64), np.zeros((0, 2), np.uint8), np.array([True])]


def descriptors(kind: type[Descriptor]) -> list[Descriptor]:
    """Return descriptors that together have every value of each attribute.

    What goes with what is not checked here.
    """
    hints = get_type_hints(kind)
    choices = {field.name: values(hints[field.name]) for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    made = []
    for number in range(max(map(len, choices.values()), default=1)):
        one = object.__new__(kind)
        for name, some in choices.items():
            object.__setattr__(one, name, some[number % len(some)])
        made.append(one)
    return made


def expected(descriptor: Descriptor) -> dict[str, Any]:
    """Return the attributes as they must arrive."""
    result: dict[str, Any] = {}
    for name, value in descriptor.attributes().items():
        if isinstance(value, Quantization):
            result |= {f"{name}.{part}": getattr(value, part) for part in ("scale", "zero_point", "axis")}
        else:
            result[name] = value
    return result


def as_seen(value: Any) -> Any:
    """Return a value of Python as C shows it."""
    if isinstance(value, np.ndarray):
        code = {"f": 2, "i": 0, "u": 1, "b": 6}[value.dtype.kind]
        return [code, value.dtype.itemsize * 8, value.ndim, *value.shape, value.tobytes().hex()]
    if value is None:
        return []
    if isinstance(value, tuple):
        return [one for item in value for one in as_seen(item)]
    if isinstance(value, DType):
        return [value.label]
    return [value.value if isinstance(value, Enum) else value]


def parsed(kind: AttributeType, fields: list[str]) -> list[Any]:
    if kind in (AttributeType.FLOAT, AttributeType.FLOATS):
        return [float.fromhex(one) for one in fields]
    if kind in (AttributeType.STRING, AttributeType.STRINGS):
        return fields
    if kind is AttributeType.TENSOR:
        return [*map(int, fields[:-1]), fields[-1]]
    return [int(one) for one in fields]


@pytest.mark.parametrize("name", KINDS)
def test_attributes_arrive(build: Any, caplog: pytest.LogCaptureFixture, name: str) -> None:
    backend = load_backend(build("attributes.c"))
    page = documented()
    for descriptor in descriptors(KINDS[name]):
        layer: Any = types.SimpleNamespace(kind=name, name="one", descriptor=descriptor, inputs=[], outputs=[])
        caplog.clear()
        with caplog.at_level(logging.INFO, "dovetail"):
            assert backend.supports(layer, backend.options_type(), Device()).code == "kind"
        head, *lines = caplog.records[-1].getMessage().split("\n")
        assert head == f"{name}\t{descriptor.version}"
        seen = {}
        for line in lines:
            attribute, kind, since, *fields = line.split("\t")
            seen[attribute] = parsed(AttributeType(int(kind)), fields)
            promised, promised_since = page[name, attribute]
            assert re.search(rf"(?<!\w){AttributeType(int(kind)).name}(?!\w)", promised), (attribute, kind, promised)
            assert int(since) == promised_since
        assert seen == {attribute: as_seen(value) for attribute, value in expected(descriptor).items()}
        assert list(seen) == list(expected(descriptor))


@pytest.mark.parametrize(("value", "words"), [(2**63, "64 bits"), (object(), "object"), ({"a": 1}, "dict")])
def test_what_cannot_cross_is_named(value: Any, words: str) -> None:
    descriptor = object.__new__(KINDS["dovetail.Trilu"])
    for field in dataclasses.fields(descriptor):  # type: ignore[arg-type]
        object.__setattr__(descriptor, field.name, value)
    with pytest.raises(BackendError, match=words) as caught:
        attribute_rows(descriptor)
    assert caught.value.code is ErrorCode.ATTRIBUTE_INVALID
