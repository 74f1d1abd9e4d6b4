"""Quantized products on GPUs, four bytes at a time: by the device's instruction, and without."""

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network, Quantization
from dovetail_cl.devices import opened

rng = np.random.default_rng(12)
RESULT = Quantization.per_tensor(2.0**-2, 5)
SHAPES = [
    # [images, channels, rows, columns], [filters, channels, rows, columns]
    ((2, 3, 9, 7), (5, 3, 3, 3)),
    ((1, 64, 8, 8), (70, 64, 1, 1)),
    ((1, 513, 3, 3), (17, 513, 2, 3)),
]


def convolve(backend, x, weights, layout, zero):
    """Return the convolution of bytes, and what programs were built for it."""
    network = Network("bytes")
    given = network.input("x", x.shape, DType.of(x.dtype), Quantization.per_tensor(2.0**-4, 3))
    meaning = Quantization.per_tensor(2.0**-8, zero)
    constants = (network.constant(weights, "w", quantization=meaning), network.constant(bias_of(weights), "b"))
    network.output(network.convolution2d(given, *constants, padding=1, layout=layout, quantization=RESULT), name="y")
    before = set(opened(0).programs)
    with dovetail.load(network, [backend]) as net:
        return net.run({"x": x})["y"].copy(), set(opened(0).programs) - before


def bias_of(weights):
    return np.arange(-2, len(weights) - 2, dtype=np.int32) * 100


def expected(x, weights, layout, zero):
    """Return the nearest integers, ties to even."""
    if layout == "NHWC":
        x, weights = x.transpose(0, 3, 1, 2), weights.transpose(0, 3, 1, 2)
    padded = np.pad(x.astype(np.int64) - 3, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], (2, 3))
    sums = np.einsum("nchwij,fcij->nfhw", windows, weights.astype(np.int64) - zero, optimize=True)
    real = (sums + bias_of(weights).reshape(-1, 1, 1)) * 2.0**-12 / RESULT.scale[0]
    limits = np.iinfo(x.dtype)
    found = np.clip(np.rint(real) + RESULT.zero_point[0], limits.min, limits.max).astype(x.dtype)
    return found.transpose(0, 2, 3, 1) if layout == "NHWC" else found


def bytes_of(shape, dtype):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.fixture(params=[False, True], ids=["without", "with"])
def has_dots(request, backend, monkeypatch):
    """Whether the device has the instruction."""
    facts = opened(0).facts
    monkeypatch.setitem(facts, "kind", "gpu")
    if request.param and not facts["dot_language"]:
        pytest.skip(f"{facts['name']} has no products of four bytes")
    if not request.param:
        monkeypatch.setitem(facts, "dot_language", "")
    return request.param


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("shape", "weights"), SHAPES)
@pytest.mark.parametrize(("dtype", "dtype_of_weights"), [(np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)])
def test_convolutions(backend, has_dots, layout, shape, weights, dtype, dtype_of_weights):
    x, w = bytes_of(shape, dtype), bytes_of(weights, dtype_of_weights)
    if layout == "NHWC":
        x, w = (np.ascontiguousarray(one.transpose(0, 2, 3, 1)) for one in (x, w))
    zero = 128 if dtype_of_weights == np.uint8 else 0
    found, built = convolve(backend, x, w, layout, zero)
    np.testing.assert_array_equal(found, expected(x, w, layout, zero))
    assert any(f"#define DOTS {int(has_dots)}\n" in text for text in built | set(opened(0).programs))


@pytest.mark.parametrize(("dtype", "zero"), [(np.uint8, 127), (np.int8, 1)])
def test_other_zeros(backend, has_dots, dtype, zero):
    """Weights that are not symmetric are multiplied one by one."""
    x, w = bytes_of((1, 5, 6, 7), np.uint8), bytes_of((4, 5, 3, 3), dtype)
    found, built = convolve(backend, x, w, "NCHW", zero)
    np.testing.assert_array_equal(found, expected(x, w, "NCHW", zero))
    assert not any("#define DOTS" in text for text in built)
