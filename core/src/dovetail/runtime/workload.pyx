"""What backends hand over: workloads and queues, taken from their capsules.

The classes of this package that hold C state are invisible to the cycle collector (no_gc): it would
clear their attributes before __dealloc__, which must release runs, queues and states in that order.
They form no cycles: an idle context does not refer to its plan.
"""

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_RawFree
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_SetName
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset

from dovetail.abi cimport (
    DOVETAIL_ABI_MAJOR,
    DOVETAIL_ABI_MINOR,
    DOVETAIL_CANCELLED,
    DOVETAIL_CONCURRENCY_DEVICE,
    DOVETAIL_FAILED,
    DOVETAIL_MAP_WRITE,
    DOVETAIL_OK,
    DOVETAIL_QUEUES_CAPSULE,
    DOVETAIL_USED_QUEUES_CAPSULE,
    DOVETAIL_USED_WORKLOAD_CAPSULE,
    DOVETAIL_WORKLOAD_ASYNC,
    DOVETAIL_WORKLOAD_CAPSULE,
    DOVETAIL_WORKLOAD_ELIDABLE,
    DOVETAIL_WORKLOAD_NONDETERMINISTIC,
    dovetail_alias,
    dovetail_answer,
    dovetail_call,
    dovetail_queues,
    dovetail_tensor,
    dovetail_workload,
)
from dovetail.runtime.ports cimport TensorTable

import threading
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from operator import index

import numpy as np

from ..contract.backend_calls import backend_call
from ..ground.errors import BackendError, ErrorCode
from ..ground.foreign_text import shown
from ..ground.host_exceptions import is_of_host
from ..ground.logs import Log
from .aliases import Alias, Relation

cnp.import_array()

cdef extern from "host_copy.h" nogil:
    ctypedef struct dvt_mapping:
        int (*map)(
            void *state, void *context, int32_t memory, void *data, size_t offset, size_t bytes, int32_t access,
            void **address, dovetail_answer *why) noexcept nogil
        int (*unmap)(void *state, void *context, int32_t memory, void *data) noexcept nogil
        void *state
        void *context
        int32_t memory
    ctypedef struct dvt_mapped_copy:
        dvt_mapping source
        dvt_mapping target
    int dvt_copy_execute(void *state, const dovetail_call *call) noexcept
    int dvt_mapped_copy_execute(void *state, const dovetail_call *call) noexcept

cdef extern from "executor.h" nogil:
    ctypedef struct dvt_watch:
        int64_t deadline
    ctypedef struct dvt_spans:
        pass
    ctypedef struct dvt_context:
        void *owner
        dvt_watch watch
        dovetail_call *calls
        dvt_spans *spans
    void dvt_spans_tell(dvt_spans *spans, int32_t step, const char *name, int64_t begin, int64_t end)


cdef extern from "taken_sizes.h":
    const size_t DVT_STRUCT_HEAD
    const size_t DVT_MIN_WORKLOAD
    const size_t DVT_MIN_QUEUES

cdef int KNOWN_FLAGS = DOVETAIL_WORKLOAD_ASYNC | DOVETAIL_WORKLOAD_ELIDABLE | DOVETAIL_WORKLOAD_NONDETERMINISTIC
cdef int MAX_ALIASES = 1 << 20      # more are no list that somebody filled in
cdef size_t MEMORY_LIMIT = 1 << 47  # the address space of a process on today's 64-bit machines
cdef dict _RELATIONS = {relation.value: relation for relation in Relation}

inside = threading.local()

_log = Log("dovetail")


def inside_python_workload():
    """Return True on a thread that executes a Python workload.

    It must not wait for its own run to end.
    """
    return getattr(inside, "depth", 0) > 0


