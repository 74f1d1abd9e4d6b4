"""Elementwise kinds: unary, binary with broadcast, comparison, choice, cast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..graph.descriptor import Array, Descriptor, Infos, Selection, Values, descriptor_class
from ..graph.element_types import DType
from ..graph.expressions import UndecidedError
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import below, larger, smaller
from ..graph.tensor import TensorInfo
from ..ground.pieces import holds, mapped
from .activation import FusedActivation
from .arguments import Operand, choice
from .shape_rules import broadcast, known, present, require_dtype, require_number, require_real, require_same_dtype


class UnaryOperation(StrEnum):
    """Functions of one element; the dtype stays unless noted."""

    ABS = "abs"
    NEG = "neg"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    RECIPROCAL = "reciprocal"
    EXP = "exp"
    LOG = "log"
    ERF = "erf"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"  # half to even
    SIGN = "sign"
    LOGICAL_NOT = "logical_not"  # bool
    BITWISE_NOT = "bitwise_not"  # integers
    IS_NAN = "is_nan"  # float to bool
    IS_INF = "is_inf"  # float to bool
    IS_POSITIVE_INF = "is_positive_inf"  # float to bool
    IS_NEGATIVE_INF = "is_negative_inf"  # float to bool


class BinaryOperation(StrEnum):
    """Functions of two elements, of one dtype, with NumPy broadcast."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"  # integers: truncated toward zero; by zero 0, and the smallest by -1 wraps to itself
    MAXIMUM = "maximum"  # NaN wins
    MINIMUM = "minimum"  # NaN wins
    POW = "pow"  # the exponent may have another dtype; the result has the base's
    MOD = "mod"  # sign of the divisor (Python); integers: by zero 0
    FMOD = "fmod"  # sign of the dividend (C); integers: by zero 0
    SQUARED_DIFFERENCE = "squared_difference"
    LOGICAL_AND = "logical_and"
    LOGICAL_OR = "logical_or"
    LOGICAL_XOR = "logical_xor"
    BITWISE_AND = "bitwise_and"
    BITWISE_OR = "bitwise_or"
    BITWISE_XOR = "bitwise_xor"
    SHIFT_LEFT = "shift_left"  # unsigned; a shift by the width or more gives 0
    SHIFT_RIGHT = "shift_right"


class ComparisonOperation(StrEnum):
    """Comparisons, with NumPy broadcast; the result is bool."""

    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    GREATER = "greater"
    GREATER_OR_EQUAL = "greater_or_equal"
    LESS = "less"
    LESS_OR_EQUAL = "less_or_equal"


_TO_BOOL = {UnaryOperation.IS_NAN, UnaryOperation.IS_INF, UnaryOperation.IS_POSITIVE_INF, UnaryOperation.IS_NEGATIVE_INF}
OPERATIONS_ON_NUMBERS = frozenset(
    {
        UnaryOperation.ABS,
        UnaryOperation.NEG,
        UnaryOperation.SIGN,
        UnaryOperation.FLOOR,
        UnaryOperation.CEIL,
        UnaryOperation.ROUND,
    }
)
"""Defined for integers as for floats.

Other functions that are neither logical nor bitwise are of real numbers.
"""
_ORDERS = {BinaryOperation.MAXIMUM, BinaryOperation.MINIMUM}
LOGICAL_OPERATIONS = frozenset({BinaryOperation.LOGICAL_AND, BinaryOperation.LOGICAL_OR, BinaryOperation.LOGICAL_XOR})
BITWISE_OPERATIONS = frozenset({BinaryOperation.BITWISE_AND, BinaryOperation.BITWISE_OR, BinaryOperation.BITWISE_XOR})
SHIFT_OPERATIONS = frozenset({BinaryOperation.SHIFT_LEFT, BinaryOperation.SHIFT_RIGHT})
_INTEGERS = tuple(d for d in DType if d.is_integer)


