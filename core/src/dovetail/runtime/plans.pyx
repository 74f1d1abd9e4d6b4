"""Plans with their run contexts: what a run takes, and gives back when it ends.

All C of the run library is linked into this module, which alone calls it (`core/csrc/run.h`).
"""

cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t
from posix.unistd cimport getpid

from dovetail.abi cimport DOVETAIL_FORKED, DOVETAIL_OK, DOVETAIL_OUT_OF_MEMORY, dovetail_queues
from dovetail.runtime.ports cimport Ports, TensorTable
from dovetail.runtime.workload cimport Queues, Workload

from ..contract.backend_calls import notify
from ..contract.interfaces import HOST
from ..ground.errors import ErrorCode, RunError
from .memory_plan import Storage

cnp.import_array()


cdef int64_t now_ns() noexcept nogil:
    """The time that deadlines are told in."""
    return dvt_now_ns()


cdef class ThreadPool:
    """The CPU threads of one runtime, the caller's included.

    Starts none until a kernel asks for one.
    """

    def __cinit__(self, int threads, int spin_us):
        self.pool = dvt_pool_create(threads, spin_us)
        if self.pool == NULL:
            raise MemoryError("cannot create the thread pool")

    def __dealloc__(self):
        if self.pool != NULL:
            with nogil:
                dvt_pool_destroy(self.pool)

    @property
    def threads(self):
        """Number of threads, the caller's included."""
        return dvt_pool_threads(self.pool)


cdef dict STORAGES = {
    Storage.ARENA: DVT_IN_ARENA, Storage.CONSTANT: DVT_IN_CONSTANT, Storage.INPUT: DVT_IN_INPUT, Storage.OUTPUT: DVT_IN_OUTPUT}


cdef dvt_place place_of(storage, int index, int64_t offset) except *:
    """Return a place as C has it."""
    cdef dvt_place place
    place.storage, place.index, place.offset = STORAGES[storage], index, offset
    return place


cdef dvt_place scratch_of(placement) except *:
    """Return the place of a workspace; index -1 if there is none."""
    return place_of(Storage.ARENA, -1, 0) if placement is None else place_of(placement.storage, placement.index, placement.offset)


@cython.final
@cython.no_gc
cdef class PlanTables:
    """The arrays that a C plan points at.

    Workloads, queues and constants belong to whoever holds the plan.
    """

    cdef TensorTable tensors
    cdef dvt_plan_step *steps
    cdef int32_t *numbers       # of the tensors of all steps
    cdef dvt_place *places
    cdef char **constants
    cdef dovetail_queues **queue_tables
    cdef int32_t *devices
    cdef int n_steps
    cdef int n_queues

    def __cinit__(self, list steps, list workloads, list queues, list constants, list tensors, list locations):
        cdef int i, at = 0
        self.tensors, self.n_steps, self.n_queues = TensorTable(tensors), len(steps), len(queues)
        self.steps = <dvt_plan_step *>PyMem_RawCalloc(max(self.n_steps, 1), sizeof(dvt_plan_step))
        self.numbers = <int32_t *>PyMem_RawCalloc(
            max(sum(len(step.inputs) + len(step.outputs) for step in steps), 1), sizeof(int32_t))
        self.places = <dvt_place *>PyMem_RawCalloc(max(len(locations), 1), sizeof(dvt_place))
        self.constants = <char **>PyMem_RawCalloc(max(len(constants), 1), sizeof(void *))
        self.queue_tables = <dovetail_queues **>PyMem_RawCalloc(max(len(queues), 1), sizeof(void *))
        self.devices = <int32_t *>PyMem_RawCalloc(max(len(queues), 1), sizeof(int32_t))
        if NULL in (self.steps, self.numbers, self.places, self.constants, self.queue_tables, self.devices):
            raise MemoryError()
        for i, (storage, index, offset) in enumerate(locations):
            self.places[i] = place_of(storage, index, offset)
        for i, value in enumerate(constants):
            self.constants[i] = <char *>cnp.PyArray_DATA(<cnp.ndarray>value)
        for i, (table, device) in enumerate(queues):
            self.queue_tables[i], self.devices[i] = (<Queues>table).table, device
        for i, step in enumerate(steps):
            at = self._fill_in_step(&self.steps[i], step, workloads[i], at)

    cdef int _fill_in_step(self, dvt_plan_step *target, step, Workload workload, int at) except -1:
        target.workload = NULL if workload is None else workload.table
        target.queue = -1 if step.queue is None else step.queue
        target.n_inputs, target.n_outputs = len(step.inputs), len(step.outputs)
        target.tensors = self.numbers + at
        for number in (*step.inputs, *step.outputs):
            self.numbers[at] = number
            at += 1
        target.workspace, target.worker_workspace = scratch_of(step.workspace), scratch_of(step.worker_workspace)
        target.worker_stride = step.worker_stride
        return at

    cdef void fill_in(self, dvt_plan *plan):
        plan.n_steps, plan.steps = self.n_steps, self.steps
        plan.n_tensors, plan.tensors, plan.places = self.tensors.count, self.tensors.tensors, self.places
        plan.constants = self.constants
        plan.n_queues = self.n_queues
        plan.queue_tables, plan.queue_devices = <const dovetail_queues **>self.queue_tables, self.devices

    def __dealloc__(self):
        PyMem_RawFree(self.steps)
        PyMem_RawFree(self.numbers)
        PyMem_RawFree(self.places)
        PyMem_RawFree(self.constants)
        PyMem_RawFree(self.queue_tables)
        PyMem_RawFree(self.devices)


