"""Functions of one quantized element of 8 bits, as tables of 256: requantization, activations, unary functions.

A table is indexed by the element's byte and holds bytes; int8 goes by its two's complement.
"""

from libc.math cimport isnan, roundf
from libc.stdint cimport int8_t, uint8_t


def requantization_table(mine, theirs, is_signed):
    """Return what each byte of quantization `mine` becomes under `theirs`, both of one scale.

    Source: TFLite reference_ops::ConcatenationWithScaling: round(q * scale + bias) + zero point, in float32, half away from 0.
    """
    cdef float scale = <float>mine.scale[0] * (<float>1.0 / <float>theirs.scale[0])
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

    The result is rounded half away from zero, as TFLite fills the tables of its int8 activations (LUTPopulate); NaN gives the
    zero point.
    """
    cdef int low = -128 if is_signed else 0, byte, zero = mine.zero_point[0], result_zero = theirs.zero_point[0]
    cdef float scale = mine.scale[0], inverse = <float>1.0 / <float>theirs.scale[0], value
    table = bytearray(256)
    for byte in range(256):
        value = function(<double>(scale * <float>((<int8_t>byte if is_signed else byte) - zero)))
        value = roundf(value * inverse)
        value = <float>result_zero if isnan(value) else value + result_zero
        table[byte] = <uint8_t><int>min(max(value, <float>low), <float>(low + 255))
    return bytes(table)
