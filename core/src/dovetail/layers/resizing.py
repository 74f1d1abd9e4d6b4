"""Resizing by interpolation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..graph.descriptor import Array, Descriptor, Infos, Values, descriptor_class
from ..graph.expressions import Expression, unknown_size
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import are_symbolic, as_size, differ, equal, some_below
from ..graph.tensor import MAX_RANK, TensorInfo
from ..ground.limits import ADDRESSABLE, budget
from ..ground.records import NamedTuple
from .arguments import Operand, as_tuple, choice, number, sequence
from .shape_rules import attribute_error, integers, normalize_axes, present

Positions = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

_TAPS_AT_ONCE = 1 << 18
"""Taps that are worked out between two looks at the time: some ten milliseconds."""


class ResizeMethod(StrEnum):
    """Interpolation."""

    NEAREST = "nearest"
    LINEAR = "linear"
    CUBIC = "cubic"


class CoordinateMode(StrEnum):
    """Position in the input of output position i, with scale = output size / input size.

    Source: ONNX Resize.
    """

    HALF_PIXEL = "half_pixel"  # (i + 0.5) / scale - 0.5
    HALF_PIXEL_SYMMETRIC = "half_pixel_symmetric"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"  # as half_pixel; 0 where the output has one element
    ALIGN_CORNERS = "align_corners"  # i * (input - 1) / (output - 1); with scales, output is scale * input, not rounded
    ASYMMETRIC = "asymmetric"  # i / scale


class NearestRounding(StrEnum):
    """How NEAREST rounds a position."""

    ROUND_PREFER_FLOOR = "round_prefer_floor"
    ROUND_PREFER_CEIL = "round_prefer_ceil"
    FLOOR = "floor"
    CEIL = "ceil"


class ResizePrecision(StrEnum):
    """How exactly positions are worked out; the scale is the ratio of the sizes but for `EXACT`."""

    EXACT = "exact"  # and ties of integers go to the even neighbour
    FLOAT32 = "float32"  # rounded after each step, as TensorFlow Lite does
    FIXED_POINT = "fixed_point"  # in 1024ths of an element, as TensorFlow Lite interpolates integers; ties go away from zero


class AspectPolicy(StrEnum):
    """What `sizes` means."""

    STRETCH = "stretch"
    NOT_LARGER = "not_larger"  # keep the aspect ratio, inside the sizes
    NOT_SMALLER = "not_smaller"


class ResizeTaps(NamedTuple):
    """Taps of neighbouring results of an axis, all one behind the other.

    A result is the weighted sum of its taps.

    Attributes:
        first: Index of the first tap of each result, and how many there are in all.
        position: Index of each tap, inside the axis of the input.
        weight: Of each tap.
    """

    first: Positions
    position: Positions
    weight: Reals

    @property
    def most(self) -> int:
        """The most taps that a result has."""
        return int(np.diff(self.first).max(initial=0))


@descriptor_class
class Resize(Descriptor, kind="dovetail.Resize"):
    """Resample a tensor along any axes. Source: ONNX Resize-19.

    LINEAR and CUBIC of integers round to nearest, ties as `precision` says, and clamp to the range
    of the type.

    Attributes:
        sizes: Output size of every axis; else worked out as floor(size * scale).
        scales: Scale of every axis; where `sizes` is given too they are what the coordinates use.
        cubic_coefficient: `a` of the cubic kernel.
        exclude_outside: Drop taps beyond the edge and renormalize, rather than repeating the edge.
        antialias: Stretch the kernel when shrinking.
        axes: Axes that the value inputs speak of; None means all.

    Value inputs: scales (float), sizes (int).
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "scales", "sizes")
    value_inputs: ClassVar[tuple[int, ...]] = (1, 2)
    method: ResizeMethod = ResizeMethod.NEAREST
    """Interpolation."""
    coordinates: CoordinateMode = CoordinateMode.HALF_PIXEL
    """Where in the input an element of the output lies."""
    rounding: NearestRounding = NearestRounding.ROUND_PREFER_FLOOR
    """How `nearest` rounds that position."""
    sizes: tuple[int, ...] | None = None
    scales: tuple[float, ...] | None = None
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    axes: tuple[int, ...] | None = None
    aspect: AspectPolicy = AspectPolicy.STRETCH
    """What the value input `sizes` means; resolved to `stretch`."""
    precision: ResizePrecision = ResizePrecision.EXACT
    """Other than EXACT with HALF_PIXEL, ALIGN_CORNERS and ASYMMETRIC alone."""

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        if len(values) < 2:
            return self
        x = present(inputs, 0)
        axes = normalize_axes(range(x.rank) if self.axes is None else self.axes, x.rank)
        given = values[1] if len(values) > 1 else None
        if not x.is_concrete or any(value is not None and value.dtype == object for value in values[1:]):
            return self._with_symbols(x, axes, given, integers(values, 2))
        scales = None if given is None or given.size == 0 else [float(s) for s in given.reshape(-1)[: MAX_RANK + 1]]
        sizes = integers(values, 2)
        _check_scales(scales or ())
        if scales is None and sizes is None:
            raise attribute_error("neither scales nor sizes are given")
        if any(given is not None and len(given) != len(axes) for given in (scales, sizes)):
            raise attribute_error(f"{len(scales or sizes or ())} scales or sizes for {len(axes)} axes")
        full_scales = [1.0] * x.rank
        full_sizes = list(x.sizes)
        if sizes is not None:
            wanted = list(sizes)
            ratios = [s / x.sizes[a] if x.sizes[a] else 1.0 for s, a in zip(wanted, axes, strict=True)]
            if self.aspect is not AspectPolicy.STRETCH and ratios:
                ratio = min(ratios) if self.aspect is AspectPolicy.NOT_LARGER else max(ratios)
                ratios = [ratio] * len(axes)
                wanted = [math.floor(ratio * x.sizes[a] + 0.5) for a in axes]
            for axis, size, ratio in zip(axes, wanted, ratios, strict=True):
                full_sizes[axis], full_scales[axis] = size, ratio
        elif scales is not None:
            for axis, scale in zip(axes, scales, strict=True):
                full_sizes[axis], full_scales[axis] = math.floor(x.sizes[axis] * scale), scale
        return replace(self, sizes=tuple(full_sizes), scales=tuple(full_scales), axes=None, aspect=AspectPolicy.STRETCH)

    def _with_symbols(
        self, x: TensorInfo, axes: Sequence[int], scales: Array | None, sizes: Sequence[int] | None
    ) -> Descriptor:
        """Return the same with sizes worked out where some are symbolic, and so without scales."""
        result = list(x.sizes)
        given = sizes if scales is None or scales.size == 0 else scales.reshape(-1).tolist()
        if given is None or len(given) != len(axes):
            raise attribute_error(f"{len(given or ())} scales or sizes for {len(axes)} axes")
        for axis, size in zip(axes, given, strict=True):
            if given is not sizes:
                result[axis] = _scaled(result[axis], size)
            else:
                result[axis] = as_size(size) if self.aspect is AspectPolicy.STRETCH else unknown_size()
        return replace(self, sizes=tuple(result), scales=None, axes=None, aspect=AspectPolicy.STRETCH)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        _check_scales(self.scales or ())
        if not math.isfinite(self.cubic_coefficient):
            raise attribute_error(f"cubic_coefficient is {self.cubic_coefficient}", "give a finite number")
        if self.precision is not ResizePrecision.EXACT and self.coordinates not in _PRECISE:
            raise attribute_error(f"precision {self.precision} is not defined for coordinates {self.coordinates}")
        if (self.scales is None and self.sizes is None) or (self.scales is not None and len(self.scales) != x.rank):
            raise attribute_error(f"scales {self.scales} do not fit {x.shape_text}", f"give {x.rank} scales or sizes")
        if self.sizes is None:
            return [x.with_shape([_scaled(d, s) for d, s in zip(x.sizes, self.scales or (), strict=True)])]
        if len(self.sizes) != x.rank or some_below(self.sizes, 0):
            raise attribute_error(f"sizes {self.sizes} do not fit {x.shape_text}", f"give {x.rank} sizes")
        if any(equal(d, 0) and differ(s, 0) for d, s in zip(x.sizes, self.sizes, strict=True)):
            raise attribute_error(f"an empty axis of {x.shape_text} cannot be resized to {self.sizes}")
        for d, wanted, scale in zip(x.sizes, self.sizes, self.scales or (), strict=self.scales is not None):
            if not are_symbolic((d, wanted)) and d and wanted not in (math.floor(d * scale), math.floor(d * scale + 0.5)):
                raise attribute_error(
                    f"scales {self.scales} do not make {x.shape_text} of sizes {self.sizes}", "give one of the two"
                )
        return [x.with_shape(self.sizes)]

    def selects_elements(self) -> bool:
        return self.method is ResizeMethod.NEAREST

    def axis_scales(self, x: TensorInfo) -> tuple[float, ...]:
        """Scale of every axis, worked out from the sizes where it is not given."""
        if self.scales is not None:
            return self.scales
        return tuple(s / d if d else 1.0 for s, d in zip(self.sizes or (), x.sizes, strict=True))

    def positions(self, size: int, wanted: int, scale: float, results: range) -> Reals:
        """Return where some results of an axis lie in the input, not yet rounded or clamped to it.

        What lies very far outside is brought nearer. Where the scale is the ratio of the sizes,
        positions are worked out in integers and rounded once: those that should be whole, or
        halves, are.

        Args:
            size: Of the axis of the input.
            wanted: Of the axis of the output.
            scale: Of the axis.
            results: The indices of the output that are asked for.
        """
        mode, exact, i = self.coordinates, scale == wanted / size, np.arange(results.start, results.stop)
        if self.precision is not ResizePrecision.EXACT:
            in_steps = _in_float32 if self.precision is ResizePrecision.FLOAT32 else _in_1024ths
            return in_steps(mode, size, wanted, i)
        with np.errstate(all="ignore"):
            if mode is CoordinateMode.ALIGN_CORNERS:
                # Where only scales are given, ONNX's suite stretches over the size before it is
                # rounded down.
                last = np.float64((wanted if exact else scale * size) - 1)
                x = i * (size - 1) / last if wanted > 1 else np.zeros(len(i))
            elif mode is CoordinateMode.PYTORCH_HALF_PIXEL and wanted == 1:
                x = np.zeros(len(i))
            elif mode is CoordinateMode.ASYMMETRIC:
                x = i * size / wanted if exact else i / np.float64(scale)
            elif exact:
                x = ((2 * i + 1) * size - wanted) / (2 * wanted)
            else:
                x = (i + 0.5) / np.float64(scale) - 0.5
                if mode is CoordinateMode.HALF_PIXEL_SYMMETRIC:
                    # Centre the part of the input that the whole number of results covers.
                    x = x + size / 2 * (1 - wanted / (scale * size))
        far = 16.0 * size + 64.0
        return np.clip(np.nan_to_num(x, nan=0.0), -far, far)

    def nearest(self, positions: Reals, size: int) -> Positions:
        """Round positions to indices of an axis of the input, as `rounding` says."""
        floor = np.floor(positions)
        rest = positions - floor
        up = {
            NearestRounding.ROUND_PREFER_FLOOR: rest > 0.5,
            NearestRounding.ROUND_PREFER_CEIL: rest >= 0.5,
            NearestRounding.FLOOR: np.False_,
            NearestRounding.CEIL: rest > 0,
        }[self.rounding]
        found: Positions = np.clip(floor + up, 0, size - 1).astype(np.int64)
        return found

    def reach(self, scale: float) -> float:
        """Return how far from a position its taps lie."""
        reach = {ResizeMethod.NEAREST: 0, ResizeMethod.LINEAR: 1, ResizeMethod.CUBIC: 2}[self.method]
        return reach / self._stretch(scale)

    def most_taps(self, scale: float) -> int:
        """Return how many taps a result may have, at most."""
        return 2 * math.ceil(self.reach(scale)) + 2

    def taps(self, size: int, wanted: int, scale: float) -> Iterator[ResizeTaps]:
        """Return the taps of every result of an axis, some results at a time.

        Args:
            size: Of the axis of the input.
            wanted: Of the axis of the output.
            scale: Of the axis.

        Raises:
            LoadTimeoutError: The time of the load under way is over.
        """
        step, load = max(1, _TAPS_AT_ONCE // self.most_taps(scale)), budget()
        for begin in range(0, wanted, step):
            load.check_time()
            x = self.positions(size, wanted, scale, range(begin, min(begin + step, wanted)))
            if self.method is ResizeMethod.NEAREST:
                yield ResizeTaps(np.arange(len(x) + 1), self.nearest(x, size), np.ones(len(x)))
            else:
                yield self._weighted(x, size, scale)

    def _stretch(self, scale: float) -> float:
        """By what distances to taps are divided.

        Shrinking with antialias stretches the kernel, so that it covers all that a result stands
        for.
        """
        return min(scale, 1.0) if self.antialias else 1.0

    def _weighted(self, x: Reals, size: int, scale: float) -> ResizeTaps:
        """Return the taps of the results that lie at these positions; LINEAR and CUBIC."""
        reach = self.reach(scale)
        begin, end = np.floor(x - reach).astype(np.int64) + 1, np.ceil(x + reach).astype(np.int64)
        if self.exclude_outside:
            begin, end = np.maximum(begin, 0), np.minimum(end, size)
        counts = np.maximum(end - begin, 0)
        row = np.repeat(np.arange(len(x)), counts)
        position = np.arange(len(row)) + np.repeat(begin - (np.cumsum(counts) - counts), counts)
        weight = self._kernel((position - x[row]) * self._stretch(scale))
        # What lies outside is the position at the border: one tap.
        position = np.clip(position, 0, size - 1)
        starts = np.flatnonzero((np.diff(position, prepend=-1) != 0) | (np.diff(row, prepend=-1) != 0))
        weight = np.add.reduceat(weight, starts) if len(starts) else weight
        row, position = row[starts], position[starts]
        if self.antialias or self.exclude_outside:
            totals = np.bincount(row, weight, len(x))
            lost = np.flatnonzero(totals == 0)  # every tap was excluded: the position lies far outside
            kept = totals[row] != 0
            weight = np.concatenate([weight[kept] / totals[row[kept]], np.ones(len(lost))])
            position = np.concatenate([position[kept], np.clip(np.floor(x[lost]), 0, size - 1).astype(np.int64)])
            row = np.concatenate([row[kept], lost])
            order = np.argsort(row, kind="stable")
            row, position, weight = row[order], position[order], weight[order]
        return ResizeTaps(np.searchsorted(row, np.arange(len(x) + 1)), position, weight)

    def _kernel(self, distance: Reals) -> Reals:
        """Return the weights at distances: the triangle, or Keys' cubic convolution (1981)."""
        d, a = np.abs(distance), self.cubic_coefficient
        if self.method is ResizeMethod.LINEAR:
            return np.maximum(1.0 - d, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):  # of a huge coefficient
            near, beyond = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, beyond, 0.0))


