"""What is known of a part, in JSON's terms: the same in every process, so that it can be kept.

`part_facts` says how the layers of a part are joined, their kinds, attributes and infos. Names do
not count. Arrays stand there by shape and element type; `part_digests` looks at what is in them
too.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

import numpy as np

from ..graph.descriptor import Array, Constant
from ..graph.layer import Layer, OutputSlot


class PartLike(Protocol):
    """Layers and the slots by which they touch the rest: a `SubgraphView`, or a single layer."""

    @property
    def layers(self) -> Sequence[Layer]:
        """The members, producers before consumers."""
        ...

    @property
    def inputs(self) -> Sequence[OutputSlot | None]:
        """Slots that feed the members."""
        ...

    @property
    def outputs(self) -> Sequence[OutputSlot]:
        """Slots of the members that are read outside."""
        ...


def part_facts(part: PartLike) -> list[Any]:
    """Describe a part without names and values: how layers are joined, kinds, attributes, infos.

    Raises:
        TypeError: An attribute has no content that is the same in the next process.
    """
    return _facts(part, [])


def part_digests(part: PartLike) -> tuple[str, str]:
    """Return the digests of what `part_facts` says, and of the values of all arrays.

    These are the constants, and the arrays among the attributes.

    Raises:
        TypeError: An attribute or constant has no content that is the same in the next process.
    """
    from hashlib import sha256  # which loads OpenSSL; where nothing is kept it is not needed

    arrays: list[Array] = []
    structure = sha256(text(_facts(part, arrays)).encode()).hexdigest()
    values = sha256()
    for array in arrays:  # their shapes and types stand in the structure
        if array.dtype.hasobject:
            raise TypeError(f"an array of {array.dtype} has no content to know it by")
        values.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return structure, values.hexdigest()


def plain(value: Any, arrays: list[Array] | None = None) -> Any:
    """Return a value in JSON's terms, arrays by their type and shape; they are added to `arrays`.

    Raises:
        TypeError: It has no content that is the same in the next process.
    """
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, np.ndarray):
        if arrays is not None:
            arrays.append(value)
        return ["array", value.dtype.str, list(value.shape)]
    if isinstance(value, Enum):
        return [type(value).__name__, value.name]
    if isinstance(value, tuple | list):
        return [plain(one, arrays) for one in value]
    if isinstance(value, Mapping):
        ordered = sorted(((str(name), one) for name, one in value.items()), key=lambda pair: pair[0])
        return {name: plain(one, arrays) for name, one in ordered}  # in the order in which `text` will have them
    if isinstance(value, set | frozenset):
        inside: list[Array] = []
        facts = sorted((plain(one, inside) for one in value), key=text)
        if inside:
            raise TypeError("arrays in a set have no order to know them by; use a tuple")
        return facts
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: plain(getattr(value, one.name), arrays) for one in dataclasses.fields(value)}
        return [type(value).__name__, fields]
    if "__repr__" not in {name for one in type(value).__mro__[:-1] for name in vars(one)}:
        raise TypeError(f"a {type(value).__name__} has no content to know it by; give it a __repr__, or make it a dataclass")
    return [type(value).__name__, repr(value)]


def text(facts: Any) -> str:
    """Return facts as text that is the same for equal facts."""
    return json.dumps(facts, sort_keys=True)


def _facts(part: PartLike, arrays: list[Array]) -> list[Any]:
    number: dict[OutputSlot, int] = {}
    for slot in (*part.inputs, *(slot for layer in part.layers for slot in layer.outputs)):
        if slot is not None:
            number.setdefault(slot, len(number))
    return [
        [plain(slot.known_info) for slot in number],
        [number[slot] for slot in part.outputs],
        [_layer_facts(layer, number, arrays) for layer in part.layers],
    ]


def _layer_facts(layer: Layer, number: Mapping[OutputSlot, int], arrays: list[Array]) -> list[Any]:
    reads: list[Any] = []
    for read in layer.inputs:
        if read.source is None:
            reads.append(None)
        elif isinstance(read.source.layer.descriptor, Constant):
            reads.append(plain(read.info))
            arrays.append(read.source.layer.descriptor.value)
        else:
            reads.append(number[read.source])
    return [layer.kind, layer.descriptor.version, plain(layer.descriptor, arrays), reads]
