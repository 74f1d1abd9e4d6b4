"""Compute transposed convolutions as one convolution per phase of the steps, interleaved.

Along an axis, result o sums up x[i] w[k] over all i and k with stride * i + dilation * k = o +
padding. With o + padding = stride * q + phase, k runs over those with dilation * k = stride * j +
phase, and x is read at q - j: a convolution over q with filters of its own for each phase (Shi et
al., "Is the deconvolution layer the same as a convolutional layer?", 2016).
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from dovetail import DataLayout, Layer, Support, TensorInfo
from dovetail.ground.limits import budget
from dovetail.ground.pieces import put
from dovetail.ground.records import NamedTuple
from dovetail.layers import TransposeConvolution2d

from ..arrays import Floats
from ..fusion.chains import Chain
from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, blocked_info, blocks
from ..geometry.window import POINT, Geometry
from ..movement.kinds import Interleave
from .algorithms import tile_vectors
from .kinds import Convolve
from .lowering import fastest

MAX_LAYERS = 16
"""Most phases that become layers of their own.

Of more, those whose windows differ get taps of zero, so that one layer has all: there, an infinity
makes NaN of the results beside it.
"""
MAX_TAPS = 1 << 16
"""Of all phases together."""
MAX_GROWTH, FREE_ELEMENTS = 16, 1 << 16
"""Limits of the phases' weights and results: as a multiple of the layer's, and in any case."""


class Phase(NamedTuple):
    """One phase along rows or columns: result q sums up x[q + dilation * t - padding] times tap t.

    Attributes:
        taps: Which element of the kernel each tap is; None for one that is zero, and reads nothing
            but padding if it is alone.
        padding: What lies before the first pixel, for the first result.
        dilation: Pixels from tap to tap.
    """

    taps: tuple[int | None, ...]
    padding: int
    dilation: int


class Axis(NamedTuple):
    """What a transposed convolution does along rows or columns.

    Attributes:
        phases: Each with its own taps alone: a zero that was multiplied would make NaN of an
            infinity.
        size: Results of each.
        first: Which of the interleaved results is the first of the layer.
    """

    phases: tuple[Phase, ...]
    size: int
    first: int

    @classmethod
    def of(cls, kernel: int, stride: int, dilation: int, padding: int, results: int) -> Axis:
        """Find them from the attributes of the layer, and how many results it has."""
        elements: list[list[int]] = [[] for _ in range(stride)]
        for element in reversed(range(kernel)):
            elements[element * dilation % stride].append(element)
        reaches = [one[0] * dilation // stride if one else None for one in elements]  # pixels before q that the first tap reads
        # Results that padding cuts off are not computed, as far as each phase has padding of its
        # own for them.
        skipped = min(padding // stride, min(reach for reach in reaches if reach is not None))
        first = padding - skipped * stride
        size = -(-(first + results) // stride) if results else 0
        step = dilation // math.gcd(stride, dilation)
        phases = [
            Phase((None,), size, 1) if reach is None else Phase(tuple(one), reach - skipped, step if len(one) > 1 else 1)
            for one, reach in zip(elements, reaches, strict=True)
        ]
        return cls(tuple(phases), size, first)

    def padded(self) -> tuple[Phase, ...]:
        """Return the phases padded with zero taps, to equal numbers of taps and padding."""
        real = [phase for phase in self.phases if phase.taps != (None,)]
        before = max(phase.padding for phase in real)
        after = max(phase.dilation * (len(phase.taps) - 1) - phase.padding for phase in real)
        found = []
        for phase in self.phases:
            taps: list[int | None] = [None] * (before + after + 1)
            for number, element in enumerate(phase.taps):
                if element is not None:
                    taps[before - phase.padding + number * phase.dilation] = element
            found.append(Phase(tuple(taps), before, 1))
        return tuple(found)


def refusal(layer: Layer) -> Support | None:
    """Refuse steps whose phases have filters or results out of proportion to the layer's.

    Each phase has its own filters and its own image of results: many are zero, or cut off, where
    the steps are longer than the window, the window is dilated, or padding leaves few of the
    results.
    """
    descriptor, (image, weights), result = layer.descriptor, layer.input_infos[:2], layer.output.known_info
    if not isinstance(descriptor, TransposeConvolution2d) or image is None or weights is None or not result.elements:
        return None
    kernel, padding = descriptor.kernel_size(weights), descriptor.padding
    sizes = [result.sizes[axis] for axis in descriptor.layout.spatial_axes()]
    taps = results = 1
    for i in range(2):
        count = descriptor.dilation[i] * (kernel[i] - 1) // descriptor.stride[i] + 1
        first = padding[i] - min(padding[i] // descriptor.stride[i], count - 1) * descriptor.stride[i]
        taps *= descriptor.stride[i] * count
        results *= -(-(first + sizes[i]) // descriptor.stride[i]) * descriptor.stride[i]
    phases = math.prod(descriptor.stride)
    own = math.prod(kernel)
    filters = weights.elements // max(own, 1)
    if taps > MAX_TAPS or taps * filters > max(MAX_GROWTH * weights.elements, FREE_ELEMENTS):
        reason = f"steps of {descriptor.stride} have {phases} phases, whose {taps} filter taps are out of proportion to {own}"
        return Support.no("attribute", reason, "stride")
    if results > max(MAX_GROWTH * math.prod(sizes), FREE_ELEMENTS):
        reason = f"the {phases} phases have {results} results, of which {math.prod(sizes)} are wanted"
        return Support.no("attribute", reason, "padding")
    return None


def lower_transposed(lowering: Lowering, chain: Chain) -> None:
    """A transposed convolution with what follows it."""
    descriptor = chain.root.descriptor
    if not isinstance(descriptor, TransposeConvolution2d):
        raise TypeError(f"{chain.root.name!r} is no transposed convolution")
    source, value = chain.root.inputs[0].source, chain.root.constant(1)
    if source is None or value is None:
        raise ValueError(f"{chain.root.name!r} has no input or no weights")
    layout, lanes = descriptor.layout, lowering.lanes
    image, target = Image.of(source.known_info, layout), Image.of(chain.output.known_info, layout)
    kernel, results = descriptor.kernel_size(TensorInfo.of_array(value)), (target.height, target.width)
    rows, columns = (
        Axis.of(kernel[i], descriptor.stride[i], descriptor.dilation[i], descriptor.padding[i], results[i]) for i in range(2)
    )
    x, name = lowering.blocked(source, layout), chain.layers[-1].name
    groups = _groups(rows, columns)
    is_whole = len(rows.phases) == len(columns.phases) == 1 and rows.first == columns.first == 0
    # Each phase begins with a block, so that blocks are moved whole.
    filters = target.channels if is_whole else blocks(target.channels, lanes) * lanes
    by_filter = value.transpose(1, 2, 3, 0) if layout is DataLayout.NCHW else value
    if filters > target.channels:
        padded = np.zeros((filters, *by_filter.shape[1:]), by_filter.dtype)
        put(padded[: target.channels], by_filter)
        by_filter = padded
    bias = None if chain.bias is None else np.pad(chain.bias, (0, filters - target.channels))
    made = []
    load = budget()
    for number, group in enumerate(groups):
        load.check_time()
        (row, column), *_ = group
        computed = Image(target.batch, len(group) * filters, rows.size, columns.size)
        geometry = Geometry(
            (len(row.taps), len(column.taps)),
            dilation=(row.dilation, column.dilation),
            padding=(row.padding, column.padding),
        )
        convolve = Convolve(
            infos=(blocked_info(computed, lanes),),
            weights=_joined([_weights(by_filter, *phase) for phase in group]),
            bias=None if bias is None else np.tile(bias, len(group)),
            source=image,
            target=computed,
            geometry=geometry,
            function=chain.function,
            vectors=tile_vectors(computed, lanes, image.channels if geometry == POINT else 0),
        )
        own_name = name if is_whole else f"{name}.phases" if len(groups) == 1 else f"{name}.phase {number}"
        made.append(lowering.emit(fastest(convolve, lanes), [x], chain.layers, own_name).output)
    if not is_whole:
        interleave = Interleave(
            infos=(blocked_info(target, lanes),),
            size=(rows.size, columns.size),
            target=target,
            stride=descriptor.stride,
            first=(rows.first, columns.first),
        )
        made = [lowering.emit(interleave, made, chain.layers, name).output]
    lowering.define(chain.output, made[0], "blocked", layout)


def _groups(rows: Axis, columns: Axis) -> list[list[tuple[Phase, Phase]]]:
    """Return the phases of each convolution: all in one if windows are alike, else one each."""
    apart = list(itertools.product(rows.phases, columns.phases))
    windows = {(len(row.taps), row[1:], len(column.taps), column[1:]) for row, column in apart}
    if len(windows) == 1:
        return [apart]
    if len(apart) <= MAX_LAYERS:
        return [[phase] for phase in apart]
    return [list(itertools.product(rows.padded(), columns.padded()))]


def _joined(phases: list[Floats]) -> Floats:
    if len(phases) == 1:
        return phases[0]
    weights, begin = np.empty((sum(map(len, phases)), *phases[0].shape[1:]), np.float32), 0
    for phase in phases:
        put(weights[begin : begin + len(phase)], phase)
        begin += len(phase)
    return weights


def _weights(by_filter: Floats, row: Phase, column: Phase) -> Floats:
    """Return [filters, taps, channels] of one phase.

    The given weights are [filters, height, width, channels].
    """
    filters, _, _, channels = by_filter.shape
    weights = np.zeros((filters, len(row.taps), len(column.taps), channels), np.float32)
    for (i, y), (j, x) in itertools.product(enumerate(row.taps), enumerate(column.taps)):
        if x is not None and y is not None:
            put(weights[:, i, j], by_filter[:, y, x])
    return weights.reshape(filters, -1, channels)