cdef class Run:
    """What a workload in Python may ask of the run that it is part of; see `interfaces.Run`."""

    cdef const dovetail_call *call
    cdef bint was_told

    cdef int _check(self) except -1:
        if self.call == NULL:
            raise RuntimeError("the run was asked after execute() had returned")
        return 0

    def is_cancelled(self):
        """Return True once the run should end."""
        cdef int answer
        self._check()
        with nogil:
            answer = self.call.host.is_cancelled(self.call)
        self.was_told = self.was_told or answer != 0
        return answer != 0

    @property
    def deadline(self):
        """When the run ends, on the clock of `time.monotonic`; None for never."""
        self._check()
        deadline = (<dvt_context *>self.call.context).watch.deadline
        return deadline / 1e9 if deadline else None

    @property
    def threads(self):
        """CPU threads that may work for the run."""
        self._check()
        return self.call.workers

    @property
    def is_profiled(self):
        """Whether the run is profiled."""
        self._check()
        return (<dvt_context *>self.call.context).spans != NULL

    def worked(self, str name not None, begin, end):
        """Tell the profile that a device worked, from and until seconds of `time.monotonic`."""
        self._check()
        cdef dvt_context *context = <dvt_context *>self.call.context
        cdef int64_t begin_ns = int(begin * 1e9), end_ns = int(end * 1e9)
        text = name.encode("utf-8", "replace")
        if context.spans != NULL:
            dvt_spans_tell(context.spans, <int32_t>(self.call - context.calls), PyBytes_AS_STRING(text), begin_ns, end_ns)


cdef class PythonWorkload:
    """Adapts an object with `execute(inputs, outputs)`: slow, takes the GIL, for prototypes."""

    cdef object workload
    cdef bint sees_run


cdef int execute_seeing(PythonWorkload self, const dovetail_call *call, list inputs, list outputs) except? -100:
    """Execute a workload that asks its run.

    What it made or raised once the run had ended counts for nothing.
    """
    cdef Run run = Run.__new__(Run)
    run.call = call
    try:
        self.workload.execute(inputs, outputs, run)
    except BaseException:
        if not run.was_told and not run.is_cancelled():     # some other part of the workload may have told it
            raise
    finally:
        run.call = NULL
    return DOVETAIL_CANCELLED if run.was_told else DOVETAIL_OK


cdef int _check_written(list outputs, tuple given) except -1:
    """Refuse another array in an output's place: what it holds reaches nobody.

    `outputs[0] *= 2` keeps the array and is fine.
    """
    for at, array in enumerate(given):
        if at >= len(outputs) or outputs[at] is not array:
            raise TypeError(f"execute() replaced outputs[{at}], which writes nothing; write into it: outputs[{at}][...] = ...")
    return 0


cdef int execute_python(void *state, const dovetail_call *call) noexcept with gil:
    cdef PythonWorkload self = <PythonWorkload>state
    cdef int code = DOVETAIL_OK
    try:
        inputs = [_as_array(&call.inputs[i], False) for i in range(call.n_inputs)]
        outputs = [_as_array(&call.outputs[i], True) for i in range(call.n_outputs)]
        given = tuple(outputs)
        inside.depth = getattr(inside, "depth", 0) + 1
        try:
            if self.sees_run:
                code = execute_seeing(self, call, inputs, outputs)
            else:
                self.workload.execute(inputs, outputs)
        finally:
            inside.depth -= 1
        if code == DOVETAIL_OK:
            _check_written(outputs, given)
        return code
    except BaseException as error:
        (<object>(<dvt_context *>call.context).owner).exception = error     # raised again, as the cause, by the runner
        text = _described(error)
        return call.host.fail(call, DOVETAIL_FAILED, PyBytes_AS_STRING(text))


cdef bytes _described(error):
    """The text of an exception, whatever it does when it is printed."""
    try:
        return f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace")
    except BaseException:
        return f"{type(error).__name__} (its text cannot be printed)".encode("utf-8", "backslashreplace")


cdef int map_handle(
    void *state, void *context, int32_t memory, void *data, size_t offset, size_t nbytes, int32_t access, void **address,
    dovetail_answer *why,
) noexcept with gil:
    """Map an allocation of a Python memory manager, which is found by its address."""
    handle = None
    try:
        handle = (<dict>state)[<size_t>data]
        pointer = handle.map(offset, nbytes, writes=bool(access & DOVETAIL_MAP_WRITE))
        address[0] = <void *><size_t>pointer
        return DOVETAIL_OK
    except BaseException as error:
        _failed_mapping(handle, error)
        text = _described(error)[:sizeof(why.text) - 1]
        memcpy(why.text, PyBytes_AS_STRING(text), len(text))
        return DOVETAIL_FAILED


cdef int unmap_handle(void *state, void *context, int32_t memory, void *data) noexcept with gil:
    handle = None
    try:
        handle = (<dict>state)[<size_t>data]
        handle.unmap()
        return DOVETAIL_OK
    except BaseException as error:
        _failed_mapping(handle, error)
        return DOVETAIL_FAILED


