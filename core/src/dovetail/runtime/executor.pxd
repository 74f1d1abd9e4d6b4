"""C side of the runtime, private to the core."""

from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_call, dovetail_host, dovetail_queues, dovetail_workload


cdef extern from "thread_pool.h" nogil:
    ctypedef struct dvt_pool
    dvt_pool *dvt_pool_create(int threads, int spin_us)
    void dvt_pool_destroy(dvt_pool *pool)
    int dvt_pool_threads(const dvt_pool *pool)

cdef extern from "usable_cores.h" nogil:
    int dvt_usable_cores()

cdef extern from "watchdog.h" nogil:
    enum:
        DVT_TIMED_OUT
        DVT_CANCELLED
    ctypedef struct dvt_watch:
        int stop
    int64_t dvt_now_ns()

cdef extern from "executor.h" nogil:
    enum:
        DVT_STEP_EXECUTE
        DVT_STEP_WAIT
        DVT_MAX_MARKS
        DVT_UNWATCHED

    ctypedef struct dvt_step:
        int kind
        int32_t queue
        void *state
        int (*execute)(void *state, const dovetail_call *call) noexcept nogil

    ctypedef struct dvt_mark:
        const char *name
        int64_t time
        int32_t step

    ctypedef struct dvt_context:
        dvt_watch watch
        const dvt_step *steps
        dovetail_call *calls
        int32_t n_steps
        int32_t n_queues
        const dovetail_queues **queue_tables
        void **queues
        char *pending
        dvt_pool *pool
        int32_t threads
        void *owner
        int (*poll)(dvt_context *) noexcept nogil
        int64_t *times
        dvt_mark *marks
        int n_marks
        int code
        int32_t failed_step
        int32_t current_step
        int stuck
        char *message

    int dvt_context_run(dvt_context *context, int64_t deadline, int wants_poll)
    void dvt_context_cancel(dvt_context *context)
    const dovetail_host dvt_host
