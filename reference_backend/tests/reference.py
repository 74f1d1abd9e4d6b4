"""Define the compute-heavy kinds independently, in NumPy and float64 (or exact integers).

They use none of our own code. Images are NCHW here; tests transpose for NHWC.
"""

from __future__ import annotations

import math

import numpy as np


def convolution(x, weights, bias=None, *, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1):
    """x [N, C, H, W], weights [O, C / groups, h, w]; sums in the dtype given."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    filters, per_group, kh, kw = weights.shape
    oh = (x.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (x.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    y = np.zeros((x.shape[0], filters, oh, ow), x.dtype)
    each = filters // groups
    for g in range(groups):
        channels, rows = slice(g * per_group, (g + 1) * per_group), slice(g * each, (g + 1) * each)
        for i in range(kh):
            for j in range(kw):
                at_y, at_x = i * dilation[0], j * dilation[1]
                patch = x[:, channels, at_y : at_y + (oh - 1) * stride[0] + 1, at_x : at_x + (ow - 1) * stride[1] + 1]
                y[:, rows] += np.einsum("nchw,oc->nohw", patch[:, :, :: stride[0], :: stride[1]], weights[rows, :, i, j])
    return y if bias is None else y + bias[None, :, None, None]


def transpose_convolution(
    x, weights, bias=None, *, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), output_padding=(0, 0), groups=1
):
    """x [N, C, H, W], weights [C, O / groups, h, w]: scatter every input element, then crop."""
    n, c, h, w = x.shape
    _, each, kh, kw = weights.shape
    top, left, bottom, right = padding
    full_h = stride[0] * (h - 1) + dilation[0] * (kh - 1) + 1 + output_padding[0]
    full_w = stride[1] * (w - 1) + dilation[1] * (kw - 1) + 1 + output_padding[1]
    y = np.zeros((n, each * groups, full_h, full_w), x.dtype)
    for channel in range(c):
        g = channel // (c // groups)
        for yy in range(h):
            for xx in range(w):
                at_y, at_x = yy * stride[0], xx * stride[1]
                window = y[:, g * each : (g + 1) * each, at_y : at_y + dilation[0] * (kh - 1) + 1 : dilation[0]]
                window = window[..., at_x : at_x + dilation[1] * (kw - 1) + 1 : dilation[1]]
                window += x[:, channel, yy, xx][:, None, None, None] * weights[channel][None]
    y = y[:, :, top : full_h - bottom, left : full_w - right]
    return y if bias is None else y + bias[None, :, None, None]


def multiply_by_quantized_multiplier(x, factor):
    """TensorFlow Lite's fixed-point scaling, in Python integers, element by element."""
    mantissa, exponent = math.frexp(factor)
    multiplier = math.floor(mantissa * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier, exponent = multiplier // 2, exponent + 1

    def one(value):
        shifted = int(value) << max(exponent, 0)
        product = shifted * multiplier
        nudged = product + (2**30 if product >= 0 else 1 - 2**30)
        high = abs(nudged) // 2**31 * (1 if nudged >= 0 else -1)
        right = max(-exponent, 0)
        if right == 0:
            return high
        quotient, remainder = abs(high) >> right, abs(high) & ((1 << right) - 1)
        rounded = quotient + (1 if remainder >= 1 << (right - 1) else 0)  # ties away from zero
        return rounded if high >= 0 else -rounded

    return np.vectorize(one, otypes=[np.int64])(x)


def multiply_by_real(x, factor):
    """Scale in double, halves away from zero, as LiteRT's reference fully connected kernel does."""
    product = x * factor
    return (np.sign(product) * np.floor(np.abs(product) + 0.5)).astype(np.int64)


def product_scale(x, weights, *, single):
    """Scale of a product of two float32 scales, multiplied in float32 or in float64."""
    return float(np.float32(x) * np.float32(weights)) if single else float(np.float32(x)) * float(np.float32(weights))


def requantized(sums, factors, zero_point, low, high, axis=1, *, multiply=multiply_by_quantized_multiplier):
    """Scale int sums by a factor per index of `axis`, add the zero point and clamp."""
    slices = [
        multiply(np.take(sums, i, axis=axis), factor) if sums.size else np.take(sums, i, axis=axis)
        for i, factor in enumerate(factors)
    ]
    return np.clip(np.stack(slices, axis=axis) + zero_point, low, high)


def activation(name, x, alpha=0.0, beta=0.0):
    """A few activations that layers fuse."""
    functions = {
        None: lambda: x,
        "relu": lambda: np.maximum(x, 0),
        "bounded_relu": lambda: np.minimum(alpha, np.maximum(beta, x)),
        "leaky_relu": lambda: np.where(x >= 0, x, alpha * x),
        "sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "tanh": lambda: np.tanh(x),
        "hard_swish": lambda: x * np.clip(x / 6 + 0.5, 0, 1),
        "elu": lambda: np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0))),
        "swish": lambda: x / (1 + np.exp(-alpha * x)),
        "gelu": lambda: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
        "gelu_tanh": lambda: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "hard_sigmoid": lambda: np.clip(alpha * x + beta, 0, 1),
    }
    return functions[name]()


# Allowed difference, relative to the greatest magnitude: the one rounding at the end, and for
# float64 the rounding of each sum.
RELATIVE = {"float64": 1e-12, "float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}


def assert_close(got, wanted, dtype=None, scale=1.0):
    """Compare with what float64 gives, allowing the rounding of the result's own type."""
    name = dtype or np.asarray(got).dtype.name
    got, wanted = np.asarray(got).astype(np.float64), np.asarray(wanted, np.float64)
    assert got.shape == wanted.shape, f"shape {got.shape}, expected {wanted.shape}"
    finite = wanted[np.isfinite(wanted)]
    minimum = {"float64": 1e-300, "float32": 1e-44, "float16": 2.0**-23, "bfloat16": 1e-38}[name]
    absolute = minimum + (1e-12 * (np.abs(finite).max() if finite.size else 0.0))
    np.testing.assert_allclose(got, wanted, rtol=RELATIVE[name] * scale, atol=absolute * scale)


BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
    "mod": np.mod,
    "fmod": np.fmod,
    "squared_difference": lambda a, b: (a - b) ** 2,
}
"""Functions of two numbers."""
