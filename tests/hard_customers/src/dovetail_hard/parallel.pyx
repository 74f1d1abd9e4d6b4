"""Cython side of the parallel workload."""

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_call, dovetail_tensor, dovetail_workload, workload_capsule

cdef extern from "parallel_workload.h" nogil:
    ctypedef struct pw_state:
        int64_t mode, grain, chunk, work_us
    int PW_SUM, PW_NESTED, PW_FAIL, PW_FAIL_ALL, PW_POLL, PW_POLL_CHUNKS, PW_DEAF, PW_WORKERS, PW_MARK, PW_IGNORES_FAILURE, PW_ALONE
    int pw_execute(void *state, const dovetail_call *call) noexcept
    int pw_workspace(
        void *state, const dovetail_tensor *inputs, const dovetail_tensor *outputs, int32_t workers, size_t *shared, size_t *per_worker
    ) noexcept

MODES = {
    "sum": PW_SUM, "nested": PW_NESTED, "fail": PW_FAIL, "fail_all": PW_FAIL_ALL, "poll": PW_POLL, "poll_chunks": PW_POLL_CHUNKS,
    "deaf": PW_DEAF, "workers": PW_WORKERS, "mark": PW_MARK, "ignores_failure": PW_IGNORES_FAILURE, "alone": PW_ALONE,
}


cdef void release(void *state) noexcept nogil:
    PyMem_RawFree(state)


def create(str mode, int64_t grain, int64_t chunk, int64_t work_us, int concurrency=0):
    """Return the capsule of a parallel workload; the modes are explained in parallel_workload.h."""
    cdef dovetail_workload *table
    cdef pw_state *state = <pw_state *>PyMem_RawCalloc(1, sizeof(pw_state))
    if state == NULL:
        raise MemoryError()
    state.mode, state.grain, state.chunk, state.work_us = MODES[mode], grain, chunk, work_us
    try:
        capsule = workload_capsule(pw_execute, state, release, &table)
    except BaseException:
        release(state)
        raise
    table.workspace = pw_workspace
    table.concurrency = concurrency
    return capsule