cdef void _failed_mapping(handle, error) noexcept:
    """Keep what a mapping raised for the run; end a mapping that was interrupted half-way."""
    inside.__dict__.setdefault("raised", error)     # of this thread, on which the copy is executed
    if handle is None or not is_of_host(error):
        return
    try:
        handle.unmap()
    except BaseException as second:     # the run ends with what interrupted it
        _log.debug("unmap() after an interruption raised %r", second)


cdef int execute_mapped_copy(void *state, const dovetail_call *call) noexcept nogil:
    cdef int status = dvt_mapped_copy_execute(state, call)
    if status != DOVETAIL_OK:
        with gil:
            _tell_run(call, status)
    return status


cdef void _tell_run(const dovetail_call *call, int status) noexcept:
    """Have the runner raise what a mapping raised, or name it as the cause."""
    raised = inside.__dict__.pop("raised", None)
    if raised is not None and (status != DOVETAIL_CANCELLED or is_of_host(raised)):
        (<object>(<dvt_context *>call.context).owner).exception = raised


cdef class MappedCopy:
    """The state of a copy by mapping.

    Args:
        source, target: None for host memory; a manager whose `mapping` holds the addresses of
            memory_map, memory_unmap, state and context of a table, and the number of the memory; or
            handles by address.
    """

    cdef dvt_mapped_copy c
    cdef tuple kept

    def __cinit__(self, source, target):
        self.kept = (source, target)
        self._fill_in(&self.c.source, source)
        self._fill_in(&self.c.target, target)

    cdef int _fill_in(self, dvt_mapping *mapping, given) except -1:
        memset(mapping, 0, sizeof(dvt_mapping))
        if isinstance(given, dict):
            mapping.map, mapping.unmap, mapping.state = map_handle, unmap_handle, <void *>given
        elif given is not None:
            map_at, unmap_at, state, context, number = given.mapping
            mapping.map = <int (*)(
                void *, void *, int32_t, void *, size_t, size_t, int32_t, void **, dovetail_answer *) noexcept nogil><size_t>map_at
            mapping.unmap = <int (*)(void *, void *, int32_t, void *) noexcept nogil><size_t>unmap_at
            mapping.state, mapping.context = <void *><size_t>state, <void *><size_t>context
            mapping.memory = number
        return 0


cdef object _NUMPY_TYPES = {
    (code, bits): np.dtype(name).num
    for code, bits, name in [
        (2, 64, "f8"), (2, 32, "f4"), (2, 16, "f2"), (4, 16, "u2"), (0, 8, "i1"), (0, 16, "i2"), (0, 32, "i4"), (0, 64, "i8"),
        (1, 8, "u1"), (1, 16, "u2"), (1, 32, "u4"), (1, 64, "u8"), (6, 8, "?"),
    ]
}


cdef object _as_array(const dovetail_tensor *tensor, bint writeable):
    """A NumPy view of a tensor in host memory; None for an input that is left out."""
    cdef cnp.npy_intp dims[64]      # NumPy's own limit
    cdef int i
    if tensor.data == NULL and tensor.ndim < 0:
        return None
    if tensor.ndim > 64:
        raise ValueError(f"a NumPy array has at most 64 axes, this tensor has {tensor.ndim}")
    for i in range(tensor.ndim):
        dims[i] = tensor.shape[i]
    array = cnp.PyArray_SimpleNewFromData(
        tensor.ndim, dims, <int>_NUMPY_TYPES[tensor.dtype.code, tensor.dtype.bits], <char *>tensor.data + tensor.byte_offset)
    if not writeable:
        cnp.PyArray_CLEARFLAGS(array, cnp.NPY_ARRAY_WRITEABLE)
    return array


