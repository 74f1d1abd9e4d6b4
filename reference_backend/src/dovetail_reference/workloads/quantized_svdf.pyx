"""QuantizedSvdf: one filter after the other, bit for bit as TensorFlow Lite's.

Source: tensorflow/lite/kernels/internal/reference/svdf.h (EvalIntegerSVDF), svdf.cc (Prepare).
Scales are multiplied in float32, as there; where its own arithmetic is undefined, sums wrap and
what is shifted beyond 32 bits saturates.
"""

from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint32_t
from libc.string cimport memcpy

from dovetail.abi cimport dovetail_call, tensor_data
from dovetail_reference.workloads.fixed_point cimport saturate_int16
from dovetail_reference.workloads.requantize cimport clamp_int32, clamp_sum, requantization, requantization_of, requantize
from dovetail_reference.workloads.walking cimport errand, go_on, new_errand, next_span, span
from dovetail_reference.workloads.workload cimport new_workload, state_of


cdef struct State:
    int64_t batch
    int64_t inputs
    int64_t units
    int64_t rank
    int64_t steps
    int32_t input_zero
    int32_t result_zero
    bint has_bias
    requantization of_features
    requantization of_totals


cdef inline int32_t scaled(uint32_t sum, requantization by) noexcept nogil:
    """A sum times a factor; what leaves 32 bits saturates."""
    cdef int32_t most = INT32_MAX >> by.shift if by.shift > 0 else INT32_MAX
    return requantize(clamp_int32(<int32_t>sum, -most, most), by)


cdef int16_t newest_step(const State *s, errand *pace, const int8_t *x, const int8_t *weights) noexcept nogil:
    """What the features of one filter give."""
    cdef uint32_t total = 0
    cdef span part = span(0, 0)
    cdef int64_t i
    while next_span(pace, &part, s.inputs):
        for i in range(part.begin, part.end):
            total += <uint32_t>((<int32_t>x[i] - s.input_zero) * <int32_t>weights[i])
    return saturate_int16(scaled(total, s.of_features))


cdef uint32_t weighed_steps(const State *s, errand *pace, const int16_t *steps, const int16_t *weights) noexcept nogil:
    cdef uint32_t total = 0
    cdef span part = span(0, 0)
    cdef int64_t i
    while next_span(pace, &part, s.steps):
        for i in range(part.begin, part.end):
            total += <uint32_t>(<int32_t>steps[i] * <int32_t>weights[i])
    return total


cdef int execute(void *state, const dovetail_call *call) noexcept nogil:
    cdef const State *s = <const State *>state
    cdef const int8_t *x = <const int8_t *>tensor_data(&call.inputs[0])
    cdef const int16_t *held = <const int16_t *>tensor_data(&call.inputs[1])
    cdef const int8_t *features = <const int8_t *>tensor_data(&call.inputs[2])
    cdef const int16_t *times = <const int16_t *>tensor_data(&call.inputs[3])
    cdef const int32_t *bias = <const int32_t *>tensor_data(&call.inputs[4]) if s.has_bias else NULL
    cdef int8_t *result = <int8_t *>tensor_data(&call.outputs[0])
    cdef int16_t *next = <int16_t *>tensor_data(&call.outputs[1])
    cdef errand pace = new_errand(call)
    cdef int64_t b, unit, filter
    cdef uint32_t total
    for b in range(s.batch):
        for unit in range(s.units):
            total = <uint32_t>bias[unit] if bias != NULL else 0
            for filter in range(unit * s.rank, (unit + 1) * s.rank):
                if not go_on(&pace, 16 + s.steps):
                    return pace.code
                memcpy(next, held + 1, (s.steps - 1) * sizeof(int16_t))
                next[s.steps - 1] = newest_step(s, &pace, x + b * s.inputs, features + filter * s.inputs)
                total += weighed_steps(s, &pace, next, times + filter * s.steps)
                held += s.steps
                next += s.steps
            result[b * s.units + unit] = <int8_t>clamp_sum(scaled(total, s.of_totals), s.result_zero, -128, 127)
    return pace.code


cdef requantization factor_of(float a, float b, float result):
    """The factor `a * b / result` in float32; beyond 2^18 every sum but 0 saturates."""
    cdef float product = a * b
    cdef float factor = product / result
    return requantization_of(factor if factor < <float>(1 << 18) else <float>(1 << 18))


def create(layer, dtype):
    """Make the workload capsule."""
    infos, result = layer.input_infos, layer.output_infos[0]
    capsule = new_workload(execute, sizeof(State))
    cdef State *s = <State *>state_of(capsule)
    x, state, features, times = (info.quantization.scale[0] for info in infos[:4])
    s.batch, s.inputs = infos[0].sizes
    s.units, s.rank, s.steps = result.sizes[1], layer.descriptor.rank, infos[3].sizes[1]
    s.input_zero, s.result_zero = infos[0].quantization.zero_point[0], result.quantization.zero_point[0]
    s.has_bias = len(infos) > 4 and infos[4] is not None
    s.of_features = factor_of(x, features, state)
    s.of_totals = factor_of(state, times, result.quantization.scale[0])
    return capsule
