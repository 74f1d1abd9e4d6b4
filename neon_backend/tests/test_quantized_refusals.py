"""Which quantized layers CpuAcc does not take, and what it says of each."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import Device, DType, Network, Quantization, Support
from dovetail.layers import (
    ActivationFunction,
    BinaryOperation,
    Convolution2d,
    Dequantize,
    ElementwiseBinary,
    GlobalPooling,
    Pooling2d,
    PoolingFunction,
    Quantize,
)
from dovetail_neon import CpuAccBackend, CpuAccOptions


def refusal(descriptor, *infos, output=None):
    """Return CpuAcc's verdict on a layer.

    Each input gives its shape, type, quantization and, for a constant, anything more.
    """
    net, slots = Network(), []
    for index, (shape, dtype, quantization, *constant) in enumerate(infos):
        if constant:
            slots.append(net.constant(np.zeros(shape, dtype.numpy), quantization=quantization))
        else:
            slots.append(net.input(f"x{index}", shape, dtype, quantization))
    answer = CpuAccBackend().supports(net.add(descriptor, *slots, quantization=output), CpuAccOptions(), Device())
    assert isinstance(answer, Support)
    return answer


ONE, PER_AXIS = Quantization.per_tensor(0.1), Quantization.per_axis([0.1] * 4, axis=0)
IMAGE = ((1, 4, 5, 5), DType.INT8, ONE)
FILTERS = ((4, 4, 1, 1), DType.INT8, ONE, "constant")
REFUSALS = [
    (
        Convolution2d(),
        [((1, 4, 5, 5), DType.INT8, None), FILTERS],
        ONE,
        "quantization",
        "input.quantization is none; per_tensor is taken",
    ),
    (Convolution2d(), [IMAGE, FILTERS], None, "quantization", "output.quantization is none; per_tensor is taken"),
    (Convolution2d(), [IMAGE, ((4, 4, 1, 1), DType.INT8, ONE)], ONE, "constant", "weights.constant is false; true is taken"),
    (
        Convolution2d(),
        [IMAGE, ((4, 4, 1, 1), DType.INT8, None, "constant")],
        ONE,
        "quantization",
        "weights.quantization is none; per_tensor or per_axis is taken",
    ),
    (
        Convolution2d(),
        [IMAGE, ((4, 4, 1, 1), DType.INT8, Quantization.per_axis([0.1] * 4, axis=1), "constant")],
        ONE,
        "quantization",
        "weights.quantized_axis is channels; filters or none is taken",
    ),
    (
        Convolution2d(),
        [IMAGE, ((0, 4, 1, 1), DType.INT8, ONE, "constant")],
        ONE,
        "shape",
        "weights.shape is (0, 4, 1, 1); at least 1 is taken",
    ),
    (
        GlobalPooling(function=PoolingFunction.AVERAGE),
        [((1, 1, 2048, 2048), DType.UINT8, ONE)],
        ONE,
        "shape",
        "input.elements is 4194304; at most 4194303 is taken",
    ),
    (
        Convolution2d(activation=ActivationFunction.TANH),
        [IMAGE, FILTERS],
        ONE,
        "attribute",
        "activation is tanh; relu, bounded_relu or none is taken",
    ),
    (ElementwiseBinary(operation=BinaryOperation.DIV), [IMAGE, IMAGE], ONE, "attribute", "operation is div; "),
    (
        ElementwiseBinary(operation=BinaryOperation.MAXIMUM),
        [IMAGE, ((1, 4, 5, 5), DType.INT8, Quantization.per_tensor(0.3))],
        ONE,
        "attribute",
        "operation is maximum; add, sub or mul is taken",
    ),
    (
        Pooling2d(function=PoolingFunction.MAX, size=(2, 2)),
        [IMAGE],
        Quantization.per_tensor(0.3),
        "quantization",
        "the same as input.quantization (scale 0.1, zero point 0) is taken",
    ),
    (Pooling2d(function=PoolingFunction.LP, size=(2, 2)), [IMAGE], ONE, "attribute", "function is lp; max or average is taken"),
    (
        Dequantize(quantization=PER_AXIS),
        [((4, 2), DType.INT8, PER_AXIS)],
        None,
        "attribute",
        "quantization.axis is 0; none is taken",
    ),
    (
        Quantize(dtype=DType.INT32, quantization=ONE),
        [((4,), DType.FLOAT32, None)],
        None,
        "dtype",
        "output.dtype is int32; int8, uint8 or int16 is taken",
    ),
    (
        Quantize(dtype=DType.INT8, quantization=ONE),
        [((4,), DType.FLOAT64, None)],
        None,
        "dtype",
        "Quantize of float64 is not taken; float32 is",
    ),
]


@pytest.mark.parametrize(("descriptor", "infos", "output", "code", "reason"), REFUSALS, ids=[row[-1] for row in REFUSALS])
def test_refusals_say_why(descriptor, infos, output, code, reason):
    answer = refusal(descriptor, *infos, output=output)
    assert not answer.supported
    assert answer.code == code
    assert reason in answer.reason