@cython.final
@cython.no_gc
cdef class Workload:
    """A workload taken over from a backend.

    Its state is freed when the last plan that uses it goes.
    """

    @staticmethod
    def take(obj, str origin, str method="create_workload"):
        """Take the workload of an object.

        Args:
            obj: An object with `__dovetail_workload__()`, its capsule, or an object with
                `execute(inputs, outputs)`.
            origin: Backend and layer, for errors.
            method: What returned it.

        Raises:
            BackendError: It is none of these, was taken before, or speaks another version of the
                protocol.
        """
        cdef Workload self = Workload.__new__(Workload)
        cdef PythonWorkload adapter
        cdef dovetail_workload *given
        with backend_call(origin, "__dovetail_workload__"):
            capsule = obj.__dovetail_workload__() if hasattr(obj, "__dovetail_workload__") else obj
        if PyCapsule_IsValid(capsule, DOVETAIL_WORKLOAD_CAPSULE):
            given = <dovetail_workload *>PyCapsule_GetPointer(capsule, DOVETAIL_WORKLOAD_CAPSULE)
            _copy_known(&self.own, given, "dovetail_workload", DVT_MIN_WORKLOAD, sizeof(dovetail_workload), origin)
            if self.own.execute == NULL:
                raise _contract(origin, "its workload has no execute function", "set `execute`")
            _check_declared(&self.own, origin)
            if self.own.n_aliases < 0 or (self.own.n_aliases > 0 and self.own.aliases == NULL):
                raise _contract(origin, f"its workload says that it has {self.own.n_aliases} aliases, but lists none", "set `aliases`")
            PyCapsule_SetName(capsule, DOVETAIL_USED_WORKLOAD_CAPSULE)
            self.table, self.taken = &self.own, given
            self.kept = (capsule, obj)
        elif PyCapsule_IsValid(capsule, DOVETAIL_USED_WORKLOAD_CAPSULE):
            raise _contract(origin, "it handed out one workload twice", "create a workload per call of create_workload")
        elif capsule is not obj:
            raise _contract(
                origin, f"__dovetail_workload__() returned {type(capsule).__name__!r}, which is no workload",
                "return a capsule made by dovetail.abi.workload_capsule")
        elif callable(getattr(obj, "execute", None)):
            flags = getattr(getattr(obj.execute, "__code__", None), "co_flags", 0)
            if flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR):
                raise _contract(
                    origin, "execute() of its workload is async or a generator, so that calling it computes nothing",
                    "write the outputs before execute() returns")
            adapter = PythonWorkload.__new__(PythonWorkload)
            adapter.workload = obj
            with backend_call(origin, "sees_run"):
                adapter.sees_run = bool(getattr(obj, "sees_run", False))
            self.own.size = sizeof(dovetail_workload)
            self.own.private_bytes = _told_bytes(obj, origin)
            self.own.execute = execute_python
            self.own.state = <void *>adapter
            self.table = &self.own
            self.kept = adapter
        else:
            raise _contract(
                origin,
                f"{method}() returned {type(obj).__name__!r}, which is no workload",
                "return a capsule made by dovetail.abi.workload_capsule, or an object with execute(inputs, outputs)",
            )
        return self

    @staticmethod
    def host_copy():
        """Return the core's own copy within host memory."""
        cdef Workload self = Workload.__new__(Workload)
        self.own.size = sizeof(dovetail_workload)
        self.own.execute = dvt_copy_execute
        self.table = &self.own
        return self

    @staticmethod
    def mapped_copy(source, target):
        """Return the core's own copy between memories that the host can see; see `MappedCopy`."""
        cdef Workload self = Workload.__new__(Workload)
        cdef MappedCopy state = MappedCopy(source, target)
        self.own.size = sizeof(dovetail_workload)
        self.own.execute = execute_mapped_copy
        self.own.state = <void *>&state.c
        self.table = &self.own
        self.kept = state
        return self

    def __dealloc__(self):
        if self.taken != NULL:
            if self.own.release != NULL:
                with nogil:
                    self.own.release(self.own.state)
            PyMem_RawFree(self.taken)

    @property
    def asynchronous(self):
        """True if execute only enqueues."""
        return bool(self.table.flags & DOVETAIL_WORKLOAD_ASYNC)

    @property
    def elidable(self):
        """True if there is nothing to do once all aliases are taken up."""
        return bool(self.table.flags & DOVETAIL_WORKLOAD_ELIDABLE)

    @property
    def deterministic(self):
        """False if the same input may give other bits."""
        return not self.table.flags & DOVETAIL_WORKLOAD_NONDETERMINISTIC

    @property
    def concurrency(self):
        """0: any number of runs at once, 1: one per network, 2: one per device."""
        return self.table.concurrency

    @property
    def private_bytes(self):
        """Memory that the workload holds beyond what the core plans."""
        return self.table.private_bytes

    @property
    def workspace_memory(self):
        """Where the workspace lies. 0: host memory; n: number n - 1 of the backend's memories."""
        return self.table.workspace_memory

    @property
    def is_host_copy(self):
        """Whether it is the core's own copy within host memory."""
        return self.table.execute == dvt_copy_execute

    @property
    def snapshot_bytes(self):
        """Bytes that `write_snapshot` takes; 0 if the workload has to be made each time."""
        if self.taken == NULL or self.own.snapshot == NULL:
            return 0
        return self.own.snapshot(&self.own, NULL, 0)

    def write_snapshot(self, unsigned char[::1] memory not None):
        """Write down what a later process needs to have the workload again.

        Args:
            memory: `snapshot_bytes` of it, aligned to 64 bytes.

        Returns:
            Whether it was written: false if the backend changed its mind.
        """
        cdef size_t nbytes = memory.shape[0]
        return nbytes > 0 and self.own.snapshot(&self.own, &memory[0], nbytes) == nbytes

    @property
    def aliases(self):
        """Permissions to share bytes of outputs and inputs, as declared; see `problem_with`."""
        cdef int i
        cdef const dovetail_alias *alias
        result = []
        for i in range(self.table.n_aliases):
            alias = &self.table.aliases[i]
            result.append(Alias(_RELATIONS[alias.relation], alias.output, alias.input, alias.offset))
        return result

    def workspace(self, list inputs, list outputs, int workers):
        """Ask for (shared, per worker) bytes of scratch.

        The lists hold (dtype code, bits, shape) or None.
        """
        cdef size_t shared = 0, per_worker = 0
        cdef TensorTable tensors
        cdef int status
        if self.table.workspace == NULL:
            return 0, 0
        tensors = TensorTable([*inputs, *outputs])
        status = self.table.workspace(
            self.table.state, tensors.tensors, tensors.tensors + len(inputs), workers, &shared, &per_worker)
        if status != DOVETAIL_OK:
            raise BackendError(f"its workload could not say how much workspace it needs (code {status})")
        if shared >= MEMORY_LIMIT or per_worker >= MEMORY_LIMIT or shared + per_worker * max(workers, 1) >= MEMORY_LIMIT:
            raise BackendError(
                f"its workload asks for {shared} bytes of workspace and {per_worker} for each of {workers} workers",
                code=ErrorCode.BACKEND_CONTRACT,
                hint=f"no process can hold {MEMORY_LIMIT} bytes; this is a bug of the backend: tell its vendor",
                method="workspace",
            )
        return shared, per_worker


