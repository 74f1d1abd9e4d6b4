"""Lower softmax of quantized tensors: rows of bytes, and tables of exponentials.

In steps of 1/256 from the least integer on it is what TensorFlow Lite's reference kernel gives, in
fixed point. Results of any other scale are those of real numbers.

Sources: tensorflow/lite/kernels/internal/reference/softmax.h, quantization_util.cc
(PreprocessSoftmaxScaling, CalculateInputRadius), gemmlowp/fixedpoint (exp_on_negative_values).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import Layer, TensorInfo
from dovetail.layers import Permute, Softmax
from dovetail.quantized.fixed_point import scaling

from ..fusion.lowering import Lowering
from .kinds import SoftmaxQuantized
from .support import scheme

_Whole = npt.NDArray[np.int64]
_POWERS_OF_E = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""e^-(2^(i - 2)), in multiples of 2^-31."""


def lower_softmax(lowering: Lowering, layer: Layer) -> bool:
    """Make softmax of bytes; its axis becomes the last one."""
    source, descriptor, info = layer.inputs[0].source, layer.descriptor, layer.output.known_info
    if not isinstance(descriptor, Softmax) or source is None:
        return False
    plain, rank = lowering.plain(source), info.rank
    order = [axis for axis in range(rank) if axis != descriptor.axis % rank] + [descriptor.axis % rank]
    moves = math.prod(info.sizes[descriptor.axis % rank + 1 :]) != 1
    if moves:
        plain = lowering.emit(Permute(permutation=tuple(order)), [plain], [layer], f"{layer.name}.rows").output
    else:
        order = list(range(rank))
    made = lowering.emit(_softmax(layer, descriptor, plain.known_info.sizes), [plain], [layer]).output
    if moves:
        back = tuple(int(axis) for axis in np.argsort(order))
        made = lowering.emit(Permute(permutation=back), [made], [layer], f"{layer.name}.back").output
    lowering.define(layer.output, made)
    return True


def _softmax(layer: Layer, descriptor: Softmax, sizes: tuple[int, ...]) -> SoftmaxQuantized:
    info, mine, theirs = layer.output.known_info, scheme(layer.inputs[0].source), scheme(layer.output)
    factor = mine.scale[0] * abs(descriptor.beta)
    step, zero = theirs.scale[0], theirs.zero_point[0]
    shared: dict[str, Any] = {"infos": (TensorInfo(sizes, info.dtype, theirs),), "step": step, "zero": zero}
    shared["falls"] = descriptor.beta < 0
    scaled = min(factor * (1 << 26), 2.0**31 - 1)
    if step == 1 / 256 and zero == (-128 if info.dtype.is_signed else 0) and scaled > 1:
        powers = _fixed_powers(scaled)
        return SoftmaxQuantized(terms=tuple(_shifted(powers, 12).tolist()), powers=tuple(powers.tolist()), **shared)
    terms = (round(math.ldexp(math.exp(-factor * distance), 30)) for distance in range(1, 256))
    return SoftmaxQuantized(terms=(1 << 30, *terms), powers=(), **shared)


# --- fixed point ----------------------------------------------------------------------------------


def _fixed_powers(factor: float) -> _Whole:
    """Return e^(-factor * 2^-26 * i) for each byte i, in multiples of 2^-31.

    Where the exponent does not fit five integer bits, it is zero.
    """
    by = scaling(factor)
    distances = np.arange(256, dtype=np.int64)
    fits = distances <= (31 << 26) >> by.shift
    x = _product(-np.where(fits, distances, 0) << by.shift, by.multiplier)
    quarter = 1 << 24
    rest = (x & (quarter - 1)) - quarter
    found = _near_zero((rest << 5) + (1 << 28))
    for bit, power in enumerate(_POWERS_OF_E):
        found = np.where((rest - x) & (quarter << bit), _product(found, power), found)
    return np.where(fits, np.where(x == 0, (1 << 31) - 1, found), 0)


def _near_zero(t: _Whole) -> _Whole:
    """Return e^(t - 1/8) for |t| <= 1/8, in multiples of 2^-31, as a series."""
    second = _product(t, t)
    third, fourth = _product(second, t), _product(second, second)
    tail = _product(_shifted(fourth, 2) + third, 715827883) + second
    around: _Whole = 1895147668 + _product(t + _shifted(tail, 1), 1895147668)
    return around


def _product(a: _Whole, b: _Whole | int) -> _Whole:
    """a * b in multiples of 2^-31, rounded to nearest, halves up."""
    found: _Whole = (a * b + (1 << 30)) >> 31
    return found


def _shifted(x: _Whole, exponent: int) -> _Whole:
    """x / 2^exponent, rounded to nearest, halves away from zero."""
    found: _Whole = (x + (1 << (exponent - 1)) - (x < 0)) >> exponent
    return found
