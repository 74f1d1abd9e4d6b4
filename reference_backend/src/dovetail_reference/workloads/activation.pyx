"""Activation and Prelu.

Floats of every width are computed in double and rounded once (`activations.h`). int8 and uint8
tensors with quantization go through a table of 256, filled as TensorFlow Lite's are: in fixed point
for the functions that it computes so. Prelu of these is computed in fixed point, too
(reference_ops::BroadcastPrelu4DSlow). RELU, BOUNDED_RELU and Prelu take plain integers as well.
"""

from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_call
from dovetail_reference.workloads.activations cimport activate, activation_code
from dovetail_reference.workloads.blocks cimport REAL, UNSIGNED, domain_of, load_reals, load_wholes, store_reals, store_wholes
from dovetail_reference.workloads.elements cimport Element, element_of
from dovetail_reference.workloads.operations cimport clamp_whole
from dovetail_reference.workloads.requantize cimport clamp_int32, requantization, requantization_of, requantize
from dovetail_reference.workloads.walking cimport BLOCK, plan_walk, walk, walk_tensors
from dovetail_reference.workloads.workload cimport allow_in_place, new_workload, state_of

from dovetail import DType
from dovetail.layers import ActivationFunction, Prelu

from .movement import mapping_workload
from .operations import integer_clamp
from .quantized import CLAMPS, clamp_range, integer_range
from .strides import broadcast, contiguous
from .tables import function_table, hard_swish_table, two_slopes_table


def create(layer, dtype):
    """Make the workload capsule."""
    info, result, descriptor = layer.inputs[0].info, layer.output.known_info, layer.descriptor
    if isinstance(descriptor, Prelu):
        return _create_prelu(info, layer.inputs[1].info, result)
    if info.quantization is not None:
        return mapping_workload(info.elements, _table(descriptor, info, result))
    return _create_activation(descriptor, info)


def _table(descriptor, info, result):
    mine, theirs, is_signed = info.quantization, result.quantization, info.dtype is DType.INT8
    function, alpha, beta = descriptor.function, descriptor.alpha, descriptor.beta
    table = None
    if function in CLAMPS:
        table = two_slopes_table(1.0, mine, theirs, is_signed, *clamp_range(function, alpha, beta, info.dtype, theirs))
    elif function == ActivationFunction.LEAKY_RELU:
        table = two_slopes_table(alpha, mine, theirs, is_signed, *integer_range(info.dtype))
    elif function == ActivationFunction.HARD_SWISH:
        table = hard_swish_table(mine, theirs, is_signed)
    return table or function_table(_python_function(descriptor), mine, theirs, is_signed)


def _python_function(descriptor):
    cdef int code = activation_code(descriptor.function)
    cdef double alpha = descriptor.alpha, beta = descriptor.beta
    return lambda x: activate(code, x, alpha, beta)


cdef struct activation_state:
    walk route
    Element kind
    int code
    double alpha
    double beta
    int64_t low         # of integers
    int64_t high


cdef void activation_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef activation_state *self = <activation_state *>arg
    cdef double reals[BLOCK]
    cdef int64_t wholes[BLOCK]
    cdef int64_t i
    if domain_of(self.kind) == REAL:
        load_reals(self.kind, at[0], steps[0], n, reals)
        for i in range(n):
            reals[i] = activate(self.code, reals[i], self.alpha, self.beta)
        store_reals(self.kind, reals, n, at[1], steps[1])
    else:
        load_wholes(self.kind, at[0], steps[0], n, wholes)
        for i in range(n):
            wholes[i] = clamp_whole(wholes[i], self.low, self.high, domain_of(self.kind) == UNSIGNED)
        store_wholes(self.kind, wholes, False, n, at[1], steps[1])


cdef int execute_activation(void *state, const dovetail_call *call) noexcept nogil:
    return walk_tensors(&(<activation_state *>state).route, activation_row, state, call)