@descriptor_class
class ElementwiseUnary(Descriptor, kind="dovetail.ElementwiseUnary"):
    """Apply a function to each element."""

    operation: UnaryOperation
    """Which function."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if self.operation is UnaryOperation.LOGICAL_NOT:
            require_dtype(x, [DType.BOOL], "input")
        elif self.operation is UnaryOperation.BITWISE_NOT:
            require_dtype(x, _INTEGERS, "input")
        elif self.operation in OPERATIONS_ON_NUMBERS:
            require_number(x, "input")
        else:
            require_real(x, "input")
        return [x.with_dtype(DType.BOOL if self.operation in _TO_BOOL else x.dtype)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        function = _UNARY_ON_CONSTANTS.get(self.operation)
        info, value = present(inputs, 0), values[0]
        if value is not None and value.dtype == object:
            function = _UNARY_ON_SYMBOLS.get(self.operation)
            return None if function is None else [mapped(function, object, value)]
        if function is None or value is None or info.dtype is DType.BFLOAT16:
            return None
        if info.dtype.is_integer and (self.operation in _ON_FLOATS or info.quantization is not None):
            return None  # NumPy would compute in another type, or with what stands for other numbers
        return [mapped(function, info.dtype.numpy, value)]


@descriptor_class
class ElementwiseBinary(FusedActivation, kind="dovetail.ElementwiseBinary"):
    """Combine two tensors element by element."""

    input_names: ClassVar[tuple[str, ...]] = ("a", "b")
    required_inputs: ClassVar[int] = 2
    operation: BinaryOperation
    """Which function, applied as operation(a, b)."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        a, b = present(inputs, 0), present(inputs, 1)
        if self.operation is not BinaryOperation.POW:
            require_same_dtype([a, b])
        if self.operation in LOGICAL_OPERATIONS:
            require_dtype(a, [DType.BOOL], "input")
        elif self.operation in BITWISE_OPERATIONS:
            require_dtype(a, (*_INTEGERS, DType.BOOL), "input")
        elif self.operation in SHIFT_OPERATIONS:
            require_dtype(a, _INTEGERS, "input")
        elif self.operation not in _ORDERS:
            require_number(a, "input")
            require_number(b, "input")
        return [TensorInfo(broadcast(a.shape, b.shape), a.dtype)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        operands, info = known(values), present(inputs, 0)
        if operands is not None and any(operand.dtype == object for operand in operands):
            function = _BINARY_ON_SYMBOLS.get(self.operation)
            is_plain = function is not None and self.activation is None
            return [mapped(function, object, *operands)] if function is not None and is_plain else None
        function = _BINARY_ON_CONSTANTS.get(self.operation)
        if operands is None or function is None or info.dtype is DType.BFLOAT16 or self.activation is not None:
            return None
        if info.dtype is DType.BOOL and self.operation not in LOGICAL_OPERATIONS:
            return None  # NumPy's bools are no numbers
        if self.operation is BinaryOperation.DIV and info.dtype.is_integer:
            function = _truncated_division
        return [mapped(function, info.dtype.numpy, *operands)]


@descriptor_class
class Comparison(Descriptor, kind="dovetail.Comparison"):
    """Compare two tensors element by element; the result is bool."""

    input_names: ClassVar[tuple[str, ...]] = ("a", "b")
    required_inputs: ClassVar[int] = 2
    operation: ComparisonOperation
    """Which comparison, applied as a operation b."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        a, b = present(inputs, 0), present(inputs, 1)
        require_same_dtype([a, b])
        return [TensorInfo(broadcast(a.shape, b.shape), DType.BOOL)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        operands = known(values)
        if operands is None or present(inputs, 0).dtype is DType.BFLOAT16:
            return None
        return [mapped(_COMPARISONS[self.operation], np.bool_, *operands)]


@descriptor_class
class Where(Selection, kind="dovetail.Where"):
    """a where the condition holds, else b; all three broadcast."""

    input_names: ClassVar[tuple[str, ...]] = ("condition", "a", "b")
    required_inputs: ClassVar[int] = 3
    dtype_of: ClassVar[tuple[str, int]] = ("output", 0)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        condition, a, b = (present(inputs, i) for i in range(3))
        require_dtype(condition, [DType.BOOL], "condition")
        dtype = require_same_dtype([a, b])
        return [TensorInfo(broadcast(condition.shape, a.shape, b.shape), dtype, a.quantization)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        operands = known(values)
        if operands is None:
            return None
        storage = object if any(operand.dtype == object for operand in operands) else operands[1].dtype
        return [mapped(np.where, storage, *operands)]


@descriptor_class
class Cast(Descriptor, kind="dovetail.Cast"):
    """Convert each element to another dtype.

    Float to integer truncates toward zero; what does not fit, and NaN, is undefined by ONNX:
    dovetail wraps modulo 2^bits, and NaN and the infinities become 0. Integers wrap, too. To a
    float rounds to nearest even, once. Anything to bool is `!= 0`.
    """

    dtype: DType
    """Of the result."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return [present(inputs, 0).with_dtype(self.dtype)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        value, info = values[0], present(inputs, 0)
        if value is None:
            return None
        if value.dtype == object:
            return [mapped(_TRUNCATED, object, value)] if self.dtype in _HOLDING_SIZES else None
        if self.dtype is DType.BFLOAT16 and info.dtype not in _WITHIN_FLOAT32:
            return None
        read = _float32_of_bits if info.dtype is DType.BFLOAT16 else _as_it_is
        if info.dtype.is_float and self.dtype.is_integer:
            limits = np.iinfo(self.dtype.numpy)

            def fits(part: Array) -> Array:
                whole: Array = np.trunc(read(part).astype(np.float64))
                return (whole >= float(limits.min)) & (whole < float(limits.max))

            if not holds(fits, value):
                return None  # what NumPy gives for the rest depends on the machine
        write = bfloat16_bits if self.dtype is DType.BFLOAT16 else _as_it_is
        return [mapped(lambda part: write(read(part)).astype(self.dtype.numpy), self.dtype.numpy, value)]


_HOLDING_SIZES = (DType.INT64, DType.UINT64, DType.INT32, DType.UINT32, DType.FLOAT64, DType.FLOAT32)
"""Types in which a size stays what it is."""
_WITHIN_FLOAT32 = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


def _as_it_is(value: Array) -> Array:
    return value


def _float32_of_bits(value: Array) -> Array:
    return (value.astype(np.uint32) << 16).view(np.float32)


def bfloat16_bits(value: Array) -> Array:
    """Round float32 to the nearest bfloat16, ties to even; a NaN stays one."""
    single = value.astype(np.float32)
    bits = single.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(single), 0x7FC0, rounded).astype(np.uint16)


