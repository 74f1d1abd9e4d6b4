"""A workload and the state that it owns: how the families make theirs. Inline helpers only."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free

from dovetail.abi cimport DOVETAIL_OK, DOVETAIL_WORKLOAD_CAPSULE, dovetail_alias, dovetail_execute, dovetail_release
from dovetail.abi cimport dovetail_tensor, dovetail_workload, workload_capsule


cdef extern from "in_place.h" nogil:
    const dovetail_alias *in_place_of(int32_t input)


cdef inline void *allocate(size_t count, size_t size) except NULL:
    """Zero-filled memory for `count` elements of `size` bytes; `free` releases it."""
    cdef void *memory = calloc(count if count else 1, size if size else 1)
    if memory == NULL:
        raise MemoryError()
    return memory


cdef inline void free_state(void *state) noexcept nogil:
    """The `release` of a state that holds nothing else."""
    free(state)


cdef inline object new_workload(dovetail_execute execute, size_t state_bytes, dovetail_release release=NULL):
    """Make the capsule of a workload, with a zero-filled state that it owns from now on.

    Whoever fills the state in may raise: the capsule then releases it. So `release` takes one that
    is filled in only partly. Without `release` the state holds nothing else.
    """
    cdef void *state = allocate(1, state_bytes)
    try:
        return workload_capsule(execute, state, free_state if release == NULL else release)
    except BaseException:
        free(state)
        raise


cdef inline dovetail_workload *workload_of(object capsule) except NULL:
    """The workload of a capsule, whose optional fields can be set until it is handed on."""
    return <dovetail_workload *>PyCapsule_GetPointer(capsule, DOVETAIL_WORKLOAD_CAPSULE)


cdef inline void *state_of(object capsule) except NULL:
    """The state of a workload, to be filled in."""
    return workload_of(capsule).state


cdef inline int allow_in_place(object capsule, int32_t first=0, int32_t count=1) except -1:
    """Let the output alias one of `count` inputs from the input `first` on; three at most."""
    cdef dovetail_workload *workload = workload_of(capsule)
    workload.aliases, workload.n_aliases = in_place_of(first), count
    return 0


cdef inline int stated_workspace(
    void *state, const dovetail_tensor *inputs, const dovetail_tensor *outputs, int32_t workers, size_t *shared, size_t *per_worker
) noexcept nogil:
    """The `workspace` of a state that begins with the bytes that it needs, as a size_t."""
    shared[0], per_worker[0] = (<const size_t *>state)[0], 0
    return DOVETAIL_OK
