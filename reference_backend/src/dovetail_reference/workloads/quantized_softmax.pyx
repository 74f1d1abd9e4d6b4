"""Compute softmax of quantized bytes along one axis, from a table of exponentials.

An exponential depends on how far an element is below the greatest one: on a byte. Where a result is
in steps of 1/256 from the least integer on, as TensorFlow Lite has it, all is computed in fixed
point, bit for bit as by its reference kernel (reference_ops::Softmax), which stops where the sum of
a line exceeds 511: here the results of such a line are zero, which they are nearly. Results of any
other scale are those of real numbers, but for exponentials in multiples of 2^-30: their sum is
exact. They are rounded to nearest even, as `Quantize` rounds.
"""

from libc.math cimport exp, ldexp, rint
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from dovetail.abi cimport DOVETAIL_OK, dovetail_call, tensor_data
from dovetail_reference.workloads.elements cimport element_of
from dovetail_reference.workloads.lines cimport lines, lines_along
from dovetail_reference.workloads.requantize cimport (
    clamp_int32,
    requantization,
    requantization_of,
    requantize,
    rounding_divide_by_power_of_two,
)
from dovetail_reference.workloads.walking cimport errand, new_errand, next_span, span
from dovetail_reference.workloads.workload cimport allow_in_place, new_workload, state_of

from .quantized import integer_range


cdef extern from "fixed_softmax.h" nogil:
    int32_t wide_exponential(int32_t x)
    requantization reciprocal_of(int32_t x)


cdef struct state:
    lines along
    bint fixed
    int32_t sign            # bits that are flipped, so that bytes are in the order of the exponents
    int32_t powers[256]     # by the distance from the greatest element: fractions, in fixed point
    uint32_t shares[256]    # the same, as they are summed up
    double step             # of the result
    int32_t zero
    int32_t low
    int32_t high


cdef int32_t result_of(const state *s, int distance, uint64_t total, requantization inverse) noexcept nogil:
    """One result, as an integer that has no type yet."""
    cdef double value
    cdef requantization whole = requantization(inverse.multiplier, 0)
    if not s.fixed:
        value = rint(<double>s.shares[distance] / (<double>total * s.step))
        return s.zero + <int32_t>min(value, 512.0)
    if inverse.shift < -8:
        return s.zero
    return s.zero + rounding_divide_by_power_of_two(requantize(s.powers[distance], whole), 23 - inverse.shift)


cdef void softmax_line(const state *s, const uint8_t *x, uint8_t *y, errand *run) noexcept nogil:
    """One line; x and y may be the same memory."""
    cdef int64_t i, size = s.along.size, stride = s.along.stride
    cdef span part = span(0, 0)
    cdef int greatest = 0
    cdef uint64_t total = 0
    cdef requantization inverse = requantization(0, 0)
    while next_span(run, &part, size):
        for i in range(part.begin, part.end):
            greatest = max(greatest, x[i * stride] ^ s.sign)
    while next_span(run, &part, size):
        for i in range(part.begin, part.end):
            total += s.shares[greatest - (x[i * stride] ^ s.sign)]
    if s.fixed:
        inverse = reciprocal_of(<int32_t>min(total, <uint64_t>INT32_MAX))
    while next_span(run, &part, size):
        for i in range(part.begin, part.end):
            y[i * stride] = <uint8_t>clamp_int32(
                result_of(s, greatest - (x[i * stride] ^ s.sign), total, inverse), s.low, s.high)


cdef int execute(void *opaque, const dovetail_call *call) noexcept nogil:
    cdef const state *s = <const state *>opaque
    cdef const uint8_t *x = <const uint8_t *>tensor_data(&call.inputs[0])
    cdef uint8_t *y = <uint8_t *>tensor_data(&call.outputs[0])
    cdef int64_t outer, inner, at
    cdef errand run = new_errand(call)
    if s.along.size == 0:
        return DOVETAIL_OK
    for outer in range(s.along.outer):
        for inner in range(s.along.inner):
            at = outer * s.along.outer_step + inner * s.along.inner_step
            softmax_line(s, x + at, y + at, &run)
            if run.code != DOVETAIL_OK:
                return run.code
    return DOVETAIL_OK


cdef bint fill_fixed(state *s, double factor) except -1:
    """Tabulate exponentials of multiples of -factor in fixed point; False if it is too small."""
    cdef requantization scale
    cdef int distance
    cdef int32_t reach
    factor = min(factor * (1 << 26), 2147483647.0)
    if not factor > 1.0:
        return False
    scale = requantization_of(factor)
    reach = (31 << 26) >> scale.shift       # beyond, differences do not fit five integer bits
    for distance in range(256):
        s.powers[distance] = wide_exponential(requantize(-distance, scale)) if distance <= reach else 0
        s.shares[distance] = rounding_divide_by_power_of_two(s.powers[distance], 12)
    return True


def create(layer):
    """Return the workload capsule of a `Softmax` of int8 or uint8, both of one scale."""
    descriptor, info, result = layer.descriptor, layer.input_infos[0], layer.output.known_info
    capsule = new_workload(execute, sizeof(state))
    cdef state *s = <state *>state_of(capsule)
    cdef double factor = info.quantization.scale[0] * abs(descriptor.beta)
    cdef int distance
    s.along = lines_along(element_of(info.dtype), info.sizes, descriptor.axis)
    s.sign = (0x80 if info.dtype.is_signed else 0) ^ (0xFF if descriptor.beta < 0 else 0)
    s.low, s.high = integer_range(info.dtype)
    s.zero, s.step = result.quantization.zero_point[0], result.quantization.scale[0]
    s.fixed = s.step == 1.0 / 256 and s.zero == s.low and fill_fixed(s, factor)
    if not s.fixed:
        for distance in range(256):
            s.shares[distance] = <uint32_t>rint(ldexp(exp(-factor * distance), 30)) if distance else 1 << 30
    allow_in_place(capsule)
    return capsule
