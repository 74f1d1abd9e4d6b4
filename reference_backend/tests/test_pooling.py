"""Pooling and softmax against plain loops and NumPy."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from dovetail import DataLayout, Device, Quantization
from dovetail.layers import GlobalPooling, Pooling2d

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
NHWC = (0, 2, 3, 1)


def pooled(x, shape, function, size, stride, padding, dilation, count_padding, p=2):
    """Loop over every window; x [N, C, H, W] in float64 or object."""
    y = np.zeros(shape, x.dtype)
    height, width = x.shape[2:]
    for n, c, oy, ox in itertools.product(*map(range, shape)):
        inside, counted = [], 0
        for i, j in itertools.product(range(size[0]), range(size[1])):
            at_y, at_x = oy * stride[0] - padding[0] + i * dilation[0], ox * stride[1] - padding[1] + j * dilation[1]
            if at_y < height + padding[2] and at_x < width + padding[3]:
                counted += 1
                if 0 <= at_y < height and 0 <= at_x < width:
                    inside.append(x[n, c, at_y, at_x])
        if function == "max":
            y[n, c, oy, ox] = max(inside)
        elif function == "average":
            y[n, c, oy, ox] = sum(inside) / (counted if count_padding else len(inside))
        else:
            y[n, c, oy, ox] = sum(abs(v) ** p for v in inside) ** (1 / p)
    return y


# input, size, stride, padding, dilation, ceil_mode
CASES = [
    ((2, 3, 7, 8), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), False),
    ((1, 2, 7, 8), (3, 2), (2, 1), (1, 0, 2, 1), (1, 1), False),
    ((1, 2, 6, 6), (3, 3), (2, 2), (0, 0, 0, 0), (1, 1), True),  # a last, partial window
    ((1, 2, 6, 6), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), True),
    ((1, 3, 9, 9), (2, 3), (4, 4), (1, 1, 1, 1), (2, 2), False),  # stride greater than the kernel
    ((1, 1, 1, 1), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), False),
    ((0, 3, 4, 4), (2, 2), (1, 1), (0, 0, 0, 0), (1, 1), False),
]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(
    ("function", "count", "p"), [("max", 0, 2), ("average", 0, 2), ("average", 1, 2), ("lp", 0, 2), ("lp", 0, 3)]
)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_windows(random, run_layer, reference, case, function, count, p, dtype, layout):
    shape, size, stride, padding, dilation, ceil_mode = case
    x = random(shape, dtype)
    descriptor = Pooling2d(
        function=function, size=size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode,
        count_padding=bool(count), p=p, layout=DataLayout(layout),
    )  # fmt: skip
    [y] = run_layer(lambda net, s: net.add(descriptor, s), x.transpose(NHWC) if layout == "NHWC" else x)
    y = y.transpose(0, 3, 1, 2) if layout == "NHWC" else y
    reference.assert_close(y, pooled(x.astype(np.float64), y.shape, function, size, stride, padding, dilation, count, p))


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: np.dtype(d).name)
def test_integer_maximum(random, run_layer, dtype):
    x = random((2, 3, 7, 8), dtype)
    [y] = run_layer(lambda net, s: net.pooling2d(s, "max", 3, stride=2, padding=1), x)
    wanted = pooled(x.astype(object), y.shape, "max", (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), False)
    np.testing.assert_array_equal(y, wanted.astype(dtype))


def test_maximum_of_nan_and_infinity(run_layer):
    x = np.array([[[[np.nan, 1.0], [2.0, 3.0]], [[-np.inf] * 2] * 2, [[np.inf, 0], [1, 2]]]], np.float32)
    [y] = run_layer(lambda net, s: net.pooling2d(s, "max", 2), x)
    np.testing.assert_array_equal(y.reshape(-1), [np.nan, -np.inf, np.inf])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("count", [False, True])
@pytest.mark.parametrize("zero", [0, 17])
def test_quantized_average(random, run_layer, dtype, count, zero):
    x, options = random((2, 3, 7, 5), dtype), ((3, 2), (2, 1), (1, 1, 1, 0), (1, 1))
    [y] = run_layer(
        lambda net, s: net.add(
            Pooling2d(function="average", size=(3, 2), stride=(2, 1), padding=(1, 1, 1, 0), count_padding=count), s
        ),
        x,
        quantizations=[Quantization.per_tensor(0.1, zero)],
    )
    real = pooled(x.astype(np.float64) - zero, y.shape, "average", *options, count) + zero
    wanted = np.sign(real) * np.floor(np.abs(real) + 0.5 + 1e-9)  # halves away from zero
    np.testing.assert_array_equal(y, wanted.astype(dtype))


def test_pooling_that_changes_the_quantization_is_refused(random, direct):
    backend = direct.ReferenceBackend()
    layer, _ = direct.build_layer(
        lambda net, s: net.add(GlobalPooling(function="average"), s, quantization=Quantization.per_tensor(0.2)),
        random((1, 2, 3, 3), np.int8),
        quantizations=[Quantization.per_tensor(0.1)],
    )
    assert backend.supports(layer, None, Device()).code == "quantization"


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("function", ["max", "average", "lp"])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 5), (2, 3, 4, 5), (1, 2, 3, 4, 5), (0, 2, 3)], ids=str)
def test_global(random, run_layer, reference, shape, function, dtype, layout):
    x = random(shape, dtype)
    axes = tuple(range(2, len(shape))) if layout == "NCHW" else tuple(range(1, len(shape) - 1))
    wide = x.astype(np.float64)
    wanted = {
        "max": lambda: wide.max(axis=axes, keepdims=True),
        "average": lambda: wide.mean(axis=axes, keepdims=True),
        "lp": lambda: np.sqrt((wide**2).sum(axis=axes, keepdims=True)),
    }[function]()
    [y] = run_layer(lambda net, s: net.add(GlobalPooling(function=function, layout=DataLayout(layout)), s), x)
    reference.assert_close(y, wanted)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(("shape", "axis"), [((3, 7), -1), ((3, 7, 2), 1), ((4,), 0), ((2, 3, 4), 0), ((0, 3), 1), ((3, 0), 1)])
@pytest.mark.parametrize("beta", [1.0, -0.5])
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("in_place", [None, 0])
def test_softmax(random, run_layer, reference, shape, axis, beta, log, dtype, in_place):
    x = random(shape, dtype)
    method = "log_softmax" if log else "softmax"
    [y] = run_layer(lambda net, s: getattr(net, method)(s, axis, beta), x, in_place=in_place)
    scaled = beta * x.astype(np.float64)
    shifted = scaled - scaled.max(axis=axis, keepdims=True, initial=-1e9)
    total = np.exp(shifted).sum(axis=axis, keepdims=True)
    with np.errstate(divide="ignore"):
        wanted = shifted - np.log(total) if log else np.exp(shifted) / total
    reference.assert_close(y, wanted)


def test_softmax_of_great_numbers(run_layer):
    [y] = run_layer(lambda net, s: net.softmax(s), np.array([[3e38, -3e38, 3e38]], np.float32))
    np.testing.assert_array_equal(y, [[0.5, 0.0, 0.5]])


@pytest.mark.parametrize("build", [lambda net, s: net.softmax(s), lambda net, s: net.pooling2d(s, "max", 2)])
def test_cancel(random, run_layer, direct, build):
    with pytest.raises(direct.Cancelled):
        run_layer(build, random((1, 2, 4, 4), np.float32), cancel=True)


def test_the_mean_of_an_image_without_pixels(run_layer):
    """The mean of nothing is NaN (NumPy), its greatest is the least value, and its norm is 0."""
    x = np.zeros((2, 3, 0, 4), np.float32)
    assert np.isnan(run_layer(lambda net, s: net.global_pooling(s), x)[0]).all()
    np.testing.assert_array_equal(run_layer(lambda net, s: net.global_pooling(s, "max"), x)[0], np.full((2, 3, 1, 1), -np.inf))
    np.testing.assert_array_equal(run_layer(lambda net, s: net.global_pooling(s, "lp"), x)[0], np.zeros((2, 3, 1, 1)))
