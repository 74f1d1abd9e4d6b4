"""Comparison and Where, with broadcast, for every element type."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from dovetail.abi cimport dovetail_call
from dovetail_reference.workloads.blocks cimport REAL, SIGNED, domain_of, load_reals, load_wholes
from dovetail_reference.workloads.elements cimport Element, element_of
from dovetail_reference.workloads.walking cimport BLOCK, plan_walk, walk, walk_tensors
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
    walk route
    Element kind
    int accepted


cdef void comparison_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef comparison_state *self = <comparison_state *>arg
    cdef double reals[2][BLOCK]
    cdef int64_t wholes[2][BLOCK]
    cdef int64_t i
    cdef int relation
    if domain_of(self.kind) == REAL:
        load_reals(self.kind, at[0], steps[0], n, reals[0])
        load_reals(self.kind, at[1], steps[1], n, reals[1])
    else:
        load_wholes(self.kind, at[0], steps[0], n, wholes[0])
        load_wholes(self.kind, at[1], steps[1], n, wholes[1])
    for i in range(n):
        if domain_of(self.kind) == REAL:
            relation = LESS * (reals[0][i] < reals[1][i]) + EQUAL * (reals[0][i] == reals[1][i])
            relation += GREATER * (reals[0][i] > reals[1][i])
            relation = UNORDERED if relation == 0 else relation
        elif wholes[0][i] == wholes[1][i]:
            relation = EQUAL
        elif domain_of(self.kind) == SIGNED:
            relation = LESS if wholes[0][i] < wholes[1][i] else GREATER
        else:
            relation = LESS if <uint64_t>wholes[0][i] < <uint64_t>wholes[1][i] else GREATER
        at[2][i * steps[2]] = (relation & self.accepted) != 0


cdef int execute_comparison(void *state, const dovetail_call *call) noexcept nogil:
    return walk_tensors(&(<comparison_state *>state).route, comparison_row, state, call)


cdef object _create_comparison(object descriptor, object infos, object result, object strides):
    capsule = new_workload(execute_comparison, sizeof(comparison_state))
    cdef comparison_state *self = <comparison_state *>state_of(capsule)
    self.kind = element_of(infos[0].dtype)
    self.accepted = _ACCEPTED[descriptor.operation.value]
    plan_walk(&self.route, result.sizes, strides)
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
