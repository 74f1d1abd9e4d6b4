"""Check the ways into integers and out of them against their definition."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail
from dovetail import DataLayout, DType, Network, Quantization, layers
from dovetail_neon.kernels import Kernels, instruction_sets

NCHW, NHWC = DataLayout.NCHW, DataLayout.NHWC


@pytest.fixture(params=[name for name, here in instruction_sets().items() if here])
def kernels(request):
    """The kernels of each instruction set of this machine."""
    return Kernels(request.param)


def nearest(x, rounding):
    """Round to whole numbers."""
    return np.rint(x) if rounding == "to_even" else np.copysign(np.floor(np.abs(x) + 0.5), x)


def reals(count):
    """Return numbers with many ties among them, and with all that is no number."""
    x = (np.random.default_rng(count).integers(-1200, 1200, count) / 32).astype(np.float32)
    x[:6] = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0], np.float32)[: min(6, count)]
    return x


def integers_of(x, dtype, quantization, rounding):
    info = np.iinfo(dtype.numpy)
    real = np.where(np.isnan(x), 0, x.astype(np.float64)) / quantization.scale[0]
    return np.clip(nearest(real, rounding) + quantization.zero_point[0], info.min, info.max).astype(dtype.numpy)


@pytest.mark.parametrize("rounding", layers.TieRounding)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("count", [0, 1, 15, 16, 100, 1003])
def test_to_integers_and_back(run_layer, count, dtype, rounding):
    x, quantization = reals(count), Quantization.per_tensor(0.25, -11 if dtype is DType.INT8 else 7)
    descriptor = layers.Quantize(dtype=dtype, quantization=quantization, rounding=rounding)
    [found] = run_layer(lambda net, slot: net.add(descriptor, slot).output, x)
    np.testing.assert_array_equal(found, integers_of(x, dtype, quantization, rounding))
    [back] = run_layer(lambda net, slot: net.add(layers.Dequantize(quantization=quantization), slot).output, found)
    np.testing.assert_array_equal(back, ((found.astype(np.float64) - quantization.zero_point[0]) * 0.25).astype(np.float32))


SIZES = [(1, 3, 5, 7), (2, 1, 4, 4), (1, 2, 1, 1), (3, 3, 1, 17), (1, 4, 9, 5), (2, 3, 67, 71), (1, 5, 6, 7), (0, 3, 2, 2)]
"""Images of up to 4 channels are quantized into bytes at once, some thousand pixels at a time."""


@pytest.mark.parametrize("rounding", layers.TieRounding)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("layout", [NCHW, NHWC])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("workers", [1, 3])
def test_images_of_floats(run_layer, sizes, layout, dtype, rounding, workers):
    """A filter for each channel passes on what it reads."""
    images, channels, height, width = sizes
    shape = sizes if layout is NCHW else (images, height, width, channels)
    x, quantization = reals(int(np.prod(sizes))).reshape(shape), Quantization.per_tensor(0.25, 5)
    weights = np.eye(channels, dtype=np.int8).reshape(
        (channels, channels, 1, 1) if layout is NCHW else (channels, 1, 1, channels)
    )

    def build(net, slot):
        quantize = layers.Quantize(dtype=dtype, quantization=quantization, rounding=rounding)
        integers = net.add(quantize, slot, quantization=quantization).output
        filters = net.constant(weights, quantization=Quantization.per_tensor(1.0))
        return net.add(layers.Convolution2d(layout=layout), integers, filters, None, quantization=quantization).output

    [found] = run_layer(build, x, workers=workers)
    np.testing.assert_array_equal(found, integers_of(x, dtype, quantization, rounding))


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize("channels", [3, 5])
def test_what_is_read_as_an_image_alone_is_quantized_into_one(channels, readers):
    net = Network()
    scale = Quantization.per_tensor(0.1)
    quantize = layers.Quantize(dtype=DType.INT8, quantization=scale)
    integers = net.add(quantize, net.input("x", (1, channels, 8, 8)), quantization=scale).output
    filters = net.constant(np.ones((4, channels, 3, 3), np.int8), quantization=scale)
    convolved = net.add(layers.Convolution2d(), integers, filters, None, quantization=Quantization.per_tensor(1.0)).output
    net.output(convolved, "y")
    if readers > 1:
        net.output(integers, "integers")
    with dovetail.load(net, backends=["CpuAcc"], threads=1) as loaded, loaded.profiling() as profile:
        loaded.run({"x": np.ones((1, channels, 8, 8), np.float32)})
    joined = "CpuAcc.QuantizeImage" in [layer.kind for layer in profile.layers]
    assert joined == (channels == 3 and readers == 1)
