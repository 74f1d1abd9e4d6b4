"""ElementwiseBinary: arithmetic, extremes, logic, shifts of two tensors, broadcast as in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import DType, Quantization
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot
from dovetail.layers import LOGICAL_OPERATIONS, SHIFT_OPERATIONS, ActivationFunction, BinaryOperation, ElementwiseBinary

from ..cases import EXACT, Array, Bits, Case, Feed, Parameters, Tolerance
from ..references import samples
from ..references.fused import CLAMPS, PARAMETERS, activated, fused_tolerance, parameters_for
from ..references.moving import any_type_operator
from ..references.precision import units
from ..references.quantized_elementwise import ONE_QUANTUM, combined, real
from ..references.shapes import BROADCASTS, OPERAND_PAIRS, narrowed, quantities_of, shape_of
from ..references.standards import (
    correctly_rounded,
    is_power_of_two,
    litert_bits,
    litert_product,
    litert_sum,
    onnx_bits,
)

_REMAINDERS = (BinaryOperation.MOD, BinaryOperation.FMOD)
_EXTREMES = (BinaryOperation.MAXIMUM, BinaryOperation.MINIMUM)
_FOUR = (BinaryOperation.ADD, BinaryOperation.SUB, BinaryOperation.MUL, BinaryOperation.DIV)

_ON_REALS: Mapping[BinaryOperation, Callable[[Array, Array], Array]] = {
    BinaryOperation.ADD: np.add,
    BinaryOperation.SUB: np.subtract,
    BinaryOperation.MUL: np.multiply,
    BinaryOperation.DIV: np.divide,
    BinaryOperation.MAXIMUM: np.maximum,
    BinaryOperation.MINIMUM: np.minimum,
    BinaryOperation.POW: np.power,
    BinaryOperation.MOD: np.mod,
    BinaryOperation.FMOD: np.fmod,
    BinaryOperation.SQUARED_DIFFERENCE: lambda a, b: (a - b) ** 2,
}


def divided(a: int, b: int) -> int:
    """Divide, toward zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_ON_INTEGERS: Mapping[BinaryOperation, Callable[[int, int], int]] = {
    BinaryOperation.ADD: lambda a, b: a + b,
    BinaryOperation.SUB: lambda a, b: a - b,
    BinaryOperation.MUL: lambda a, b: a * b,
    BinaryOperation.DIV: divided,
    BinaryOperation.MAXIMUM: max,
    BinaryOperation.MINIMUM: min,
    BinaryOperation.POW: lambda a, b: int(a**b),
    BinaryOperation.MOD: lambda a, b: a % b,
    BinaryOperation.FMOD: lambda a, b: a - b * divided(a, b),
    BinaryOperation.SQUARED_DIFFERENCE: lambda a, b: (a - b) ** 2,
    BinaryOperation.BITWISE_AND: lambda a, b: a & b,
    BinaryOperation.BITWISE_OR: lambda a, b: a | b,
    BinaryOperation.BITWISE_XOR: lambda a, b: a ^ b,
    BinaryOperation.SHIFT_RIGHT: lambda a, b: a >> b,
}
_ON_BOOLS: Mapping[BinaryOperation, Callable[[Array, Array], Array]] = {
    BinaryOperation.LOGICAL_AND: np.logical_and,
    BinaryOperation.LOGICAL_OR: np.logical_or,
    BinaryOperation.LOGICAL_XOR: np.logical_xor,
    BinaryOperation.BITWISE_AND: np.logical_and,
    BinaryOperation.BITWISE_OR: np.logical_or,
    BinaryOperation.BITWISE_XOR: np.logical_xor,
    BinaryOperation.MAXIMUM: np.logical_or,
    BinaryOperation.MINIMUM: np.logical_and,
}
_QUANTIZED = (BinaryOperation.ADD, BinaryOperation.SUB, BinaryOperation.MUL)
_SCALES = {"scaled": (0.05, 0.02, 0.1), "saturating": (0.5, 0.003, 0.07), "alike": (0.25, 0.25, 0.25)}
"""Scales of a, b and the result; "alike" has equal zero points, too."""

_ONCE = "one rounding, which need not be to nearest: 1 unit"
_ERRORS: Mapping[BinaryOperation, tuple[float, str]] = {
    BinaryOperation.DIV: (2.5, "a reciprocal and a product, as OpenCL C allows a division: 2.5 units"),
    BinaryOperation.SQUARED_DIFFERENCE: (3.0, "a rounded difference counts twice, and its square is rounded: 3 units"),
    BinaryOperation.POW: (16.0, "OpenCL C, 'Relative Error as ULPs': pow within 16 units"),
}


