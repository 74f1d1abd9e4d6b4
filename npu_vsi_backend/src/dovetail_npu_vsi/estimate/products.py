"""Convolutions, fully connected layers, and sums that are convolutions."""

from __future__ import annotations

from ..chips import Chip
from ..engines.convolutions import Layer, Way, filled_kernel, has_own_mode, rearranged_kernel, way_of
from ..engines.landing import has_no_factors
from .convolution_engine import by_convolution_engine, by_row, flattened
from .costs import Cost, Flow, by_shader, by_tensor_processor, cores
from .movement import PERMUTATION_OVERHEAD
from .tiles import Shape
from .weights import Statistics, packed_bytes

_SMALL_KERNEL = 30000
"""Bytes of a kernel beside which pixels that were made channels stay on the chip. Fitted."""
_SUM_KERNEL = (500, 8)
"""Bytes of the kernel of a sum, and for each channel, where zeros are packed. Fitted."""
_SUM_DENSITY = 0.05
"""Fitted."""
_NARROWEST_SUM, _WIDEST_SUM = 16, 128
"""Columns of the image that a sum is of two channels."""
_PLAIN_SUM_KERNEL = 256
"""Bytes of the kernel of a sum that is one of two channels. Fitted."""


def convolution(chip: Chip, flow: Flow, layer: Layer, found: Statistics) -> Cost:
    """Return the cost of a convolution of one image."""
    if flow.slices > 1 and layer.rows > 1:
        count = min(flow.slices, layer.rows)
        rows = -(-layer.rows // count)
        height = (rows - 1) * layer.stride[0] + layer.span[0]
        part = layer._replace(rows=rows, height=height, padding=(0, layer.padding[1]))
        return convolution(chip, flow._replace(slices=1), part, found) * count
    return _WAYS[way_of(layer, chip)](chip, flow, layer, found)


def by_windows(chip: Chip, flow: Flow, layer: Layer, found: Statistics | None = None) -> Cost:
    """Return the cost of a convolution on the shader: windows are copied out, then multiplied."""
    image, results = layer.channels * layer.height * layer.width, layer.filters * layer.rows * layer.columns
    if layer.is_depthwise:
        return by_shader(flow, image, results)
    windows = layer.rows * layer.columns * layer.kernel[0] * layer.kernel[1] * layer.channels
    return by_shader(flow._replace(written=1.0), image, windows) + by_shader(flow._replace(read=1.0), windows, results)


def fully_connected(chip: Chip, flow: Flow, rows: int, inputs: int, outputs: int, found: Statistics | None) -> Cost:
    """Return the cost of a fully connected layer; no statistics: its channels have scales."""
    if found is None or (rows == 1 and has_no_factors(inputs, chip)):
        first = by_shader(flow._replace(written=1.0), rows * inputs, rows * inputs)
        return first + by_shader(flow._replace(read=1.0), rows * inputs, rows * outputs)
    if rows == 1:
        kernel = packed_bytes(chip, found, _filled_row(chip, inputs) * outputs, outputs)
        return by_row(chip, flow, inputs, outputs, kernel)
    return _several_rows(chip, flow, rows, inputs, outputs, packed_bytes(chip, found, inputs * outputs, outputs))


def addition(chip: Chip, flow: Flow, channels: int, height: int, width: int) -> Cost:
    """Return the cost of a sum on the convolution engine, to which both are one image."""
    if chip.nn.flattens_images:
        rows, columns = flattened(chip, height, width)
        shape = Shape((2 * channels, rows, columns), (channels, rows, columns), (1, 1), (rows, columns), density=_SUM_DENSITY)
        return by_convolution_engine(chip, flow, shape, _SUM_KERNEL[0] + _SUM_KERNEL[1] * channels)
    sides = _sides(channels * height * width)
    return by_convolution_engine(chip, flow, Shape((2, *sides), (1, *sides), (1, 1), sides), _PLAIN_SUM_KERNEL)


def _direct(chip: Chip, flow: Flow, layer: Layer, found: Statistics) -> Cost:
    """Return the cost with a stride of one, or with one that drops results."""
    has_mode = has_own_mode(layer, chip)
    taps, kernel = layer.kernel[0] * layer.kernel[1], filled_kernel(layer.span, chip)
    area = kernel[0] * kernel[1]
    weights = taps * layer.filters * (1 if layer.is_depthwise else layer.channels)
    filled = area * layer.filters * (1 if has_mode else layer.channels)
    packed = packed_bytes(chip, found, weights, layer.filters, filled=filled, is_depthwise=has_mode)
    drops = way_of(layer, chip) is Way.DROPPING
    factor = 2 if drops else 1
    sizes = (layer.rows * factor, layer.columns * factor)
    image = (layer.height, layer.width)
    if kernel == (1, 1) and not drops and not layer.is_depthwise and image == sizes:
        image = sizes = flattened(chip, *image)
    is_spread = layer.is_depthwise and not has_mode
    shape = Shape(
        (layer.channels, *image),
        (layer.filters, *sizes),
        kernel,
        (layer.rows, layer.columns) if drops else sizes,
        factor,
        has_mode,
        empty_planes=_empty_planes(layer, chip),
        density=taps / area / (layer.channels if is_spread and not chip.nn.squares_kernels else 1),
    )
    return by_convolution_engine(chip, flow, shape, packed)


def pooled(chip: Chip, flow: Flow, layer: Layer, found: Statistics) -> Cost:
    """Return the cost of a convolution that writes the greatest of each two by two results."""
    kernel = filled_kernel(layer.span, chip)
    taps, area = layer.kernel[0] * layer.kernel[1], kernel[0] * kernel[1]
    planes = layer.filters * layer.channels
    packed = packed_bytes(chip, found, taps * planes, layer.filters, filled=area * planes)
    shape = Shape(
        (layer.channels, layer.height, layer.width),
        (layer.filters, layer.rows, layer.columns),
        kernel,
        (layer.rows // 2, layer.columns // 2),
        2,
        density=taps / area,
    )
    return by_convolution_engine(chip, flow, shape, packed)


def _rearranged(chip: Chip, flow: Flow, layer: Layer, found: Statistics) -> Cost:
    """Return the cost where a channel is made for each pixel between strides, first."""
    kernel, taps = rearranged_kernel(layer, chip), layer.kernel[0] * layer.kernel[1]
    phases, area = layer.stride[0] * layer.stride[1], kernel[0] * kernel[1]
    rows, columns = layer.rows + kernel[0] - 1, layer.columns + kernel[1] - 1
    moved = rows * columns * layer.channels * phases
    # Of windows of one pixel only one phase is read.
    channels = layer.channels * (1 if layer.kernel == (1, 1) else phases)
    weights = taps * layer.filters * (1 if layer.is_depthwise else layer.channels)
    packed = packed_bytes(chip, found, weights, layer.filters, filled=channels * layer.filters * area)
    keeps, slices = _kept_between(chip, layer, moved, packed)
    read = layer.height * layer.width * layer.channels
    if chip.tp.rearranges:
        parts = cores(chip, layer.channels)
        first = by_tensor_processor(chip, flow.first(keeps, slices), read, moved, parts=parts)
    else:
        first = by_shader(flow.first(keeps), read, moved)
    shape = Shape(
        (channels, rows, columns),
        (layer.filters, layer.rows, layer.columns),
        kernel,
        (layer.rows, layer.columns),
        empty_planes=_empty_planes(layer, chip),
        density=min(1.0, taps / (area * phases)) if chip.nn.squares_kernels else 1.0,
    )
    return first + by_convolution_engine(chip, flow.last(keeps), shape, packed)


def _kept_between(chip: Chip, layer: Layer, moved: int, packed: float) -> tuple[bool, int]:
    """Say whether pixels that were made channels stay on the chip, and in how many slices."""
    if not chip.keeps_tensors:
        return False, 1
    if moved <= chip.sram_bytes:
        return True, 1
    keeps = packed < _SMALL_KERNEL and max(layer.kernel) > 1
    return keeps, -(-moved // int(chip.sram_bytes - min(packed, _SMALL_KERNEL))) if keeps else 1


def _split(chip: Chip, flow: Flow, layer: Layer, found: Statistics) -> Cost:
    """Return the cost of one convolution for each phase of the dilation, between rearrangements."""
    down, across = layer.dilation
    height = -(-(layer.height + layer.padding[0]) // down)
    width = -(-(layer.width + layer.padding[1]) // across)
    part = layer._replace(
        height=height,
        width=width,
        rows=max(height - layer.kernel[0] + 1, 1),
        columns=max(width - layer.kernel[1] + 1, 1),
        dilation=(1, 1),
        padding=(0, 0),
    )
    parts, results = cores(chip, layer.channels), layer.rows * layer.columns * layer.filters
    read, moved = layer.height * layer.width * layer.channels, height * width * down * across * layer.channels
    between = Flow(flow.bytes_per_cycle)
    return (
        by_tensor_processor(chip, flow.first(keeps=False), read, moved, parts=parts)
        + convolution(chip, between, part, found) * (down * across)
        + by_tensor_processor(chip, between, results, results, parts=parts)
        + by_tensor_processor(chip, flow.last(keeps=False), results, results, parts=parts)
    )


def _several_rows(chip: Chip, flow: Flow, rows: int, inputs: int, outputs: int, kernel: float) -> Cost:
    """Return the cost of rows that become pixels of a row, and the other way around."""
    read, written = rows * inputs, rows * outputs
    keeps_read, keeps_written = (chip.keeps_tensors and size <= chip.sram_bytes for size in (read, written))
    shape = Shape((inputs, 1, rows), (outputs, 1, rows), (1, 1), (1, rows))
    between = Flow(flow.bytes_per_cycle, float(not keeps_read), float(not keeps_written))
    parts = 2 * -(-rows // 32) if chip.tp.cuts_permutations else 1
    extra = PERMUTATION_OVERHEAD
    return (
        by_tensor_processor(chip, flow.first(keeps_read), read, read, parts=1, extra_overhead=extra)
        + by_convolution_engine(chip, between, shape, kernel)
        + by_tensor_processor(chip, flow.last(keeps_written), written, written, parts=parts, extra_overhead=extra)
    )


def _filled_row(chip: Chip, inputs: int) -> int:
    """Return the weights of a result of a row; some chips make an image of it, and fill kernels.

    The image is the largest that the inputs divide into, the widest of those.
    """
    if not chip.nn.squares_kernels:
        return inputs
    sides = range(1, chip.nn.largest_kernel + 1)
    images = [(rows * columns, columns) for columns in sides for rows in sides[:columns] if inputs % (rows * columns) == 0]
    area, columns = max(images)
    return inputs // area * columns * columns


def _sides(elements: int) -> tuple[int, int]:
    """Return the rows and columns that chips which do not flatten images give to a sum."""
    power = min(elements & -elements, _WIDEST_SUM)
    if power >= _NARROWEST_SUM:
        return elements // power, power
    rows = next(factor for factor in range(int(elements**0.5), 0, -1) if elements % factor == 0)
    return (power, elements // power) if elements // power <= _WIDEST_SUM else (rows, elements // rows)


def _empty_planes(layer: Layer, chip: Chip) -> float:
    """Return the part of planes with zeros alone of a depthwise convolution that is a dense one."""
    return 1 - 1 / layer.channels if layer.is_depthwise and chip.nn.squares_kernels else 0.0


_WAYS = {
    Way.DIRECT: _direct,
    Way.DROPPING: _direct,
    Way.REARRANGED: _rearranged,
    Way.SPLIT: _split,
    Way.SHADER: by_windows,
}