def _truncated_division(a: Array, b: Array) -> Array:
    """Divide integers as `BinaryOperation.DIV` says.

    NumPy rounds the quotient down, which one that is negative must not be.

    NumPy gives 0 for a division by zero, and the smallest integer, which has no magnitude, by -1 is
    itself.
    """
    down = np.floor_divide(a, b)
    has_rest = np.multiply(down, b) != a
    return np.asarray(np.where(b == 0, 0, down + (has_rest & ((a < 0) != (b < 0)))), a.dtype)


_Function = Callable[..., npt.NDArray[Any]]
_UNARY_ON_CONSTANTS: dict[UnaryOperation, _Function] = {
    UnaryOperation.ABS: np.abs,
    UnaryOperation.NEG: np.negative,
    UnaryOperation.FLOOR: np.floor,
    UnaryOperation.CEIL: np.ceil,
    UnaryOperation.SQRT: np.sqrt,
    UnaryOperation.LOGICAL_NOT: np.logical_not,
}
_ON_FLOATS = {UnaryOperation.FLOOR, UnaryOperation.CEIL, UnaryOperation.SQRT}
_BINARY_ON_CONSTANTS: dict[BinaryOperation, _Function] = {
    BinaryOperation.ADD: np.add,
    BinaryOperation.SUB: np.subtract,
    BinaryOperation.MUL: np.multiply,
    BinaryOperation.DIV: np.true_divide,
    BinaryOperation.MAXIMUM: np.maximum,
    BinaryOperation.MINIMUM: np.minimum,
    BinaryOperation.LOGICAL_AND: np.logical_and,
    BinaryOperation.LOGICAL_OR: np.logical_or,
    BinaryOperation.MOD: np.mod,
    BinaryOperation.FMOD: np.fmod,
}
_TRUNCATED = np.frompyfunc(lambda number: number if isinstance(number, float) else math.trunc(number), 1, 1)


def _quotient_of_sizes(a: Any, b: Any) -> Any:
    """Divide integers that are not negative: either way of rounding gives the same quotient."""
    if isinstance(a, float) or isinstance(b, float) or not (below(-1, a) and below(0, b)):
        raise UndecidedError(f"the quotient of {a} and {b} depends on sizes that are not fixed")
    return a // b


