"""ElementwiseUnary: functions of one element, tests for NaN and infinities, logic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import ElementwiseUnary, UnaryOperation

from ..cases import EXACT, Array, Case, Feed, Parameters, Tolerance
from ..references import samples
from ..references.fused import erf
from ..references.moving import any_type_operator
from ..references.precision import units
from ..references.quantized_elementwise import ONE_QUANTUM, quantized, real
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case
from ..references.standards import correctly_rounded


@dataclass(frozen=True, slots=True)
class Function:
    """A function of real numbers and how exactly it is computed.

    Attributes:
        of: In float64.
        low, high: Interval of plain arguments.
        single: Units in the last place that are allowed; 0 if the result is a number of the type.
        half: The same for 16-bit floats.
        around: Units of 1.0 besides, near zeros of the function.
    """

    of: Callable[[Array], Array]
    low: float = -4.0
    high: float = 4.0
    single: float = 0.0
    half: float = 0.0
    around: float = 0.0

    def tolerance(self, dtype: DType) -> Tolerance:
        """Allow OpenCL C's error, and the rounding of an argument reduced to a function's zero."""
        count = self.half if dtype.bits == 16 else self.single
        if not count:
            return EXACT
        zeros = f"; near a zero of the function {self.around:g} units of 1.0, for a reduced argument or a difference"
        reason = f"OpenCL C, 'Relative Error as ULPs': {count:g} units{zeros if self.around else ''}"
        return units(dtype, count, reason, around=self.around)


FUNCTIONS: Mapping[UnaryOperation, Function] = {
    UnaryOperation.ABS: Function(np.abs),
    UnaryOperation.NEG: Function(np.negative),
    UnaryOperation.SQRT: Function(np.sqrt, 0.0, 20.0, 3, 2),
    UnaryOperation.RSQRT: Function(lambda x: 1 / np.sqrt(x), 0.05, 20.0, 2, 2),
    UnaryOperation.RECIPROCAL: Function(lambda x: 1 / x, 0.1, 8.0, 2.5, 2),
    UnaryOperation.EXP: Function(np.exp, -5.0, 5.0, 3, 3),
    UnaryOperation.LOG: Function(np.log, 0.05, 20.0, 3, 3, 2),
    UnaryOperation.ERF: Function(erf, -3.0, 3.0, 16, 4, 4),
    UnaryOperation.SIN: Function(np.sin, -6.0, 6.0, 4, 3, 4),
    UnaryOperation.COS: Function(np.cos, -6.0, 6.0, 4, 3, 4),
    UnaryOperation.TAN: Function(np.tan, -1.25, 1.25, 5, 4, 2),
    UnaryOperation.ASIN: Function(np.arcsin, -1.0, 1.0, 4, 3, 4),
    UnaryOperation.ACOS: Function(np.arccos, -1.0, 1.0, 4, 3, 4),
    UnaryOperation.ATAN: Function(np.arctan, -8.0, 8.0, 5, 3, 2),
    UnaryOperation.SINH: Function(np.sinh, -4.0, 4.0, 4, 3, 4),
    UnaryOperation.COSH: Function(np.cosh, -4.0, 4.0, 4, 3),
    UnaryOperation.ASINH: Function(np.arcsinh, -8.0, 8.0, 4, 3, 4),
    UnaryOperation.ACOSH: Function(np.arccosh, 1.25, 8.0, 4, 3, 4),
    UnaryOperation.ATANH: Function(np.arctanh, -0.875, 0.875, 5, 4, 4),
    UnaryOperation.FLOOR: Function(np.floor),
    UnaryOperation.CEIL: Function(np.ceil),
    UnaryOperation.ROUND: Function(np.rint),
    UnaryOperation.SIGN: Function(np.sign),
}
_TO_BOOL: Mapping[UnaryOperation, Callable[[Array], Array]] = {
    UnaryOperation.IS_NAN: np.isnan,
    UnaryOperation.IS_INF: np.isinf,
    UnaryOperation.IS_POSITIVE_INF: np.isposinf,
    UnaryOperation.IS_NEGATIVE_INF: np.isneginf,
}
_ON_INTEGERS: Mapping[UnaryOperation, Callable[[Array], Array]] = {
    UnaryOperation.ABS: np.abs,
    UnaryOperation.NEG: np.negative,
    UnaryOperation.SIGN: np.sign,
    UnaryOperation.FLOOR: np.array,
    UnaryOperation.CEIL: np.array,
    UnaryOperation.ROUND: np.array,
    UnaryOperation.BITWISE_NOT: np.invert,
}
_SINGLE = (UnaryOperation.SQRT, UnaryOperation.RECIPROCAL)
"""Operations of IEEE 754, which round once."""
_SPECIAL = (np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5)
"""Results by C's Annex F; no negative zero, whose reciprocal root differs between libraries."""


