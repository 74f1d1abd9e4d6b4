"""Quantize and Dequantize: per tensor or per axis, all integer types.

Source: ONNX QuantizeLinear and DequantizeLinear. As in every runtime the arithmetic is float32, so
that ties fall alike; float64 tensors are computed in double. A NaN quantizes to the zero point.
"""

from libc.math cimport isnan, rint, round
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.stdlib cimport free

from dovetail.abi cimport dovetail_call, tensor_data
from dovetail_reference.workloads.block_walks cimport block
from dovetail_reference.workloads.blocks cimport load_reals, load_wholes, real_of_whole, store_reals, store_wholes
from dovetail_reference.workloads.elements cimport FLOAT64, INT64, UINT64, Element, element_of
from dovetail_reference.workloads.walking cimport plan_walk, run_walk, walk
from dovetail_reference.workloads.workload cimport allocate, new_workload, state_of

from dovetail.layers import Quantize, TieRounding

from .strides import contiguous


cdef struct channel:
    double scale
    int64_t zero        # bits of the zero point

cdef struct quantizing_state:
    walk route          # operands: input, output, channel
    Element source
    Element target
    double low          # minimum and greatest value of the integer type; not exact for 64 bits
    double high
    bint away           # ties go away from zero, else to even
    channel *channels


cdef void release(void *state) noexcept nogil:
    free((<quantizing_state *>state).channels)
    free(state)


cdef inline int64_t saturated(double value, const quantizing_state *self) noexcept nogil:
    """Convert to the bits of the integer type, clamping to its range."""
    if value >= self.high:  # for the 64-bit types 2^63 or 2^64: their greatest value is no double
        if self.target == UINT64:
            return -1
        return INT64_MAX if self.target == INT64 else <int64_t>self.high
    if value <= self.low:
        return <int64_t>self.low
    return <int64_t><uint64_t>value if self.target == UINT64 else <int64_t>value


cdef void quantize_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef quantizing_state *self = <quantizing_state *>arg
    cdef const channel *by
    cdef block values
    cdef int64_t i
    cdef double quotient
    load_reals(self.source, at[0], steps[0], n, values.reals)
    for i in range(n):
        by = <const channel *>(at[2] + i * steps[2])
        if self.source == FLOAT64:
            quotient = values.reals[i] / by.scale
        else:
            quotient = <float>values.reals[i] / <float>by.scale
        quotient = round(quotient) if self.away else rint(quotient)
        quotient = 0 if isnan(quotient) else quotient
        values.wholes[i] = saturated(quotient + real_of_whole(by.zero, self.target == UINT64), self)
    store_wholes(self.target, values.wholes, False, n, at[1], steps[1])


cdef void dequantize_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef quantizing_state *self = <quantizing_state *>arg
    cdef const channel *by
    cdef block values
    cdef int64_t i
    cdef uint64_t element, zero
    cdef bint below
    cdef double difference
    load_wholes(self.source, at[0], steps[0], n, values.wholes)
    for i in range(n):
        by = <const channel *>(at[2] + i * steps[2])
        element, zero = <uint64_t>values.wholes[i], <uint64_t>by.zero
        below = element < zero if self.source == UINT64 else values.wholes[i] < by.zero
        # The magnitude of a difference fits 64 bits without a sign; the difference itself would
        # wrap.
        difference = -real_of_whole(<int64_t>(zero - element), True) if below else real_of_whole(<int64_t>(element - zero), True)
        if self.target == FLOAT64:
            values.reals[i] = difference * by.scale
        else:
            values.reals[i] = <float>difference * <float>by.scale
    store_reals(self.target, values.reals, n, at[1], steps[1])


cdef int execute(quantizing_state *self, const dovetail_call *call, bint quantizes) noexcept nogil:
    cdef char *bases[3]
    bases[0], bases[1] = <char *>tensor_data(&call.inputs[0]), <char *>tensor_data(&call.outputs[0])
    bases[2] = <char *>self.channels
    return run_walk(&self.route, bases, quantize_row if quantizes else dequantize_row, self, call)


cdef int execute_quantize(void *state, const dovetail_call *call) noexcept nogil:
    return execute(<quantizing_state *>state, call, True)


cdef int execute_dequantize(void *state, const dovetail_call *call) noexcept nogil:
    return execute(<quantizing_state *>state, call, False)


def create(layer, dtype):
    """Make the workload capsule."""
    info, result, quantization = layer.inputs[0].info, layer.output.known_info, layer.descriptor.quantization
    quantizes = isinstance(layer.descriptor, Quantize)
    whole = result.dtype if quantizes else info.dtype
    strides = [0] * info.rank
    if quantization.axis is not None:
        strides[quantization.axis % info.rank] = sizeof(channel)
    capsule = new_workload(execute_quantize if quantizes else execute_dequantize, sizeof(quantizing_state), release)
    cdef quantizing_state *self = <quantizing_state *>state_of(capsule)
    cdef int64_t i
    self.source, self.target = element_of(info.dtype), element_of(result.dtype)
    self.away = quantizes and layer.descriptor.rounding is TieRounding.AWAY_FROM_ZERO
    self.low = -(2.0 ** (whole.bits - 1)) if whole.is_signed else 0.0
    self.high = 2.0 ** (whole.bits - 1 if whole.is_signed else whole.bits) - 1.0
    self.channels = <channel *>allocate(len(quantization.scale), sizeof(channel))
    for i, (scale, zero) in enumerate(zip(quantization.scale, quantization.zero_point, strict=True)):
        self.channels[i].scale = scale
        self.channels[i].zero = zero - (1 << 64) if zero >> 63 == 1 else zero
    plan_walk(&self.route, info.sizes, (
        contiguous(info.sizes, info.dtype.itemsize), contiguous(result.sizes, result.dtype.itemsize), strides
    ))
    return capsule
