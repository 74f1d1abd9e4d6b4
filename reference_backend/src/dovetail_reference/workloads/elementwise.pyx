"""ElementwiseUnary and ElementwiseBinary.

Floats of every width are computed in double and rounded once. Integers are computed in 64 bits and
stored modulo 2^bits; dividing by zero gives 0. int8 and uint8 tensors with quantization: ADD, SUB
and MUL by TensorFlow Lite's rules; MAXIMUM and MINIMUM if all three quantizations are equal; unary
functions by a table of 256.
"""

from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_call
from dovetail_reference.workloads.activations cimport ACTIVATION_NONE, FusedFunction, apply, fused_function
from dovetail_reference.workloads.block_walks cimport block, block_row, block_walk, new_block_walk
from dovetail_reference.workloads.blocks cimport REAL, UNSIGNED, domain_of, load_wholes, store_wholes
from dovetail_reference.workloads.elements cimport Element
from dovetail_reference.workloads.operations cimport clamp_whole, real_binary, real_unary, whole_binary, whole_unary
from dovetail_reference.workloads.operations cimport real_function, real_function2, whole_function, whole_function2
from dovetail_reference.workloads.requantize cimport clamp_sum, product_ratio, requantization, requantization_of, requantize
from dovetail_reference.workloads.walking cimport BLOCK, plan_walk, walk, walk_tensors
from dovetail_reference.workloads.workload cimport allow_in_place, state_of

from dovetail import DType
from dovetail.layers import BinaryOperation, ElementwiseUnary

from .movement import mapping_workload
from .operations import integer_clamp, real_unary_function
from .quantized import clamp_range
from .strides import broadcast, contiguous
from .tables import function_table

_QUANTIZED = {BinaryOperation.ADD, BinaryOperation.SUB, BinaryOperation.MUL}


def create(layer, dtype):
    """Make the workload capsule."""
    if isinstance(layer.descriptor, ElementwiseUnary):
        return _create_unary(layer)
    infos, result = layer.input_infos, layer.output.known_info
    if result.quantization is not None and layer.descriptor.operation in _QUANTIZED:
        return _create_quantized(layer.descriptor, infos, result)
    return _create_binary(layer.descriptor, infos, result)


# -- unary -----------------------------------------------------------------------------------------


cdef struct unary_state:
    block_walk blocks
    real_function of_real
    whole_function of_whole


cdef void unary_reals(const void *state, block *x, int64_t n) noexcept nogil:
    cdef real_function function = (<const unary_state *>state).of_real
    cdef int64_t i
    for i in range(n):
        x.reals[i] = function(x.reals[i])


cdef void unary_wholes(const void *state, block *x, int64_t n) noexcept nogil:
    cdef whole_function function = (<const unary_state *>state).of_whole
    cdef int64_t i
    for i in range(n):
        x.wholes[i] = function(x.wholes[i])


cdef object _create_unary(object layer):
    info, result, operation = layer.inputs[0].info, layer.output.known_info, layer.descriptor.operation
    if info.quantization is not None:
        function = real_unary_function(operation)
        table = function_table(function, info.quantization, result.quantization, info.dtype is DType.INT8)
        return mapping_workload(info.elements, table)
    capsule = new_block_walk(sizeof(unary_state), (info, result))
    cdef unary_state *self = <unary_state *>state_of(capsule)
    if self.blocks.real:
        self.blocks.compute, self.of_real = unary_reals, real_unary(operation)
    else:
        self.blocks.compute = unary_wholes
        self.of_whole = whole_unary(operation, domain_of(self.blocks.kinds[0]) == UNSIGNED)
    plan_walk(&self.blocks.route, (info.elements,), ((info.dtype.itemsize,), (result.dtype.itemsize,)))
    if info.dtype is result.dtype:
        allow_in_place(capsule)
    return capsule


# -- binary ----------------------------------------------------------------------------------------


cdef struct binary_state:
    block_walk blocks
    real_function2 of_reals
    whole_function2 of_wholes
    FusedFunction activation
    int64_t low         # clamp of whole results
    int64_t high
    bint clamped


cdef void binary_reals(const void *state, block *inputs, int64_t n) noexcept nogil:
    cdef const binary_state *self = <const binary_state *>state
    cdef double *a = inputs[0].reals
    cdef int64_t i
    for i in range(n):
        a[i] = apply(&self.activation, self.of_reals(a[i], inputs[1].reals[i]))


cdef void binary_wholes(const void *state, block *inputs, int64_t n) noexcept nogil:
    cdef whole_function2 function = (<const binary_state *>state).of_wholes
    cdef int64_t i
    for i in range(n):
        inputs[0].wholes[i] = function(inputs[0].wholes[i], inputs[1].wholes[i])


