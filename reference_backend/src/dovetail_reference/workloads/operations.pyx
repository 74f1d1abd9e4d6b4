"""Compute the scalar functions of elementwise kinds; see `dovetail.layers.elementwise`.

Integers are 64 bits wide, of which the caller stores the lower ones: results are right modulo
2^bits for every width. Signed arithmetic goes through uint64, where C defines the overflow.
"""

from libc cimport math
from libc.stdint cimport int64_t, uint64_t

import math as exact

from dovetail.layers import ActivationFunction, BinaryOperation, UnaryOperation


# -- of one real number ----------------------------------------------------------------------------


cdef double negative(double x) noexcept nogil:
    return -x


cdef double reciprocal(double x) noexcept nogil:
    return 1.0 / x


cdef double reciprocal_root(double x) noexcept nogil:
    return 1.0 / math.sqrt(x)


cdef double sign(double x) noexcept nogil:
    return x if x != x else <double>(x > 0) - <double>(x < 0)


cdef double is_nan(double x) noexcept nogil:
    return x != x


cdef double is_infinite(double x) noexcept nogil:
    return math.isinf(x) != 0


cdef double is_positive_infinite(double x) noexcept nogil:
    return math.isinf(x) != 0 and x > 0


cdef double is_negative_infinite(double x) noexcept nogil:
    return math.isinf(x) != 0 and x < 0


cdef real_function real_unary(object operation) except NULL:
    """Return the function of an operation on floats."""
    if operation is UnaryOperation.ABS: return math.fabs
    if operation is UnaryOperation.NEG: return negative
    if operation is UnaryOperation.SQRT: return math.sqrt
    if operation is UnaryOperation.RSQRT: return reciprocal_root
    if operation is UnaryOperation.RECIPROCAL: return reciprocal
    if operation is UnaryOperation.EXP: return math.exp
    if operation is UnaryOperation.LOG: return math.log
    if operation is UnaryOperation.ERF: return math.erf
    if operation is UnaryOperation.SIN: return math.sin
    if operation is UnaryOperation.COS: return math.cos
    if operation is UnaryOperation.TAN: return math.tan
    if operation is UnaryOperation.ASIN: return math.asin
    if operation is UnaryOperation.ACOS: return math.acos
    if operation is UnaryOperation.ATAN: return math.atan
    if operation is UnaryOperation.SINH: return math.sinh
    if operation is UnaryOperation.COSH: return math.cosh
    if operation is UnaryOperation.ASINH: return math.asinh
    if operation is UnaryOperation.ACOSH: return math.acosh
    if operation is UnaryOperation.ATANH: return math.atanh
    if operation is UnaryOperation.FLOOR: return math.floor
    if operation is UnaryOperation.CEIL: return math.ceil
    if operation is UnaryOperation.ROUND: return math.rint     # half to even: the mode that nobody changes
    if operation is UnaryOperation.SIGN: return sign
    if operation is UnaryOperation.IS_NAN: return is_nan
    if operation is UnaryOperation.IS_INF: return is_infinite
    if operation is UnaryOperation.IS_POSITIVE_INF: return is_positive_infinite
    if operation is UnaryOperation.IS_NEGATIVE_INF: return is_negative_infinite
    raise ValueError(f"{operation} is not a function of real numbers")


def real_unary_function(operation):
    """Return the same as a Python function."""
    cdef real_function function = real_unary(operation)

    def call(double x):
        return function(x)

    return call


# -- of one integer --------------------------------------------------------------------------------


cdef int64_t whole_same(int64_t x) noexcept nogil:
    return x


cdef int64_t whole_negative(int64_t x) noexcept nogil:
    return <int64_t>(0 - <uint64_t>x)


cdef int64_t whole_absolute(int64_t x) noexcept nogil:
    return whole_negative(x) if x < 0 else x


cdef int64_t whole_sign(int64_t x) noexcept nogil:
    return (x > 0) - (x < 0)


cdef int64_t whole_nonzero(int64_t x) noexcept nogil:
    return x != 0


cdef int64_t whole_complement(int64_t x) noexcept nogil:
    return ~x


cdef int64_t whole_zero(int64_t x) noexcept nogil:
    return x == 0


