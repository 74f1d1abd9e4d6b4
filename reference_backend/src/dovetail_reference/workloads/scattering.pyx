"""ScatterElements and ScatterNd, for every element type.

Updates meet the input one after the other, in row-major order: without a reduction the last one
stays. Reductions of floats round after each step. A position out of range fails the run.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free

from dovetail.abi cimport DOVETAIL_OK, dovetail_call, tensor_data
from dovetail_reference.workloads.blocks cimport REAL, UNSIGNED, domain_of, load_reals, load_wholes, store_reals, store_wholes
from dovetail_reference.workloads.elements cimport Element, element_of
from dovetail_reference.workloads.operations cimport real_binary, real_function2, whole_binary, whole_function2
from dovetail_reference.workloads.positions cimport copy_bytes, free_axes, name_axes, named_axes, named_offset
from dovetail_reference.workloads.walking cimport BLOCK, errand, go_on, new_errand, plan_walk, run_walk, walk
from dovetail_reference.workloads.workload cimport allow_in_place, new_workload, state_of

import math

from dovetail.layers import BinaryOperation, ScatterElements, ScatterReduction

from .strides import contiguous

_OPERATIONS = {
    ScatterReduction.ADD: BinaryOperation.ADD,
    ScatterReduction.MUL: BinaryOperation.MUL,
    ScatterReduction.MAX: BinaryOperation.MAXIMUM,
    ScatterReduction.MIN: BinaryOperation.MINIMUM,
}


cdef struct scatter_state:
    walk route          # ScatterElements: indices, updates, output at position 0 of the axis
    named_axes axes     # ScatterElements: the only one
    Element kind
    real_function2 of_reals     # how an update meets what is there; both NULL: it replaces it
    whole_function2 of_wholes
    int64_t itemsize
    int64_t nbytes      # of the output
    int64_t count       # ScatterNd: positions
    int64_t inner       # elements of a slice


cdef void release(void *state) noexcept nogil:
    free_axes(&(<scatter_state *>state).axes)
    free(state)


cdef void meet(const scatter_state *self, char *target, const char *update, int64_t n, errand *run) noexcept nogil:
    """Let n elements that lie in one piece meet their updates."""
    cdef double reals[2][BLOCK]
    cdef int64_t wholes[2][BLOCK]
    cdef int64_t count, i
    if self.of_reals == NULL and self.of_wholes == NULL:
        copy_bytes(target, update, n * self.itemsize, run)
        return
    while n > 0 and go_on(run, BLOCK):
        count = min(<int64_t>BLOCK, n)
        if self.of_reals != NULL:
            load_reals(self.kind, target, self.itemsize, count, reals[0])
            load_reals(self.kind, update, self.itemsize, count, reals[1])
            for i in range(count):
                reals[0][i] = self.of_reals(reals[0][i], reals[1][i])
            store_reals(self.kind, reals[0], count, target, self.itemsize)
        else:
            load_wholes(self.kind, target, self.itemsize, count, wholes[0])
            load_wholes(self.kind, update, self.itemsize, count, wholes[1])
            for i in range(count):
                wholes[0][i] = self.of_wholes(wholes[0][i], wholes[1][i])
            store_wholes(self.kind, wholes[0], False, count, target, self.itemsize)
        target += count * self.itemsize
        update += count * self.itemsize
        n -= count


cdef void element_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef errand *run = <errand *>arg
    cdef scatter_state *self = <scatter_state *>run.state
    cdef int64_t i, offset
    for i in range(n):
        offset = named_offset(&self.axes, at[0] + i * steps[0], run)
        if not go_on(run, 1):
            return
        meet(self, at[2] + i * steps[2] + offset, at[1] + i * steps[1], 1, run)


cdef int execute_elements(void *state, const dovetail_call *call) noexcept nogil:
    cdef scatter_state *self = <scatter_state *>state
    cdef char *bases[3]
    cdef errand run = new_errand(call, self)
    cdef int code
    bases[0], bases[1] = <char *>tensor_data(&call.inputs[1]), <char *>tensor_data(&call.inputs[2])
    bases[2] = <char *>tensor_data(&call.outputs[0])
    copy_bytes(bases[2], <const char *>tensor_data(&call.inputs[0]), self.nbytes, &run)
    code = run_walk(&self.route, bases, element_row, &run, call)
    return code if run.code == DOVETAIL_OK else run.code


cdef int execute_slices(void *state, const dovetail_call *call) noexcept nogil:
    cdef scatter_state *self = <scatter_state *>state
    cdef const char *indices = <const char *>tensor_data(&call.inputs[1])
    cdef const char *update = <const char *>tensor_data(&call.inputs[2])
    cdef char *target = <char *>tensor_data(&call.outputs[0])
    cdef int64_t i, offset
    cdef errand run = new_errand(call, self)
    copy_bytes(target, <const char *>tensor_data(&call.inputs[0]), self.nbytes, &run)
    for i in range(self.count):
        offset = named_offset(&self.axes, indices, &run)
        if not go_on(&run, 16):
            return run.code
        meet(self, target + offset, update, self.inner, &run)
        indices += self.axes.depth * self.axes.index_bytes
        update += self.inner * self.itemsize
    return run.code


def create(layer, dtype):
    """Make the workload capsule."""
    descriptor, (info, indices, updates) = layer.descriptor, layer.input_infos
    itemsize, strides = info.dtype.itemsize, contiguous(info.sizes, info.dtype.itemsize)
    by_element = isinstance(descriptor, ScatterElements)
    first = descriptor.axis % info.rank if by_element else 0
    depth = 1 if by_element else indices.sizes[indices.rank - 1]
    capsule = new_workload(execute_elements if by_element else execute_slices, sizeof(scatter_state), release)
    cdef scatter_state *self = <scatter_state *>state_of(capsule)
    self.kind, self.itemsize, self.nbytes = element_of(info.dtype), itemsize, info.elements * itemsize
    if descriptor.reduction is not ScatterReduction.NONE:
        operation = _OPERATIONS[descriptor.reduction]
        if domain_of(self.kind) == REAL:
            self.of_reals = real_binary(operation)
        else:
            self.of_wholes = whole_binary(operation, domain_of(self.kind) == UNSIGNED, False)
    name_axes(&self.axes, indices, info.sizes, strides, first, depth)
    if by_element:
        fixed = strides[:first] + (0,) + strides[first + 1 :]
        by_operand = (contiguous(indices.sizes, indices.dtype.itemsize), contiguous(indices.sizes, itemsize), fixed)
        plan_walk(&self.route, indices.sizes, by_operand)
    else:
        self.count = math.prod(indices.sizes[: indices.rank - 1])
        self.inner = math.prod(info.sizes[depth:])
    allow_in_place(capsule)
    return capsule
