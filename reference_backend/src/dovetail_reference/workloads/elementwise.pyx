"""ElementwiseUnary and ElementwiseBinary.

Floats of every width are computed in double and rounded once. Integers are computed in 64 bits and
stored modulo 2^bits; dividing by zero gives 0. int8 and uint8 tensors with quantization: ADD, SUB
and MUL by TensorFlow Lite's rules; MAXIMUM and MINIMUM if all three quantizations are equal; unary
functions by a table of 256.
"""

from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_call
from dovetail_reference.workloads.activations cimport ACTIVATION_NONE, FusedFunction, apply, fused_function
from dovetail_reference.workloads.blocks cimport REAL, UNSIGNED, domain_of, load_reals, load_wholes, store_reals, store_wholes
from dovetail_reference.workloads.elements cimport Element, element_of
from dovetail_reference.workloads.operations cimport clamp_whole, real_binary, real_unary, whole_binary, whole_unary
from dovetail_reference.workloads.operations cimport real_function, real_function2, whole_function, whole_function2
from dovetail_reference.workloads.requantize cimport clamp_int32, requantization, requantization_of, requantize
from dovetail_reference.workloads.walking cimport BLOCK, plan_walk, walk, walk_tensors
from dovetail_reference.workloads.workload cimport allow_in_place, new_workload, state_of

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
    walk route
    Element source
    Element target
    real_function of_real
    whole_function of_whole


cdef void unary_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef unary_state *self = <unary_state *>arg
    cdef double reals[BLOCK]
    cdef int64_t wholes[BLOCK]
    cdef int64_t i
    if self.of_real != NULL:
        load_reals(self.source, at[0], steps[0], n, reals)
        for i in range(n):
            reals[i] = self.of_real(reals[i])
        store_reals(self.target, reals, n, at[1], steps[1])
    else:
        load_wholes(self.source, at[0], steps[0], n, wholes)
        for i in range(n):
            wholes[i] = self.of_whole(wholes[i])
        store_wholes(self.target, wholes, False, n, at[1], steps[1])


cdef int execute_unary(void *state, const dovetail_call *call) noexcept nogil:
    return walk_tensors(&(<unary_state *>state).route, unary_row, state, call)


cdef object _create_unary(object layer):
    info, result, operation = layer.inputs[0].info, layer.output.known_info, layer.descriptor.operation
    if info.quantization is not None:
        function = real_unary_function(operation)
        table = function_table(function, info.quantization, result.quantization, info.dtype is DType.INT8)
        return mapping_workload(info.elements, table)
    capsule = new_workload(execute_unary, sizeof(unary_state))
    cdef unary_state *self = <unary_state *>state_of(capsule)
    self.source, self.target = element_of(info.dtype), element_of(result.dtype)
    if domain_of(self.source) == REAL:
        self.of_real = real_unary(operation)
    else:
        self.of_whole = whole_unary(operation, domain_of(self.source) == UNSIGNED)
    plan_walk(&self.route, (info.elements,), ((info.dtype.itemsize,), (result.dtype.itemsize,)))
    if info.dtype is result.dtype:
        allow_in_place(capsule)
    return capsule


# -- binary ----------------------------------------------------------------------------------------


cdef struct binary_state:
    walk route
    Element a
    Element b
    Element target
    real_function2 of_reals
    whole_function2 of_wholes
    FusedFunction activation
    int64_t low         # clamp of whole results
    int64_t high
    bint clamped


cdef void clamp_stored(const binary_state *self, char *at, int64_t step, int64_t n) noexcept nogil:
    """Apply the activation of integers: to what was stored, hence wrapped."""
    cdef int64_t values[BLOCK]
    cdef int64_t i
    load_wholes(self.target, at, step, n, values)
    for i in range(n):
        values[i] = clamp_whole(values[i], self.low, self.high, domain_of(self.target) == UNSIGNED)
    store_wholes(self.target, values, False, n, at, step)


cdef void real_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef binary_state *self = <binary_state *>arg
    cdef double a[BLOCK]
    cdef double b[BLOCK]
    cdef int64_t i
    load_reals(self.a, at[0], steps[0], n, a)
    load_reals(self.b, at[1], steps[1], n, b)
    for i in range(n):
        a[i] = apply(&self.activation, self.of_reals(a[i], b[i]))
    store_reals(self.target, a, n, at[2], steps[2])
    if self.clamped:
        clamp_stored(self, at[2], steps[2], n)


