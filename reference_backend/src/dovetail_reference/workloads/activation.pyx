"""Activation and Prelu.

Floats of every width are computed in double and rounded once (`activations.h`). int8 and uint8
tensors with quantization go through a table of 256, filled as TensorFlow Lite's are: in fixed point
for the functions that it computes so. Prelu of these is computed in fixed point, too
(reference_ops::BroadcastPrelu4DSlow). RELU, BOUNDED_RELU and Prelu take plain integers as well.
"""

from libc.stdint cimport int32_t, int64_t

from dovetail_reference.workloads.activations cimport activate, activation_code
from dovetail_reference.workloads.block_walks cimport block, block_walk, new_block_walk
from dovetail_reference.workloads.blocks cimport UNSIGNED, domain_of
from dovetail_reference.workloads.operations cimport clamp_whole
from dovetail_reference.workloads.requantize cimport clamp_sum, product_ratio, requantization, requantization_of, requantize
from dovetail_reference.workloads.walking cimport plan_walk
from dovetail_reference.workloads.workload cimport allow_in_place, state_of

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
    block_walk blocks
    int code
    double alpha
    double beta
    int64_t low         # of integers
    int64_t high


cdef void activate_reals(const void *state, block *x, int64_t n) noexcept nogil:
    cdef const activation_state *self = <const activation_state *>state
    cdef double alpha = self.alpha, beta = self.beta
    cdef int code = self.code
    cdef int64_t i
    for i in range(n):
        x.reals[i] = activate(code, x.reals[i], alpha, beta)


cdef void clamp_wholes(const void *state, block *x, int64_t n) noexcept nogil:
    cdef const activation_state *self = <const activation_state *>state
    cdef bint unsigned = domain_of(self.blocks.kinds[0]) == UNSIGNED
    cdef int64_t i, low = self.low, high = self.high
    for i in range(n):
        x.wholes[i] = clamp_whole(x.wholes[i], low, high, unsigned)


cdef object _create_activation(object descriptor, object info):
    capsule = new_block_walk(sizeof(activation_state), (info, info))
    cdef activation_state *self = <activation_state *>state_of(capsule)
    step = (info.dtype.itemsize,)
    self.code, self.alpha, self.beta = activation_code(descriptor.function), descriptor.alpha, descriptor.beta
    self.blocks.compute = activate_reals if self.blocks.real else clamp_wholes
    if not self.blocks.real:
        self.low, self.high = integer_clamp(descriptor.function, descriptor.alpha, descriptor.beta, info.dtype)
    plan_walk(&self.blocks.route, (info.elements,), (step, step))
    allow_in_place(capsule)
    return capsule


cdef struct prelu_state:
    block_walk blocks
    int32_t zero            # what follows: of quantized tensors
    int32_t slope_zero
    int32_t result_zero
    int32_t low
    int32_t high
    requantization above    # of elements from zero on
    requantization below    # of the others times their slope


cdef void prelu_reals(const void *state, block *inputs, int64_t n) noexcept nogil:
    cdef double *x = inputs[0].reals
    cdef int64_t i
    cdef double scaled
    for i in range(n):
        scaled = x[i] * inputs[1].reals[i]      # of all, which takes no branch
        x[i] = scaled if x[i] < 0 else x[i]


cdef void prelu_wholes(const void *state, block *inputs, int64_t n) noexcept nogil:
    cdef int64_t *x = inputs[0].wholes
    cdef int64_t i
    if domain_of((<const prelu_state *>state).blocks.kinds[0]) == UNSIGNED:
        return
    for i in range(n):
        if x[i] < 0:
            x[i] = <int64_t>(<unsigned long long>x[i] * <unsigned long long>inputs[1].wholes[i])


cdef void prelu_quantized(const void *state, block *inputs, int64_t n) noexcept nogil:
    cdef const prelu_state *self = <const prelu_state *>state
    cdef int64_t i
    cdef int32_t value
    for i in range(n):
        value = <int32_t>inputs[0].wholes[i] - self.zero
        if value >= 0:
            value = requantize(value, self.above)
        else:
            value = requantize(value * (<int32_t>inputs[1].wholes[i] - self.slope_zero), self.below)
        inputs[0].wholes[i] = clamp_sum(value, self.result_zero, self.low, self.high)


cdef void fill_prelu_quantization(prelu_state *self, object info, object slope, object result) except *:
    """Zero points, factors (formed in float32) and range."""
    cdef float scale = info.quantization.scale[0], slope_scale = slope.quantization.scale[0]
    cdef float result_scale = result.quantization.scale[0]
    self.blocks.compute = prelu_quantized
    self.zero, self.slope_zero = info.quantization.zero_point[0], slope.quantization.zero_point[0]
    self.result_zero = result.quantization.zero_point[0]
    self.above = requantization_of(scale / result_scale)
    self.below = requantization_of(product_ratio(scale, slope_scale, result_scale))
    self.low, self.high = integer_range(info.dtype)


cdef object _create_prelu(object info, object slope, object result):
    capsule = new_block_walk(sizeof(prelu_state), (info, slope, result))
    cdef prelu_state *self = <prelu_state *>state_of(capsule)
    itemsize = info.dtype.itemsize
    own = contiguous(info.sizes, itemsize)
    self.blocks.compute = prelu_reals if self.blocks.real else prelu_wholes
    if info.quantization is not None:
        fill_prelu_quantization(self, info, slope, result)
    plan_walk(&self.blocks.route, info.sizes, (own, broadcast(slope.sizes, info.sizes, itemsize), own))
    allow_in_place(capsule)
    return capsule
