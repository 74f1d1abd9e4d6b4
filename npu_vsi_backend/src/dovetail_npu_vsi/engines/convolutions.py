"""The ways in which the vendor's driver computes convolutions."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ..chips import Chip
from ..program import Convolution, Program, Tensor


class Way(Enum):
    """How a convolution is computed."""

    DIRECT = "by the convolution engine"
    DROPPING = "with a stride of one, and three of four results left out"
    REARRANGED = "with a stride of one, after pixels between strides were made channels"
    SPLIT = "as one convolution for each phase of the dilation"
    SHADER = "by the shader, which copies windows out and multiplies them"


class Layer(NamedTuple):
    """A convolution of one image as the driver sees it: one group, if its groups are wide.

    Attributes:
        channels, height, width: Of the image.
        filters, rows, columns: Of the results.
        kernel, stride, dilation: Vertically and horizontally.
        padding: Rows and columns that are added in all.
        is_depthwise: Each filter reads one channel.
        is_per_channel: Each filter has a scale.
        before: Rows and columns of the padding that come before the image.
        images: Of the batch.
    """

    channels: int
    height: int
    width: int
    filters: int
    rows: int
    columns: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int]
    is_depthwise: bool
    is_per_channel: bool = False
    before: tuple[int, int] = (0, 0)
    images: int = 1

    @property
    def span(self) -> tuple[int, int]:
        """Rows and columns from the first to the last pixel of a window."""
        return (self.kernel[0] - 1) * self.dilation[0] + 1, (self.kernel[1] - 1) * self.dilation[1] + 1

    @property
    def multiplier(self) -> int:
        """Filters of each channel of a depthwise convolution."""
        return self.filters // self.channels if self.is_depthwise else 1


def layer_of(operation: Convolution, program: Program) -> Layer:
    """Return what an operation is for one image; what groups repeat, for one group."""
    images, channels, height, width = program.tensors[operation.inputs[0]].shape
    _, filters, rows, columns = program.tensors[operation.output].shape
    groups = 1 if operation.is_depthwise else operation.groups
    kernel_rows, kernel_columns = operation.weights.values.shape[2:]
    top, left, bottom, right = operation.padding
    return Layer(
        channels // groups,
        height,
        width,
        filters // groups,
        rows,
        columns,
        (kernel_rows, kernel_columns),
        operation.stride,
        operation.dilation,
        (top + bottom, left + right),
        operation.is_depthwise,
        operation.weights.is_per_channel,
        (top, left),
        images,
    )


def way_of(layer: Layer, chip: Chip) -> Way:
    """Return how a chip computes a convolution."""
    if layer.is_per_channel or _is_left_to_shader(layer, chip):
        return Way.SHADER
    if layer.stride == (1, 1):
        return _way_of_large(layer, chip)
    if has_own_mode(layer, chip):
        return _way_of_large(layer, chip, otherwise=Way.DROPPING if layer.stride == (2, 2) else Way.DIRECT)
    if _may_drop(layer, chip):
        return Way.DROPPING
    return Way.SHADER if max(rearranged_kernel(layer, chip)) > chip.nn.largest_kernel else Way.REARRANGED


def has_own_mode(layer: Layer, chip: Chip) -> bool:
    """Say whether a convolution runs in the mode for depthwise ones."""
    is_small_step = layer.stride in ((1, 1), (2, 2))
    return layer.is_depthwise and chip.nn.has_depthwise and layer.multiplier == 1 and is_small_step


def filled_kernel(size: tuple[int, int], chip: Chip) -> tuple[int, int]:
    """Return the rows and columns of a kernel after zeros were put around it."""
    return (max(size),) * 2 if chip.nn.squares_kernels else size


def rearranged_kernel(layer: Layer, chip: Chip) -> tuple[int, int]:
    """Return the rows and columns of a kernel, a channel for each pixel between strides."""
    rows, columns = (-(-layer.span[axis] // layer.stride[axis]) for axis in range(2))
    return filled_kernel((rows, columns), chip)


def _way_of_large(layer: Layer, chip: Chip, otherwise: Way = Way.DIRECT) -> Way:
    limit = chip.nn.largest_kernel
    if max(filled_kernel(layer.span, chip)) <= limit:
        return otherwise
    is_split = _may_split(layer, chip) and not splits_wrongly(layer, chip)
    return Way.SPLIT if is_split else Way.SHADER


def splits_wrongly(layer: Layer, chip: Chip) -> bool:
    """Say whether a convolution must not reach the driver with its dilation.

    Measured with ovxlib 1.2.30: where only rows or only columns have one, and it would be split,
    images behind the first come out wrong.
    """
    is_large = max(filled_kernel(layer.span, chip)) > chip.nn.largest_kernel
    is_whole = layer.stride == (1, 1) and not layer.is_per_channel
    return is_whole and is_large and layer.images > 1 and min(layer.dilation) == 1 and _may_split(layer, chip)


def _may_split(layer: Layer, chip: Chip) -> bool:
    """Say whether the convolution engine gets a convolution for each phase of a dilation.

    A depthwise one is compiled with zeros between its weights, since split it would come out wrong.
    Chips that fill kernels up to squares leave to the shader what has other kernels than these, or
    than columns.
    """
    rows, columns = layer.kernel
    is_taken = rows == columns or columns == 1 or not chip.nn.squares_kernels
    return max(layer.dilation) > 1 and max(layer.kernel) <= chip.nn.largest_kernel and not layer.is_depthwise and is_taken


def _is_left_to_shader(layer: Layer, chip: Chip) -> bool:
    """Say whether the shader has what the convolution engine could compute.

    Seen in what the driver of ovxlib 1.2.30 prints of 4,000 random layers: large depthwise windows,
    whatever the stride; pairs of columns on chips that fill kernels up to squares; single pixels
    with a border above and to the left, unless the pixels of an image of one channel are made
    channels.
    """
    if layer.is_depthwise and max(layer.span) > chip.nn.largest_kernel:
        return True
    if chip.nn.squares_kernels and layer.span == (1, 2) and layer.stride[1] == 1:
        return True
    if layer.kernel != (1, 1) or min(layer.before) == 0:
        return False
    is_plane = layer.channels == 1 and not layer.is_depthwise
    return not is_plane or (layer.stride != (1, 1) and min(layer.stride) == 1 and not chip.nn.squares_kernels)


def _may_drop(layer: Layer, chip: Chip) -> bool:
    is_even = layer.width % 2 == 0 or (chip.nn.drops_columns and layer.height % 2 == 0)
    is_small = max(layer.span) <= 2 or (chip.nn.drops_columns and layer.kernel == (1, 3))
    return layer.stride == (2, 2) and is_even and (layer.is_depthwise or is_small) and max(layer.span) <= chip.nn.largest_kernel


def is_lopsided(operation: Convolution, steps: tuple[int, ...]) -> bool:
    """Tell whether the driver would compute a convolution wrongly with these strides or padding.

    Measured with ovxlib 1.2.30: in groups, and with a scale for each channel, results are far off
    where strides or padding differ by side.
    """
    return operation.groups > 1 and operation.weights.is_per_channel and len(set(steps)) > 1


def reads_all_channels(operation: Convolution, x: Tensor) -> bool:
    """Tell whether a convolution in groups works only as one that reads all channels.

    Measured with ovxlib 1.2.30: with a scale for each channel, the driver does not compile groups
    of several channels for a batch of several images.
    """
    is_of_batch = operation.weights.is_per_channel and operation.groups > 1 and not operation.is_depthwise and x.shape[0] > 1
    return is_of_batch or is_lopsided(operation, operation.stride)