@cython.final
@cython.no_gc
cdef class Queues:
    """The queue functions of an asynchronous backend, taken over from its capsule."""

    @staticmethod
    def take(capsule, str origin):
        """Take the table.

        Raises:
            BackendError: It is no such capsule, was taken before, or speaks another version of the
                protocol.
        """
        cdef Queues self = Queues.__new__(Queues)
        cdef dovetail_queues *given
        if not PyCapsule_IsValid(capsule, DOVETAIL_QUEUES_CAPSULE):
            raise _contract(origin, "queues() did not return a fresh capsule 'dovetail.queues.v0'", "see dovetail_queues in abi.h")
        given = <dovetail_queues *>PyCapsule_GetPointer(capsule, DOVETAIL_QUEUES_CAPSULE)
        _copy_known(&self.own, given, "dovetail_queues", DVT_MIN_QUEUES, sizeof(dovetail_queues), origin)
        missing = [name for name, there in (
            ("queue_create", self.own.queue_create != NULL),
            ("queue_wait", self.own.queue_wait != NULL),
            ("queue_abort", self.own.queue_abort != NULL),
            ("queue_destroy", self.own.queue_destroy != NULL),
        ) if not there]
        if missing:
            raise _contract(origin, f"its queues lack {', '.join(missing)}", "fill in these functions of dovetail_queues")
        if (self.own.queue_profile != NULL) != (self.own.queue_span != NULL):
            raise _contract(origin, "its queues have one of queue_profile and queue_span", "fill in both of dovetail_queues, or none")
        PyCapsule_SetName(capsule, DOVETAIL_USED_QUEUES_CAPSULE)
        self.table = &self.own
        self.kept = capsule
        return self

    @property
    def tells_spans(self):
        """Whether it can tell when the device works."""
        return self.own.queue_span != NULL

    def __dealloc__(self):
        if self.table != NULL and self.table.release != NULL:
            self.table.release(self.table.state)


