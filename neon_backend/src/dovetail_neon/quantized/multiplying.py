"""Lower products of two quantized matrices that are both computed at run time."""

from __future__ import annotations

from dovetail import Layer, TensorInfo
from dovetail.layers import MatMul
from dovetail.quantized.fixed_point import scaling_within

from ..fusion.lowering import Lowering
from .kinds import ProductQuantized
from .support import product_of, scheme


def lower_product(lowering: Lowering, layer: Layer) -> bool:
    """Make a product of matrices in bytes, in fixed point as TensorFlow Lite has it."""
    a, b, descriptor, info = layer.inputs[0].source, layer.inputs[1].source, layer.descriptor, layer.output.known_info
    if not isinstance(descriptor, MatMul) or a is None or b is None:
        return False
    of_a, of_b, of_result = scheme(a), scheme(b), scheme(layer.output)
    # The scales of both are multiplied in float32, as for all batched products.
    factor = float(product_of(of_a.scale[0], of_b.scale[0])) / of_result.scale[0]
    product = ProductQuantized(
        infos=(TensorInfo(info.shape, info.dtype, info.quantization),),
        transpose_a=descriptor.transpose_a,
        transpose_b=descriptor.transpose_b,
        scale=scaling_within(factor),
        zeros=(of_a.zero_point[0], of_b.zero_point[0], of_result.zero_point[0]),
    )
    made = lowering.emit(product, [lowering.plain(a), lowering.plain(b)], [layer]).output
    lowering.define(layer.output, made)
    return True
