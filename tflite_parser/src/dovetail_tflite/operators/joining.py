"""Operators that join, part and pad tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail import Descriptor, DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import (
    BinaryOperation,
    Concat,
    ElementwiseBinary,
    Pad,
    PadMode,
    Permute,
    Reshape,
    Shape,
    Split,
    Squeeze,
    Stack,
)

from ..call import Call
from ..registry import operator

_MIRRORS = {0: PadMode.REFLECT, 1: PadMode.SYMMETRIC}
_BYTES = (DType.INT8, DType.UINT8)


@operator("CONCATENATION", newest=7)
def concatenation(call: Call) -> OutputSlot:
    """Translate a join along an axis; scalars are joined to a vector."""
    axis, parts = call.option("axis"), call.all_inputs()
    if call.fused():
        raise call.malformed("has a fused activation, which is not defined for it")
    if not parts:
        raise call.malformed("joins nothing")
    if axis == 0 and call.rank_of(parts[0]) == 0:
        return _joined(call, Stack(), parts)
    return _joined(call, Concat(axis=axis), parts)


@operator("PACK", newest=5)
def pack(call: Call) -> OutputSlot:
    """Translate a join along a new axis."""
    parts = call.all_inputs()
    if not parts or len(parts) != call.option("values_count"):
        raise call.malformed(f"joins {len(parts)} tensors, but values_count says {call.option('values_count')}")
    return _joined(call, Stack(axis=call.option("axis")), parts)


def _joined(call: Call, descriptor: Descriptor, parts: Sequence[OutputSlot]) -> OutputSlot:
    """Join tensors; integers of different scales are brought to the result's."""
    stated = call.outputs[0].quantization
    found = [call.quantization_of(part) for part in parts]
    if stated is None or all(one == stated for one in found):
        return call.add(descriptor, *parts)
    if any(one is None for one in found):
        raise call.malformed("joins integers with a scale and without one")
    each = [stated, *found]
    if call.outputs[0].dtype in _BYTES and all(one is not None and one.axis is None for one in each):
        return call.add(descriptor, *parts)
    return call.add_real(descriptor, *parts)


@operator("UNPACK", newest=6)
def unpack(call: Call) -> Sequence[OutputSlot]:
    """Translate parting along an axis that the results do not have."""
    axis, count = call.option("axis"), _outputs(call, "num")
    layer = call.network.add(Split(parts=count, axis=axis, sizes=(1,) * count), call.input(0), name=call.label("parts"))
    return [call.add(Squeeze(axes=(axis,)), part, output=index) for index, part in enumerate(layer.outputs)]


@operator("SPLIT", newest=5)
def split(call: Call) -> Sequence[OutputSlot]:
    """Translate parting into equal pieces."""
    axis, x, count = _axis(call, 0), call.input(1), _outputs(call, "num_splits")
    size = call.size_of(x, axis)
    if size is not None and size % count:
        raise call.malformed(f"parts {size} elements evenly into {count}")
    return call.add_several(Split(parts=count, axis=axis), x)


@operator("SPLIT_V", newest=3)
def split_v(call: Call) -> Sequence[OutputSlot]:
    """Translate parting into pieces of given sizes; one -1 is what the others leave."""
    x, sizes, axis = call.input(0), call.known_integers(1, "the sizes of the parts"), _axis(call, 2)
    if len(sizes) != _outputs(call, "num_splits"):
        raise call.malformed(f"has {len(call.outputs)} outputs, but the sizes {list(sizes)}")
    if sizes.count(-1) > 1 or min(sizes) < -1:
        raise call.malformed(f"has parts of sizes {list(sizes)}")
    if -1 not in sizes:
        return call.add_several(Split(parts=len(sizes), axis=axis, sizes=sizes), x)
    whole, given = call.size_of(x, axis), sum(sizes) + 1
    if whole is None:
        return call.add_several(Split(parts=len(sizes), axis=axis), x, _filled(call, x, axis, sizes))
    if given > whole:
        raise call.malformed(f"parts {whole} elements into {list(sizes)}")
    filled = tuple(whole - given if size == -1 else size for size in sizes)
    return call.add_several(Split(parts=len(sizes), axis=axis, sizes=filled), x)


