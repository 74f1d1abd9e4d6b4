"""Rules of windows that slide over a tensor: kernels and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import TypedDict

from ..graph.size_rules import below, larger
from ..graph.tensor import TensorInfo, shown
from ..ground.limits import ADDRESSABLE
from .arguments import integers
from .shape_rules import LARGEST_COUNT, attribute_error, require_positive, shape_error


class AutoPadding(StrEnum):
    """Padding worked out from the input's size, for ceil(input / stride) output positions."""

    EXPLICIT = "explicit"
    SAME_UPPER = "same_upper"  # an odd element goes to the end (TensorFlow)
    SAME_LOWER = "same_lower"


class PaddingAttributes(TypedDict):
    """What a builder's argument `padding` says, as attributes."""

    padding: tuple[int, int, int, int]
    auto_padding: AutoPadding


_IN_WORDS = {
    "valid": AutoPadding.EXPLICIT,
    "same": AutoPadding.SAME_UPPER,
    "same_upper": AutoPadding.SAME_UPPER,
    "same_lower": AutoPadding.SAME_LOWER,
}


def padding_attributes(value: int | Sequence[int] | str) -> PaddingAttributes:
    """Read padding: one integer, (height, width), (top, left, bottom, right), or a word.

    Words are those of other frameworks: "valid" is none, and "same" gives ceil(input / stride)
    positions, with an odd element at the end, as in TensorFlow; "same_lower" has it at the
    beginning.

    Raises:
        GraphError: It is none of these (`ATTRIBUTE_INVALID`).
    """
    hint = 'give one integer, (height, width), or (top, left, bottom, right), none negative; or "same" or "valid"'
    if isinstance(value, str):
        mode = _IN_WORDS.get(value.lower())
        if mode is None:
            raise attribute_error(f"padding {value!r} is not valid", hint)
        return {"padding": (0, 0, 0, 0), "auto_padding": mode}
    values = integers(value, "padding", 4)
    if len(values) == 2:
        values = (*values, *values)
    if len(values) != 4 or any(v < 0 for v in values):
        raise attribute_error(f"padding {value!r} is not valid", hint)
    return {"padding": (values[0], values[1], values[2], values[3]), "auto_padding": AutoPadding.EXPLICIT}


def same_padding(
    sizes: Sequence[int], window: Sequence[int], stride: Sequence[int], dilation: Sequence[int], mode: AutoPadding
) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right) for one of the SAME modes."""
    before, after = [], []
    for size, w, s, d in zip(sizes, window, stride, dilation, strict=True):
        total = larger((-(-size // s) - 1) * s + d * (w - 1) + 1 - size, 0)
        small = total // 2
        before.append(small if mode is AutoPadding.SAME_UPPER else total - small)
        after.append(total - before[-1])
    return before[0], before[1], after[0], after[1]


def require_window(
    x: TensorInfo, axes: Sequence[int], stride: Sequence[int], dilation: Sequence[int], padding: Sequence[int]
) -> None:
    """Refuse a window whose positions a kernel cannot compute with.

    Each attribute fits 32 bits. And the data with its padding, a stride and a dilation longer along
    `axes`, is no larger than a tensor may be: whatever position a kernel works out, even one step
    beyond the last, times the bytes between two of them, is then far from the end of 64 bits. The
    window itself is not asked for: whoever calls refuses one that does not fit into the padded
    data.

    Args:
        x: What the window slides over; of a transposed convolution, its output before the padding
            is cut off.
        axes: Axes of `x` along which it slides.
        stride: One for each axis.
        dilation: One for each axis.
        padding: All before, then all after.

    Raises:
        GraphError: A stride or dilation is below 1, a padding below 0, one of them too large, or
            all of them together are (`ATTRIBUTE_INVALID`).
    """
    require_positive("stride", *stride)
    require_positive("dilation", *dilation)
    if min(padding) < 0 or max(padding) > LARGEST_COUNT:
        raise attribute_error(
            f"padding is ({', '.join(map(shown, padding))})", f"give counts from 0 to {LARGEST_COUNT}; a slice removes elements"
        )
    extents = [max(size, 1) for size in x.sizes] if x.is_concrete else [1] * x.rank  # the others are asked for once they are
    for i, axis in enumerate(axes):
        extents[axis] += padding[i] + padding[i + len(axes)] + stride[i] + dilation[i]
    if (nbytes := math.prod(extents) * x.dtype.itemsize) >= ADDRESSABLE:
        raise attribute_error(
            f"stride {tuple(stride)}, dilation {tuple(dilation)} and padding {tuple(padding)} of a window over {x.shape_text} "
            f"reach over {shown(nbytes)} bytes",
            f"no tensor can reach {ADDRESSABLE} bytes, padding included; check the attributes in the model",
        )


def window_output(
    size: int, window: int, stride: int, before: int, after: int, dilation: int, *, ceil_mode: bool = False
) -> int:
    """Return the number of positions of a sliding window along one axis.

    With `ceil_mode` a last, partial window counts if it starts inside the data or the leading
    padding (ONNX and PyTorch).
    """
    reach = dilation * (window - 1) + 1
    room = size + before + after - reach
    if below(room, 0):
        raise shape_error(
            f"a window that reaches over {reach} does not fit into {size} elements padded by {before} and {after}",
            "reduce the window or dilation, or pad more",
        )
    if not ceil_mode:
        return room // stride + 1
    # One that would start behind the data and the leading padding is left out: all others start at
    # least a stride before that.
    return -(-(size + before - max(reach - after, stride)) // stride) + 1