_PRECISE = (CoordinateMode.HALF_PIXEL, CoordinateMode.ALIGN_CORNERS, CoordinateMode.ASYMMETRIC)
"""Modes that TensorFlow Lite has."""


def _in_float32(mode: CoordinateMode, size: int, wanted: int, results: Positions) -> Reals:
    """Work out positions as reference_ops::GetNearestNeighbor and ResizeBilinear do.

    Half a pixel is taken off a product without rounding, where that lies in the image.
    """
    aligned = mode is CoordinateMode.ALIGN_CORNERS and wanted > 1
    step = np.float32(size - aligned) / np.float32(wanted - aligned)
    if mode is not CoordinateMode.HALF_PIXEL:
        return (results.astype(np.float32) * step).astype(np.float64)
    return ((results.astype(np.float32) + np.float32(0.5)) * step).astype(np.float64) - 0.5


def _in_1024ths(mode: CoordinateMode, size: int, wanted: int, results: Positions) -> Reals:
    """Work out positions as reference_ops::ResizeBilinearInteger does."""
    aligned = mode is CoordinateMode.ALIGN_CORNERS and wanted > 1
    step = (1024 * (size - aligned) + (wanted - aligned) // 2) // (wanted - aligned)
    return (results * step + (step // 2 - 512 if mode is CoordinateMode.HALF_PIXEL else 0)) / 1024.0


_MAX_DENOMINATOR = 1 << 10
"""Of a scale by which floats multiply any size without rounding."""


def _scaled(size: int, scale: float) -> int:
    """Return floor(size * scale); of a symbolic size where that is exact, else any size."""
    if not isinstance(size, Expression) and not isinstance(scale, Expression):
        return math.floor(size * scale)
    if isinstance(scale, Expression):
        return unknown_size()
    numerator, denominator = float(scale).as_integer_ratio()
    return size * numerator // denominator if denominator <= _MAX_DENOMINATOR else unknown_size()


def _check_scales(scales: Sequence[float]) -> None:
    """Refuse what is no ratio of two sizes."""
    if not all(0 <= scale <= ADDRESSABLE for scale in scales):  # which no NaN is
        raise attribute_error(f"scales are {tuple(scales)}", "give finite ratios that are not negative")


class ResizingLayers(Graph):
    """Builder methods."""

    def resize(
        self,
        x: Operand,
        sizes: Sequence[int] | OutputSlot | None = None,
        *,
        scales: Sequence[float] | OutputSlot | None = None,
        method: ResizeMethod | str = ResizeMethod.LINEAR,
        coordinates: CoordinateMode | str = CoordinateMode.HALF_PIXEL,
        rounding: NearestRounding | str = NearestRounding.ROUND_PREFER_FLOOR,
        name: str | None = None,
    ) -> OutputSlot:
        """Resample to `sizes` (of all axes) or by `scales`.

        For the finer attributes add a `Resize` descriptor.
        """
        descriptor = Resize(
            method=choice(ResizeMethod, method, "method"),
            coordinates=choice(CoordinateMode, coordinates, "coordinates"),
            rounding=choice(NearestRounding, rounding, "rounding"),
        )
        if isinstance(sizes, OutputSlot) or isinstance(scales, OutputSlot):
            by_scale = None if scales is None or isinstance(scales, OutputSlot) else np.asarray(scales, np.float32)
            by_size = None if sizes is None or isinstance(sizes, OutputSlot) else np.asarray(sizes, np.int64)
            operands = (scales if by_scale is None else by_scale, sizes if by_size is None else by_size)
            return self.add(descriptor, x, *operands, name=name).output
        fixed = replace(
            descriptor,
            sizes=as_tuple(sizes, "sizes"),
            scales=None if scales is None else tuple(number(s, "scales") for s in sequence(scales, "scales")),
        )
        return self.add(fixed, x, name=name).output
