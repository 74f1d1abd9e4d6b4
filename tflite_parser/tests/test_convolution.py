"""Convolutions: volumes, odd sizes of results, quantized weights of floats; against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from one_operator import Array, Held, Stated, constant, made, real, run, steps_apart

from dovetail import DovetailError, ModelError
from dovetail_tflite import parse

RNG = np.random.default_rng(5)


def floats(*shape: int) -> Array:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def bounds(size: int, kernel: int, stride: int, dilation: int, same: bool) -> tuple[int, int]:
    """Return the number of results along an axis, and the zeros before it."""
    reach = dilation * (kernel - 1) + 1
    if not same:
        return (size - reach) // stride + 1, 0
    count = -(-size // stride)
    return count, max((count - 1) * stride + reach - size, 0) // 2


def convolved(x: Array, weights: Array, strides: tuple[int, ...], dilations: tuple[int, ...], same: bool) -> Array:
    """Cross-correlate [N, ..., C] with [..., C, O] in float64."""
    kernel, sizes = weights.shape[:-2], x.shape[1:-1]
    placed = [bounds(*one, same) for one in zip(sizes, kernel, strides, dilations, strict=True)]
    found = np.zeros((len(x), *(count for count, _ in placed), weights.shape[-1]))
    for place in np.ndindex(*(count for count, _ in placed)):
        for tap in np.ndindex(*kernel):
            at = [
                p * stride + t * dilation - before
                for p, t, stride, dilation, (_, before) in zip(place, tap, strides, dilations, placed, strict=True)
            ]
            if all(0 <= position < size for position, size in zip(at, sizes, strict=True)):
                found[(slice(None), *place)] += x[(slice(None), *at)].astype(np.float64) @ weights[tap].astype(np.float64)
    return found


@pytest.mark.parametrize(
    ("same", "strides", "dilations"),
    [(True, (1, 1, 1), (1, 1, 1)), (True, (2, 1, 2), (1, 1, 1)), (False, (1, 2, 1), (2, 1, 1)), (True, (1, 1, 1), (3, 2, 1))],
)
def test_volumes(same: bool, strides: tuple[int, int, int], dilations: tuple[int, int, int]) -> None:
    x, weights, bias = floats(2, 5, 6, 7, 3), floats(2, 3, 2, 3, 4), floats(4)
    options = {"padding": 0 if same else 1, "fused_activation_function": 1}
    for axis, stride, dilation in zip("dhw", strides, dilations, strict=True):
        options[f"stride_{axis}"], options[f"dilation_{axis}_factor"] = stride, dilation
    expected = np.maximum(convolved(x, weights, strides, dilations, same) + bias, 0)
    (found,) = run("CONV_3D", [x, constant(weights), constant(bias)], [Stated(np.float32, expected.shape)], options)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "changed",
    [{"stride_d": 0}, {"dilation_d_factor": -1}, {"stride_h": 0}, {"dilation_d_factor": 9}, {"stride_d": 2**31 - 1}],
)
def test_hostile_volumes(changed: dict[str, int]) -> None:
    options = {"padding": 1, "stride_d": 1, "stride_h": 1, "stride_w": 1} | changed
    data, _ = made(
        "CONV_3D", [floats(1, 4, 4, 4, 1), constant(floats(2, 2, 2, 1, 1))], [Stated(np.float32, (1, 3, 3, 3, 1))], options
    )
    if changed == {"stride_d": 2**31 - 1}:
        parse(data)  # which leaves one position
        return
    with pytest.raises(DovetailError):
        parse(data)


def transposed(x: Array, weights: Array, stride: int, size: tuple[int, int], same: bool) -> Array:
    """Add a filter [O, h, w, C], scaled by each element, to the result [N, *size, O]."""
    kernel = weights.shape[1:3]
    before = [bounds(s, k, stride, 1, same)[1] for s, k in zip(size, kernel, strict=True)]
    found = np.zeros((len(x), *size, len(weights)))
    for row, column in np.ndindex(*x.shape[1:3]):
        for tap in itertools.product(*map(range, kernel)):
            at = [row * stride + tap[0] - before[0], column * stride + tap[1] - before[1]]
            if all(0 <= position < limit for position, limit in zip(at, size, strict=True)):
                found[:, at[0], at[1]] += x[:, row, column].astype(np.float64) @ weights[:, tap[0], tap[1]].T.astype(np.float64)
    return found


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("size", [(6, 8), (5, 7), (9, 12), (3, 4)])
def test_results_of_transposed_convolutions_of_any_size(same: bool, size: tuple[int, int]) -> None:
    x, weights = floats(2, 3, 4, 3), floats(5, 4, 3, 3)
    options = {"padding": 0 if same else 1, "stride_h": 2, "stride_w": 2, "fused_activation_function": 0}
    shape = np.asarray([2, *size, 5], np.int32)
    (found,) = run("TRANSPOSE_CONV", [constant(shape), constant(weights), x], [Stated(np.float32, shape)], options)
    np.testing.assert_allclose(found, transposed(x, weights, 2, size, same), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [[1, -3, 4, 1], [1, 4, 4], [1, 2**31 - 1, 2**31 - 1, 1]])
def test_hostile_results_of_transposed_convolutions(shape: list[int]) -> None:
    options = {"padding": 0, "stride_h": 1, "stride_w": 1}
    sources = [constant(np.asarray(shape, np.int32)), constant(floats(1, 2, 2, 1)), floats(1, 4, 4, 1)]
    data, _ = made("TRANSPOSE_CONV", sources, [Stated(np.float32, (1, 4, 4, 1))], options)
    with pytest.raises(DovetailError):
        parse(data)


def rounded(x: Array, axes: tuple[int, ...], asymmetric: bool) -> Array:
    """Quantize floats along axes and back, in float64."""
    x = x.astype(np.float64)
    if not asymmetric:
        scale = np.abs(x).max(axes, keepdims=True) / 127
        return np.round(x / scale) * scale
    least, most = np.minimum(x.min(axes, keepdims=True), 0), np.maximum(x.max(axes, keepdims=True), 0)
    scale = (most - least) / 255
    zero = np.round(-128 - least / scale)
    return (np.clip(np.round(x / scale + zero), -128, 127) - zero) * scale


@pytest.mark.parametrize("per_channel", [True, False])
def test_quantized_weights_of_float_images(per_channel: bool) -> None:
    """Each image has a scale of its own, around zero where all filters share theirs."""
    x = floats(2, 5, 5, 3) * np.asarray([1, 100], np.float32).reshape(2, 1, 1, 1) + 0.3
    weights = RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    how = ([0.01, 0.02, 0.03, 0.04], [0] * 4, 0) if per_channel else (0.01, 0)
    options = {"padding": 1, "stride_h": 1, "stride_w": 1, "fused_activation_function": 0}
    (found,) = run("CONV_2D", [x, constant(weights, how)], [Stated(np.float32, (2, 3, 3, 4))], options, version=5)
    filters = np.transpose(real(weights, how), (1, 2, 3, 0))
    expected = convolved(rounded(x, (1, 2, 3), per_channel), filters, (1, 1), (1, 1), False)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_images_of_zeros_by_quantized_weights() -> None:
    weights = constant(np.ones((1, 1, 1, 2), np.int8), ([0.5, 0.25], [0, 0], 3))
    options = {"padding": 0, "stride_h": 1, "stride_w": 1}
    (found,) = run(
        "DEPTHWISE_CONV_2D", [np.zeros((1, 2, 2, 2), np.float32), weights], [Stated(np.float32, (1, 2, 2, 2))], options
    )
    np.testing.assert_array_equal(found, np.zeros((1, 2, 2, 2)))


def test_bias_of_words() -> None:
    """64-bit bias of 16-bit images, filters with a scale each."""
    x, weights = (
        RNG.integers(-30000, 30000, (1, 4, 4, 8)).astype(np.int16),
        RNG.integers(-127, 128, (3, 1, 1, 8)).astype(np.int8),
    )
    mine, scales, theirs = (0.0002, 0), ([0.01, 0.005, 0.02], [0] * 3, 0), (0.002, 0)
    bias = np.asarray([10**6, -(10**6), 5], np.int64)
    options = {"padding": 1, "stride_h": 1, "stride_w": 1, "fused_activation_function": 3}
    sources = [Held(x, mine), constant(weights, scales), constant(bias)]
    (found,) = run("CONV_2D", sources, [Stated(np.int16, (1, 4, 4, 3), theirs)], options, version=8)
    products = real(x, mine) @ real(weights, scales).reshape(3, 8).T + bias * 0.0002 * np.asarray(scales[0])
    # Half a step, and what a multiplier of 15 bits is off by, of 3000 steps.
    assert steps_apart(found, np.clip(products, 0, 6), theirs) <= 0.51 + 3000 * 2**-16


def test_integer_bias_of_floats() -> None:
    options = {"padding": 1, "stride_h": 1, "stride_w": 1}
    sources = [floats(1, 2, 2, 1), constant(floats(1, 1, 1, 1)), constant(np.ones(1, np.int32))]
    data, _ = made("CONV_2D", sources, [Stated(np.float32, (1, 2, 2, 1))], options)
    with pytest.raises(ModelError, match="integer bias"):
        parse(data)


@pytest.mark.parametrize("changed", [{"stride_h": 0}, {"stride_w": -1}, {"dilation_h_factor": 0}, {"padding": 7}])
@pytest.mark.parametrize("operator", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_hostile_windows(operator: str, changed: dict[str, int]) -> None:
    options = {"padding": 1, "stride_h": 1, "stride_w": 1} | changed
    data, _ = made(operator, [floats(1, 4, 4, 1), constant(floats(1, 2, 2, 1))], [Stated(np.float32, (1, 3, 3, 1))], options)
    with pytest.raises(DovetailError):
        parse(data)


@pytest.mark.parametrize(
    ("same", "strides", "dilations", "sizes"),
    [
        (True, (2, 1, 2), (1, 1, 1), (3, 4, 5)),
        (True, (3, 2, 1), (2, 1, 1), (5, 3, 2)),
        (False, (1, 2, 3), (1, 1, 2), (6, 5, 9)),
        (False, (2, 1, 1), (2, 2, 1), (7, 4, 4)),
    ],
)
@pytest.mark.parametrize("with_bias", [True, False])
def test_transposed_volumes(
    same: bool, strides: tuple[int, ...], dilations: tuple[int, ...], sizes: tuple[int, ...], with_bias: bool
) -> None:
    """Each element of the input adds the filters to the result."""
    kernel = (2, 2, 3)
    placed = [bounds(*one, same) for one in zip(sizes, kernel, strides, dilations, strict=True)]
    x, weights, bias = floats(2, *(count for count, _ in placed), 3), floats(*kernel, 4, 3), floats(4)
    expected = np.zeros((2, *sizes, 4))
    for place in np.ndindex(x.shape[1:4]):
        for tap in np.ndindex(kernel):
            at = [
                p * stride + t * dilation - before
                for p, t, stride, dilation, (_, before) in zip(place, tap, strides, dilations, placed, strict=True)
            ]
            if all(0 <= position < size for position, size in zip(at, sizes, strict=True)):
                expected[(slice(None), *at)] += x[(slice(None), *place)].astype(np.float64) @ weights[tap].T
    expected = np.maximum(expected + bias if with_bias else expected, 0)
    options = {"padding": 0 if same else 1, "fused_activation_function": 1}
    for axis, stride, dilation in zip("dhw", strides, dilations, strict=True):
        options[f"stride_{axis}"], options[f"dilation_{axis}_factor"] = stride, dilation
    sources = [constant(np.asarray(expected.shape, np.int32)), constant(weights), x, *([constant(bias)] if with_bias else [])]
    (found,) = run("CONV_3D_TRANSPOSE", sources, [Stated(np.float32, expected.shape)], options)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "options", "said"),
    [
        ((1 << 20, 1, 1, 1, 1), {}, "1048576 slices"),
        ((2, 2, 2, 1, 3), {}, "see 3 of 1 channels"),
        ((2, 2, 2, 1, 1), {"stride_d": 0}, "strides"),
        ((2, 2, 2, 1), {}, "five axes"),
    ],
)
def test_hostile_transposed_volumes(shape: tuple[int, ...], options: dict[str, int], said: str) -> None:
    plain = {"padding": 1} | {
        f"{name}_{axis}{end}": 1 for name, end in (("stride", ""), ("dilation", "_factor")) for axis in "dhw"
    }
    sources = [constant(np.asarray([1, 3, 3, 3, 1], np.int32)), Held(np.zeros(shape, np.float32)), floats(1, 2, 2, 2, 1)]
    data, _ = made("CONV_3D_TRANSPOSE", sources, [Stated(np.float32, (1, 3, 3, 3, 1))], plain | options)
    with pytest.raises(ModelError, match=said):
        parse(data)


# -- words of 16 bits ------------------------------------------------------------------------------


def scaled_words(total: Array, factor: float, *, narrow: bool) -> Array:
    """Multiply sums as MultiplyByQuantizedMultiplier does, in whole numbers of any size.

    Sums of 64 bits keep 15 bits of the multiplier, and ties go up; those of 32 bits keep 31, and
    are rounded twice, ties away from zero.
    """
    fraction, shift = np.frexp(np.float64(factor))
    multiplier, shift, found = int(np.floor(fraction * 2**31 + 0.5)), int(shift), []
    for one in total.reshape(-1).tolist():
        if narrow:
            high = (one * multiplier + (1 << 30)) >> 31
            half = (1 << -shift) >> 1
            value = (high + half) >> -shift if high >= 0 else -((-high + half) >> -shift)
        else:
            short = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
            value = (one * short + (1 << (14 - shift))) >> (15 - shift)
        found.append(value)
    return np.asarray(found).reshape(total.shape)


def summed_words(x: Array, weights: Array) -> Array:
    """Convolve [N, H, W, C] with [O, h, w, C], without padding, in integers."""
    n, height, width, _ = x.shape
    filters, rows, columns, _ = weights.shape
    found = np.zeros((n, height - rows + 1, width - columns + 1, filters), np.int64)
    for y, z in np.ndindex(rows, columns):
        part = x[:, y : y + found.shape[1], z : z + found.shape[2]].astype(np.int64)
        found += part @ weights[:, y, z].astype(np.int64).T
    return found


@pytest.mark.parametrize("bias_type", [np.int64, np.int32])
@pytest.mark.parametrize("code", [0, 1, 3])
def test_words_are_convolved_in_integers(code: int, bias_type: type) -> None:
    x, weights = (
        RNG.integers(-32768, 32768, (1, 6, 5, 8)).astype(np.int16),
        RNG.integers(-127, 128, (4, 3, 2, 8)).astype(np.int8),
    )
    mine, theirs = 0.0003, float(np.float32(0.08))
    scales = [float(np.float32(one)) for one in (0.004, 0.0071, 0.0099, 0.0005)]
    bias = RNG.integers(-4000, 4000, 4).astype(bias_type)
    total = summed_words(x, weights) + bias
    mine = float(np.float32(mine))
    columns = [
        scaled_words(total[..., i], mine * scale / theirs, narrow=bias_type is np.int32) for i, scale in enumerate(scales)
    ]
    low, high = {0: (-32768, 32767), 1: (0, 32767), 3: (0, round(6 / theirs))}[code]
    options = {"padding": 1, "stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    sources = [
        Held(x, (mine, 0)),
        constant(weights, (scales, [0] * 4, 0)),
        constant(bias, ([mine * scale for scale in scales], [0] * 4, 0)),
    ]
    stated = Stated(np.int16, (1, 4, 4, 4), (theirs, 0))
    (found,) = run("CONV_2D", sources, [stated], options | {"fused_activation_function": code}, version=8)
    np.testing.assert_array_equal(found, np.clip(np.stack(columns, -1), low, high))


@pytest.mark.parametrize("factor", [0.5, 0.75, 2.0**-4])
def test_ties_of_words_go_up(factor: float) -> None:
    """In a depthwise convolution of one pixel, whose sums are what is given."""
    x = np.arange(-48, 48).reshape(1, 12, 8, 1).astype(np.int16)
    sources = [Held(x, (1.0, 0)), constant(np.ones((1, 1, 1, 1), np.int8), (1.0, 0)), constant(np.zeros(1, np.int64), (1.0, 0))]
    options = {"padding": 1, "stride_h": 1, "stride_w": 1, "depth_multiplier": 1, "fused_activation_function": 0}
    options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
    stated = Stated(np.int16, x.shape, (1 / factor, 0))
    (found,) = run("DEPTHWISE_CONV_2D", sources, [stated], options, version=5)
    np.testing.assert_array_equal(found, np.floor(x * factor + 0.5))


def test_words_of_a_transposed_convolution() -> None:
    """Its stride is the size of its filters, so that each result is of one pixel."""
    x, weights = (
        RNG.integers(-32768, 32768, (1, 3, 4, 5)).astype(np.int16),
        RNG.integers(-127, 128, (2, 2, 2, 5)).astype(np.int8),
    )
    mine, scale, theirs = (float(np.float32(one)) for one in (0.0003, 0.006, 0.0007))
    total = np.einsum("nhwc,oyxc->nhywxo", x.astype(np.int64), weights.astype(np.int64)).reshape(1, 6, 8, 2)
    sources = [constant(np.asarray([1, 6, 8, 2], np.int32)), constant(weights, (scale, 0)), Held(x, (mine, 0))]
    options = {"padding": 1, "stride_h": 2, "stride_w": 2}
    stated = Stated(np.int16, (1, 6, 8, 2), (theirs, 0))
    (found,) = run("TRANSPOSE_CONV", sources, [stated], options, version=4)
    expected = scaled_words(total, mine * scale / theirs, narrow=False)
    np.testing.assert_array_equal(found, np.clip(expected, -32768, 32767))
    assert np.abs(expected - np.rint(total * (mine * scale / theirs))).max() == 1  # 15 bits are not all