def _floats(operation: UnaryOperation, dtype: DType, shape: tuple[int, ...], values: str, rng: np.random.Generator) -> Array:
    function = FUNCTIONS.get(operation, Function(np.abs))
    plain = samples.uniform(dtype, shape, rng, function.low, function.high)
    if values == "plain" and operation in FUNCTIONS:
        return plain
    # C's Annex F has no sign function; what it gives for NaN is open.
    return samples.led_by(samples.stored(_SPECIAL[operation is UnaryOperation.SIGN :], dtype), plain)


def _make_quantized(operation: UnaryOperation, dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Case | None:
    if dtype not in (DType.INT8, DType.UINT8) or operation not in FUNCTIONS:
        return None
    function, (minimum, maximum) = FUNCTIONS[operation], samples.limits(dtype)
    middle = (minimum + maximum + 1) // 2
    # Every integer times the first scale is exact: none is next to a jump of the function.
    zero = middle - int(16 * (function.low + function.high))
    given = Quantization.per_tensor(2.0**-5, max(minimum, min(maximum, zero)))
    result = Quantization.per_tensor(float(np.float32(0.05)), middle - 30)
    least, most = (int(32 * bound) + given.zero_point[0] for bound in (function.low, function.high))
    x = samples.whole(dtype, shape, rng, max(minimum, least), min(maximum, most))
    expected = quantized(function.of(real(x, given)), result, dtype)
    feed = Feed(x, dtype=dtype, quantization=given)
    return layer_case(ElementwiseUnary(operation=operation), [feed], expected, tolerance=ONE_QUANTUM, quantization=result)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    operation, shape, values = UnaryOperation(parameters["operation"]), shape_of(parameters), parameters["values"]
    if shape is None or (values != "plain" and not dtype.is_float):
        return None
    if parameters["quantization"] is not None:
        return _make_quantized(operation, dtype, shape, rng) if values == "plain" else None
    descriptor, tolerance = ElementwiseUnary(operation=operation), EXACT
    if dtype.is_float and (operation in FUNCTIONS or operation in _TO_BOOL):
        x = _floats(operation, dtype, shape, values, rng)
        if operation in FUNCTIONS:
            tolerance = FUNCTIONS[operation].tolerance(dtype)
        with np.errstate(all="ignore"):
            expected = (_TO_BOOL[operation] if operation in _TO_BOOL else FUNCTIONS[operation].of)(samples.reals(x, dtype))
    elif dtype.is_integer and operation in _ON_INTEGERS:
        minimum, maximum = samples.limits(dtype)
        # The least number has no opposite of its type; what abs and neg give for it is open.
        x = samples.whole(dtype, shape, rng, minimum + dtype.is_signed, maximum)
        expected = _ON_INTEGERS[operation](x)
    elif dtype is DType.BOOL and operation is UnaryOperation.LOGICAL_NOT:
        x = samples.truth(shape, rng)
        expected = np.logical_not(x)
    else:
        return None
    bits = correctly_rounded(np.asarray(expected)) if dtype.is_float and operation in _SINGLE else None
    return layer_case(descriptor, [Feed(x, dtype=dtype)], np.asarray(expected), tolerance=tolerance, bits=bits)


OPERATOR = any_type_operator(
    "ElementwiseUnary",
    _make,
    {
        "operation": tuple(UnaryOperation),
        **SIZES,
        "values": ("plain", "special"),
        "quantization": (None, "scaled"),
    },
    quantities=quantities_of("input", "output"),
    together=[
        *({"operation": operation, "values": "special"} for operation in tuple(FUNCTIONS)[1:]),
        *({"operation": operation, "quantization": "scaled"} for operation in tuple(FUNCTIONS)[1:]),
        *({"operation": UnaryOperation.EXP, "rank": rank} for rank in (0, 1, 6)),
        *({"operation": UnaryOperation.EXP, "channels": size} for size in (0, 1, 7, 17)),
        *({"operation": UnaryOperation.LOGICAL_NOT, "rank": rank} for rank in (0, 1, 6)),
        *({"operation": UnaryOperation.LOGICAL_NOT, "channels": size} for size in (0, 1, 7, 17)),
    ],
)
