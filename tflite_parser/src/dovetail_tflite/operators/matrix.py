"""Matrix products."""

from __future__ import annotations

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Cast, FullyConnected, MatMul, Reshape

from ..call import Call
from ..hybrid import rounded
from ..registry import operator
from ..unsupported import Unsupported
from ..words import are_words
from .convolution import add_product


@operator("FULLY_CONNECTED", newest=14)
def fully_connected(call: Call) -> OutputSlot:
    """Translate a product with weights [out, in]; rows are made of the last axis, or of any."""
    if call.has_options() and call.option("weights_format"):
        raise Unsupported("its weights are shuffled")
    x, weights = call.input(0), call.input(1)
    inner = call.size_of(weights, 1)
    keep = call.has_options() and call.option("keep_num_dims")
    if inner is None:
        raise Unsupported("the shape of its weights is not known before the open sizes are fixed")
    if not keep and (call.rank_of(x) != 2 or call.size_of(x, 1) != inner):
        x = call.add(Reshape(shape=(-1, inner)), x, part="rows")
    x = rounded(call, x, weights, (-1,), asymmetric=call.has_options() and call.option("asymmetric_quantize_inputs"))
    return add_product(call, FullyConnected(**call.fused()), x, weights, call.optional(2), 0)


@operator("BATCH_MATMUL", newest=4)
def batch_matmul(call: Call) -> OutputSlot:
    """Translate a product of matrices."""
    a, b = call.input(0), call.input(1)
    descriptor = MatMul(transpose_a=call.option("adj_x"), transpose_b=call.option("adj_y"))
    if call.outputs[0].dtype is DType.INT32 and call.dtype_of(a) is DType.INT8 and call.dtype_of(b) is DType.INT8:
        # The integers as they are, whatever they stand for (BatchMatMul of int8 to int32).
        wide = [call.add(Cast(dtype=DType.INT32), slot, part=part) for slot, part in ((a, "a"), (b, "b"))]
        return call.add(descriptor, *wide)
    if are_words(call, a) and _is_multiplied_by_words(call, b):
        return call.add(descriptor, a, b)
    if call.dtype_of(a) is call.dtype_of(b):
        return call.add_fixed(descriptor, a, b)
    a = rounded(call, a, b, (-2 if descriptor.transpose_a else -1,), asymmetric=call.option("asymmetric_quantize_inputs"))
    return call.add_real(descriptor, a, b)


def _is_multiplied_by_words(call: Call, b: OutputSlot) -> bool:
    """Tell whether words of 16 bits are multiplied by a slot as integers."""
    scheme = call.quantization_of(b)
    return call.dtype_of(b) in (DType.INT16, DType.INT8) and scheme is not None and scheme.axis is None
