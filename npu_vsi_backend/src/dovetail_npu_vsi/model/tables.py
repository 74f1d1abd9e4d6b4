"""What functions of one element make of each byte, and the factors of sums and products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ..program import Function, Tensor
from .arithmetic import Reals, tensor_float

Table = npt.NDArray[np.uint8]


def requantized(x: Tensor, y: Tensor, low: int, high: int) -> Table:
    """Return what each byte of one tensor is under the quantization of another, within bounds.

    The tensor processor computes it, in floats of 15 bits, and adds the zero point before it rounds
    to an integer: ties go to the even stored integer.
    """
    return _stored(_distances(x) * _ratio(x, y), y, low, high)


def function(operation: Function, x: Tensor, y: Tensor) -> Table:
    """Return what a function of one element makes of each byte.

    The tensor processor has the function at some integers, and interpolates between them.
    """
    if operation.function == "leaky_relu":
        distance = _distances(x)
        slope = tensor_float(float(np.float32(operation.alpha)))
        bent = np.where(distance < 0, tensor_float(distance * slope), distance)
        return _stored(bent * _ratio(x, y), y, 0, 255)
    values = _interpolated(operation, x)
    reciprocal = tensor_float(float(np.float32(1.0) / np.float32(y.scale)))
    return _stored(values * reciprocal, y, 0, 255)


def _distances(x: Tensor) -> Reals:
    return np.arange(256.0) - x.zero_point


def _ratio(x: Tensor, y: Tensor) -> Reals:
    return tensor_float(float(np.float32(x.scale) / np.float32(y.scale)))


def _stored(steps: Reals, y: Tensor, low: int, high: int) -> Table:
    """Return reals, in steps of a tensor, as its integers."""
    rounded = np.rint(tensor_float(tensor_float(steps) + y.zero_point))
    return np.clip(np.where(np.isnan(rounded), y.zero_point, rounded), low, high).astype(np.uint8)


def _interpolated(operation: Function, x: Tensor) -> Reals:
    """Return a function of each byte, between the knots of its table.

    The table is known by the sign, the exponent and the first bits of the integer's distance from
    the zero point, as a float: all integers up to 32 are knots, then every second, fourth, eighth.
    That of tanh serves both signs, and has a bit more.
    """
    bits = 5 if operation.function == "tanh" else 4
    distance = _distances(x)
    size = np.abs(distance)
    step = np.where(size > 0, 2.0 ** (np.floor(np.log2(np.maximum(size, 1.0))) - bits), 1.0)
    below = np.floor(size / step) * step
    above = np.where(size > 0, below + step, 0.0)
    share = (size - below) / step
    scale, sign = float(np.float32(x.scale)), np.sign(distance)
    real = _FUNCTIONS[operation.function]
    first, last = (tensor_float(real(sign * knot * scale, operation)) for knot in (below, above))
    between = tensor_float(tensor_float(first * (1.0 - share)) + tensor_float(last * share))
    return np.where(share == 0.0, first, between)


def _hard_swish(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.asarray(x * np.clip(x + np.float32(3), np.float32(0), np.float32(6)) / np.float32(6))


def _sigmoid(x: Reals) -> Reals:
    with np.errstate(over="ignore"):  # far below zero it is 0
        return np.asarray(1.0 / (1.0 + np.exp(-x)))


_FUNCTIONS: dict[str, Callable[[Reals, Function], Reals]] = {
    "sigmoid": lambda x, _: _sigmoid(x),
    "tanh": lambda x, _: np.tanh(x),
    "swish": lambda x, _: x * _sigmoid(x),
    "hard_swish": lambda x, _: _hard_swish(x.astype(np.float32)).astype(np.float64),
    "hard_sigmoid": lambda x, f: np.clip(f.alpha * x + f.beta, 0.0, 1.0),
}
"""In real numbers, by the names of `dovetail.ActivationFunction`."""


def exponentials(x: Tensor, beta: float) -> npt.NDArray[np.float64]:
    """Return exp(-beta * scale * distance) for the distances of a byte from the greatest one."""
    return np.exp(-np.arange(256.0) * float(np.float32(x.scale)) * float(np.float32(beta)))


def product_factors(a: Tensor, b: Tensor, y: Tensor) -> npt.NDArray[np.float32]:
    """Return the factor of products, and what is added to them: the product of both zero points."""
    f32 = np.float32
    factor = f32(f32(a.scale) * f32(b.scale)) * f32(f32(1.0) / f32(y.scale))
    rest = f32(f32(f32(a.zero_point) * factor) * f32(b.zero_point)) + f32(y.zero_point)
    return np.array([factor, rest], np.float32)


def sum_factors(a: Tensor, b: Tensor, y: Tensor, sign: float) -> npt.NDArray[np.float32]:
    """Return the factors of both summands, the second with its sign."""
    reciprocal = np.float32(1.0) / np.float32(y.scale)
    return np.array([np.float32(a.scale) * reciprocal, np.float32(sign) * (np.float32(b.scale) * reciprocal)], np.float32)