def error(operation: BinaryOperation, dtype: DType) -> Tolerance:
    """Allow what a correct kernel may err by, for the values that `_operands` makes."""
    if not dtype.is_float or operation in (*_EXTREMES, *_REMAINDERS):
        return EXACT  # remainders are taken of whole quarters, whose quotients, products and differences are exact
    count, reason = _ERRORS.get(operation, (1.0, _ONCE))
    if operation is BinaryOperation.POW and dtype.bits == 16:
        count, reason = 4.0, "OpenCL C, 'Relative Error as ULPs' of half precision: pow within 4 units"
    return units(dtype, count, reason)


def _operands(
    operation: BinaryOperation, dtype: DType, shapes: Sequence[tuple[int, ...]], values: str, rng: np.random.Generator
) -> tuple[Array, Array] | None:
    """Make two operands whose result is defined."""
    first, second = shapes
    if values == "special":
        if not dtype.is_float or operation not in (*_FOUR, *_EXTREMES):
            return None
        return samples.special(dtype, first, rng), samples.special(dtype, second, rng)
    if dtype is DType.BOOL:
        return samples.truth(first, rng), samples.truth(second, rng)
    if dtype.is_float:
        return _floats(operation, dtype, first, second, rng)
    return _integers(operation, dtype, first, second, rng)


def _floats(
    operation: BinaryOperation, dtype: DType, first: tuple[int, ...], second: tuple[int, ...], rng: np.random.Generator
) -> tuple[Array, Array]:
    if operation in _REMAINDERS:
        divisor = rng.integers(1, 20, second, endpoint=True) * rng.choice([-1, 1], second)
        return samples.stored(rng.integers(-64, 64, first) / 4, dtype), samples.stored(divisor / 4, dtype)
    if operation is BinaryOperation.POW:
        return samples.uniform(dtype, first, rng, 0.25, 4.0), samples.uniform(dtype, second, rng, -3.0, 3.0)
    if operation is BinaryOperation.DIV:
        magnitude = rng.uniform(0.5, 4.0, second) * rng.choice([-1, 1], second)
        return samples.uniform(dtype, first, rng), samples.stored(magnitude, dtype)
    return samples.uniform(dtype, first, rng), samples.uniform(dtype, second, rng)