def _filled(call: Call, x: OutputSlot, axis: int, sizes: Sequence[int]) -> OutputSlot:
    """Work out sizes of which one is what the others leave of an axis that is open."""
    place = sizes.index(-1)
    axis += call.rank_of(x) if axis < 0 else 0
    whole = call.add(Shape(start=axis, end=axis + 1), x, part="size")
    given = call.network.constant(np.asarray([sum(sizes) + 1], np.int64), call.label("given"))
    left = call.add(ElementwiseBinary(operation=BinaryOperation.SUB), whole, given, part="left")
    around = [
        call.network.constant(np.asarray(some, np.int64), call.label(name))
        for name, some in (("before", sizes[:place]), ("after", sizes[place + 1 :]))
    ]
    return call.add(Concat(), around[0], left, around[1], part="sizes")


def _axis(call: Call, index: int) -> int:
    """Return an input that is one axis."""
    axes = call.known_integers(index, "the axis")
    if len(axes) != 1:
        raise call.malformed(f"names the axes {list(axes)}, expected one")
    return axes[0]


def _outputs(call: Call, option: str) -> int:
    """Return how many results there are, of which an option tells, too."""
    count = len(call.outputs)
    if count != call.option(option) or not count:
        raise call.malformed(f"has {count} outputs, but {option} says {call.option(option)}")
    return count


@operator("PAD", newest=6)
def pad(call: Call) -> OutputSlot:
    """Translate padding with zeros: with the zero point, where there is one."""
    return _padded(call, PadMode.CONSTANT, _zero(call))


@operator("PADV2", newest=6)
def pad_v2(call: Call) -> OutputSlot:
    """Translate padding with a value."""
    if call.optional(2) is None:
        return _padded(call, PadMode.CONSTANT, _zero(call))
    value = call.constant(2)
    if value is None:
        return _padded(call, PadMode.CONSTANT, call.input(2))
    if value.size != 1:
        raise call.malformed(f"pads with {value.size} values")
    number = value.reshape(-1)[0]
    if call.dtype_of(call.input(2)) is DType.BFLOAT16:
        number = np.asarray(int(number) << 16, np.uint32).view(np.float32)
    return _padded(call, PadMode.CONSTANT, number.item())


def _zero(call: Call) -> int:
    """Return what stands for zero in the input."""
    quantization = call.quantization_of(call.input(0))
    return 0 if quantization is None else quantization.zero_point[0]


@operator("MIRROR_PAD", newest=3)
def mirror_pad(call: Call) -> OutputSlot:
    """Translate padding with what lies on the other side of the edge."""
    return _padded(call, call.choice("mode", _MIRRORS), 0)


def _padded(call: Call, mode: PadMode, value: float | OutputSlot) -> OutputSlot:
    """Pad with a number, or with the value of a slot."""
    x, counts = call.input(0), call.constant(1)
    fill, slot = (0, value) if isinstance(value, OutputSlot) else (value, None)
    if counts is None:
        rows = call.add(Permute(permutation=(1, 0)), call.input(1), part="sides")
        pads = call.add(Reshape(shape=(-1,)), rows, part="pads")
        return call.add(Pad(mode=mode, value=fill), x, pads, slot)
    rank = call.rank_of(x)
    if counts.shape != (rank, 2) or (counts < 0).any():
        raise call.malformed(f"pads {rank} axes by {counts.tolist()}")
    before, after = (tuple(int(count) for count in side) for side in counts.T)
    return call.add(Pad(before=before, after=after, mode=mode, value=fill), x, None, slot)