cdef void whole_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef binary_state *self = <binary_state *>arg
    cdef int64_t a[BLOCK]
    cdef int64_t b[BLOCK]
    cdef int64_t i
    load_wholes(self.a, at[0], steps[0], n, a)
    load_wholes(self.b, at[1], steps[1], n, b)
    for i in range(n):
        a[i] = self.of_wholes(a[i], b[i])
    store_wholes(self.target, a, False, n, at[2], steps[2])
    if self.clamped:
        clamp_stored(self, at[2], steps[2], n)


cdef int execute_binary(void *state, const dovetail_call *call) noexcept nogil:
    cdef binary_state *self = <binary_state *>state
    return walk_tensors(&self.route, whole_row if self.of_reals == NULL else real_row, self, call)


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
    capsule = new_workload(execute_binary, sizeof(binary_state))
    cdef binary_state *self = <binary_state *>state_of(capsule)
    self.a, self.b = element_of(infos[0].dtype), element_of(infos[1].dtype)
    self.target = element_of(result.dtype)
    self.activation = fused_function(descriptor)
    if domain_of(self.a) == REAL or domain_of(self.b) == REAL:
        self.of_reals = real_binary(descriptor.operation)
    else:
        self.of_wholes = whole_binary(descriptor.operation, domain_of(self.a) == UNSIGNED, domain_of(self.b) == UNSIGNED)
    if descriptor.activation is not None and domain_of(self.target) != REAL:
        alpha, beta = descriptor.activation_alpha, descriptor.activation_beta
        low, high = integer_clamp(descriptor.activation, alpha, beta, result.dtype)
        self.clamped, self.low, self.high = True, low, high
        self.activation.code = ACTIVATION_NONE
    plan_binary(capsule, &self.route, infos, result)
    return capsule


# -- quantized: TensorFlow Lite's reference_ops::Add, Sub (integer_ops too) and integer_ops::Mul ---

cdef enum:
    HEADROOM = 20       # bits by which ADD and SUB shift their operands left


cdef struct quantized_state:
    walk route
    Element kind
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


cdef void quantized_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef quantized_state *self = <quantized_state *>arg
    cdef int64_t a[BLOCK]
    cdef int64_t b[BLOCK]
    cdef int64_t i
    cdef int32_t x, y, raw
    load_wholes(self.kind, at[0], steps[0], n, a)
    load_wholes(self.kind, at[1], steps[1], n, b)
    for i in range(n):
        x, y = <int32_t>a[i] - self.zero_a, <int32_t>b[i] - self.zero_b
        if self.multiply:
            raw = x * y
        else:
            raw = requantize(x * (1 << HEADROOM), self.of_a) + self.sign * requantize(y * (1 << HEADROOM), self.of_b)
        a[i] = clamp_int32(requantize(raw, self.of_result) + self.zero, self.low, self.high)
    store_wholes(self.kind, a, False, n, at[2], steps[2])


cdef int execute_quantized(void *state, const dovetail_call *call) noexcept nogil:
    return walk_tensors(&(<quantized_state *>state).route, quantized_row, state, call)


cdef object _create_quantized(object descriptor, object infos, object result):
    capsule = new_workload(execute_quantized, sizeof(quantized_state))
    cdef quantized_state *self = <quantized_state *>state_of(capsule)
    # TensorFlow Lite keeps scales as float32 and multiplies them as such.
    cdef float scale_a = infos[0].quantization.scale[0], scale_b = infos[1].quantization.scale[0]
    cdef float scale = result.quantization.scale[0]
    cdef double widest = 2.0 * max(scale_a, scale_b)
    self.kind = element_of(result.dtype)
    self.multiply = descriptor.operation is BinaryOperation.MUL
    self.sign = -1 if descriptor.operation is BinaryOperation.SUB else 1
    self.zero_a, self.zero_b = infos[0].quantization.zero_point[0], infos[1].quantization.zero_point[0]
    self.zero = result.quantization.zero_point[0]
    if self.multiply:
        self.of_result = requantization_of(scale_a * scale_b / scale)
    else:
        self.of_a, self.of_b = requantization_of(scale_a / widest), requantization_of(scale_b / widest)
        self.of_result = requantization_of(widest / (<double>(1 << HEADROOM) * scale))
    self.low, self.high = clamp_range(
        descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta, result.dtype, result.quantization
    )
    plan_binary(capsule, &self.route, infos, result)
    return capsule
