"""Cast between all element types; the rules stand in `dovetail.layers.elementwise.Cast`."""

from libc.stdint cimport int64_t

from dovetail.abi cimport dovetail_call
from dovetail_reference.workloads.blocks cimport REAL, UNSIGNED, domain_of, load_reals, load_wholes, store_reals, store_wholes
from dovetail_reference.workloads.elements cimport Element, element_of
from dovetail_reference.workloads.walking cimport BLOCK, plan_walk, walk, walk_tensors
from dovetail_reference.workloads.workload cimport new_workload, state_of


from .movement import Copy, Relation, movement_workload


cdef struct cast_state:
    walk route
    Element source
    Element target


cdef void convert_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef cast_state *self = <cast_state *>arg
    cdef double reals[BLOCK]
    cdef int64_t wholes[BLOCK]
    if domain_of(self.source) == REAL:
        load_reals(self.source, at[0], steps[0], n, reals)
        store_reals(self.target, reals, n, at[1], steps[1])
    else:
        load_wholes(self.source, at[0], steps[0], n, wholes)
        store_wholes(self.target, wholes, domain_of(self.source) == UNSIGNED, n, at[1], steps[1])


cdef int execute(void *state, const dovetail_call *call) noexcept nogil:
    return walk_tensors(&(<cast_state *>state).route, convert_row, state, call)


def create(layer, dtype):
    """Make the workload capsule; a cast to the same type is a view."""
    source, target = layer.inputs[0].info, layer.output.known_info
    shape, read, written = (source.elements,), (source.dtype.itemsize,), (target.dtype.itemsize,)
    if source.dtype is target.dtype:
        same = Copy(shape=shape, source_strides=read, target_strides=written, relation=Relation.VIEW)
        return movement_workload([same], source.dtype.itemsize)
    capsule = new_workload(execute, sizeof(cast_state))
    cdef cast_state *self = <cast_state *>state_of(capsule)
    self.source, self.target = element_of(source.dtype), element_of(target.dtype)
    plan_walk(&self.route, shape, (read, written))
    return capsule
