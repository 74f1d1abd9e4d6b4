"""Integer arithmetic of operations of the NPU, which the simulator is compared with."""

import math

import numpy as np

from dovetail_npu_vsi import program as p


def single(value):
    """A number as the device has it."""
    return float(np.float32(value))


def real(tensor, q):
    return single(tensor.scale) * (q.astype(np.int64) - tensor.zero_point)


def quantized(tensor, x, low=None, high=None):
    """Round half to even, and clamp."""
    least, most = tensor.limits
    q = np.rint(x / single(tensor.scale)) + tensor.zero_point
    return np.clip(q, least if low is None else low, most if high is None else high).astype(tensor.dtype)


def centered(weights):
    zero_points = np.broadcast_to(weights.zero_point, weights.values.shape[:1])
    return weights.values.astype(np.int64) - zero_points.reshape(-1, *[1] * (weights.values.ndim - 1))


def factors(weights, x):
    scales = np.broadcast_to(np.asarray(weights.scale, np.float32).astype(np.float64), weights.values.shape[:1])
    return single(x.scale) * scales


def convolved(operation, tensors, q):
    x, y = tensors
    (top, left, bottom, right), (down, across), (dy, dx) = operation.padding, operation.stride, operation.dilation
    q = np.pad(q.astype(np.int64) - x.zero_point, ((0, 0), (0, 0), (top, bottom), (left, right)))
    w = centered(operation.weights)
    sums = np.zeros(y.shape, np.int64) + operation.weights.bias[:, None, None]
    channels, size = len(w), w.shape[1]
    for o in range(channels):
        group = o * operation.groups // channels
        part = q[:, group * size : (group + 1) * size]
        for i, j in np.ndindex(*w.shape[2:]):
            window = part[:, :, i * dy :: down, j * dx :: across][:, :, : y.shape[2], : y.shape[3]]
            sums[:, o] += np.einsum("nchw,c->nhw", window, w[o, :, i, j])
    return quantized(y, sums * factors(operation.weights, x)[:, None, None], operation.low, operation.high)


def connected(operation, tensors, q):
    x, y = tensors
    sums = (q.astype(np.int64) - x.zero_point) @ centered(operation.weights).T + operation.weights.bias
    return quantized(y, sums * factors(operation.weights, x), operation.low, operation.high)


def pooled(operation, tensors, q):
    x, y = tensors
    (top, left, bottom, right), (down, across) = operation.padding, operation.stride
    border = ((0, 0), (0, 0), (top, bottom), (left, right))
    is_max = operation.function == "max"
    values = np.pad(real(x, q), border, constant_values=-math.inf if is_max else 0)
    ones = np.pad(np.ones(x.shape), border)
    windows = [
        (values[rows], ones[rows])
        for i, j in np.ndindex(*operation.size)
        for rows in [np.s_[:, :, i : i + down * (y.shape[2] - 1) + 1 : down, j : j + across * (y.shape[3] - 1) + 1 : across]]
    ]
    if is_max:
        result = np.max([window for window, _ in windows], axis=0)
    else:
        counts = len(windows) if operation.count_padding else sum(count for _, count in windows)
        result = sum(window for window, _ in windows) / counts
    return quantized(y, result, operation.low, operation.high)


def combined(operation, tensors, *qs):
    function = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}[operation.function]
    inputs = [real(tensor, q) for tensor, q in zip(tensors, qs, strict=False)]
    return quantized(tensors[-1], function(*inputs), operation.low, operation.high)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "linear": lambda x, alpha, beta: alpha * x + beta,
    "relu": lambda x, alpha, beta: np.maximum(x, 0),
    "bounded_relu": lambda x, alpha, beta: np.clip(x, beta, alpha),
    "leaky_relu": lambda x, alpha, beta: np.where(x >= 0, x, alpha * x),
    "elu": lambda x, alpha, beta: np.where(x >= 0, x, alpha * np.expm1(x)),
    "selu": lambda x, alpha, beta: beta * np.where(x > 0, x, alpha * np.expm1(x)),
    "celu": lambda x, alpha, beta: np.maximum(0, x) + np.minimum(0, alpha * np.expm1(x / alpha)),
    "sigmoid": lambda x, alpha, beta: sigmoid(x),
    "tanh": lambda x, alpha, beta: np.tanh(x),
    "hard_sigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "hard_swish": lambda x, alpha, beta: x * np.clip(x / 6 + 0.5, 0, 1),
    "swish": lambda x, alpha, beta: x * sigmoid(alpha * x),
    "gelu": lambda x, alpha, beta: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "gelu_tanh": lambda x, alpha, beta: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "softplus": lambda x, alpha, beta: np.log1p(np.exp(x)),
    "softsign": lambda x, alpha, beta: x / (1 + np.abs(x)),
    "mish": lambda x, alpha, beta: x * np.tanh(np.log1p(np.exp(x))),
}


def applied(operation, tensors, q):
    x, y = tensors
    return quantized(y, FUNCTIONS[operation.function](real(x, q), operation.alpha, operation.beta))


def softened(operation, tensors, q):
    x, y = tensors
    powers = np.exp(operation.beta * real(x, q))
    return quantized(y, powers / powers.sum(operation.axis, keepdims=True))


def places(operation, before, after):
    """Where the pixels of one axis come from."""
    at = np.arange(after)
    if operation.align_corners and after > 1:
        return at * (before - 1) / (after - 1)
    return (at + 0.5) * before / after - 0.5 if operation.half_pixel else at * before / after


def resized(operation, tensors, q):
    x, y = tensors
    values = real(x, q)
    for axis in (2, 3):
        size = x.shape[axis]
        at = places(operation, size, y.shape[axis])
        if operation.mode == "nearest":
            at = np.floor(at + 0.5) if operation.align_corners or operation.half_pixel else np.floor(at)
            values = np.take(values, np.clip(at, 0, size - 1).astype(int), axis)
            continue
        at = np.clip(at, 0, size - 1)
        first = np.floor(at).astype(int)
        share = (at - first).reshape(-1, 1) if axis == 2 else at - first
        after = np.take(values, np.minimum(first + 1, size - 1), axis)
        values = np.take(values, first, axis) * (1 - share) + after * share
    return quantized(y, values)


EXPECTED = {
    p.Convolution: convolved,
    p.FullyConnected: connected,
    p.Pooling: pooled,
    p.Binary: combined,
    p.Function: applied,
    p.Requantize: lambda operation, t, q: quantized(t[1], real(t[0], q), operation.low, operation.high),
    p.Softmax: softened,
    p.Concat: lambda operation, t, *qs: np.concatenate(
        [quantized(t[-1], real(tensor, q)) for tensor, q in zip(t, qs, strict=False)], operation.axis
    ),
    p.Pad: lambda operation, t, q: np.pad(
        quantized(t[1], real(t[0], q)),
        list(zip(operation.before, operation.after, strict=True)),
        constant_values=operation.value,
    ),
    p.Permute: lambda operation, t, q: q.transpose(operation.order),
    p.Reshape: lambda operation, t, q: q.reshape(t[1].shape),
    p.Resize: resized,
}


# -- programs of one operation -------------------------------------------------------------------