cdef object _create_activation(object descriptor, object info):
    capsule = new_workload(execute_activation, sizeof(activation_state))
    cdef activation_state *self = <activation_state *>state_of(capsule)
    step = (info.dtype.itemsize,)
    self.kind = element_of(info.dtype)
    self.code, self.alpha, self.beta = activation_code(descriptor.function), descriptor.alpha, descriptor.beta
    if domain_of(self.kind) != REAL:
        self.low, self.high = integer_clamp(descriptor.function, descriptor.alpha, descriptor.beta, info.dtype)
    plan_walk(&self.route, (info.elements,), (step, step))
    allow_in_place(capsule)
    return capsule


cdef struct prelu_state:
    walk route
    Element kind
    bint quantized
    int32_t zero
    int32_t slope_zero
    int32_t result_zero
    int32_t low
    int32_t high
    requantization above    # of elements from zero on
    requantization below    # of the others times their slope


cdef void prelu_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef Element kind = (<prelu_state *>arg).kind
    cdef double reals[BLOCK]
    cdef double slopes[BLOCK]
    cdef int64_t wholes[BLOCK]
    cdef int64_t factors[BLOCK]
    cdef int64_t i
    if domain_of(kind) == REAL:
        load_reals(kind, at[0], steps[0], n, reals)
        load_reals(kind, at[1], steps[1], n, slopes)
        for i in range(n):
            reals[i] = reals[i] * slopes[i] if reals[i] < 0 else reals[i]
        store_reals(kind, reals, n, at[2], steps[2])
    else:
        load_wholes(kind, at[0], steps[0], n, wholes)
        load_wholes(kind, at[1], steps[1], n, factors)
        for i in range(n):
            if wholes[i] < 0 and domain_of(kind) != UNSIGNED:
                wholes[i] = <int64_t>(<unsigned long long>wholes[i] * <unsigned long long>factors[i])
        store_wholes(kind, wholes, False, n, at[2], steps[2])


cdef void quantized_prelu_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef const prelu_state *self = <const prelu_state *>arg
    cdef int64_t wholes[BLOCK]
    cdef int64_t factors[BLOCK]
    cdef int64_t i
    cdef int32_t value
    load_wholes(self.kind, at[0], steps[0], n, wholes)
    load_wholes(self.kind, at[1], steps[1], n, factors)
    for i in range(n):
        value = <int32_t>wholes[i] - self.zero
        if value >= 0:
            value = requantize(value, self.above)
        else:
            value = requantize(value * (<int32_t>factors[i] - self.slope_zero), self.below)
        wholes[i] = clamp_int32(value + self.result_zero, self.low, self.high)
    store_wholes(self.kind, wholes, False, n, at[2], steps[2])


cdef int execute_prelu(void *state, const dovetail_call *call) noexcept nogil:
    cdef prelu_state *self = <prelu_state *>state
    return walk_tensors(&self.route, quantized_prelu_row if self.quantized else prelu_row, self, call)


cdef void fill_prelu_quantization(prelu_state *self, object info, object slope, object result) except *:
    """Zero points, factors (formed in float32) and range."""
    cdef float scale = info.quantization.scale[0], slope_scale = slope.quantization.scale[0]
    cdef float result_scale = result.quantization.scale[0]
    self.quantized = True
    self.zero, self.slope_zero = info.quantization.zero_point[0], slope.quantization.zero_point[0]
    self.result_zero = result.quantization.zero_point[0]
    self.above = requantization_of(scale / result_scale)
    self.below = requantization_of(scale * slope_scale / result_scale)
    self.low, self.high = integer_range(info.dtype)


cdef object _create_prelu(object info, object slope, object result):
    capsule = new_workload(execute_prelu, sizeof(prelu_state))
    cdef prelu_state *self = <prelu_state *>state_of(capsule)
    itemsize = info.dtype.itemsize
    own = contiguous(info.sizes, itemsize)
    self.kind = element_of(info.dtype)
    if info.quantization is not None:
        fill_prelu_quantization(self, info, slope, result)
    plan_walk(&self.route, info.sizes, (own, broadcast(slope.sizes, info.sizes, itemsize), own))
    allow_in_place(capsule)
    return capsule
