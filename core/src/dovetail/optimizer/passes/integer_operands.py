"""Which layers have a form on integers, and which of their operands they read as such."""

from __future__ import annotations

from ...graph.descriptor import Constant, Descriptor
from ...graph.element_types import DType
from ...graph.layer import Layer, OutputSlot
from ...graph.tensor import Quantization
from ...layers import (
    Activation,
    BinaryOperation,
    BroadcastTo,
    Concat,
    Convolution2d,
    DepthToSpace,
    DepthwiseConvolution2d,
    Dequantize,
    ElementwiseBinary,
    ElementwiseUnary,
    ExpandDims,
    Flatten,
    FullyConnected,
    GlobalPooling,
    MatMul,
    Permute,
    Pooling2d,
    PoolingFunction,
    Prelu,
    Quantize,
    Reduce,
    ReduceFunction,
    Reshape,
    Resize,
    SpaceToDepth,
    Squeeze,
    Stack,
    StridedSlice,
    Tile,
    TransposeConvolution2d,
)

EIGHT_BIT = (DType.INT8, DType.UINT8)
Weighted = Convolution2d | DepthwiseConvolution2d | TransposeConvolution2d | FullyConnected
_ONE_OPERAND = (Activation, ElementwiseUnary)
_SCALED_OPERATIONS = (BinaryOperation.ADD, BinaryOperation.SUB, BinaryOperation.MUL)
_EXTREMES = (BinaryOperation.MAXIMUM, BinaryOperation.MINIMUM)
_REDUCTIONS = (ReduceFunction.SUM, ReduceFunction.MEAN, ReduceFunction.MAX, ReduceFunction.MIN)
_AS_REDUCTION = {PoolingFunction.AVERAGE: ReduceFunction.MEAN, PoolingFunction.MAX: ReduceFunction.MAX}
_MOVES = (
    Reshape,
    ExpandDims,
    Squeeze,
    Flatten,
    Permute,
    BroadcastTo,
    Tile,
    SpaceToDepth,
    DepthToSpace,
    StridedSlice,
)
"""Kinds whose results are elements of their input and nothing else."""


def integer_images(core: Layer, quantize: Quantize) -> list[tuple[OutputSlot, Quantization]] | None:
    """Return the slots behind the dequantized operands, each with what its integers mean.

    Weights that are stored are none of these. Returns None if it is no integer layer.
    """
    if getattr(core.descriptor, "activation", None) is not None:
        return None
    count = _operands(core, core.descriptor)
    if not count:
        return None
    images = [_integer_source(core, index, quantize.dtype) for index in range(count)]
    known = [image for image in images if image is not None]
    if len(known) < count:
        return None
    changes = any(meaning != quantize.quantization for _, meaning in known)
    if changes and _keeps_meaning(core.descriptor) and as_reduction(core) is None:
        return None
    return known


def as_reduction(core: Layer) -> Reduce | None:
    """Return the reduction that a pooling of whole images is: of integers it may change the scale.

    Returns None of other layers.
    """
    descriptor, source = core.descriptor, core.inputs[0].source
    if not isinstance(descriptor, GlobalPooling) or descriptor.function not in _AS_REDUCTION or source is None:
        return None
    axes = descriptor.layout.spatial_axes(source.known_info.rank)
    return Reduce(function=_AS_REDUCTION[descriptor.function], axes=tuple(axes), keep_dims=True)


def stored_weights(core: Layer, descriptor: Descriptor) -> tuple[Layer, Quantization] | None:
    """Return the constant that weights are dequantized from, and what its integers mean.

    Returns None where there is none, or they have scales along another axis than the filters'.
    """
    source = core.inputs[1].source if len(core.inputs) > 1 else None
    if source is None or not isinstance(source.layer.descriptor, Dequantize):
        return None
    stored, scheme = source.layer.inputs[0].source, source.layer.descriptor.quantization
    if stored is None or not isinstance(stored.layer.descriptor, Constant) or stored.known_info.dtype not in EIGHT_BIT:
        return None
    rank = stored.known_info.rank
    if isinstance(descriptor, MatMul) and (rank != 2 or descriptor.transpose_a):
        return None
    if isinstance(descriptor, TransposeConvolution2d) and descriptor.groups > 1 and scheme.is_per_axis:
        return None
    if scheme.axis is not None and scheme.axis % rank != filter_axis(descriptor, rank):
        return None
    return stored.layer, scheme


def filter_axis(descriptor: Descriptor, rank: int) -> int:
    """Return which axis of the weights of a product counts its filters."""
    if isinstance(descriptor, MatMul):
        return 0 if descriptor.transpose_b else 1
    axis: int = getattr(descriptor, "filter_axis", 0)
    return axis % rank


def farthest(dtype: DType, quantization: Quantization) -> int:
    """Return the largest distance of an 8-bit integer from its zero point."""
    least, most = (-128, 127) if dtype.is_signed else (0, 255)
    return max(most - min(quantization.zero_point), max(quantization.zero_point) - least)


def _operands(core: Layer, descriptor: Descriptor) -> int:
    """Return how many operands are integers, stored weights aside; 0 if it is no such layer.

    Softmax and products of two computed matrices are none: exponentials of floats, and products
    whose operands need no packing of bytes, are computed in less time, to and from floats included.
    """
    if isinstance(descriptor, Weighted):
        return int(stored_weights(core, descriptor) is not None)
    if isinstance(descriptor, MatMul) and stored_weights(core, descriptor) is not None:
        return 1
    count = sum(target.source is not None for target in core.inputs)
    if isinstance(descriptor, ElementwiseBinary):
        return count if descriptor.operation in (*_SCALED_OPERATIONS, *_EXTREMES) else 0
    if isinstance(descriptor, Pooling2d | GlobalPooling):
        # An average that counts padding as real zeros is beyond what integer pooling does.
        counts = isinstance(descriptor, Pooling2d) and descriptor.count_padding and any(descriptor.padding)
        return 0 if descriptor.function is PoolingFunction.LP or counts else 1
    if isinstance(descriptor, Reduce):
        return int(descriptor.function in _REDUCTIONS and count == 1)
    if isinstance(descriptor, Prelu | Concat | Stack):
        return count
    return int(isinstance(descriptor, (*_ONE_OPERAND, *_MOVES, Resize)) and count == 1)


def _keeps_meaning(descriptor: Descriptor) -> bool:
    """Tell whether the integers of a result stand for numbers as those of the operands do."""
    if isinstance(descriptor, ElementwiseBinary):
        return descriptor.operation in _EXTREMES
    return isinstance(descriptor, (Pooling2d, GlobalPooling, Resize, *_MOVES))


def _integer_source(core: Layer, index: int, dtype: DType) -> tuple[OutputSlot, Quantization] | None:
    """Return the slot of this type behind an input's dequantize, and what its integers mean."""
    source = core.inputs[index].source
    dequantize = None if source is None else source.layer
    if dequantize is None or not isinstance(dequantize.descriptor, Dequantize):
        return None
    slot, quantization = dequantize.inputs[0].source, dequantize.descriptor.quantization
    if slot is None or slot.known_info.dtype is not dtype or quantization.is_per_axis:
        return None
    return slot, quantization
