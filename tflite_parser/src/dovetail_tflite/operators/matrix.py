"""Matrix products."""

from __future__ import annotations

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import FullyConnected, MatMul, Reshape

from ..call import Call
from ..registry import operator
from ..unsupported import Unsupported
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
    return add_product(call, FullyConnected(**call.fused()), x, weights, call.optional(2), 0)


@operator("BATCH_MATMUL", newest=4)
def batch_matmul(call: Call) -> OutputSlot:
    """Translate a product of matrices."""
    a, b = call.input(0), call.input(1)
    descriptor = MatMul(transpose_a=call.option("adj_x"), transpose_b=call.option("adj_y"))
    one = [call.quantization_of(slot) for slot in (a, b)]
    in_bytes = all(quantization is not None and quantization.axis is None for quantization in one)
    if in_bytes and call.dtype_of(a) is call.dtype_of(b) and call.dtype_of(a) in (DType.INT8, DType.UINT8):
        return call.add(descriptor, a, b)
    return call.add_real(descriptor, a, b)
