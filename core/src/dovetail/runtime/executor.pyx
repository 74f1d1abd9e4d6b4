"""The run path: everything between `net.run({...})` and the C loop over the steps.

Control flow of one call: check each input against the plan, take a run context from the plan's
pool, point its tensors at the caller's arrays and at fresh outputs, release the GIL, run the steps,
take the GIL back, return a dictionary. What is rare (other sizes, other array types, errors) leaves
this path for Python.
"""

cimport cython
cimport numpy as cnp
from cpython.dict cimport PyDict_GetItem, PyDict_SetItem, PyDict_Size
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t
from posix.unistd cimport getpid

from dovetail.abi cimport DOVETAIL_CANCELLED, DOVETAIL_FORKED, DOVETAIL_OK, DOVETAIL_OUT_OF_MEMORY
from dovetail.runtime.plans cimport DVT_MAX_MARKS, DVT_TIMED_OUT, DVT_UNWATCHED, Context, Plan, dvt_span, dvt_work, now_ns
from dovetail.runtime.ports cimport Port, Ports, fits

import os
import sys
import threading

from ..ground.errors import DovetailError, ErrorCode, RunError
from ..ground.fixed_to_process import refusal
from ..ground.foreign_text import one_line
from ..ground.host_exceptions import is_of_host
from . import run_errors
from .workload import inside

cnp.import_array()

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() noexcept nogil

cdef extern from *:
    """
    /* When brief runs last let the event loop of a thread turn, whichever networks they were of. */
    static _Thread_local int64_t dvt_turned;
    """
    int64_t dvt_turned

cdef unsigned long main_thread = threading.main_thread().ident


def _adopt_main_thread():
    """After fork() the thread that forked is the child's main thread."""
    global main_thread
    main_thread = threading.get_ident()


os.register_at_fork(after_in_child=_adopt_main_thread)


cdef enum:
    BRIEF = 100000      # nanoseconds: about what another thread costs the one that hands a run over
    TURN = 5000000      # nanoseconds: the longest that brief runs keep an event loop; Python's threads have as long


cdef object seconds_left(int64_t deadline):
    """Return what making a plan left of a run's time.

    With nothing left the run ends before its first step.
    """
    return max((deadline - now_ns()) / 1e9, 1e-9)