# Of arrays that hold symbolic sizes among their elements: see `dovetail.graph.symbolic_inference`.
_UNARY_ON_SYMBOLS: dict[UnaryOperation, _Function] = {
    UnaryOperation.NEG: np.negative,
    UnaryOperation.FLOOR: np.frompyfunc(math.floor, 1, 1),
    UnaryOperation.CEIL: np.frompyfunc(math.ceil, 1, 1),
}
_BINARY_ON_SYMBOLS: dict[BinaryOperation, _Function] = {
    BinaryOperation.ADD: np.add,
    BinaryOperation.SUB: np.subtract,
    BinaryOperation.MUL: np.multiply,
    BinaryOperation.DIV: np.frompyfunc(_quotient_of_sizes, 2, 1),
    BinaryOperation.MAXIMUM: np.frompyfunc(larger, 2, 1),
    BinaryOperation.MINIMUM: np.frompyfunc(smaller, 2, 1),
    BinaryOperation.MOD: np.mod,
}
_COMPARISONS: dict[ComparisonOperation, _Function] = {
    ComparisonOperation.EQUAL: np.equal,
    ComparisonOperation.NOT_EQUAL: np.not_equal,
    ComparisonOperation.GREATER: np.greater,
    ComparisonOperation.GREATER_OR_EQUAL: np.greater_equal,
    ComparisonOperation.LESS: np.less,
    ComparisonOperation.LESS_OR_EQUAL: np.less_equal,
}


class ElementwiseLayers(Graph):
    """Builder methods."""

    def unary(self, x: Operand, operation: UnaryOperation | str, *, name: str | None = None) -> OutputSlot:
        """Apply a function of one element."""
        kind = choice(UnaryOperation, operation, "operation")
        return self.add(ElementwiseUnary(operation=kind), x, name=name or kind.value).output

    def binary(self, a: Operand, b: Operand, operation: BinaryOperation | str, *, name: str | None = None) -> OutputSlot:
        """Combine two tensors with broadcast."""
        kind = choice(BinaryOperation, operation, "operation")
        return self.add(ElementwiseBinary(operation=kind), a, b, name=name or kind.value).output

    def addition(self, a: Operand, b: Operand, *, name: str | None = None) -> OutputSlot:
        """a + b."""
        return self.binary(a, b, BinaryOperation.ADD, name=name)

    def subtraction(self, a: Operand, b: Operand, *, name: str | None = None) -> OutputSlot:
        """a - b."""
        return self.binary(a, b, BinaryOperation.SUB, name=name)

    def multiplication(self, a: Operand, b: Operand, *, name: str | None = None) -> OutputSlot:
        """a * b."""
        return self.binary(a, b, BinaryOperation.MUL, name=name)

    def division(self, a: Operand, b: Operand, *, name: str | None = None) -> OutputSlot:
        """a / b; integers truncate toward zero."""
        return self.binary(a, b, BinaryOperation.DIV, name=name)

    def maximum(self, a: Operand, b: Operand, *, name: str | None = None) -> OutputSlot:
        """The larger of a and b; NaN wins."""
        return self.binary(a, b, BinaryOperation.MAXIMUM, name=name)

    def minimum(self, a: Operand, b: Operand, *, name: str | None = None) -> OutputSlot:
        """The smaller of a and b; NaN wins."""
        return self.binary(a, b, BinaryOperation.MINIMUM, name=name)

    def comparison(
        self, a: Operand, b: Operand, operation: ComparisonOperation | str, *, name: str | None = None
    ) -> OutputSlot:
        """Compare with broadcast; the result is bool."""
        kind = choice(ComparisonOperation, operation, "operation")
        return self.add(Comparison(operation=kind), a, b, name=name or kind.value).output

    def where(self, condition: Operand, a: Operand, b: Operand, *, name: str | None = None) -> OutputSlot:
        """a where condition, else b."""
        return self.add(Where(), condition, a, b, name=name).output

    def cast(self, x: Operand, dtype: DType | npt.DTypeLike, *, name: str | None = None) -> OutputSlot:
        """Convert to another dtype."""
        return self.add(Cast(dtype=DType.of(dtype)), x, name=name).output
