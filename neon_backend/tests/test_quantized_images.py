"""Check quantized images of another size, and transposed convolutions of them, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dovetail
from dovetail import DataLayout, DType, Network, Quantization, layers
from dovetail.layers import ActivationFunction, ResizeMethod
from dovetail.layers.resizing import CoordinateMode

from .quantized_arrays import from_layout, in_layout, whole

NHWC = DataLayout.NHWC
BYTES = [DType.INT8, DType.UINT8]


def run(build, x, scheme):
    net = Network("net")
    net.output(build(net, net.input("x", x.shape, DType.of(x.dtype), scheme)), "y")
    with dovetail.load(net, backends=["CpuAcc"], threads=2) as loaded:
        return loaded.run({"x": x})["y"]


# --- resizes --------------------------------------------------------------------------------------

SIZES = [(10, 14), (5, 7), (3, 2), (11, 1)]


def resized(x, method, size, layout):
    sizes = in_layout(np.empty((*x.shape[:2], *size), np.uint8), layout).shape
    descriptor = layers.Resize(method=method, sizes=sizes, coordinates=CoordinateMode.HALF_PIXEL)
    found = run(lambda net, slot: net.add(descriptor, slot).output, in_layout(x, layout), Quantization.per_tensor(0.1, 4))
    assert found.dtype == x.dtype
    assert found.shape == sizes
    return from_layout(found, layout)


@pytest.mark.parametrize("layout", DataLayout)
@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_nearest_elements(size, dtype, layout):
    x = whole(np.random.default_rng(1), dtype, 2, 19, 5, 7)
    found = resized(x, ResizeMethod.NEAREST, size, layout)
    at = [(np.arange(wanted) + 0.5) * own / wanted - 0.5 for own, wanted in zip((5, 7), size, strict=True)]
    rows, columns = (np.clip(np.ceil(one - 0.5 - 1e-9), 0, own - 1).astype(int) for one, own in zip(at, (5, 7), strict=True))
    np.testing.assert_array_equal(found, x[:, :, rows][:, :, :, columns])


@pytest.mark.parametrize("layout", DataLayout)
@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_what_lies_between(size, dtype, layout):
    x = whole(np.random.default_rng(1), dtype, 2, 19, 5, 7)

    def weights(own, wanted):
        at = np.clip((np.arange(wanted) + 0.5) * own / wanted - 0.5, 0, own - 1)
        return np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(own)))

    found = resized(x, ResizeMethod.LINEAR, size, layout)
    exact = np.einsum("ya,ncab,xb->ncyx", weights(5, size[0]), x.astype(np.float64), weights(7, size[1]))
    assert np.abs(found - exact).max() <= 0.501


# --- transposed convolutions ----------------------------------------------------------------------

CASES = [
    # channels, filters, height, width, kernel, stride, padding, dilation, output padding
    (16, 24, 5, 6, (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), (0, 0)),
    (3, 5, 5, 6, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1), (0, 0)),
    (17, 9, 4, 7, (4, 3), (2, 3), (1, 2, 1, 0), (1, 1), (1, 1)),
    (8, 33, 6, 5, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), (0, 0)),
    (4, 4, 3, 3, (1, 2), (3, 4), (0, 0, 0, 0), (1, 1), (2, 1)),
    (6, 7, 5, 4, (3, 2), (2, 1), (3, 0, 0, 1), (2, 3), (0, 0)),
]


def transposed(x, weights, stride, padding, dilation, output_padding):
    """Add each element's filter [C, O, h, w]; padding is (top, left, bottom, right)."""
    (kernel, sizes), steps = (weights.shape[2:], x.shape[2:]), range(2)
    reach = [stride[i] * (sizes[i] - 1) + dilation[i] * (kernel[i] - 1) + 1 + output_padding[i] for i in steps]
    full = np.zeros((x.shape[0], weights.shape[1], *reach))
    for y, column, ky, kx in itertools.product(*map(range, (*sizes, *kernel))):
        at = y * stride[0] + ky * dilation[0], column * stride[1] + kx * dilation[1]
        full[:, :, at[0], at[1]] += x[:, :, y, column] @ weights[:, :, ky, kx]
    return full[:, :, padding[0] : reach[0] - padding[2], padding[1] : reach[1] - padding[3]]


@pytest.mark.parametrize("layout", DataLayout)
@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("per_axis", [True, False])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_transposed_convolution(case, per_axis, dtype, layout):
    channels, filters, height, width, kernel, stride, padding, dilation, output_padding = case
    rng = np.random.default_rng(filters)
    zeros = (-3, -7) if dtype is DType.INT8 else (120, 100)
    x, weights = whole(rng, dtype, 2, channels, height, width), rng.integers(-127, 128, (channels, filters, *kernel))
    bias = rng.integers(-3000, 3000, filters).astype(np.int32)
    scales = rng.uniform(0.008, 0.02, filters).astype(np.float32) if per_axis else np.full(1, 0.013, np.float32)
    stored = np.ascontiguousarray((weights.transpose(1, 2, 3, 0) if layout is NHWC else weights).astype(np.int8))
    axis = (0 if layout is NHWC else 1) if per_axis else None
    scheme = Quantization(tuple(map(float, scales)), (0,) * len(scales), axis=axis)
    sums = transposed(x.astype(np.float64) - zeros[0], weights, stride, padding, dilation, output_padding)
    real = (sums + bias[:, None, None]) * 0.05 * np.broadcast_to(scales, filters)[:, None, None].astype(np.float64)
    of_y = Quantization.per_tensor(float(np.float32(np.abs(real).max() / 150)), zeros[1])
    descriptor = layers.TransposeConvolution2d(
        stride=stride,
        padding=padding,
        dilation=dilation,
        output_padding=output_padding,
        layout=layout,
        activation=ActivationFunction.RELU if filters % 2 else None,
    )

    def build(net, slot):
        return net.add(
            descriptor, slot, net.constant(stored, quantization=scheme), net.constant(bias), quantization=of_y
        ).output

    found = from_layout(run(build, in_layout(x, layout), Quantization.per_tensor(0.05, zeros[0])), layout)
    info = np.iinfo(dtype.numpy)
    wanted = np.clip(real / of_y.scale[0] + zeros[1], max(info.min, zeros[1]) if filters % 2 else info.min, info.max)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 0.501