cdef class NetworkRunner:
    """The part of a loaded network that runs; `LoadedNetwork` adds the rest.

    Subclasses provide `_plan_for(feeds, timeout)`, which returns the plan for these arrays or
    raises an `InputError`, and `_having(outputs, timeout)`, which returns the network that has
    outputs of these names, and the names.

    Attributes (Python):
        _plan: The plan of the latest run.
        _by_shapes: The planned sizes, `Plan.key` to plan. Never changed, only replaced: no lock is
            needed to look them up.
        _is_timed: Whether plans note how long their runs take, for `_is_brief`.
    """

    cdef public Plan _plan
    cdef public dict _by_shapes
    cdef int64_t _changes
    cdef public object _profile
    cdef public bint _is_timed
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

    def run(self, feeds={}, *more, timeout=None, outputs=None, state=None, **unknown):
        """Run the network once.

        Args:
            feeds: Array by input name; none for a network without inputs. C-contiguous arrays of
                the right dtype are read in place; others of the right dtype are copied first.
                Anything with `__dlpack__` in host memory will do.
            timeout: Seconds; the run ends within 200 ms after.
            outputs: Names of what to return, instead of all outputs: of outputs, and of tensors
                from the inside; see `with_outputs`. Its first use for these names makes a plan.
            state: The stream that the run belongs to, from `new_state`; default that of the network
                itself. It matters to networks that remember.

        Returns:
            A fresh array by output name, in the order of `outputs`.

        Raises:
            InputError: A name, dtype or shape does not fit; nothing ran.
            RunTimeoutError: The deadline passed.
            RunError: A step failed, or the network was unloaded.
            DovetailError: The network with these outputs cannot be made; see `with_outputs`.
            OptionError: There is no such argument by name.
            TypeError: There is more than one argument by position, as other libraries have it.
        """
        if unknown:
            raise run_errors.no_argument("run", unknown, self.inputs)
        if more:
            raise run_errors.called_as_elsewhere(feeds, more)
        if state is not None:
            self._check_state(state)
        if outputs is not None:
            return self._run_chosen(feeds, outputs, timeout)
        cdef dict results
        cdef bint done = False
        cdef unsigned long thread = self._enter()
        try:
            results = self._run(feeds, timeout)
            done = True
        finally:        # and no `except` beside it, which takes time to enter
            self._leave(thread)
            if not done:
                self._raise_typed(sys.exc_info()[1])
        return results

    def __call__(self, x=None, *more, timeout=None, outputs=None, **unknown):
        """Run a network of one input; returns the output, or a dictionary if there are several."""
        inputs = self.inputs
        if unknown:
            raise run_errors.no_argument("__call__", unknown, inputs)
        if more:
            raise run_errors.called_with_several(self._name, inputs, 1 + len(more))
        if len(inputs) != 1:
            raise run_errors.not_one_input(self._name, inputs)
        result = self.run({inputs[0].name: x}, timeout=timeout, outputs=outputs)
        return next(iter(result.values())) if len(result) == 1 else result

    cdef dict _run_chosen(self, feeds, outputs, timeout):
        """Run for the outputs of these names; kept out of `run`, which it would make slower."""
        return self._call(self._run_for, feeds, outputs, timeout)

    def _run_for(self, feeds, outputs, timeout, **others):
        """Run for the outputs of these names, in the time that finding their plan leaves."""
        cdef int64_t deadline = 0
        if timeout is not None:
            timeout = self._seconds(timeout)
            deadline = self._deadline(timeout)
        network, names = self._having(outputs, timeout)
        if timeout is not None:
            timeout = seconds_left(deadline)
        results = network.run(feeds, timeout=timeout, **others)
        return {name: results[name] for name in names}

    cdef dict _run(self, feeds, timeout):
        cdef Plan plan = self._plan
        cdef Context context
        cdef dict given = <dict>feeds if type(feeds) is dict else self._as_dict(feeds)
        if plan is not None and (plan.spare is not None or plan.idle or plan.inputs.fit(given)):   # no context is made in vain
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
        if plan is not None and plan.inputs.fit(given):
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
            raise run_errors.changed_input(self._name, "an input", "give each run arrays of its own")
        if timeout is not None:
            timeout = seconds_left(deadline)
        return self._run_context(plan, context, timeout)

    def _is_brief(self, feeds):
        """Tell whether to hand a run of these arrays to another thread takes longer than the run.

        Only of what needs nothing but the CPU: no plan to be made, no copies of arrays, no device,
        no lock.
        """
        cdef Plan plan = self._plan
        if plan is None or self._profile is not None or type(feeds) is not dict:
            return False
        if not plan.inputs.fit(<dict>feeds):
            plan = self._planned(plan.inputs, <dict>feeds)
            if plan is None or not plan.inputs.fit(<dict>feeds):
                return False
        return plan.lasts < BRIEF and not plan.on_device and not plan.serial_locks

    def _is_turn_due(self):
        """Tell whether to let this thread's event loop turn before a run; note that it did."""
        global dvt_turned
        cdef int64_t now = now_ns()
        cdef bint is_due = now - dvt_turned > TURN
        if is_due:
            dvt_turned = now
        return is_due

    cdef Plan _planned(self, Ports inputs, dict given):
        """Return the plan for arrays of such shapes, if there is one."""
        cdef PyObject *found
        cdef dict plans = self._by_shapes
        cdef bytes key
        if plans is None:
            return None
        key = inputs.key_of(given)
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
            raise run_errors.forked(self._name)
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
            raise run_errors.unloaded(self._name)
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
            raise run_errors.lack_of_memory(f"network {self._name!r}", error)
        return 0

    cdef int _make_room(self) except -1:
        cdef Py_ssize_t room = 2 * self._room + 4
        cdef void *callers = PyMem_RawRealloc(self._callers, room * sizeof(unsigned long))
        if callers == NULL:
            raise run_errors.lack_of_memory(f"network {self._name!r}", MemoryError())
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
        if context.exception is not None:
            context.exception = None
        if plain and self._is_timed:
            status = self._execute_timed(plan, context, deadline, on_main)
        elif plain:
            with nogil:
                status = context.run(deadline, on_main)
        else:
            status = self._execute_guarded(plan, context, deadline, on_main)
        if status != DOVETAIL_OK:
            self._raise(plan, context, status)
        return 0

    cdef int _execute_timed(self, Plan plan, Context context, int64_t deadline, bint on_main) except? -1000:
        """The same, noting how long it takes; to wait for the GIL afterwards is no part of it."""
        cdef int64_t took
        cdef int status
        with nogil:
            took = now_ns()
            status = context.run(deadline, on_main)
            took = now_ns() - took
        plan.note_time(took)
        return status

    cdef int _execute_guarded(self, Plan plan, Context context, int64_t deadline, bint on_main) except? -1000:
        """The same for plans with queues or locks, and under a profile."""
        cdef int status
        profile = self._profile
        taken = []
        held = inside.__dict__.setdefault("locks", [])      # of this thread
        try:
            for lock in plan.serial_locks:
                if lock in held:
                    raise run_errors.reentrant(self._name)
                if not lock.acquire(timeout=-1 if deadline == 0 else max((deadline - now_ns()) / 1e9, 0)):
                    raise run_errors.held(self._name)
                taken.append(lock)
                held.append(lock)
            if profile is not None:
                context.enable_profile()
            with nogil:
                status = context.run(deadline, on_main)
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
        cdef dvt_span span
        cdef dvt_work work
        from .profiled_run import Span, Work  # not by every process

        times = [(context.c.times[2 * i], context.c.times[2 * i + 1]) for i in range(plan.n_steps)]
        marks = [
            (context.c.marks[i].step, context.c.marks[i].name.decode("utf-8", "replace"), context.c.marks[i].time)
            for i in range(min(context.c.n_marks, DVT_MAX_MARKS))
        ]
        spans = []
        for i in range(context.c.spans.n_spans):
            span = context.c.spans.spans[i]
            name = "" if span.name == NULL else span.name.decode("utf-8", "replace")
            spans.append(Span(span.step, span.queue, name, span.begin, span.end))
        works = []
        for i in range(context.c.workers.n_works):
            work = context.c.workers.works[i]
            if work.begin != 0:
                works.append(Work(work.step, work.worker, work.begin, work.end, work.busy))
        for one in profile:
            one.add(plan.steps, times, marks, threading.get_ident(), spans, works)
        return 0

    def _plan_alone(self, make, timeout):
        """Call `make` with the time left, in seconds or None, and return what it returns.

        It is called once no other thread plans.

        Compiled, so that no signal's handler can raise between taking the lock and the block that
        releases it. Who plans is noted: a backend that calls back must not wait for itself.

        Raises:
            RunTimeoutError: There was not enough time.
        """
        cdef int64_t begin = now_ns()
        lock = self._planning_lock
        if not lock.acquire(timeout=-1 if timeout is None else timeout):
            raise self._late()
        try:
            self._planner = PyThread_get_thread_ident()
            return make(None if timeout is None else max(timeout - (now_ns() - begin) / 1e9, 1e-3))
        finally:
            self._planner = 0
            lock.release()

    cdef int64_t _deadline(self, timeout) except -1:
        return now_ns() + <int64_t>(self._seconds(timeout) * 1e9)

    cdef double _seconds(self, timeout) except -1:
        """Return a timeout as a number, whatever kind of number it is; text is none."""
        cdef double seconds
        try:
            seconds = -1 if isinstance(timeout, (str, bytes, bytearray, memoryview)) else float(timeout)
        except (TypeError, ValueError, OverflowError):
            seconds = -1
        if not 0 < seconds < 1e9:
            raise run_errors.no_time(timeout)
        return seconds

    cdef int _raise(self, Plan plan, Context context, int status) except -1:
        cdef bint stuck = context.c.stuck
        cause, context.exception = context.exception, None
        if status == DVT_UNWATCHED:
            raise run_errors.unwatched(self._name)
        if cause is not None and (status == DOVETAIL_CANCELLED or is_of_host(cause)):
            raise cause
        if status == DOVETAIL_FORKED:
            raise run_errors.forked(self._name)
        if isinstance(cause, DovetailError) and cause.code is ErrorCode.ISOLATED_PROCESS_DIED:
            raise run_errors.process_died(self._name, plan.steps[context.c.failed_step], cause) from cause.__cause__
        if status == DOVETAIL_CANCELLED:
            told = run_errors.late if context.c.watch.stop & DVT_TIMED_OUT else run_errors.cancelled
            raise told(self._name, plan.steps[context.c.current_step], stuck)
        raise run_errors.failed(
            self._name, plan.steps[context.c.failed_step], status, 
            one_line((<bytes>context.c.message).decode("utf-8", "backslashreplace")), stuck,
            out_of_memory=status == DOVETAIL_OUT_OF_MEMORY) from cause

    def _as_dict(self, feeds, method="run", kind="input"):
        try:
            return dict(feeds)
        except (TypeError, ValueError):
            raise run_errors.no_dictionary(feeds, method, kind) from None


