"""C side of the runtime, private to the core."""

from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_queues, dovetail_tensor, dovetail_workload


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

cdef extern from "run.h" nogil:
    enum:
        DVT_MAX_MARKS
        DVT_UNWATCHED
        DVT_IN_ARENA
        DVT_IN_CONSTANT
        DVT_IN_INPUT
        DVT_IN_OUTPUT
        DVT_FAULT_QUEUE
        DVT_FAULT_RUN

    ctypedef struct dvt_mark:
        const char *name
        int64_t time
        int32_t step

    ctypedef struct dvt_context:
        dvt_watch watch
        int32_t n_steps
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

    ctypedef struct dvt_place:
        int32_t storage
        int32_t index
        int64_t offset

    ctypedef struct dvt_plan_step:
        const dovetail_workload *workload
        int32_t queue
        int32_t n_inputs
        int32_t n_outputs
        const int32_t *tensors
        dvt_place workspace
        dvt_place worker_workspace
        size_t worker_stride

    ctypedef struct dvt_plan:
        int32_t n_steps
        int32_t n_tensors
        int32_t n_inputs
        int32_t n_outputs
        int32_t n_arenas
        int32_t n_queues
        const dvt_plan_step *steps
        const dovetail_tensor *tensors
        const dvt_place *places
        char **constants
        const dovetail_queues **queue_tables
        const int32_t *queue_devices
        dvt_pool *pool
        int32_t threads
        int32_t shared_arena

    ctypedef struct dvt_arena:
        void *address
        int on_host

    ctypedef struct dvt_fault:
        int what
        int32_t index
        int code

    int dvt_plan_prepare(dvt_plan *plan)
    void dvt_plan_release(dvt_plan *plan)
    int dvt_context_make(dvt_context *context, const dvt_plan *plan, const dvt_arena *arenas, dvt_fault *fault)
    void dvt_context_attach(dvt_context *context, const dvt_plan *plan, void *shared)
    void dvt_context_close(dvt_context *context, const dvt_plan *plan)
    void dvt_context_free(dvt_context *context)
    int dvt_context_profile(dvt_context *context, int wanted)
    void dvt_context_point_input(dvt_context *context, int32_t k, void *data)
    void dvt_context_point_output(dvt_context *context, int32_t k, void *data)
