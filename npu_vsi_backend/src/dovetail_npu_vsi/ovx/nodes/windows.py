"""Pooling, and resampling of images."""

from __future__ import annotations

from ...chips import Chip
from ...program import Pooling, Program, Resize
from .making import Making


def refuse_pooling(operation: Pooling, program: Program, chip: Chip) -> str:
    """Say why ovxlib cannot pool."""
    x = program.tensors[operation.inputs[0]]
    return _refuse_other_than_images("pooling", x.shape)


def add_pooling(making: Making, operation: Pooling) -> None:
    """Add a pooling, and the clamp of its results."""
    kind = "max" if operation.function == "max" else "average_of_all" if operation.count_padding else "average"
    before = making.before_clamp(operation, operation.low, operation.high)
    making.graph.pooling(making.number(operation.inputs[0]), before, kind, operation.size, operation.stride, operation.padding)
    making.clamp(before, operation, operation.low, operation.high)


def refuse_resize(operation: Resize, program: Program, chip: Chip) -> str:
    """Say why ovxlib cannot resample."""
    x, y = program.tensors[operation.inputs[0]], program.tensors[operation.output]
    why = _refuse_other_than_images("resampling", x.shape)
    if why or operation.mode != "bilinear" or not operation.half_pixel or y.shape[3] <= x.shape[3]:
        return why
    # Measured with ovxlib 1.2.30: the shader of other factors gives columns that are far off.
    factors = [divmod(after, before) for before, after in zip(x.shape[2:], y.shape[2:], strict=True)]
    if factors[0] != factors[1] or factors[0] not in ((2, 0), (3, 0), (4, 0), (8, 0)):
        return (
            f"bilinear resampling of {x.shape[2]}x{x.shape[3]} to {y.shape[2]}x{y.shape[3]} with centers at halves, which "
            "ovxlib computes wrongly unless both factors are 2, 3, 4 or 8"
        )
    return ""


def add_resize(making: Making, operation: Resize) -> None:
    """Add a resampling."""
    making.graph.resize(
        making.number(operation.inputs[0]),
        making.number(operation.output),
        operation.mode == "bilinear",
        making.output(operation).shape[2:],
        operation.align_corners,
        operation.half_pixel,
    )


def _refuse_other_than_images(what: str, shape: tuple[int, ...]) -> str:
    return "" if len(shape) == 4 else f"{what} of a tensor with {len(shape)} axes; ovxlib takes images, which have 4"
