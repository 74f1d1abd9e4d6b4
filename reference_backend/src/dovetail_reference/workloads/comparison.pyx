"""Comparison and Where, with broadcast, for every element type."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from dovetail.abi cimport dovetail_call
from dovetail_reference.workloads.block_walks cimport block, block_walk, new_block_walk
from dovetail_reference.workloads.blocks cimport SIGNED, domain_of
from dovetail_reference.workloads.walking cimport plan_walk, walk, walk_tensors
from dovetail_reference.workloads.workload cimport allow_in_place, new_workload, state_of

from dovetail.layers import Where

from .strides import broadcast, contiguous

# Bits of what a comparison accepts; NaN is none of the three, and only "not equal" accepts that.
cdef enum:
    LESS = 1
    EQUAL = 2
    GREATER = 4
    UNORDERED = 8

_ACCEPTED = {
    "equal": EQUAL,
    "not_equal": LESS | GREATER | UNORDERED,
    "greater": GREATER,
    "greater_or_equal": GREATER | EQUAL,
    "less": LESS,
    "less_or_equal": LESS | EQUAL,
}


def create(layer, dtype):
    """Make the workload capsule."""
    infos, result = layer.input_infos, layer.output.known_info
    strides = [broadcast(info.sizes, result.sizes, info.dtype.itemsize) for info in infos]
    strides.append(contiguous(result.sizes, result.dtype.itemsize))
    if isinstance(layer.descriptor, Where):
        return _create_where(infos, result, strides)
    return _create_comparison(layer.descriptor, infos, result, strides)


cdef struct comparison_state:
    block_walk blocks
    int accepted


cdef void compare_reals(const void *state, block *inputs, int64_t n) noexcept nogil:
    cdef int accepted = (<const comparison_state *>state).accepted, relation
    cdef int64_t i
    cdef double a, b
    for i in range(n):
        a, b = inputs[0].reals[i], inputs[1].reals[i]
        relation = LESS * (a < b) + EQUAL * (a == b) + GREATER * (a > b)
        inputs[0].reals[i] = ((UNORDERED if relation == 0 else relation) & accepted) != 0


cdef void compare_wholes(const void *state, block *inputs, int64_t n) noexcept nogil:
    cdef const comparison_state *self = <const comparison_state *>state
    cdef bint less
    cdef int64_t i, a, b
    for i in range(n):
        a, b = inputs[0].wholes[i], inputs[1].wholes[i]
        less = a < b if domain_of(self.blocks.kinds[0]) == SIGNED else <uint64_t>a < <uint64_t>b
        inputs[0].wholes[i] = ((EQUAL if a == b else LESS if less else GREATER) & self.accepted) != 0


cdef object _create_comparison(object descriptor, object infos, object result, object strides):
    capsule = new_block_walk(sizeof(comparison_state), (*infos, result))
    cdef comparison_state *self = <comparison_state *>state_of(capsule)
    self.blocks.compute = compare_reals if self.blocks.real else compare_wholes
    self.accepted = _ACCEPTED[descriptor.operation.value]
    plan_walk(&self.blocks.route, result.sizes, strides)
    return capsule


cdef struct where_state:
    walk route
    int64_t itemsize


cdef void where_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef int64_t itemsize = (<where_state *>arg).itemsize, i, chosen
    for i in range(n):
        chosen = 1 if at[0][i * steps[0]] != 0 else 2
        # Not memcpy: the output may share bytes with the input that is chosen.
        copy_element(at[3] + i * steps[3], at[chosen] + i * steps[chosen], itemsize)


cdef inline void copy_element(char *target, const char *source, int64_t itemsize) noexcept nogil:
    cdef uint64_t element
    memcpy(&element, source, itemsize)
    memcpy(target, &element, itemsize)


cdef int execute_where(void *state, const dovetail_call *call) noexcept nogil:
    return walk_tensors(&(<where_state *>state).route, where_row, state, call)


cdef object _create_where(object infos, object result, object strides):
    capsule = new_workload(execute_where, sizeof(where_state))
    cdef where_state *self = <where_state *>state_of(capsule)
    self.itemsize = result.dtype.itemsize
    plan_walk(&self.route, result.sizes, strides)
    whole = [index for index in (1, 2) if infos[index].shape == result.shape]
    if whole:
        allow_in_place(capsule, whole[0], len(whole))
    return capsule