cdef whole_function whole_unary(object operation, bint unsigned) except NULL:
    """Return the function of an operation on integers or bool."""
    if operation is UnaryOperation.ABS: return whole_same if unsigned else whole_absolute
    if operation is UnaryOperation.NEG: return whole_negative
    if operation is UnaryOperation.SIGN: return whole_nonzero if unsigned else whole_sign
    if operation in (UnaryOperation.FLOOR, UnaryOperation.CEIL, UnaryOperation.ROUND): return whole_same
    if operation is UnaryOperation.BITWISE_NOT: return whole_complement
    if operation is UnaryOperation.LOGICAL_NOT: return whole_zero
    raise ValueError(f"{operation} is not a function of integers")


# -- of two real numbers ---------------------------------------------------------------------------


cdef double add(double a, double b) noexcept nogil:
    return a + b


cdef double subtract(double a, double b) noexcept nogil:
    return a - b


cdef double multiply(double a, double b) noexcept nogil:
    return a * b


cdef double divide(double a, double b) noexcept nogil:
    return a / b


cdef double maximum(double a, double b) noexcept nogil:
    return a if a > b or a != a else b


cdef double minimum(double a, double b) noexcept nogil:
    return a if a < b or a != a else b


cdef double modulo(double a, double b) noexcept nogil:
    """The remainder with the sign of the divisor, as Python's."""
    cdef double rest = math.fmod(a, b)
    if rest == 0:
        return math.copysign(0.0, b)
    return rest + b if (rest < 0) != (b < 0) else rest


cdef double squared_difference(double a, double b) noexcept nogil:
    return (a - b) * (a - b)


cdef real_function2 real_binary(object operation) except NULL:
    """Return the function of an operation on floats."""
    if operation is BinaryOperation.ADD: return add
    if operation is BinaryOperation.SUB: return subtract
    if operation is BinaryOperation.MUL: return multiply
    if operation is BinaryOperation.DIV: return divide
    if operation is BinaryOperation.MAXIMUM: return maximum
    if operation is BinaryOperation.MINIMUM: return minimum
    if operation is BinaryOperation.POW: return math.pow
    if operation is BinaryOperation.MOD: return modulo
    if operation is BinaryOperation.FMOD: return math.fmod
    if operation is BinaryOperation.SQUARED_DIFFERENCE: return squared_difference
    raise ValueError(f"{operation} is not a function of real numbers")


# -- of two integers -------------------------------------------------------------------------------