def _integers(
    operation: BinaryOperation, dtype: DType, first: tuple[int, ...], second: tuple[int, ...], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Reach the type's ends where no result overflows, which the descriptor leaves open."""
    minimum, maximum = samples.limits(dtype)
    half, root = maximum // 2, math.isqrt(maximum)
    signed = dtype.is_signed
    if operation is BinaryOperation.ADD:
        ranges = [(minimum // 2, half)] * 2
    elif operation is BinaryOperation.SUB:
        ranges = [(-half, half)] * 2 if signed else [(half, maximum), (0, half)]
    elif operation is BinaryOperation.MUL:
        ranges = [(-root, root)] * 2
    elif operation is BinaryOperation.SQUARED_DIFFERENCE:
        ranges = [(-(root // 2), root // 2)] * 2 if signed else [(root // 2, root), (0, root // 2)]
    elif operation is BinaryOperation.POW:
        ranges = [(-3, 3), (0, 4)]
    elif operation in SHIFT_OPERATIONS:
        # Only of a left shift does the descriptor say what a count of the width or more gives, and
        # of no signed integer what becomes of its sign.
        if operation is BinaryOperation.SHIFT_RIGHT:
            ranges = [(0, maximum), (0, dtype.bits - 1)]
        else:
            ranges = [(0, 7), (0, dtype.bits - 5)] if signed else [(0, maximum), (0, dtype.bits + 1)]
    elif operation in (BinaryOperation.DIV, *_REMAINDERS):
        dividend = samples.whole(dtype, first, rng, minimum + signed, maximum)
        divisor = samples.whole(dtype, second, rng, -9, 9)
        wide = rng.random(second) < 0.3
        divisor = np.where(wide, samples.whole(dtype, second, rng, minimum + signed, maximum), divisor)
        return dividend, np.where(divisor == 0, dtype.numpy.type(3), divisor)
    else:
        ranges = [(minimum, maximum)] * 2
    (a_low, a_high), (b_low, b_high) = ranges
    return samples.whole(dtype, first, rng, a_low, a_high), samples.whole(dtype, second, rng, b_low, b_high)


def _combine_integers(operation: BinaryOperation, a: Array, b: Array, dtype: DType) -> Array:
    shape = np.broadcast_shapes(a.shape, b.shape)
    pairs = zip(*(np.broadcast_to(each, shape).reshape(-1).tolist() for each in (a, b)), strict=True)
    if operation is BinaryOperation.SHIFT_LEFT:
        results = [p << q & samples.limits(dtype)[1] for p, q in pairs]
    else:
        results = [_ON_INTEGERS[operation](p, q) for p, q in pairs]
    return np.asarray(results, dtype.numpy).reshape(shape)


def _expected(operation: BinaryOperation, a: Array, b: Array, dtype: DType, second: DType) -> Array | None:
    if dtype is DType.BOOL:
        return _ON_BOOLS[operation](a, b) if operation in _ON_BOOLS else None
    if dtype.is_float:
        if operation not in _ON_REALS:
            return None
        with np.errstate(all="ignore"):
            return _ON_REALS[operation](samples.reals(a, dtype), samples.reals(b, second))
    if operation in LOGICAL_OPERATIONS:
        return None
    return _combine_integers(operation, a, b, dtype)


def _quantizations(how: str, dtype: DType) -> tuple[Quantization, Quantization, Quantization]:
    zeros = (3, -7, 5) if dtype is DType.INT8 else (120, 131, 128)
    if how == "alike":
        zeros = zeros[:1] * 3
    a, b, result = (Quantization.per_tensor(s, z) for s, z in zip(_SCALES[how], zeros, strict=True))
    return a, b, result


def _make_quantized(
    parameters: Parameters, dtype: DType, shapes: Sequence[tuple[int, ...]], rng: np.random.Generator
) -> Case | None:
    operation, how = BinaryOperation(parameters["operation"]), parameters["quantization"]
    activation = _activation(parameters)
    if dtype not in (DType.INT8, DType.UINT8) or parameters["values"] != "plain" or activation not in CLAMPS:
        return None
    if operation not in _QUANTIZED and not (operation in _EXTREMES and how == "alike"):
        return None
    quantizations = _quantizations(how, dtype)
    a, b = (samples.anything(dtype, shape, rng) for shape in shapes)
    expected = combined(_ON_REALS[operation], (a, b), quantizations, dtype, activation)
    if operation in _EXTREMES and activation is None:
        return _case(parameters, (a, b), (dtype, dtype), quantizations, expected, EXACT)
    bits = _quantized_bits(operation, (a, b), quantizations, dtype, activation)
    return _case(parameters, (a, b), (dtype, dtype), quantizations, expected, ONE_QUANTUM, bits=bits)


def _quantized_bits(
    operation: BinaryOperation,
    operands: tuple[Array, Array],
    quantizations: tuple[Quantization, Quantization, Quantization],
    dtype: DType,
    activation: ActivationFunction | None,
) -> dict[str, Bits]:
    """Return the bits of a quantized result, by standard; LiteRT has no maximum with a clamp."""
    x, y = (real(operand, one) for operand, one in zip(operands, quantizations[:2], strict=True))
    result, is_exact = quantizations[2], is_power_of_two(*quantizations)
    bits = {"onnx": onnx_bits(_ON_REALS[operation](x, y), result, dtype, activation, is_exact=is_exact)}
    whole = [operand.astype(np.int64) - one.zero_point[0] for operand, one in zip(operands, quantizations[:2], strict=True)]
    scales = (quantizations[0].scale[0], quantizations[1].scale[0], result.scale[0])
    if operation is BinaryOperation.MUL:
        bits["litert"] = litert_bits(litert_product(whole[0], whole[1], scales), result, dtype, activation)
    elif operation in (BinaryOperation.ADD, BinaryOperation.SUB):
        sign = 1 if operation is BinaryOperation.ADD else -1
        bits["litert"] = litert_bits(litert_sum(whole[0], whole[1], scales, sign), result, dtype, activation)
    return bits


def _activation(parameters: Parameters) -> ActivationFunction | None:
    return None if parameters["activation"] is None else ActivationFunction(parameters["activation"])


def _case(
    parameters: Parameters,
    operands: tuple[Array, Array],
    dtypes: tuple[DType, DType],
    quantizations: tuple[Quantization | None, Quantization | None, Quantization | None],
    expected: Array,
    tolerance: Tolerance,
    fused: tuple[float, float] | None = None,
    bits: Mapping[str, Bits] | None = None,
) -> Case:
    activation = _activation(parameters)
    alpha, beta = fused or PARAMETERS[activation]
    descriptor = ElementwiseBinary(
        operation=BinaryOperation(parameters["operation"]),
        activation=activation,
        activation_alpha=alpha,
        activation_beta=beta,
    )

    def build(graph: Graph, slots: Sequence[OutputSlot | None]) -> Sequence[OutputSlot]:
        return [graph.add(descriptor, *slots, quantization=quantizations[2]).output]

    feeds = tuple(
        Feed(value, parameters["constant"] == name, one, quantization)
        for name, value, one, quantization in zip("ab", operands, dtypes, quantizations[:2], strict=True)
    )
    return Case(build, feeds, (np.asarray(expected),), (tolerance,), (bits or {},))


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape = shape_of(parameters)
    if shape is None:
        return None
    shapes = [narrowed(shape, parameters[name]) for name in ("broadcast_a", "broadcast_b")]
    given = [one for one in shapes if one is not None]
    if len(given) < 2:
        return None
    if parameters["quantization"] is not None:
        return _make_quantized(parameters, dtype, given, rng)
    operation, activation = BinaryOperation(parameters["operation"]), _activation(parameters)
    second = dtype if parameters["exponent"] is None else DType.of(parameters["exponent"])
    if activation is not None and (dtype is DType.BOOL or (dtype.is_integer and activation not in CLAMPS)):
        return None
    operands = _operands(operation, dtype, given, parameters["values"], rng)
    if operands is None:
        return None
    if second is not dtype:
        if operation is not BinaryOperation.POW or dtype is DType.BOOL or (dtype.is_integer and second.is_float):
            return None
        operands = samples.whole(dtype, given[0], rng, -3, 3), samples.whole(second, given[1], rng, 0, 4)
    expected = _expected(operation, *operands, dtype, second)
    if expected is None:
        return None
    tolerance = fused_tolerance(error(operation, dtype), activation, dtype)
    values = np.asarray(expected, np.float64) if dtype.is_float else np.zeros(0)
    greatest = float(np.max(np.abs(values), initial=0.0, where=np.isfinite(values)))
    fused = parameters_for(activation, values, tolerance.absolute + tolerance.relative * greatest)
    if fused is None:
        return None
    expected = activated(expected, activation, fused)
    is_single = dtype.is_float and operation in _FOUR and activation in CLAMPS
    bits = correctly_rounded(expected) if is_single else None
    return _case(parameters, operands, (dtype, second), (None, None, None), expected, tolerance, fused, bits)


def _logic() -> list[dict[str, Any]]:
    """Sizes, broadcast and constants for bool, which cannot be added."""
    edges: list[dict[str, Any]] = [{"rank": rank} for rank in (0, 1, 6)] + [{"channels": size} for size in (0, 1, 17)]
    edges += [{"broadcast_a": how} for how in BROADCASTS[1:]] + [{"broadcast_b": how} for how in BROADCASTS[1:]]
    edges += [{"constant": name} for name in ("a", "b")]
    return [{"operation": BinaryOperation.LOGICAL_AND, **edge} for edge in edges]


_TOGETHER: list[dict[str, Any]] = [
    {"broadcast_a": "outer", "broadcast_b": "column"},
    {"broadcast_a": "row", "broadcast_b": "column"},
    {"operation": BinaryOperation.SUB, "broadcast_a": "scalar"},
    {"operation": BinaryOperation.SUB, "broadcast_b": "row", "constant": "b"},
    {"operation": BinaryOperation.DIV, "broadcast_a": "row"},
    {"operation": BinaryOperation.SUB, "activation": ActivationFunction.RELU},
    {"operation": BinaryOperation.MUL, "activation": ActivationFunction.BOUNDED_RELU},
    {"operation": BinaryOperation.MUL, "activation": ActivationFunction.RELU, "broadcast_b": "channel", "constant": "b"},
    *({"operation": BinaryOperation.POW, "exponent": dtype} for dtype in ("int32", "int64", "float32", "float64")),
    *({"operation": operation, "values": "special"} for operation in (*_FOUR[1:], *_EXTREMES)),
    *({"operation": operation, "quantization": "scaled"} for operation in _QUANTIZED[1:]),
    *({"operation": operation, "quantization": "alike"} for operation in _EXTREMES),
    *({"activation": activation, "quantization": "scaled"} for activation in CLAMPS[1:]),
    {"operation": BinaryOperation.MUL, "quantization": "scaled", "activation": ActivationFunction.BOUNDED_RELU},
    *({"quantization": "scaled", "broadcast_a": how} for how in ("scalar", "row")),
    *({"quantization": "scaled", "broadcast_b": how, "constant": "b"} for how in ("scalar", "channel", "outer")),
    *({"quantization": "scaled", "channels": size} for size in (0, 1, 17)),
    *_logic(),
]

OPERATOR = any_type_operator(
    "ElementwiseBinary",
    _make,
    {
        "operation": tuple(BinaryOperation),
        **OPERAND_PAIRS,
        "values": ("plain", "special"),
        "exponent": (None,),
        "activation": tuple(PARAMETERS),
        "quantization": (None, "scaled", "saturating", "alike"),
    },
    quantities={**quantities_of("a", "b", "output"), "b.dtype": "exponent"},
    together=_TOGETHER,
)