cdef void binary_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    """Apply the activation of integers to what was stored, hence wrapped."""
    cdef const binary_state *self = <const binary_state *>arg
    cdef Element target = self.blocks.kinds[2]
    cdef int64_t values[BLOCK]
    cdef int64_t i
    block_row(at, steps, n, arg)
    if self.clamped:
        load_wholes(target, at[2], steps[2], n, values)
        for i in range(n):
            values[i] = clamp_whole(values[i], self.low, self.high, domain_of(target) == UNSIGNED)
        store_wholes(target, values, False, n, at[2], steps[2])


cdef int execute_binary(void *state, const dovetail_call *call) noexcept nogil:
    return walk_tensors(&(<binary_state *>state).blocks.route, binary_row, state, call)


cdef int plan_binary(object capsule, walk *route, object infos, object result) except -1:
    """Plan the walk over two operands and the result.

    The result may lie where an operand of its shape and dtype does.
    """
    operands = [broadcast(info.sizes, result.sizes, info.dtype.itemsize) for info in infos]
    plan_walk(route, result.sizes, (*operands, contiguous(result.sizes, result.dtype.itemsize)))
    alike = [index for index, info in enumerate(infos) if info.shape == result.shape and info.dtype is result.dtype]
    if alike:
        allow_in_place(capsule, alike[0], len(alike))
    return 0


cdef object _create_binary(object descriptor, object infos, object result):
    capsule = new_block_walk(sizeof(binary_state), (*infos, result), execute_binary)
    cdef binary_state *self = <binary_state *>state_of(capsule)
    cdef Element *kinds = self.blocks.kinds
    self.activation = fused_function(descriptor)
    if self.blocks.real:
        self.blocks.compute, self.of_reals = binary_reals, real_binary(descriptor.operation)
    else:
        self.blocks.compute = binary_wholes
        self.of_wholes = whole_binary(descriptor.operation, domain_of(kinds[0]) == UNSIGNED, domain_of(kinds[1]) == UNSIGNED)
    if descriptor.activation is not None and domain_of(kinds[2]) != REAL:
        alpha, beta = descriptor.activation_alpha, descriptor.activation_beta
        low, high = integer_clamp(descriptor.activation, alpha, beta, result.dtype)
        self.clamped, self.low, self.high = True, low, high
        self.activation.code = ACTIVATION_NONE
    plan_binary(capsule, &self.blocks.route, infos, result)
    return capsule


# -- quantized: TensorFlow Lite's reference_ops::Add, Sub (integer_ops too) and integer_ops::Mul ---

cdef enum:
    HEADROOM = 20       # bits by which ADD and SUB shift their operands left


cdef struct quantized_state:
    block_walk blocks
    bint multiply
    int32_t zero_a
    int32_t zero_b
    int32_t zero
    int32_t sign        # -1 for SUB
    requantization of_a
    requantization of_b
    requantization of_result
    int32_t low
    int32_t high


cdef void compute_quantized(const void *state, block *inputs, int64_t n) noexcept nogil:
    cdef const quantized_state *self = <const quantized_state *>state
    cdef int64_t i
    cdef int32_t x, y, raw
    for i in range(n):
        x, y = <int32_t>inputs[0].wholes[i] - self.zero_a, <int32_t>inputs[1].wholes[i] - self.zero_b
        if self.multiply:
            raw = x * y
        else:
            raw = requantize(x * (1 << HEADROOM), self.of_a) + self.sign * requantize(y * (1 << HEADROOM), self.of_b)
        inputs[0].wholes[i] = clamp_sum(requantize(raw, self.of_result), self.zero, self.low, self.high)


cdef object _create_quantized(object descriptor, object infos, object result):
    capsule = new_block_walk(sizeof(quantized_state), (*infos, result))
    cdef quantized_state *self = <quantized_state *>state_of(capsule)
    # TensorFlow Lite keeps scales as float32 and multiplies them as such.
    cdef float scale_a = infos[0].quantization.scale[0], scale_b = infos[1].quantization.scale[0]
    cdef float scale = result.quantization.scale[0]
    cdef double widest = 2.0 * max(scale_a, scale_b)
    self.blocks.compute = compute_quantized
    self.multiply = descriptor.operation is BinaryOperation.MUL
    self.sign = -1 if descriptor.operation is BinaryOperation.SUB else 1
    self.zero_a, self.zero_b = infos[0].quantization.zero_point[0], infos[1].quantization.zero_point[0]
    self.zero = result.quantization.zero_point[0]
    if self.multiply:
        self.of_result = requantization_of(product_ratio(scale_a, scale_b, scale))
    else:
        self.of_a, self.of_b = requantization_of(scale_a / widest), requantization_of(scale_b / widest)
        self.of_result = requantization_of(widest / (<double>(1 << HEADROOM) * scale))
    self.low, self.high = clamp_range(
        descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta, result.dtype, result.quantization
    )
    plan_binary(capsule, &self.blocks.route, infos, result)
    return capsule