cdef int64_t whole_add(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef int64_t whole_subtract(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a - <uint64_t>b)


cdef int64_t whole_multiply(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a * <uint64_t>b)


cdef int64_t signed_divide(int64_t a, int64_t b) noexcept nogil:
    if b == 0:
        return 0
    if b == -1:     # the least integer has no counterpart
        return whole_negative(a)
    return a // b   # C's division: truncated (cdivision)


cdef int64_t unsigned_divide(int64_t a, int64_t b) noexcept nogil:
    return 0 if b == 0 else <int64_t>(<uint64_t>a // <uint64_t>b)


cdef int64_t signed_remainder(int64_t a, int64_t b) noexcept nogil:
    return 0 if b == 0 or b == -1 else a % b    # C's: sign of the dividend


cdef int64_t signed_modulo(int64_t a, int64_t b) noexcept nogil:
    cdef int64_t rest = signed_remainder(a, b)
    return rest + b if rest != 0 and (rest < 0) != (b < 0) else rest


cdef int64_t unsigned_modulo(int64_t a, int64_t b) noexcept nogil:
    return 0 if b == 0 else <int64_t>(<uint64_t>a % <uint64_t>b)


cdef int64_t signed_maximum(int64_t a, int64_t b) noexcept nogil:
    return max(a, b)


cdef int64_t signed_minimum(int64_t a, int64_t b) noexcept nogil:
    return min(a, b)


cdef int64_t unsigned_maximum(int64_t a, int64_t b) noexcept nogil:
    return a if <uint64_t>a > <uint64_t>b else b


cdef int64_t unsigned_minimum(int64_t a, int64_t b) noexcept nogil:
    return a if <uint64_t>a < <uint64_t>b else b


cdef int64_t whole_squared_difference(int64_t a, int64_t b) noexcept nogil:
    cdef uint64_t difference = <uint64_t>a - <uint64_t>b
    return <int64_t>(difference * difference)


cdef int64_t power_unsigned(int64_t a, int64_t b) noexcept nogil:
    """Square and multiply, modulo 2^64."""
    cdef uint64_t base = <uint64_t>a, exponent = <uint64_t>b, result = 1
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return <int64_t>result


cdef int64_t power_signed(int64_t a, int64_t b) noexcept nogil:
    """The same; 1 / a^|b| truncated for a negative exponent, and 0 for 0 to such a power."""
    if b >= 0:
        return power_unsigned(a, b)
    if a == 1:
        return 1
    return 0 if a != -1 else -1 if b & 1 else 1


cdef int64_t whole_and(int64_t a, int64_t b) noexcept nogil:
    return a & b


cdef int64_t whole_or(int64_t a, int64_t b) noexcept nogil:
    return a | b


cdef int64_t whole_xor(int64_t a, int64_t b) noexcept nogil:
    return a ^ b


cdef int64_t shift_left(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a << <uint64_t>b) if <uint64_t>b < 64 else 0


cdef int64_t unsigned_shift_right(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a >> <uint64_t>b) if <uint64_t>b < 64 else 0


cdef int64_t signed_shift_right(int64_t a, int64_t b) noexcept nogil:
    """Shift the sign in; a shift by the width or more, or a negative count, leaves only it."""
    return a >> (b if <uint64_t>b < 64 else 63)


cdef whole_function2 whole_binary(object operation, bint unsigned, bint unsigned_exponent) except NULL:
    """Return the function of an operation on integers or bool (unsigned)."""
    if operation is BinaryOperation.ADD: return whole_add
    if operation is BinaryOperation.SUB: return whole_subtract
    if operation is BinaryOperation.MUL: return whole_multiply
    if operation is BinaryOperation.DIV: return unsigned_divide if unsigned else signed_divide
    if operation is BinaryOperation.MAXIMUM: return unsigned_maximum if unsigned else signed_maximum
    if operation is BinaryOperation.MINIMUM: return unsigned_minimum if unsigned else signed_minimum
    if operation is BinaryOperation.POW: return power_unsigned if unsigned_exponent else power_signed
    if operation is BinaryOperation.MOD: return unsigned_modulo if unsigned else signed_modulo
    if operation is BinaryOperation.FMOD: return unsigned_modulo if unsigned else signed_remainder
    if operation is BinaryOperation.SQUARED_DIFFERENCE: return whole_squared_difference
    if operation in (BinaryOperation.LOGICAL_AND, BinaryOperation.BITWISE_AND): return whole_and
    if operation in (BinaryOperation.LOGICAL_OR, BinaryOperation.BITWISE_OR): return whole_or
    if operation in (BinaryOperation.LOGICAL_XOR, BinaryOperation.BITWISE_XOR): return whole_xor
    if operation is BinaryOperation.SHIFT_LEFT: return shift_left
    if operation is BinaryOperation.SHIFT_RIGHT: return unsigned_shift_right if unsigned else signed_shift_right
    raise ValueError(f"{operation} is not a function of integers")


# -- clamping integers -----------------------------------------------------------------------------


cdef int64_t clamp_whole(int64_t x, int64_t low, int64_t high, bint unsigned) noexcept nogil:
    """Clamp; the bounds are of the same signedness as x."""
    if unsigned:
        return unsigned_minimum(unsigned_maximum(x, low), high)
    return min(max(x, low), high)


def integer_clamp(function, alpha, beta, dtype):
    """Return the bounds (int64 bits) that RELU, BOUNDED_RELU or None sets on an integer type."""
    low, high = (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if dtype.is_signed else (0, (1 << dtype.bits) - 1)
    if function is ActivationFunction.RELU:
        low = max(low, 0)
    elif function is ActivationFunction.BOUNDED_RELU:
        minimum, maximum = low, high
        low = maximum if beta > maximum else max(minimum, exact.ceil(beta)) if beta > minimum else minimum
        high = minimum if alpha < minimum else min(maximum, exact.floor(alpha)) if alpha < maximum else maximum
    return _as_signed(low), _as_signed(high)


def _as_signed(value):
    return value - (1 << 64) if value >> 63 == 1 else value