@cython.final
@cython.no_gc
cdef class Plan:
    """An immutable plan for one set of shapes, and the pool of its run contexts.

    Attributes (Python):
        inputs, outputs: `Ports`.
        steps: Descriptions of the steps, for errors, profiles and dumps: `StepInfo`.
        memory: The memory plan: `PlannedMemory`.
        serial_locks: Locks that a run holds because some workload wants to be alone.
    """

    def __init__(self, *, Ports inputs, Ports outputs, list steps, list workloads, list queues, describe, list arenas, list constants,
                 list tensors, list locations, list serial_locks, ThreadPool pool, int threads, list spare_arenas=None,
                 shared_arena=None, bint on_device=False):
        """Take over what the plan builder worked out.

        Args:
            steps: What each step touches: `queue`, `inputs`, `outputs` (indices into `tensors`),
                `workspace` (location or None), `worker_workspace`, `worker_stride`.
            describe: Returns descriptions of the steps, and the memory plan.
            workloads: One per step, None for a wait.
            queues: (Queues, device) per queue.
            arenas: Functions, each returning a fresh allocation.
            constants: Arrays.
            tensors: (dtype code, bits, shape) per tensor, or None for an input that is left out.
            locations: (storage name, index, offset) per tensor.
            spare_arenas: Host memory that no context of the network holds, shared by its plans.
            shared_arena: (index, bytes, alignment) of the arena that lies in such memory, None if
                there is none.
            on_device: Whether some arena is not in host memory.
        """
        cdef PlanTables tables
        self.inputs, self.outputs, self.describe, self.described = inputs, outputs, describe, None
        self.workloads, self.queues, self.arenas, self.constants = workloads, queues, arenas, constants
        self.serial_locks, self.pool, self.threads = serial_locks, pool, threads
        self.idle, self.detached, self.bound, self.stuck = [], [], [], []
        self.lasts = LONGEST_NOTED      # until runs say otherwise
        self.n_steps, self.n_queues = len(steps), len(queues)
        self.pid = getpid()
        self.spare_arenas = [] if spare_arenas is None else spare_arenas
        self.shared_arena, self.shared_bytes, self.shared_alignment = (-1, 0, 1) if shared_arena is None else shared_arena
        self.on_device = self.n_queues > 0 or on_device
        tables = PlanTables(steps, workloads, queues, constants, tensors, locations)
        tables.fill_in(&self.c)
        self.tables = tables
        self.c.n_inputs, self.c.n_outputs, self.c.n_arenas = inputs.count, outputs.count, len(arenas)
        self.c.pool, self.c.threads, self.c.shared_arena = pool.pool, threads, self.shared_arena
        if dvt_plan_prepare(&self.c):
            raise MemoryError()

    def __dealloc__(self):
        self.release_memory()
        dvt_plan_release(&self.c)

    def __repr__(self):
        from .network_text import tensors_text  # not by every process

        return f"<Plan of {self.n_steps} step(s): {tensors_text(self.inputs.specs)} -> {tensors_text(self.outputs.specs)}>"

    cdef Context _acquire_other(self):
        """Return a context where there is no spare one: an idle one, or one with new memory."""
        cdef Context context = self._take_idle()
        if context is None:
            return self._acquire_anew()
        context.plan = self
        return context

    cdef Context _take_idle(self):
        cdef Context context = self.spare
        if context is not None:
            self.spare = None
        elif self.idle:
            context = <Context>self.idle.pop()
        return context

    cdef Context _acquire_anew(self):
        """Return a context that gave up its arena, with another one, or a new context."""
        cdef Context context
        if not self.detached:
            return Context(self)
        context = <Context>self.detached.pop()
        context.plan = self
        try:
            context.attach(self.take_arena())
        except BaseException:
            context.plan = None
            self.detached.append(context)
            raise
        return context

    cdef object take_arena(self):
        """Return host memory for a context: what another one gave up, or new."""
        while self.spare_arenas:
            arena = self.spare_arenas.pop()
            if arena.nbytes >= self.shared_bytes and arena.address % self.shared_alignment == 0:
                return arena
            notify(arena.release)       # before larger memory is allocated in its place
        return self.arenas[self.shared_arena]()

    cpdef detach(self):
        """Give up the arenas of idle contexts, for runs of other plans of the network."""
        cdef Context context
        while self.shared_arena >= 0:
            context = self._take_idle()
            if context is None:
                return
            self.spare_arenas.append(context.arenas[self.shared_arena])
            context.arenas[self.shared_arena] = None
            self.detached.append(context)

    cdef tuple _described(self):
        if self.described is None:
            self.described, self.describe = tuple(self.describe()), None
        return self.described

    @property
    def steps(self):
        return self._described()[0]

    @property
    def memory(self):
        return self._described()[1]

    @property
    def key(self):
        """Ranks and sizes of its inputs, by which it is looked up; None if there are too many."""
        return self.inputs.key()

    cdef Context bind(self):
        """Return a context that a binding keeps to itself, until `unbind` or `close`."""
        cdef Context context = Context(self)
        dvt_context_bind(&context.c)
        context.plan = None
        self.bound.append(context)
        return context

    cdef int unbind(self, Context context) except -1:
        if context in self.bound and not context.c.stuck:
            self.bound.remove(context)
            context.close(self)
        return 0

    @property
    def is_stuck(self):
        """True if a device never released the memory of some run."""
        return bool(self.stuck) or any((<Context>context).c.stuck for context in self.bound)

    cpdef close(self):
        """Free contexts and workloads; nothing runs any more. What describes the plan stays."""
        self.release_memory()
        for context in list(self.bound):
            self.unbind(context)
        if not self.is_stuck:
            self.workloads, self.queues = [], []

    cpdef release_memory(self):
        """Free the contexts that are not in use."""
        cdef Context context
        while True:
            context = self._take_idle()
            if context is None:
                if not self.detached:
                    return
                context = <Context>self.detached.pop()
            context.close(self)

    @property
    def contexts(self):
        """Number of idle run contexts."""
        return (self.spare is not None) + len(self.idle) + len(self.detached)


