"""The run path: everything between `net.run({...})` and the C loop over the steps.

Control flow of one call: check each input against the plan, take a run context from the plan's
pool, point its tensors at the caller's arrays and at fresh outputs, release the GIL, run the steps,
take the GIL back, return a dictionary. What is rare (other sizes, other array types, errors) leaves
this path for Python.
"""

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem, PyDict_SetItem, PyDict_Size
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawRealloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from libc.string cimport memcmp
from posix.unistd cimport getpid

from dovetail.abi cimport (
    DOVETAIL_CANCELLED,
    DOVETAIL_FORKED,
    DOVETAIL_OK,
    DOVETAIL_OUT_OF_MEMORY,
    dovetail_call,
    dovetail_queues,
    dovetail_tensor,
    dovetail_workload,
)
from dovetail.runtime.ports cimport Port, Ports, TensorTable, fits
from dovetail.runtime.workload cimport Queues, Workload

import os
import sys
import threading

import numpy as np

from ..contract.backend_calls import notify
from ..ground.errors import ErrorCode, InputError, OptionError, RunError, RunTimeoutError, shown_argument
from ..ground.host_exceptions import is_of_host
from ..contract.interfaces import HOST
from .lack_of_memory import lack_of_memory
from .memory_plan import Storage
from .workload import inside

cnp.import_array()

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept nogil

cdef unsigned long main_thread = threading.main_thread().ident


def _adopt_main_thread():
    """After fork() the thread that forked is the child's main thread."""
    global main_thread
    main_thread = threading.get_ident()


os.register_at_fork(after_in_child=_adopt_main_thread)


cdef class ThreadPool:
    """The CPU threads of one runtime, the caller's included.

    Starts none until a kernel asks for one.
    """

    cdef dvt_pool *pool

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


# -- plans and contexts ----------------------------------------------------------------------------


cdef enum:
    MAX_KEY = 128       # numbers; inputs with more of them are looked up in Python