cdef size_t _told_bytes(obj, str origin) except? 0:
    """Return the private bytes that a workload in Python tells; none if it tells nothing.

    Raises:
        BackendError: `BACKEND_CONTRACT`.
    """
    with backend_call(origin, "private_bytes"):
        told = getattr(obj, "private_bytes", 0)
        number = index(told) if hasattr(type(told), "__index__") else -1
    if not 0 <= number < MEMORY_LIMIT:
        raise _contract(
            origin, f"its workload says that it holds {shown(told)} private bytes",
            "`private_bytes` is a whole number of bytes that the workload allocated, or is left out")
    return number


cdef int _check_declared(const dovetail_workload *table, str origin) except -1:
    """Refuse a workload whose statements no workload can fulfil.

    Its aliases are looked at beside its tensors.

    Raises:
        BackendError: `BACKEND_CONTRACT`.
    """
    cdef int i
    if table.flags & ~<uint32_t>KNOWN_FLAGS:
        raise _contract(
            origin, f"its workload has flags {table.flags:#x}; this core knows {KNOWN_FLAGS:#x}",
            "set the DOVETAIL_WORKLOAD_... bits of abi.h alone")
    if table.concurrency > DOVETAIL_CONCURRENCY_DEVICE:
        raise _contract(
            origin, f"its workload has the concurrency {table.concurrency}", "set one of DOVETAIL_CONCURRENCY_... of abi.h")
    if table.workspace_memory < 0:
        raise _contract(
            origin, f"its workload wants its workspace in memory {table.workspace_memory}",
            "0 is host memory, n number n - 1 of the backend's memories")
    if table.private_bytes >= MEMORY_LIMIT:
        raise _contract(
            origin, f"its workload says that it holds {table.private_bytes} private bytes",
            f"no process can hold {MEMORY_LIMIT} bytes; set `private_bytes` to what the workload allocated")
    if table.n_aliases > MAX_ALIASES:
        raise _contract(
            origin, f"its workload says that it has {table.n_aliases} aliases", f"list at most {MAX_ALIASES}; set `n_aliases`")
    if table.aliases != NULL:
        for i in range(table.n_aliases):
            if table.aliases[i].relation not in _RELATIONS:
                raise _contract(
                    origin, f"its alias number {i} has the relation {table.aliases[i].relation}",
                    "set one of DOVETAIL_ALIAS_... of abi.h")
    return 0


cdef int _copy_known(void *own, const void *given, str name, size_t minimum, size_t whole, str origin) except -1:
    """Copy a backend's struct into a zeroed one of today's, as far as its `size` reaches.

    Raises:
        BackendError: Its version is not for this core, or no version of the struct has such a size.
    """
    cdef size_t size = (<const size_t *>given)[0]
    if size >= DVT_STRUCT_HEAD:
        memcpy(own, given, DVT_STRUCT_HEAD)
        _check_version((<dovetail_workload *>own).abi_major, (<dovetail_workload *>own).abi_minor, origin)
    if not minimum <= size <= whole:
        raise _contract(
            origin, f"says that its {name} has {size} bytes; one of ABI {DOVETAIL_ABI_MAJOR}.{DOVETAIL_ABI_MINOR} has {minimum} to "
            f"{whole}", f"set size to sizeof({name})")
    memcpy(own, given, size & ~<size_t>7)   # never half a pointer
    return 0


def _check_version(unsigned int major, unsigned int minor, str origin):
    if major != DOVETAIL_ABI_MAJOR or minor > DOVETAIL_ABI_MINOR:
        raise BackendError(
            f"{origin}: built for ABI {major}.{minor}; this core has ABI {DOVETAIL_ABI_MAJOR}.{DOVETAIL_ABI_MINOR}",
            code=ErrorCode.ABI_MISMATCH,
            hint="rebuild the backend against this dovetail-core, or install the dovetail-core that it was built for",
        )


def _contract(origin, what, hint):
    return BackendError(f"{origin}: {what}", code=ErrorCode.BACKEND_CONTRACT, hint=hint)
