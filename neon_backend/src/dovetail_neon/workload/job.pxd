from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body, dovetail_call


cdef extern from "dovetail_neon/workload/job.h" nogil:
    ctypedef struct acc_job:
        const void *parameters
        const void *const *inputs
        void *const *outputs
        char *workspace
        char *worker_workspace
        size_t worker_stride
        const dovetail_call *call
        int32_t *stopped

    ctypedef struct acc_phase:
        dovetail_body body
        int64_t range
        int64_t multiple
        int64_t most
        int64_t alone
        int32_t per_worker
