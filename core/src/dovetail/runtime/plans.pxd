"""Plans, contexts and the C library that runs them; private to the core."""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_queues, dovetail_tensor, dovetail_workload
from dovetail.runtime.ports cimport Ports, TensorTable


cdef extern from "thread_pool.h" nogil:
    ctypedef struct dvt_pool
    dvt_pool *dvt_pool_create(int threads, int spin_us)
    void dvt_pool_destroy(dvt_pool *pool)
    int dvt_pool_threads(const dvt_pool *pool)

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

    ctypedef struct dvt_span:
        int32_t step
        int32_t queue
        const char *name
        int64_t begin
        int64_t end

    ctypedef struct dvt_spans:
        dvt_span *spans
        int32_t n_spans

    ctypedef struct dvt_work:
        int32_t step
        int32_t worker
        int64_t begin
        int64_t end
        int64_t busy

    ctypedef struct dvt_worker_times:
        int32_t n_works
        dvt_work *works

    ctypedef struct dvt_context:
        dvt_watch watch
        int32_t n_steps
        void *owner
        int (*poll)(dvt_context *) noexcept nogil
        int64_t *times
        dvt_mark *marks
        dvt_spans *spans
        dvt_worker_times *workers
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
    void dvt_context_bind(dvt_context *context)
    void dvt_context_attach(dvt_context *context, const dvt_plan *plan, void *shared)
    void dvt_context_close(dvt_context *context, const dvt_plan *plan)
    void dvt_context_free(dvt_context *context)
    int dvt_context_profile(dvt_context *context, int wanted)
    void dvt_context_point_input(dvt_context *context, int32_t k, void *data)
    void dvt_context_point_output(dvt_context *context, int32_t k, void *data)


cdef int64_t now_ns() noexcept nogil

cdef enum:
    LONGEST_NOTED = 1000000     # nanoseconds: a run that was interrupted says little of the next one


cdef class ThreadPool:
    cdef dvt_pool *pool


@cython.final
cdef class Plan:
    cdef readonly Ports inputs
    cdef readonly Ports outputs
    cdef object describe        # returns what `described` is to be; None once it has
    cdef tuple described        # steps and memory, in words
    cdef readonly list serial_locks
    cdef readonly list workloads
    cdef readonly list queues
    cdef list arenas
    cdef readonly list constants
    cdef dvt_plan c
    cdef object tables          # what `c` points at
    cdef int n_steps
    cdef int n_queues
    cdef int threads
    cdef bint on_device     # has queues or memory that do not survive fork()
    cdef ThreadPool pool
    cdef Context spare          # idle, and the next to be taken: a list would be allocated anew for each run
    cdef list idle              # the others
    cdef list detached          # idle, without the shared arena
    cdef list bound
    cdef list stuck
    cdef int pid
    cdef list spare_arenas
    cdef int shared_arena       # index of the arena that a context gives up while it is idle, or -1
    cdef size_t shared_bytes
    cdef size_t shared_alignment
    cdef readonly int64_t used  # when a run last changed to this plan or away from it, by the network's count
    cdef readonly int64_t lasts # nanoseconds that a run takes of late, as far as runs were timed

    cdef inline void note_time(self, int64_t took) noexcept:
        """Take the time of a run into account: an eighth of it."""
        self.lasts += ((took if took < LONGEST_NOTED else LONGEST_NOTED) - self.lasts) >> 3

    cdef inline Context acquire(self):
        cdef Context context = self.spare
        if context is None:
            return self._acquire_other()
        self.spare = None
        context.plan = self
        return context

    cdef inline int give_back(self, Context context) except -1:
        context.plan = None
        if self.spare is None:
            self.spare = context
        else:
            self.idle.append(context)
        return 0

    cdef tuple _described(self)
    cdef Context _acquire_other(self)
    cdef Context _take_idle(self)
    cdef Context _acquire_anew(self)
    cdef object take_arena(self)
    cpdef detach(self)
    cdef Context bind(self)
    cdef int unbind(self, Context context) except -1
    cpdef close(self)
    cpdef release_memory(self)


@cython.final
cdef class Context:
    cdef dvt_context c
    cdef Plan plan
    cdef PyObject **held
    cdef list arenas
    cdef public object exception    # what a Python workload or a signal handler raised
    cdef bint is_made
    cdef list workloads             # held until the context is closed, even if the plan has released them
    cdef list queues

    cdef int run(self, int64_t deadline, bint on_main) noexcept nogil
    cdef int _make(self) except -1
    cdef int attach(self, arena) except -1
    cdef int close(self, Plan plan) except -1

    cdef inline void drop_inputs(self) noexcept:
        """Let go of the caller's arrays."""
        cdef int i
        for i in range(self.plan.inputs.count):
            if self.held[i] != NULL:
                Py_DECREF(<object>self.held[i])
                self.held[i] = NULL

    cdef inline void point_input(self, int k, void *data) noexcept nogil:
        dvt_context_point_input(&self.c, k, data)

    cdef inline void point_output(self, int k, void *data) noexcept nogil:
        dvt_context_point_output(&self.c, k, data)

    cdef int enable_profile(self) except -1
    cdef int disable_profile(self) except -1