cdef bytes shape_key(Ports inputs, dict arrays):
    """Return the key of plans of one network: the ranks and sizes of all inputs.

    None unless all are NumPy arrays. Runs no Python code; arrays are only looked at.
    """
    cdef int64_t numbers[MAX_KEY]
    cdef Py_ssize_t i, j, n = 0, rank
    cdef PyObject *value
    if PyDict_Size(arrays) != inputs.count:
        return None
    for i in range(inputs.count):
        value = PyDict_GetItem(arrays, <object>inputs.ports[i].name)
        if value == NULL or not cnp.PyArray_Check(<object>value):
            return None
        rank = cnp.PyArray_NDIM(<cnp.ndarray>value)
        if n + 1 + rank > MAX_KEY:
            return None
        numbers[n] = rank
        for j in range(rank):
            numbers[n + 1 + j] = cnp.PyArray_DIMS(<cnp.ndarray>value)[j]
        n += 1 + rank
    return PyBytes_FromStringAndSize(<char *>numbers, n * sizeof(int64_t))


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
        steps: Descriptions of the steps, for errors, profiles and dumps.
        memory: The memory plan.
        serial_locks: Locks that a run holds because some workload wants to be alone.
    """

    cdef readonly Ports inputs
    cdef readonly Ports outputs
    cdef readonly list steps
    cdef readonly object memory
    cdef readonly list serial_locks
    cdef readonly list workloads
    cdef readonly list queues
    cdef list arenas
    cdef readonly list constants
    cdef dvt_plan c
    cdef PlanTables tables
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

    def __init__(self, *, Ports inputs, Ports outputs, list steps, list workloads, list queues, memory, list arenas, list constants,
                 list tensors, list locations, list serial_locks, ThreadPool pool, int threads, list spare_arenas=None,
                 shared_arena=None):
        """Take over what the plan builder worked out.

        Args:
            steps: One description per step, with `kind`, `queue`, `inputs`, `outputs` (indices into
                `tensors`), `workspace` (location or None), `worker_workspace`, `worker_stride`.
            workloads: One per step, None for a wait.
            queues: (Queues, device) per queue.
            arenas: Functions, each returning a fresh allocation.
            constants: Arrays.
            tensors: (dtype code, bits, shape) per tensor, or None for an input that is left out.
            locations: (storage name, index, offset) per tensor.
            spare_arenas: Host memory that no context of the network holds, shared by its plans.
            shared_arena: (index, bytes, alignment) of the arena that lies in such memory, None if
                there is none.
        """
        self.inputs, self.outputs, self.steps, self.memory = inputs, outputs, steps, memory
        self.workloads, self.queues, self.arenas, self.constants = workloads, queues, arenas, constants
        self.serial_locks, self.pool, self.threads = serial_locks, pool, threads
        self.idle, self.detached, self.bound, self.stuck = [], [], [], []
        self.n_steps, self.n_queues = len(steps), len(queues)
        self.pid = getpid()
        self.spare_arenas = [] if spare_arenas is None else spare_arenas
        self.shared_arena, self.shared_bytes, self.shared_alignment = (-1, 0, 1) if shared_arena is None else shared_arena
        self.on_device = self.n_queues > 0 or (memory is not None and any(one.domain != HOST for one in memory.plan.arenas))
        self.tables = PlanTables(steps, workloads, queues, constants, tensors, locations)
        self.tables.fill_in(&self.c)
        self.c.n_inputs, self.c.n_outputs, self.c.n_arenas = inputs.count, outputs.count, len(arenas)
        self.c.pool, self.c.threads, self.c.shared_arena = pool.pool, threads, self.shared_arena
        if dvt_plan_prepare(&self.c):
            raise MemoryError()

    def __dealloc__(self):
        self.release_memory()
        dvt_plan_release(&self.c)

    cdef Context acquire(self):
        cdef Context context
        context = self._take_idle()
        if context is None:
            return self._acquire_anew()
        context.plan = self
        return context

    cdef inline Context _take_idle(self):
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

    @property
    def key(self):
        """What the plan is looked up by: ranks and sizes of its inputs.

        None if there are too many.
        """
        numbers = [number for spec in self.inputs.specs for number in (len(spec.shape), *spec.shape)]
        return np.array(numbers, np.int64).tobytes() if len(numbers) <= MAX_KEY else None

    cdef int give_back(self, Context context) except -1:
        context.plan = None
        if self.spare is None:
            self.spare = context
        else:
            self.idle.append(context)
        return 0

    cdef Context bind(self):
        """Return a context that a binding keeps to itself, until `unbind` or `close`."""
        cdef Context context = Context(self)
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

    cdef dvt_context c
    cdef Plan plan
    cdef PyObject **held
    cdef list arenas
    cdef public object exception    # what a Python workload or a signal handler raised
    cdef bint is_made
    cdef list workloads             # held until the context is closed, even if the plan has released them
    cdef list queues

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
            raise RunError(
                f"the backend could not create a queue on device {self.plan.queues[fault.index][1]} (code {code})",
                code=ErrorCode.FORKED if code == DOVETAIL_FORKED else ErrorCode.STEP_FAILED)
        if fault.what == DVT_FAULT_RUN:
            raise RunError(
                f"layer {self.plan.steps[fault.index].name!r} could not prepare a run (code {code})",
                code=ErrorCode.OUT_OF_MEMORY if code == DOVETAIL_OUT_OF_MEMORY else ErrorCode.STEP_FAILED)
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
            if arena is not None:
                notify(arena.release)   # one that fails must not keep the others
        self.workloads = self.queues = None
        return 0

    def __dealloc__(self):
        if self.plan is not None and self.arenas is not None:
            self.close(self.plan)
        dvt_context_free(&self.c)
        PyMem_RawFree(self.held)

    cdef void drop_inputs(self) noexcept:
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

    cdef int enable_profile(self) except -1:
        if dvt_context_profile(&self.c, 1):
            raise MemoryError()
        return 0

    cdef int disable_profile(self) except -1:
        dvt_context_profile(&self.c, 0)
        return 0


cdef bint inputs_fit(Ports inputs, dict given) noexcept:
    """Tell whether a plan with these inputs can read arrays as they are."""
    cdef Py_ssize_t i
    cdef PyObject *value
    if PyDict_Size(given) != inputs.count:
        return False
    for i in range(inputs.count):
        value = PyDict_GetItem(given, <object>inputs.ports[i].name)
        if value == NULL or not cnp.PyArray_Check(<object>value) or not fits(&inputs.ports[i], <cnp.ndarray>value):
            return False
    return True


cdef object seconds_left(int64_t deadline):
    """Return what making a plan left of a run's time.

    With nothing left the run ends before its first step.
    """
    return max((deadline - dvt_now_ns()) / 1e9, 1e-9)


cdef bint depends_on_values(Ports inputs) noexcept:
    """Tell whether a plan was made for values of its inputs."""
    cdef Py_ssize_t i
    for i in range(inputs.count):
        if inputs.ports[i].fixed != NULL:
            return True
    return False


cdef bint has_values_of(Ports inputs, dict given) noexcept:
    """Tell whether arrays, of the right shapes, have the values that a plan was made for."""
    cdef Py_ssize_t i
    cdef Port *port
    for i in range(inputs.count):
        port = &inputs.ports[i]
        if port.fixed != NULL:
            array = <object>PyDict_GetItem(given, <object>port.name)
            if memcmp(cnp.PyArray_DATA(<cnp.ndarray>array), port.fixed, port.nbytes) != 0:
                return False
    return True


cdef class NetworkRunner:
    """The part of a loaded network that runs; `LoadedNetwork` adds the rest.

    Subclasses provide `_plan_for(feeds, timeout)`, which returns the plan for these arrays or
    raises an `InputError`.

    Attributes (Python):
        _plan: The plan of the latest run.
        _by_shapes: The planned sizes, `Plan.key` to plan. Never changed, only replaced: no lock is
            needed to look them up.
    """

    cdef public Plan _plan
    cdef public dict _by_shapes
    cdef int64_t _changes
    cdef public object _profile
    cdef public bint _closed
    cdef readonly Py_ssize_t _active
    cdef unsigned long *_callers    # threads that are inside a call, as many as are active
    cdef Py_ssize_t _room           # for so many of them
    cdef public object _idle_event
    cdef public object _planning_lock   # held while a plan is made; runs of other sizes go on
    cdef public unsigned long _planner  # thread that plans, or 0
    cdef public str _name

    def __dealloc__(self):
        PyMem_RawFree(self._callers)

    def run(self, feeds, *, timeout=None):
        """Run the network once.

        Args:
            feeds: Array by input name. C-contiguous arrays of the right dtype are read in place;
                others of the right dtype are copied first. Anything with `__dlpack__` in host
                memory will do.
            timeout: Seconds; the run ends within 200 ms after.

        Returns:
            A fresh array by output name.

        Raises:
            InputError: A name, dtype or shape does not fit; nothing ran.
            RunTimeoutError: The deadline passed.
            RunError: A step failed, or the network was unloaded.
        """
        cdef dict results = None
        cdef unsigned long thread = self._enter()
        try:
            results = self._run(feeds, timeout)
        finally:        # and no `except` beside it, which takes time to enter
            self._leave(thread)
            if results is None:
                self._raise_typed(sys.exc_info()[1])
        return results

    def __call__(self, x, *, timeout=None):
        """Run a network of one input; returns the output, or a dictionary if there are several."""
        inputs = self.inputs
        if len(inputs) != 1:
            raise InputError(
                f"network {self._name!r} has {len(inputs)} inputs", code=ErrorCode.INPUT_NAME,
                hint=f"call run({{{', '.join(repr(spec.name) + ': ...' for spec in inputs)}}})")
        result = self.run({inputs[0].name: x}, timeout=timeout)
        return next(iter(result.values())) if len(result) == 1 else result

    cdef dict _run(self, feeds, timeout):
        cdef Plan plan = self._plan
        cdef Context context
        cdef dict given = <dict>feeds if type(feeds) is dict else self._as_dict(feeds)
        if plan is not None and (plan.spare is not None or plan.idle or inputs_fit(plan.inputs, given)):   # a context is memory: none is made in vain
            self._check_process(plan)
            context = plan.acquire()
            if self._take_inputs(plan, context, given):
                return self._run_context(plan, context, timeout)
            plan.give_back(context)
        return self._run_other(plan, given, timeout)

    cdef dict _run_other(self, Plan plan, dict given, timeout):
        """Run what does not fit the latest plan."""
        cdef Context context
        cdef int64_t deadline = 0
        if plan is not None:
            plan = self._planned(plan.inputs, given)
        if plan is not None and inputs_fit(plan.inputs, given):
            self._check_process(plan)
            self._change_to(plan)
            context = plan.acquire()
            if self._take_inputs(plan, context, given):
                return self._run_context(plan, context, timeout)
            plan.give_back(context)
        if timeout is not None:
            timeout = self._seconds(timeout)
            deadline = self._deadline(timeout)
        plan, given = self._plan_for(given, timeout)
        self._check_process(plan)
        context = plan.acquire()
        if not self._take_inputs(plan, context, given):
            plan.give_back(context)
            raise InputError(
                f"network {self._name!r}: an input changed while it was being checked", code=ErrorCode.INPUT_SHAPE,
                hint="another thread writes to it: give each run arrays of its own")
        if timeout is not None:
            timeout = seconds_left(deadline)
        return self._run_context(plan, context, timeout)

    cdef Plan _planned(self, Ports inputs, dict given):
        """Return the plan for arrays of such shapes, if there is one."""
        cdef PyObject *found
        cdef dict plans = self._by_shapes
        cdef bytes key
        if plans is None:
            return None
        key = shape_key(inputs, given)
        if key is None:
            return None
        found = PyDict_GetItem(plans, key)
        return None if found == NULL else <Plan>found

    cpdef _change_to(self, Plan plan):
        """Make a plan the latest; those before it give up memory that a run of this one may use."""
        cdef Plan before = self._plan
        if before is plan:
            return
        self._changes += 1
        plan.used = self._changes
        self._plan = plan
        if before is not None:
            before.used = self._changes
            before.detach()

    cdef bint _take_inputs(self, Plan plan, Context context, dict given) noexcept:
        """Point a context at the caller's arrays and hold them.

        False, holding none, if they do not fit as they are.

        Runs no Python code from the first look to the last, so that no other thread can change the
        dictionary in between.
        """
        cdef Py_ssize_t i
        cdef PyObject *value
        cdef Ports inputs = plan.inputs
        if PyDict_Size(given) != inputs.count:
            return False
        for i in range(inputs.count):
            value = PyDict_GetItem(given, <object>inputs.ports[i].name)
            if value == NULL or not cnp.PyArray_Check(<object>value) or not fits(&inputs.ports[i], <cnp.ndarray>value):
                context.drop_inputs()
                return False
            Py_INCREF(<object>value)
            context.held[i] = value
            context.point_input(i, cnp.PyArray_DATA(<cnp.ndarray>value))
        return True

    cdef dict _run_context(self, Plan plan, Context context, timeout):
        cdef dict results = {}
        cdef cnp.ndarray array
        cdef Port *port
        cdef int i
        try:
            for i in range(plan.outputs.count):
                port = &plan.outputs.ports[i]
                array = cnp.PyArray_EMPTY(port.ndim, port.shape, port.typenum, 0)
                context.point_output(i, cnp.PyArray_DATA(array))
                PyDict_SetItem(results, <object>port.name, array)
            self._execute(plan, context, timeout)
        finally:
            if context.c.stuck:
                # The device may still write: neither its memory nor the caller's arrays may ever be
                # given back.
                plan.stuck.append((context, results))
            else:
                context.drop_inputs()
                plan.give_back(context)
                if plan is not self._plan:  # a run of other sizes began meanwhile
                    plan.detach()
        return results

    cdef int _check_process(self, Plan plan) except -1:
        if plan.on_device and getpid() != plan.pid:
            raise RunError(
                f"network {self._name!r} uses a device and was loaded before fork()", code=ErrorCode.FORKED,
                hint="load it again in the child, or use multiprocessing's 'spawn' method")
        return 0

    def _call(self, function, *arguments):
        """Call something that an unload has to wait for, as it waits for a run.

        Compiled, so that no signal's handler can raise between the count and the block that takes
        it back.
        """
        cdef unsigned long thread = self._enter()
        try:
            return function(*arguments)
        finally:
            self._leave(thread)

    def _is_inside(self):
        """Tell whether this thread is in a call of this network, which an unload would wait for."""
        cdef Py_ssize_t i
        cdef unsigned long thread = PyThread_get_thread_ident()
        for i in range(self._active):
            if self._callers[i] == thread:
                return True
        return False

    def _forget_threads(self):
        """In a forked child: forget the calls of threads that are not here."""
        cdef Py_ssize_t i, kept = 0
        cdef unsigned long thread = PyThread_get_thread_ident()
        for i in range(self._active):
            if self._callers[i] == thread:
                self._callers[kept] = thread
                kept += 1
        self._active = kept

    cdef unsigned long _enter(self) except 0:
        """Begin a call, for which an unload then waits; return this thread.

        Once an unload began, there are no more calls.
        """
        cdef unsigned long thread
        if self._closed:
            raise self._unloaded()
        if self._active == self._room:
            self._make_room()
        thread = PyThread_get_thread_ident()
        self._callers[self._active] = thread
        self._active += 1
        return thread

    cdef int _raise_typed(self, error) except -1:
        """Raise the error for a lack of memory; do nothing if it is none.

        It may be of outputs, of copies of inputs, of a context.
        """
        if isinstance(error, MemoryError):
            raise lack_of_memory(f"network {self._name!r}", error)
        return 0

    cdef int _make_room(self) except -1:
        cdef Py_ssize_t room = 2 * self._room + 4
        cdef void *callers = PyMem_RawRealloc(self._callers, room * sizeof(unsigned long))
        if callers == NULL:
            raise lack_of_memory(f"network {self._name!r}", MemoryError())
        self._callers, self._room = <unsigned long *>callers, room
        return 0

    cdef int _leave(self, unsigned long thread) except -1:
        """End of a call of a thread: an unload may be waiting for the last one."""
        cdef Py_ssize_t i = self._active - 1
        while i > 0 and self._callers[i] != thread:
            i -= 1
        self._active -= 1
        self._callers[i] = self._callers[self._active]
        if self._closed and self._active == 0:
            self._idle_event.set()
        return 0

    cdef int _execute(self, Plan plan, Context context, timeout) except -1:
        """Run the steps of a context whose tensors are all in place."""
        cdef int64_t deadline = 0
        cdef int status
        cdef bint on_main = PyThread_get_thread_ident() == main_thread
        cdef bint plain = self._profile is None and not plan.serial_locks and plan.n_queues == 0
        if timeout is not None:
            deadline = self._deadline(timeout)
        context.exception = None
        if plain:
            with nogil:
                status = dvt_context_run(&context.c, deadline, on_main)
        else:
            status = self._execute_guarded(plan, context, deadline, on_main)
        if status != DOVETAIL_OK:
            self._raise(plan, context, status)
        return 0

    cdef int _execute_guarded(self, Plan plan, Context context, int64_t deadline, bint on_main) except? -1000:
        """The same for plans with queues or locks, and under a profile."""
        cdef int status
        profile = self._profile
        taken = []
        held = inside.__dict__.setdefault("locks", [])      # of this thread
        try:
            for lock in plan.serial_locks:
                if lock in held:
                    raise self._reentrant()
                if not lock.acquire(timeout=-1 if deadline == 0 else max((deadline - dvt_now_ns()) / 1e9, 0)):
                    raise RunTimeoutError(f"network {self._name!r}: the deadline passed while other runs held the device")
                taken.append(lock)
                held.append(lock)
            if profile is not None:
                context.enable_profile()
            with nogil:
                status = dvt_context_run(&context.c, deadline, on_main)
        finally:
            for lock in reversed(taken):
                held.remove(lock)
                lock.release()
        if context.c.times != NULL:
            if profile is not None:
                self._report(profile, plan, context)
            context.disable_profile()
        return status

    cdef int _report(self, profile, Plan plan, Context context) except -1:
        cdef int i
        times = [(context.c.times[2 * i], context.c.times[2 * i + 1]) for i in range(plan.n_steps)]
        marks = [
            (context.c.marks[i].step, context.c.marks[i].name.decode("utf-8", "replace"), context.c.marks[i].time)
            for i in range(min(context.c.n_marks, DVT_MAX_MARKS))
        ]
        for one in profile:
            one.add(plan.steps, times, marks, threading.get_ident())
        return 0

    def _plan_alone(self, make, timeout):
        """Call `make` with the time left, in seconds or None, and return what it returns.

        It is called once no other thread plans.

        Compiled, so that no signal's handler can raise between taking the lock and the block that
        releases it. Who plans is noted: a backend that calls back must not wait for itself.

        Raises:
            RunTimeoutError: There was not enough time.
        """
        cdef int64_t begin = dvt_now_ns()
        lock = self._planning_lock
        if not lock.acquire(timeout=-1 if timeout is None else timeout):
            raise self._late()
        try:
            self._planner = PyThread_get_thread_ident()
            return make(None if timeout is None else max(timeout - (dvt_now_ns() - begin) / 1e9, 1e-3))
        finally:
            self._planner = 0
            lock.release()

    cdef int64_t _deadline(self, timeout) except -1:
        return dvt_now_ns() + <int64_t>(self._seconds(timeout) * 1e9)

    cdef double _seconds(self, timeout) except -1:
        """Return a timeout as a number, whatever kind of number it is; text is none."""
        cdef double seconds
        try:
            seconds = -1 if isinstance(timeout, (str, bytes, bytearray, memoryview)) else float(timeout)
        except (TypeError, ValueError, OverflowError):
            seconds = -1
        if not 0 < seconds < 1e9:
            raise OptionError(
                f"timeout {shown_argument(timeout)} is not a time", code=ErrorCode.OPTION_INVALID,
                hint="give seconds, above 0, or None")
        return seconds

    cdef int _raise(self, Plan plan, Context context, int status) except -1:
        cdef int stop = context.c.watch.stop
        cause, context.exception = context.exception, None
        stuck = "; the device did not release the run's memory, which is therefore never reused" if context.c.stuck else ""
        if status == DVT_UNWATCHED:
            raise RunError(
                f"network {self._name!r}: no thread could be started to watch the deadline", code=ErrorCode.OUT_OF_MEMORY,
                hint="the process is at its limit of threads; run without a timeout, or raise the limit")
        if status == DOVETAIL_CANCELLED:
            step = plan.steps[context.c.current_step]
            if cause is not None:
                raise cause
            if stop & DVT_TIMED_OUT:
                raise RunTimeoutError(
                    f"network {self._name!r}: the deadline passed in layer {step.name!r} on {step.backend}{stuck}",
                    hint="give it more time, or see net.profiling() for where the time goes", layer=step.name)
            raise RunError(f"network {self._name!r}: the run was cancelled in layer {step.name!r}{stuck}", code=ErrorCode.CANCELLED)
        step = plan.steps[context.c.failed_step]
        if cause is not None and is_of_host(cause):
            raise cause
        text = (<bytes>context.c.message).decode("utf-8", "replace")
        raise RunError(
            f"network {self._name!r}: layer {step.name!r} ({step.layer_kind}) failed on {step.backend}: {text} (code {status}){stuck}",
            code=ErrorCode.OUT_OF_MEMORY if status == DOVETAIL_OUT_OF_MEMORY else ErrorCode.STEP_FAILED,
            layer=step.name, sources=step.sources, backend=str(step.backend), status=status) from cause

    def _reentrant(self):
        return RunError(
            f"network {self._name!r} was called from inside a run or from its own planning, which it would wait for",
            code=ErrorCode.BACKEND_CONTRACT, hint="a backend must not run the network that it is part of; tell its vendor")

    def _unloaded(self):
        return RunError(
            f"network {self._name!r} was unloaded", code=ErrorCode.NETWORK_UNLOADED, hint="load it again with dovetail.load")

    def _as_dict(self, feeds, method="run", kind="input"):
        try:
            return dict(feeds)
        except (TypeError, ValueError):
            other = ", or call the network itself with a single array" if method == "run" else ""
            raise InputError(
                f"{method}() got {type(feeds).__name__!r}",
                code=ErrorCode.INPUT_NAME if kind == "input" else ErrorCode.OUTPUT_NAME,
                hint=f"give a dictionary {{{kind} name: array}}{other}") from None


@cython.no_gc_clear
cdef class Binding:
    """A run with fixed arrays: nothing is allocated or checked again; made by `LoadedNetwork.bind`.

    Where the network was planned for values of inputs (shapes, positions, conditions), these alone
    are looked at in every run.

    Not to be run by two threads at once: a second call waits.
    """

    cdef NetworkRunner network
    cdef Plan plan
    cdef Context context
    cdef readonly dict inputs
    cdef readonly dict outputs
    cdef dict read      # the dictionaries above are the caller's to change, what the tensors point at is not
    cdef dict written
    cdef bint on_values # the plan holds for some values of inputs alone
    cdef object lock
    cdef unsigned long owner    # thread that is running, or 0
    cdef bint closed
    cdef object __weakref__

    def __init__(self, NetworkRunner network, Plan plan, dict inputs, dict outputs):
        self.network, self.plan, self.inputs, self.outputs = network, plan, inputs, outputs
        self.read, self.written = dict(inputs), dict(outputs)
        self.lock = threading.Lock()
        self.context = self._context_of(plan)
        self.on_values = depends_on_values(plan.inputs)

    cdef Context _context_of(self, Plan plan):
        """Return a context of a plan whose tensors are the bound arrays."""
        cdef int i
        cdef Context context = plan.bind()
        for i in range(plan.inputs.count):
            context.point_input(i, cnp.PyArray_DATA(<cnp.ndarray>self.read[<object>plan.inputs.ports[i].name]))
        for i in range(plan.outputs.count):
            context.point_output(i, cnp.PyArray_DATA(<cnp.ndarray>self.written[<object>plan.outputs.ports[i].name]))
        return context

    cdef object _follow_values(self, timeout):
        """Change to the plan for the present values of the bound inputs; return the time left."""
        cdef Plan plan, before = self.plan
        cdef Context context, unused = self.context
        cdef int64_t deadline = 0
        if timeout is not None:
            timeout = self.network._seconds(timeout)
            deadline = self.network._deadline(timeout)
        plan, _ = self.network._plan_for(dict(self.read), timeout)
        if not inputs_fit(plan.inputs, self.read):
            raise InputError(
                f"network {self.network._name!r}: a bound input changed while it was being checked", code=ErrorCode.INPUT_SHAPE,
                hint="another thread writes to it: write between runs")
        if not inputs_fit(plan.outputs, self.written):
            for spec in plan.outputs.specs:
                bound = self.written[spec.name]
                if bound.shape != tuple(spec.shape) or bound.dtype != spec.dtype.numpy:
                    raise InputError(
                        f"with the values that the bound inputs have now output {spec.name!r} is {spec.dtype}{list(spec.shape)}, "
                        f"bound is {bound.dtype}{list(bound.shape)}", code=ErrorCode.BINDING_INVALID, hint="bind again")
            raise InputError("a bound output is not writeable in place any more", code=ErrorCode.BINDING_INVALID, hint="bind again")
        self.network._check_process(plan)
        context = self._context_of(plan)
        self.plan, self.context, self.on_values = plan, context, depends_on_values(plan.inputs)
        before.unbind(unused)
        return None if timeout is None else seconds_left(deadline)

    def run(self, *, timeout=None):
        """Read the bound inputs, write the bound outputs; returns these by name.

        Raises:
            InputError: An output has another shape with the values that the inputs have now
                (`BINDING_INVALID`); nothing ran.
            RunTimeoutError: The deadline passed.
            RunError: A step failed, the binding was closed, or the network was unloaded.
        """
        cdef bint done = False
        cdef unsigned long thread
        if self.owner == PyThread_get_thread_ident():
            raise self.network._reentrant()
        with self.lock:
            if self.network._closed:
                raise self.network._unloaded()
            if self.closed:
                raise RunError("this binding was closed", code=ErrorCode.BINDING_INVALID, hint="bind again")
            if self.context.c.stuck:
                raise RunError("this binding was given up: its device did not release the memory", hint="bind again")
            self.network._check_process(self.plan)
            thread = self.network._enter()
            self.owner = thread
            try:
                if self.on_values and not has_values_of(self.plan.inputs, self.read):
                    timeout = self._follow_values(timeout)
                self.network._execute(self.plan, self.context, timeout)
                done = True
            finally:
                self.owner = 0
                if self.context.c.stuck:
                    self.plan.stuck.append((self.context, self.read, self.written))
                self.network._leave(thread)
                if not done:
                    self.network._raise_typed(sys.exc_info()[1])
        return self.outputs

    def __dealloc__(self):
        if self.plan is not None and self.context is not None:
            self.plan.unbind(self.context)

    def close(self):
        """Free the memory of the run, once it has ended.

        Harmless the second time, and after the network was unloaded.
        """
        if self.owner == PyThread_get_thread_ident():
            raise self.network._reentrant()
        with self.lock:
            if not self.closed:
                self.owner = PyThread_get_thread_ident()    # what unbind frees may run a signal's handler
                try:
                    self.closed = True
                    self.plan.unbind(self.context)
                finally:
                    self.owner = 0

    def release(self):
        """Close when the network is unloaded and nothing runs.

        A plan that only this binding held is closed with it.
        """
        self.close()
        self.plan.close()