cdef dict _CODES = {DOVETAIL_OUT_OF_MEMORY: ErrorCode.OUT_OF_MEMORY, DOVETAIL_FORKED: ErrorCode.FORKED}
cdef dict _HINTS = {
    DOVETAIL_OUT_OF_MEMORY: "use a smaller batch, run fewer at once, or free memory",
    DOVETAIL_FORKED: "start processes by 'spawn', or load the network in the child alone",
}


cdef int poll_python_signals(dvt_context *context) noexcept with gil:
    try:
        PyErr_CheckSignals()
        return 0
    except BaseException as error:
        (<Context>context.owner).exception = error
        return 1


@cython.final
@cython.no_gc
cdef class Context:
    """Memory, queues and state of one run; pooled by its plan, never shared by two runs at once."""

    def __cinit__(self, Plan plan):
        cdef int i
        if len(plan.workloads) != plan.n_steps:     # those that the C steps point at
            raise RunError("the network of this plan was unloaded", code=ErrorCode.NETWORK_UNLOADED, hint="load it again")
        self.plan, self.workloads, self.queues = plan, plan.workloads, plan.queues
        self.c.owner, self.c.poll = <void *>self, poll_python_signals
        self.held = <PyObject **>PyMem_RawCalloc(max(plan.inputs.count, 1), sizeof(PyObject *))
        if self.held == NULL:
            raise MemoryError()
        self.arenas = []
        for i, make in enumerate(plan.arenas):  # one by one: if one fails, those before it are released
            self.arenas.append(plan.take_arena() if i == plan.shared_arena else make())
        self._make()

    cdef int _make(self) except -1:
        cdef int i, code
        cdef dvt_fault fault
        cdef dvt_arena *arenas = <dvt_arena *>PyMem_RawCalloc(max(len(self.arenas), 1), sizeof(dvt_arena))
        if arenas == NULL:
            raise MemoryError()
        try:
            for i, arena in enumerate(self.arenas):
                arenas[i].address, arenas[i].on_host = <void *><size_t>arena.address, arena.domain == HOST
            with nogil:
                code = dvt_context_make(&self.c, &self.plan.c, arenas, &fault)
        finally:
            PyMem_RawFree(arenas)
        if code == DOVETAIL_OK:
            self.is_made = True
            return 0
        if fault.what == DVT_FAULT_QUEUE:
            backend = next(step.backend for step in self.plan.steps if step.queue == fault.index)
            raise RunError(
                f"backend {backend!r} could not create a queue on device {self.plan.queues[fault.index][1]} (code {code})",
                code=_CODES.get(code, ErrorCode.STEP_FAILED), hint=_HINTS.get(code), backend=backend, status=code)
        if fault.what == DVT_FAULT_RUN:
            step = self.plan.steps[fault.index]
            raise RunError(
                f"backend {step.backend!r}, layer {step.name!r} could not prepare a run (code {code})",
                code=_CODES.get(code, ErrorCode.STEP_FAILED), hint=_HINTS.get(code),
                layer=step.name, backend=step.backend, status=code)
        raise MemoryError()

    cdef int attach(self, arena) except -1:
        """Take memory in the place of the arena that was given up."""
        self.arenas[self.plan.shared_arena] = arena
        dvt_context_attach(&self.c, &self.plan.c, <void *><size_t>arena.address)
        return 0

    cdef int close(self, Plan plan) except -1:
        """Release what the backends made for this context, and its memory."""
        if plan.on_device and getpid() != plan.pid:
            return 0  # a forked child: queues and device memory are the parent's, and their threads are not here
        if self.is_made:
            self.is_made = False
            with nogil:
                dvt_context_close(&self.c, &plan.c)
        while self.arenas:
            arena = self.arenas.pop()
            # While the interpreter ends, modules are empty; the system takes back what is left.
            if arena is not None and notify is not None:
                notify(arena.release)   # one that fails must not keep the others
        self.workloads = self.queues = None
        return 0

    def __dealloc__(self):
        if self.plan is not None and self.arenas is not None:
            self.close(self.plan)
        dvt_context_free(&self.c)
        PyMem_RawFree(self.held)

    cdef int run(self, int64_t deadline, bint on_main) noexcept nogil:
        """Run all steps; `deadline` is a time of `now_ns`, or 0."""
        return dvt_context_run(&self.c, deadline, on_main)

    cdef int enable_profile(self) except -1:
        if dvt_context_profile(&self.c, 1):
            raise MemoryError()
        return 0

    cdef int disable_profile(self) except -1:
        dvt_context_profile(&self.c, 0)
        return 0