@cython.no_gc_clear
cdef class Binding:
    """A run with fixed arrays: nothing is allocated or checked again; made by `LoadedNetwork.bind`.

    Where the network was planned for values of inputs (shapes, positions, conditions), these alone
    are looked at in every run.

    Not to be run by two threads at once: a second call waits. Use it as a context manager, or call
    `close`.
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

    def __reduce_ex__(self, protocol):
        raise refusal(self, "bind arrays to a network that is loaded in the process that runs it")

    def __init__(self, NetworkRunner network, Plan plan, dict inputs, dict outputs):
        self.network, self.plan, self.inputs, self.outputs = network, plan, inputs, outputs
        self.read, self.written = dict(inputs), dict(outputs)
        self.lock = threading.Lock()
        self.context = self._context_of(plan)
        self.on_values = plan.inputs.are_fixed()

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
        if not plan.inputs.fit(self.read):
            raise run_errors.changed_input(self.network._name, "a bound input", "write between runs")
        if not plan.outputs.fit(self.written):
            raise run_errors.bound_output(plan.outputs.specs, self.written)
        self.network._check_process(plan)
        context = self._context_of(plan)
        self.plan, self.context, self.on_values = plan, context, plan.inputs.are_fixed()
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
            raise run_errors.reentrant(self.network._name)
        with self.lock:
            if self.network._closed:
                raise run_errors.unloaded(self.network._name)
            if self.closed:
                raise RunError("this binding was closed", code=ErrorCode.BINDING_INVALID, hint="bind again")
            if self.context.c.stuck:
                raise RunError("this binding was given up: its device did not release the memory", hint="bind again")
            self.network._check_process(self.plan)
            thread = self.network._enter()
            self.owner = thread
            try:
                if self.on_values and not self.plan.inputs.have_values_of(self.read):
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
            raise run_errors.reentrant(self.network._name)
        with self.lock:
            if not self.closed:
                self.owner = PyThread_get_thread_ident()    # what unbind frees may run a signal's handler
                try:
                    self.closed = True
                    self.plan.unbind(self.context)
                finally:
                    self.owner = 0

    def __repr__(self):
        from .network_text import tensors_text  # not by every process

        plan = "" if self.closed else f": {tensors_text(self.plan.inputs.specs)} -> {tensors_text(self.plan.outputs.specs)}"
        return f"<Binding of {self.network._name!r}{', closed' if self.closed else plan}>"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def release(self):
        """Close when the network is unloaded and nothing runs.

        A plan that only this binding held is closed with it.
        """
        self.close()
        self.plan.close()
