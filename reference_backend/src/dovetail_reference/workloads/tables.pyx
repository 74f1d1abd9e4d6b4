"""Tabulate functions of one quantized 8-bit element: requantization, activations, unary functions.

A table is indexed by the element's byte and holds bytes; int8 goes by its two's complement.
"""

from libc.math cimport fabsf, isinf, isnan, round, roundf
from libc.stdint cimport INT16_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t

from dovetail_reference.workloads.requantize cimport (
    clamp_int32,
    requantization,
    requantization_of,
    requantize,
    rounding_divide_by_power_of_two,
)


cdef double FAR = 1e30      # of a factor: any integer but 0 times it is beyond 8 bits, and 0 times it is 0


def requantization_table(mine, theirs, is_signed):
    """Return what each byte of quantization `mine` becomes under `theirs`, both of one scale.

    Source: TFLite reference_ops::ConcatenationWithScaling: round(q * scale + bias) + zero point, in
    float32, half away from 0.
    """
    cdef float theirs_scale = theirs.scale[0], inverse = <float>1.0 / theirs_scale
    cdef float scale = <float>mine.scale[0] / theirs_scale if isinf(inverse) else <float>mine.scale[0] * inverse
    scale = min(scale, <float>FAR)
    cdef float bias = -<float>mine.zero_point[0] * scale
    cdef int low = -128 if is_signed else 0, byte, zero = theirs.zero_point[0]
    cdef float value
    table = bytearray(256)
    for byte in range(256):
        value = roundf(<float>(<int8_t>byte if is_signed else byte) * scale + bias) + zero
        table[byte] = <uint8_t><int>min(max(value, <float>low), <float>(low + 255))
    return bytes(table)


def function_table(function, mine, theirs, is_signed):
    """Return what each byte becomes under a function of real numbers.

    Args:
        function: From float to float.
        mine, theirs: Quantization of the input and of the output, both of one scale.
        is_signed: True for int8, False for uint8.

    The result is rounded half away from zero, as TFLite fills the tables of its int8 activations
    (LUTPopulate), in float32 as far as that holds the numbers; NaN gives the zero point.
    """
    cdef int low = -128 if is_signed else 0, byte, zero = mine.zero_point[0], result_zero = theirs.zero_point[0]
    cdef float result_scale = theirs.scale[0], inverse = <float>1.0 / result_scale, narrow
    cdef double scale = <float>mine.scale[0], real, steps
    table = bytearray(256)
    for byte in range(256):
        real = scale * ((<int8_t>byte if is_signed else byte) - zero)  # whose bits float32 cuts off, if it holds it
        narrow = <float>real
        real = function(real if isinf(narrow) else <double>narrow)
        narrow = <float>real
        steps = real / result_scale if isinf(narrow) or isinf(inverse) else narrow * inverse
        steps = round(steps) + result_zero
        steps = result_zero if isnan(steps) else steps
        table[byte] = <uint8_t><int>min(max(steps, <double>low), <double>(low + 255))
    return bytes(table)


def two_slopes_table(slope, mine, theirs, is_signed, low, high):
    """Map each byte to x where x >= 0, else slope * x, clamped to [low, high], in fixed point.

    Source: TFLite reference_ops::QuantizeLeakyRelu, and QuantizedReluX with a slope of one
    (lite/kernels/activations.cc); both form their factors in float32. None where a factor is too
    great for fixed point, or a NaN.
    """
    cdef float scale = mine.scale[0], result_scale = theirs.scale[0], factor = slope
    cdef int byte, zero = mine.zero_point[0], result_zero = theirs.zero_point[0]
    cdef int32_t value
    cdef requantization above, below
    if not (scale / result_scale < 1 << 20 and fabsf(scale * factor / result_scale) < 1 << 20):
        return None
    above, below = requantization_of(scale / result_scale), requantization_of(scale * factor / result_scale)
    table = bytearray(256)
    for byte in range(256):
        value = (<int8_t>byte if is_signed else byte) - zero
        value = requantize(value, above if value >= 0 else below) + result_zero
        table[byte] = <uint8_t>clamp_int32(value, low, high)
    return bytes(table)


cdef int16_t half_of(requantization by):
    """The multiplier in 16 bits (TFLite: DownScaleInt32ToInt16Multiplier)."""
    return INT16_MAX if by.multiplier >= 0x7FFF7FFF else <int16_t>((by.multiplier + (1 << 15)) >> 16)


cdef int32_t high_product(int32_t a, int32_t b, bint rounds):
    """Return the saturated high half of 2 * a * b, for 16-bit a and b.

    It is rounded to nearest (SQRDMULH) or toward zero (SQDMULH).
    """
    cdef int32_t product = a * b
    if a == b == -(1 << 15):
        return INT16_MAX
    if rounds:
        product += (1 << 14) if product >= 0 else 1 - (1 << 14)
    return -(-product >> 15) if product < 0 else product >> 15


cdef int32_t shifted(int32_t value, int amount):
    """value * 2^amount, saturated to 16 bits."""
    cdef int64_t wide = <int64_t>value << amount if value >= 0 else -(<int64_t>-value << amount)
    return <int32_t>min(max(wide, <int64_t>-(1 << 15)), <int64_t>INT16_MAX)


def hard_swish_table(mine, theirs, is_signed):
    """Return what each byte becomes under x * max(0, min(1, x / 6 + 0.5)), in 16-bit fixed point.

    Source: TFLite reference_ops::HardSwish and HardSwishPrepare (lite/kernels/activations.cc),
    which refuses an output scale below 1/128 of the input's: None. So is an input scale at which
    the function is nothing but a ReLU.
    """
    cdef float fine = <float>(1.0 / 128.0) * <float>mine.scale[0]
    cdef requantization output = requantization_of(fine / <float>theirs.scale[0])
    cdef requantization gate = requantization_of(fine / (<float>3.0 / <float>32768.0))
    cdef int16_t output_half = half_of(output), gate_half = half_of(gate)
    cdef int byte, low = -128 if is_signed else 0, zero = mine.zero_point[0], result_zero = theirs.zero_point[0]
    cdef int32_t value, open_by
    if output.shift > 0 or gate.shift > 20:
        return None
    table = bytearray(256)
    for byte in range(256):
        value = ((<int8_t>byte if is_signed else byte) - zero) * 128
        open_by = value
        if gate.shift > 0:  # all bits but one before the product, so that what saturates does not matter
            open_by = shifted(open_by, gate.shift - 1)
        open_by = high_product(open_by, gate_half, True)
        if gate.shift > 0:
            open_by = shifted(open_by, 1)
        else:
            open_by = rounding_divide_by_power_of_two(open_by, -gate.shift)
        open_by = (open_by + (1 << 15)) >> 1  # [-1, 1) to [0, 1)
        value = high_product(open_by, high_product(value, output_half, True), False)
        value = rounding_divide_by_power_of_two(value, -output.shift) + result_zero
        table[byte] = <uint8_t>clamp_int32(value, low, low + 255)
    return bytes(table)
