"""Which engine of a chip runs an operation, and why where that is slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..chips import Chip
from ..program import (
    Binary,
    Concat,
    Convolution,
    FullyConnected,
    Function,
    Operation,
    Pad,
    Permute,
    Pooling,
    Program,
    Requantize,
    Reshape,
    Resize,
    Softmax,
)
from .convolutions import Layer, Way, layer_of, way_of
from .folding import is_clamp_fused, is_clamped, is_folded
from .links import links
from .pairs import adds_by_products, swish_of
from .windows import (
    averages_between_permutations,
    averages_by_products,
    enlarges_by_products,
    overruns,
    skips_pixels,
    steps_of_maximum,
)

NN, TP, SH = "NN", "TP", "SH"
"""Convolution engine, tensor processor, programmable engine (shader)."""

TABLES = frozenset(
    {
        "relu", "bounded_relu", "leaky_relu", "elu", "sigmoid", "tanh", "hard_sigmoid", "hard_swish", "swish", "gelu",
        "gelu_tanh", "mish",
    }
)  # fmt: skip
"""Functions that were seen to be tables of the tensor processor."""


class Landing(NamedTuple):
    """Where an operation runs.

    Attributes:
        engine: `NN`, `TP` or `SH`, or several, as in "TP+NN", in the order in which they begin;
            empty for what takes no time.
        reason: Why it is on a slow engine or needs several, and what would change that; empty where
            it is fast.
        remedy: What would change that for all operations that are there for the same reason; empty
            where the reason says it.
    """

    engine: str
    reason: str = ""
    remedy: str = ""


PER_CHANNEL = Landing(
    SH,
    "its weights have a scale for each channel",
    "the option VsiNpu.quantization=per_tensor gives weights one scale, and the convolution engine takes them",
)


def landing(operation: Operation, program: Program, chip: Chip) -> Landing:
    """Return where an operation of a program runs on a chip."""
    if is_folded(operation, program, chip):
        return Landing("")
    made = _LANDINGS[type(operation)](operation, program, chip)
    if not needs_clamp(operation, made, program):
        return made
    engine = made.engine if TP in made.engine.split("+") else f"{made.engine}+{TP}"
    reason = made.reason or "its bounds are a table of the tensor processor; only a ReLU is part of the product"
    return Landing(engine, reason, made.remedy)


def multiplies_by_shader(operation: Convolution | FullyConnected, program: Program, chip: Chip) -> bool:
    """Say whether the shader, not the convolution engine, computes the sums of a layer."""
    return _LANDINGS[type(operation)](operation, program, chip).engine == SH


def needs_clamp(operation: Operation, made: Landing, program: Program) -> bool:
    """Say whether the bounds of a result are an operation of their own behind where it landed."""
    if isinstance(operation, Requantize):
        return False  # its table has them
    if isinstance(operation, Convolution | FullyConnected | Binary) and made.engine.endswith(NN):
        return not is_clamp_fused(operation, program)
    return is_clamped(operation, program)


def _of_convolution(operation: Convolution, program: Program, chip: Chip) -> Landing:
    layer = layer_of(operation, program)
    way = way_of(layer, chip)
    if way is Way.SHADER:
        return PER_CHANNEL if layer.is_per_channel else Landing(SH, _why_by_shader(layer, chip))
    if way is Way.SPLIT:
        return Landing(
            f"{TP}+{NN}",
            f"a window that spans {_by(layer.span)} pixels is split into {layer.dilation[0] * layer.dilation[1]} convolutions; "
            f"up to {_by((chip.nn.largest_kernel,) * 2)} it is one",
        )
    if way is Way.REARRANGED and chip.tp.rearranges:
        return Landing(f"{TP}+{NN}", f"a stride of {_by(layer.stride)} needs pixels to be made channels first")
    if way is Way.REARRANGED:
        return Landing(f"{SH}+{NN}", f"a stride of {_by(layer.stride)} needs pixels to be made channels first, by the shader")
    return Landing(NN)


def _why_by_shader(layer: Layer, chip: Chip) -> str:
    if layer.kernel == (1, 1):
        return "a kernel of one pixel with a border above and to the left runs on the shader; without border it does not"
    if layer.span == (1, 2):
        return "a kernel of 1x2 pixels runs on the shader; the convolution engine takes 1x3, which may have a column of zeros"
    limit = _by((chip.nn.largest_kernel,) * 2)
    return f"windows that span {_by(layer.span)} pixels run on the shader; up to {limit} the convolution engine takes them"


def _of_rows(operation: FullyConnected, program: Program, chip: Chip) -> Landing:
    if operation.weights.is_per_channel:
        return PER_CHANNEL
    rows, columns = program.tensors[operation.inputs[0]].shape
    if rows > 1:
        return Landing(f"{TP}+{NN}", f"{rows} rows are permuted before and behind the product; one row is not")
    if has_no_factors(columns, chip):
        return Landing(SH, f"{columns} inputs have no factors that the convolution engine could take; pad them with zeros")
    return Landing(NN)


def has_no_factors(columns: int, chip: Chip) -> bool:
    """Say whether a row is one that chips which fill kernels up to squares leave to the shader.

    They make an image of it, which needs a factor that the buffer of the input can hold. Seen for
    26 and 46; rows of 289 and more never were.
    """
    half, odd = divmod(columns, 2)
    is_prime = all(half % factor for factor in range(2, chip.nn.input_rows))
    return chip.nn.squares_kernels and not odd and chip.nn.input_rows < half < 145 and is_prime


def _of_windows(operation: Pooling, program: Program, chip: Chip) -> Landing:
    if operation.function == "max":
        return _of_maximum(operation, program, chip)
    if averages_between_permutations(operation, program, chip):
        return Landing(f"{TP}+{NN}", f"the average of {_by(operation.size)} pixels is a product between permutations")
    if averages_by_products(operation, program, chip):
        return _of_average(operation, program, chip)
    return Landing(SH, _why_average_by_shader(operation, program, chip))


def _of_average(operation: Pooling, program: Program, chip: Chip) -> Landing:
    way = way_of(layer_of_average(operation, program), chip)
    if way is not Way.REARRANGED:
        return Landing(NN)
    first = TP if chip.tp.rearranges else SH
    return Landing(f"{first}+{NN}", f"a stride of {_by(operation.stride)} needs pixels to be made channels first")


def layer_of_average(operation: Pooling, program: Program) -> Layer:
    """Return the depthwise convolution that an average is."""
    _, channels, height, width = program.tensors[operation.inputs[0]].shape
    _, _, rows, columns = program.tensors[operation.output].shape
    top, left, bottom, right = operation.padding
    padding = (top + bottom, left + right)
    size, stride = operation.size, operation.stride
    return Layer(channels, height, width, channels, rows, columns, size, stride, (1, 1), padding, is_depthwise=True)


def _why_average_by_shader(operation: Pooling, program: Program, chip: Chip) -> str:
    takes = "the convolution engine takes them"
    size, stride = operation.size, operation.stride
    if max(size) > chip.nn.largest_kernel:
        return f"averages of {_by(size)} pixels run on the shader; up to {_by((chip.nn.largest_kernel,) * 2)} {takes}"
    if max(stride) > 2 or stride[0] != stride[1]:
        alone = "; one window needs a stride of 1" if program.tensors[operation.output].shape[2:] == (1, 1) else ""
        return f"averages with a stride of {_by(stride)} run on the shader; with 1x1 or 2x2 {takes}{alone}"
    if overruns(operation, program) or any(operation.padding):
        return "averages that leave out what lies beyond the image run on the shader; those of whole windows do not"
    channels = program.tensors[operation.output].shape[1]
    return f"averages of {_by(size)} pixels of {channels} channels run on the shader; of fewer channels {takes}"


def _of_maximum(operation: Pooling, program: Program, chip: Chip) -> Landing:
    steps = steps_of_maximum(operation, program, chip)
    if steps:
        return Landing("+".join(dict.fromkeys(NN if step.is_product else TP for step in steps)))
    if operation.size[0] != operation.size[1] or operation.stride[0] != operation.stride[1]:
        return Landing(SH, "maxima of windows or strides that are not square run on the shader")
    return Landing(
        SH,
        f"maxima of {_by(operation.size)} pixels with a stride of {_by(operation.stride)} run on the shader; "
        "with strides of 1, 2, 4 or 8, no larger than the window, the tensor processor takes them",
    )


def _of_pairs(operation: Binary, program: Program, chip: Chip) -> Landing:
    if swish_of(operation, program) is not None:
        return Landing(TP)
    if operation.function == "multiply":
        return Landing(SH, "products of two tensors are computed by the shader")
    if adds_by_products(operation, program):
        return Landing(NN)
    tensors = [program.tensors[number] for number in operation.inputs]
    if tensors[0].shape != tensors[1].shape:
        return Landing(SH, "sums of tensors of different shapes are computed by the shader")
    if not all(links(program).is_computed(number) for number in operation.inputs):
        return Landing(SH, "sums of inputs of the program are computed by the shader; those of results are not")
    smaller, larger = sorted(tensor.scale for tensor in tensors)
    return Landing(SH, f"summands whose scales differ {larger / smaller:.3g} times are added by the shader")


def _of_function(operation: Function, program: Program, chip: Chip) -> Landing:
    if operation.function in TABLES:
        return Landing(TP)
    return Landing(SH, f"{operation.function} is not known to be a table of the tensor processor; the shader has all functions")


def _of_border(operation: Pad, program: Program, chip: Chip) -> Landing:
    if any((*operation.before[:-2], *operation.after[:-2])):
        return Landing(SH, "padding of other axes than rows and columns is done by the shader")
    return Landing(TP)


def _of_resampling(operation: Resize, program: Program, chip: Chip) -> Landing:
    if enlarges_by_products(operation, program):
        return Landing(f"{NN}+{TP}")
    if skips_pixels(operation, program):
        return Landing(TP)
    return Landing(SH, "resampling runs on the shader; the nearest pixel at twice the size, or another whole factor, does not")


def _of_softmax(operation: Softmax, program: Program, chip: Chip) -> Landing:
    return Landing(SH, "softmax is computed by the shader")


def _of_movement(operation: Operation, program: Program, chip: Chip) -> Landing:
    return Landing(TP)


_LANDINGS: dict[type[Operation], Callable[[Any, Program, Chip], Landing]] = {
    Binary: _of_pairs,
    Concat: _of_movement,
    Convolution: _of_convolution,
    FullyConnected: _of_rows,
    Function: _of_function,
    Pad: _of_border,
    Permute: _of_movement,
    Pooling: _of_windows,
    Requantize: _of_movement,
    Reshape: _of_movement,
    Resize: _of_resampling,
    Softmax: _of_softmax,
}


def _by(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))
