"""A backend's table of C functions (`dovetail_backend` in abi.h), opened from a shared library and called safely.

Every call is made without the GIL, by one thread at a time. What ends something (a context, memory, what was compiled, the table)
never waits: it is put on a list that whoever has the lock works off, so that the garbage collector may do it at any moment.

After fork() the child may use a table that has no device, unless another thread was inside it; what it inherited of a device is
the parent's: the child ends none of it, and the adapter refuses to use it (`NativeContext`).

A library is never unloaded once it opened: threads, thread-local data and atexit handlers of its own may still need its code.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.pycapsule cimport (
    PyCapsule_GetContext,
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyCapsule_New,
    PyCapsule_SetContext,
)
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset
from posix.unistd cimport getpid

from dovetail.abi cimport (
    DOVETAIL_ABI_MAJOR,
    DOVETAIL_ABI_MINOR,
    DOVETAIL_BACKEND_ASYNC,
    DOVETAIL_FAILED,
    DOVETAIL_OK,
    DOVETAIL_OPEN_BACKEND_SYMBOL,
    DOVETAIL_OUT_OF_MEMORY,
    DOVETAIL_QUEUES_CAPSULE,
    DOVETAIL_USED_QUEUES_CAPSULE,
    DOVETAIL_WORKLOAD_CAPSULE,
    dovetail_answer,
    dovetail_attribute,
    dovetail_backend,
    dovetail_backend_host,
    dovetail_device_info,
    dovetail_layer,
    dovetail_memory,
    dovetail_open_backend,
    dovetail_progress,
    dovetail_queues,
    dovetail_resources,
    dovetail_workload,
    drop_workload,
)
from dovetail.native.layer_view cimport View

import logging
import os
import threading

from ..contract.interfaces import Device
from ..ground import progress
from ..ground.errors import BackendError, ErrorCode
from ..ground.host_exceptions import is_of_host
from ..ground.limits import under_way
from .attribute_types import AttributeType

cdef extern from "<string.h>" nogil:
    size_t strnlen(const char *text, size_t limit)

cdef extern from "<dlfcn.h>" nogil:
    const int RTLD_NOW
    const int RTLD_LOCAL
    void *dlopen(const char *path, int flags)
    void *dlsym(void *library, const char *name)
    const char *dlerror()
    int dlclose(void *library)

cdef extern from *:
    """
    #include <stddef.h>
    #define END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
    #define BACKEND_HEAD END_OF(dovetail_backend, abi_minor)
    #define MIN_BACKEND_SIZE END_OF(dovetail_backend, supports)
    #define MIN_WORKLOAD_SIZE END_OF(dovetail_workload, execute)
    #define MIN_QUEUES_SIZE END_OF(dovetail_queues, queue_destroy)
    #define MIN_DEVICE_SIZE END_OF(dovetail_device_info, memory_bytes)
    #define MIN_MEMORY_SIZE END_OF(dovetail_memory, host_visible)
    #define MIN_OPTION_SIZE END_OF(dovetail_option, value)
    #define MIN_ATTRIBUTE_SIZE END_OF(dovetail_attribute, tensor)
    #define MIN_KIND_VERSION_SIZE END_OF(dovetail_kind_version, version)
    """
    const size_t BACKEND_HEAD
    const size_t MIN_BACKEND_SIZE
    const size_t MIN_WORKLOAD_SIZE
    const size_t MIN_QUEUES_SIZE
    const size_t MIN_DEVICE_SIZE
    const size_t MIN_MEMORY_SIZE
    const size_t MIN_OPTION_SIZE
    const size_t MIN_ATTRIBUTE_SIZE
    const size_t MIN_KIND_VERSION_SIZE

_log = logging.getLogger("dovetail")

LONGEST_LIST = 4096
"""More options, kinds or devices than this are taken for garbage."""

MAX_MEMORIES = 64
"""More of them are no list that somebody made."""

CONTEXT, MEMORY, COMPILED = range(3)


cdef void log_from_table(int32_t level, const char *text) noexcept with gil:
    try:
        _log.log(level, "%s", _decoded(text))
    except BaseException as error:     # a handler's fault must not unwind through the library
        if is_of_host(error) and raise_later(error) == 0:
            return
        _log.debug("a log handler failed: %r", error)


cdef const void *no_extension(const char *name) noexcept nogil:
    return NULL


cdef int report_progress(void *context, double fraction, const char *what) noexcept with gil:
    cdef Compilation self = <Compilation>context
    try:
        if self.error is None:
            progress.report(self.backend, fraction, _decoded(what) if what != NULL else "")
            _check_signals()
            load = under_way()
            if load is not None:
                load.check_time()
    except BaseException as error:     # Ctrl-C, the listener's own, or a deadline: raised once the compiler has returned
        self.error = error
    return self.error is not None


cdef int write_bytes(void *sink, const void *data, size_t count) noexcept with gil:
    cdef Sink self = <Sink>sink
    try:
        self.parts.append(PyBytes_FromStringAndSize(<const char *>data, count))
        return DOVETAIL_OK
    except BaseException as error:
        self.error = error
        return DOVETAIL_FAILED


cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1
    int Py_AddPendingCall(int (*function)(void *) except -1 with gil, void *argument)


cdef int raise_pending(void *error) except -1 with gil:
    held = <object>error
    Py_XDECREF(<PyObject *>held)
    raise held


cdef int raise_later(object error):
    """Have an exception of the host raised on the main thread once the library has returned; 0 if that was possible."""
    Py_INCREF(error)
    if Py_AddPendingCall(raise_pending, <void *>error) != 0:
        Py_XDECREF(<PyObject *>error)
        return -1
    return 0


def _check_signals():
    PyErr_CheckSignals()


cdef class Compilation:
    """What the progress callback of one compilation needs, and what it caught."""

    cdef str backend
    cdef object error


cdef class Sink:
    """Collects an artefact's bytes."""

    cdef list parts
    cdef object error


cdef str _decoded(const char *text):
    return (<bytes>text).decode("utf-8", "backslashreplace") if text != NULL else ""


class Why:
    """What a table said of a refusal or failure: see `dovetail_answer`."""

    def __init__(self, code, subject, text):
        self.code, self.subject, self.text = code, subject, text


cdef str _field(const char *text, size_t limit):
    """A text that may fill its field to the last byte."""
    return PyBytes_FromStringAndSize(text, strnlen(text, limit)).decode("utf-8", "backslashreplace")


cdef object _why(dovetail_answer *answer):
    return Why(
        _field(answer.code, sizeof(answer.code)),
        _field(answer.subject, sizeof(answer.subject)),
        _field(answer.text, sizeof(answer.text)),
    )


cdef void _empty(dovetail_answer *answer) noexcept nogil:
    memset(answer, 0, sizeof(dovetail_answer))
    answer.size = sizeof(dovetail_answer)


cdef dovetail_resources _resources(int threads) noexcept:
    cdef dovetail_resources made
    memset(&made, 0, sizeof(made))
    made.size, made.threads = sizeof(made), threads
    return made


cdef class Table:
    """One opened library.

    Attributes:
        path: Where it lies.
        id, version: As the table says.
    """

    cdef dovetail_backend c
    cdef dovetail_backend_host host
    cdef bytes encoded_path
    cdef object lock
    cdef object owner
    cdef list pending
    cdef bint opened
    cdef bint closing
    cdef Py_ssize_t users
    cdef int home       # process that opened it
    cdef int pid        # process that made the lock
    cdef readonly str path
    cdef readonly str id
    cdef readonly str version

    def __cinit__(self):
        self.lock = threading.Lock()
        self.pending = []
        self.home = self.pid = getpid()

    # -- opening -----------------------------------------------------------------------------------

    @staticmethod
    def open(path):
        """Open a library and check its table.

        Raises:
            BackendError: It cannot be opened, was built for another ABI (`ABI_MISMATCH`), or breaks its contract
                (`BACKEND_CONTRACT`).
        """
        cdef Table self = Table.__new__(Table)
        cdef void *library
        cdef void *entry
        cdef const char *name
        cdef dovetail_answer answer
        cdef int status
        self.path = os.fspath(path)
        self.encoded_path = os.fsencode(os.path.abspath(path))
        name = PyBytes_AS_STRING(self.encoded_path)
        with nogil:
            library = dlopen(name, RTLD_NOW | RTLD_LOCAL)
        if library == NULL:
            raise _open_error(self.path, _decoded(dlerror()))
        entry = dlsym(library, DOVETAIL_OPEN_BACKEND_SYMBOL)
        if entry == NULL:
            symbol = (<bytes>DOVETAIL_OPEN_BACKEND_SYMBOL).decode()
            dlclose(library)
            raise self.broken(f"does not export {symbol}", "export it with C linkage: extern \"C\" int DOVETAIL_OPEN_BACKEND(...)")
        self.host.size = sizeof(dovetail_backend_host)
        self.host.abi_major, self.host.abi_minor = DOVETAIL_ABI_MAJOR, DOVETAIL_ABI_MINOR
        self.host.library, self.host.log, self.host.extension = name, log_from_table, no_extension
        Py_INCREF(self)     # the library may keep the host table until close, and after a failed open nobody knows what it keeps
        self.c.size = sizeof(dovetail_backend)
        _empty(&answer)
        with nogil:
            status = (<dovetail_open_backend>entry)(&self.host, &self.c, &answer)
        if status < 0:
            why = _why(&answer)
            raise BackendError(
                f"library {self.path} refuses to open: {why.text or f'code {status}, no reason given'}",
                hint="the text above is the backend's own; see its documentation",
                library=self.path, reason=why.code,
            )
        self._check()
        self.opened = True
        self.host.abi_minor = min(self.c.abi_minor, <uint32_t>DOVETAIL_ABI_MINOR)
        Py_XDECREF(<PyObject *>self)
        return self

    def broken(self, what, hint="this is a bug of the backend: tell its vendor"):
        """Word a breach of the contract."""
        label = f"backend {self.id!r} ({self.path})" if self.id else f"library {self.path}"
        return BackendError(f"{label} {what}", code=ErrorCode.BACKEND_CONTRACT, hint=hint, library=self.path)

    def _check(self):
        cdef dovetail_backend *c = &self.c
        cdef size_t size = c.size
        if size < BACKEND_HEAD:
            raise self.broken(f"filled in a table of {size} bytes, which does not even hold its version", "set size to sizeof(*table)")
        if c.abi_major != DOVETAIL_ABI_MAJOR or c.abi_minor > DOVETAIL_ABI_MINOR:
            raise BackendError(
                f"library {self.path}: built for ABI {c.abi_major}.{c.abi_minor}; this core has ABI "
                f"{DOVETAIL_ABI_MAJOR}.{DOVETAIL_ABI_MINOR}",
                code=ErrorCode.ABI_MISMATCH,
                hint="rebuild the backend against this dovetail-core, or install the dovetail-core that it was built for",
                library=self.path,
            )
        if not MIN_BACKEND_SIZE <= size <= sizeof(dovetail_backend):
            raise self.broken(
                f"says that its table has {size} bytes; one of ABI {c.abi_major}.{c.abi_minor} has {MIN_BACKEND_SIZE} to "
                f"{sizeof(dovetail_backend)}",
                "set size to sizeof(*table)",
            )
        # Fields younger than the backend read as NULL from here on, whatever lies there.
        memset(<char *>c + (size & ~<size_t>7), 0, sizeof(dovetail_backend) - (size & ~<size_t>7))
        if c.id == NULL:
            raise self.broken("has no id", "set table->id")
        self.id, self.version = _decoded(c.id), _decoded(c.version)
        missing = [name for name, there in (
            ("create_workload or compile_subgraph", c.create_workload != NULL or c.compile_subgraph != NULL),
            ("compiled_release", c.compile_subgraph == NULL or c.compiled_release != NULL),
            ("compile_subgraph", c.claim_subgraph == NULL or c.compile_subgraph != NULL),
            ("create_compiled_workload", c.compile_subgraph == NULL or c.create_compiled_workload != NULL),
            ("queues", not c.capabilities & DOVETAIL_BACKEND_ASYNC or c.queues != NULL),
            ("memory_allocate", c.memory == NULL or c.memory_allocate != NULL),
            ("memory_release", c.memory == NULL or c.memory_release != NULL),
            ("create_copy", c.memory == NULL or c.create_copy != NULL),
            ("memory_unmap", c.memory_map == NULL or c.memory_unmap != NULL),
            ("context_close", c.context_open == NULL or c.context_close != NULL),
        ) if not there]
        if missing:
            raise self.broken(f"lacks {', '.join(missing)}", "fill in these functions of the table; abi.h says which need which")
        artefacts = [c.artefact_save != NULL, c.artefact_check != NULL, c.artefact_load != NULL]
        if any(artefacts) and not (all(artefacts) and c.compile_subgraph != NULL):
            raise self.broken("offers some of artefact_save, artefact_check, artefact_load and compile_subgraph but not all")
        for what, count, pointer in (
            ("options", c.n_options, <size_t>c.options), ("kind_versions", c.n_kind_versions, <size_t>c.kind_versions),
            ("devices", c.n_devices, 1),
        ):
            if not 0 <= count <= LONGEST_LIST or (count and not pointer):
                raise self.broken(f"says that it has {count} {what}" + ("" if pointer else ", but lists none"))

    # -- facts -------------------------------------------------------------------------------------

    @property
    def abi(self):
        """Major and minor of the ABI that it was built for."""
        return self.c.abi_major, self.c.abi_minor

    @property
    def capabilities(self):
        """The bits DOVETAIL_BACKEND_..."""
        return self.c.capabilities

    @property
    def has_supports(self):
        """True if the table says itself what it takes, beyond its manifest."""
        return self.c.supports != NULL

    @property
    def has_compiler(self):
        """True if the table compiles subgraphs."""
        return self.c.compile_subgraph != NULL

    @property
    def has_workloads(self):
        """True if the table makes workloads of single layers."""
        return self.c.create_workload != NULL

    @property
    def has_artefacts(self):
        """True if what was compiled can be kept."""
        return self.c.artefact_save != NULL

    @property
    def has_memory(self):
        """True if the backend has memory of its own."""
        return self.c.memory != NULL

    @property
    def has_context(self):
        """True if a device is opened."""
        return self.c.context_open != NULL

    @property
    def has_device(self):
        """True if it keeps anything that does not survive fork(): a context, memory, queues."""
        return self.c.context_open != NULL or self.c.memory != NULL or bool(self.c.capabilities & DOVETAIL_BACKEND_ASYNC)

    def kind_versions(self):
        """Newest version known by kind."""
        cdef int i
        result = {}
        for i in range(self.c.n_kind_versions):
            one = self.c.kind_versions[i]
            if one == NULL or one.size < MIN_KIND_VERSION_SIZE or one.kind == NULL:
                raise self.broken(f"entry {i} of kind_versions is empty or too small")
            result[_decoded(one.kind)] = one.version
        return result

    def options(self):
        """List (name, AttributeType, default values, description) of each option."""
        cdef int i
        cdef const dovetail_attribute *value
        result = []
        for i in range(self.c.n_options):
            one = self.c.options[i]
            if one == NULL or one.size < MIN_OPTION_SIZE or one.value == NULL or one.value.size < MIN_ATTRIBUTE_SIZE \
                    or one.value.name == NULL:
                raise self.broken(f"entry {i} of its options is empty, has no name or is too small")
            value = one.value
            text = _decoded(one.description) if one.size >= sizeof(one[0]) else ""
            result.append((_decoded(value.name), AttributeType(value.type), self._values(value), text))
        return result

    cdef list _values(self, const dovetail_attribute *value):
        cdef int i
        kind, name = value.type, _decoded(value.name)
        listed = kind >= AttributeType.INTS
        pointers = {1: <size_t>value.integers, 2: <size_t>value.integers, 5: <size_t>value.integers, 3: <size_t>value.reals,
                    6: <size_t>value.reals, 4: <size_t>value.strings, 7: <size_t>value.strings}
        if kind not in pointers:
            raise self.broken(f"{name!r} has type {kind}, which no option or fact can have")
        if not (0 <= value.count <= LONGEST_LIST) or (value.count and not pointers[kind]) or (not listed and value.count != 1):
            raise self.broken(f"the value of {name!r} has {value.count} elements, or no pointer to them")
        if kind in (1, 2, 5):
            return [bool(value.integers[i]) if kind == 1 else value.integers[i] for i in range(value.count)]
        if kind in (3, 6):
            return [value.reals[i] for i in range(value.count)]
        return [_decoded(value.strings[i]) for i in range(value.count)]

    def devices(self):
        """List the devices, as the table states them."""
        return tuple([self._device(index) for index in range(self.c.n_devices)])

    def _device(self, int index):
        cdef dovetail_device_info info
        cdef dovetail_answer answer
        cdef int status
        cdef int32_t i
        memset(&info, 0, sizeof(info))
        info.size = sizeof(info)
        if self.c.device_info != NULL:
            _empty(&answer)
            self.begin()
            try:
                with nogil:
                    status = self.c.device_info(self.c.state, index, &info, &answer)
            finally:
                self.end()
            if status != DOVETAIL_OK:
                why = _why(&answer)
                raise self.broken(f"tells nothing of its device {index}: {why.text or f'code {status}, no reason given'}")
            if not MIN_DEVICE_SIZE <= info.size <= sizeof(info):
                raise self.broken(f"device_info() says that dovetail_device_info has {info.size} bytes", "set size to sizeof(*info)")
            memset(<char *>&info + (info.size & ~<size_t>7), 0, sizeof(info) - (info.size & ~<size_t>7))
        if not (0 <= info.facts.count <= LONGEST_LIST) or (info.facts.count and info.facts.items == NULL):
            raise self.broken(f"says that device {index} has {info.facts.count} facts, or lists none")
        facts = {}
        for i in range(info.facts.count):
            fact = info.facts.items[i]
            if fact == NULL or fact.size < MIN_ATTRIBUTE_SIZE or fact.name == NULL:
                raise self.broken(f"fact {i} of device {index} is empty, has no name or is too small")
            if fact.type not in (AttributeType.BOOL, AttributeType.INT, AttributeType.FLOAT, AttributeType.STRING):
                raise self.broken(f"fact {_decoded(fact.name)!r} of device {index} has type {fact.type}, which no fact can have")
            facts[_decoded(fact.name)] = self._values(fact)[0]
        return Device(
            index,
            _decoded(info.name) if info.name != NULL else f"device {index}",
            info.memory_bytes or None,
            None if info.half_precision == 0 else info.half_precision > 0,
            _decoded(info.revision),
            facts,
        )

    # -- serialization -----------------------------------------------------------------------------

    cdef int begin(self) except -1:
        """Wait until no other thread is inside; Ctrl-C ends the wait."""
        if self.owner == threading.get_ident() and self.pid == getpid():
            raise BackendError(
                f"backend {self.id!r} was called from inside one of its own calls",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="a progress or log callback must not use the backend that it listens to",
            )
        if self.pid != getpid():
            if self.owner is not None:
                raise BackendError(
                    f"backend {self.id!r} was in the middle of a call when this process was forked",
                    code=ErrorCode.FORKED,
                    hint="fork while no other thread loads a network, or use multiprocessing's 'spawn' method",
                )
            self.lock, self.pid = threading.Lock(), getpid()
        self.lock.acquire()
        self.owner = threading.get_ident()
        if not self.opened:
            self.owner = None
            self.lock.release()
            raise BackendError(f"backend {self.id!r} was closed", code=ErrorCode.BACKEND_UNAVAILABLE, hint="load it anew")
        return 0

    cdef int end(self) except -1:
        self._work_off()
        self.owner = None
        self.lock.release()
        self._release_pending()     # what came in between the two lines above
        return 0

    cdef int _release_pending(self) except -1:
        while (self.pending or (self.closing and self.opened and self.users == 0)) and self.lock.acquire(False):
            self.owner = threading.get_ident()
            try:
                self._work_off()
            finally:
                self.owner = None
                self.lock.release()
        return 0

    cdef int _work_off(self) except -1:
        cdef void *first
        cdef void *second
        cdef int what
        cdef int32_t number
        while self.pending:
            what, a, b, number = self.pending.pop(0)
            first, second = <void *><size_t>a, <void *><size_t>b
            with nogil:
                if what == 0:
                    self.c.context_close(self.c.state, first)
                elif what == 1:
                    self.c.memory_release(self.c.state, first, number, second)
                else:
                    self.c.compiled_release(self.c.state, first)
            self.users -= 1
        if self.closing and self.users == 0 and self.opened:
            self.opened = False
            if self.c.close != NULL and self._is_ours():
                with nogil:
                    self.c.close(self.c.state)
        return 0

    cdef bint _is_ours(self) noexcept:
        """False in a forked child for a table that has a device, which is the parent's to close."""
        return self.home == getpid() or not self.has_device

    def release(self, int what, size_t first, size_t second=0, int pid=0, int number=0):
        """End a context, memory (of a context) or what was compiled; now, or when the table is free.

        Args:
            pid: The process that it belongs to, 0 if to any: nothing happens in another.
            number: Of the memory.
        """
        if pid and pid != getpid():
            self.users -= 1
            return
        self.pending.append((what, first, second, number))
        self._release_pending()

    cdef int _left(self) except -1:
        self.users -= 1
        return self._release_pending()

    def close(self):
        """Close the table once nothing of it is in use. Idempotent."""
        self.closing = True
        self._release_pending()

    @property
    def in_use(self):
        """True while contexts, memory, workloads or what was compiled exist."""
        return self.users > 0

    def __dealloc__(self):
        if self.opened and self.c.close != NULL and self.users == 0 and self._is_ours():
            with nogil:
                self.c.close(self.c.state)

    # -- without a device --------------------------------------------------------------------------

    def device_state(self, int device):
        """Return (state, why)."""
        cdef dovetail_answer answer
        cdef int status
        _empty(&answer)
        if self.c.device_state == NULL:
            return 0, _why(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.device_state(self.c.state, device, &answer)
        finally:
            self.end()
        return status, _why(&answer)

    def supports(self, View device, View layer, View options):
        """Return (answer, why)."""
        cdef dovetail_answer answer
        cdef int status
        _empty(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.supports(
                    self.c.state, &device.device, layer.subgraph.layers[0], &options.attributes, &answer)
        finally:
            self.end()
        return status, _why(&answer)

    def claim(self, View device, View part, View options):
        """Ask whether a part would be compiled; returns (status, answer)."""
        cdef dovetail_answer answer
        cdef int status
        _empty(&answer)
        if self.c.claim_subgraph == NULL:
            return DOVETAIL_OK, _why(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.claim_subgraph(
                    self.c.state, &device.device, &part.subgraph, &options.attributes, &answer)
        finally:
            self.end()
        return status, _why(&answer)

    def compile(self, View device, View part, int threads, View options):
        """Compile a part; returns (status, why, Compiled or None).

        Raises:
            BaseException: What the listener of the progress raised, or Ctrl-C.
        """
        cdef dovetail_answer answer
        cdef dovetail_progress report
        cdef dovetail_resources resources = _resources(threads)
        cdef void *handle = NULL
        cdef int status
        cdef Compilation state = Compilation.__new__(Compilation)
        state.backend = self.id
        memset(&report, 0, sizeof(report))
        report.size, report.context, report.report = sizeof(report), <void *>state, report_progress
        _empty(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.compile_subgraph(
                    self.c.state, &device.device, &part.subgraph, &resources, &options.attributes, &report, &handle, &answer)
            compiled = Compiled._of(self, <size_t>handle, part) if status == DOVETAIL_OK and handle != NULL else None
        finally:
            self.end()
        if state.error is not None:
            raise state.error
        if status == DOVETAIL_OK and handle == NULL:
            raise self.broken("compile_subgraph answered OK without setting *compiled")
        return status, _why(&answer), compiled

    def extension(self, name):
        """Return the address of a named table of the backend's own, 0 if it has none."""
        cdef const void *found
        cdef bytes encoded = name.encode()
        cdef const char *text = PyBytes_AS_STRING(encoded)
        if self.c.extension == NULL:
            return 0
        self.begin()
        try:
            with nogil:
                found = self.c.extension(self.c.state, text)
        finally:
            self.end()
        return <size_t>found

    def artefact_save(self, Compiled compiled):
        """Return (status, why, bytes)."""
        cdef dovetail_answer answer
        cdef int status
        cdef Sink sink = Sink.__new__(Sink)
        sink.parts = []
        _empty(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.artefact_save(self.c.state, <void *>compiled.handle, write_bytes, <void *>sink, &answer)
        finally:
            self.end()
        if sink.error is not None:
            raise sink.error
        return status, _why(&answer), b"".join(sink.parts)

    def artefact_check(self, View device, bytes content):
        """Return (answer, why)."""
        cdef dovetail_answer answer
        cdef int status
        cdef const char *data = PyBytes_AS_STRING(content)
        cdef size_t count = len(content)
        _empty(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.artefact_check(self.c.state, &device.device, data, count, &answer)
        finally:
            self.end()
        return status, _why(&answer)

    def artefact_load(self, View device, int threads, bytes content):
        """Return (status, why, Compiled or None)."""
        cdef dovetail_resources resources = _resources(threads)
        cdef dovetail_answer answer
        cdef int status
        cdef void *handle = NULL
        cdef const char *data = PyBytes_AS_STRING(content)
        cdef size_t count = len(content)
        _empty(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.artefact_load(
                    self.c.state, &device.device, &resources, data, count, &handle, &answer)
            compiled = Compiled._of(self, <size_t>handle, None) if status == DOVETAIL_OK and handle != NULL else None
        finally:
            self.end()
        return status, _why(&answer), compiled

    # -- with a device -----------------------------------------------------------------------------

    def context_open(self, int device, int threads, View options):
        """Return (status, why, context)."""
        cdef dovetail_resources resources = _resources(threads)
        cdef dovetail_answer answer
        cdef int status
        cdef void *context = NULL
        _empty(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.context_open(
                    self.c.state, device, &resources, &options.attributes, &context, &answer)
            if status == DOVETAIL_OK:
                self.users += 1
        finally:
            self.end()
        return status, _why(&answer), <size_t>context

    def memories(self, int device):
        """Return (status, why, what `memory` says of each: kind, alignment, offsets, host_visible)."""
        cdef dovetail_answer answer
        cdef dovetail_memory memory
        cdef int status, index
        result = []
        for index in range(MAX_MEMORIES):
            _empty(&answer)
            memset(&memory, 0, sizeof(memory))
            memory.size = sizeof(memory)
            self.begin()
            try:
                with nogil:
                    status = self.c.memory(self.c.state, device, index, &memory, &answer)
            finally:
                self.end()
            if status == 1 and index:
                return DOVETAIL_OK, _why(&answer), result
            if status != DOVETAIL_OK:
                return status, _why(&answer), None
            if not MIN_MEMORY_SIZE <= memory.size <= sizeof(memory) or memory.kind == NULL:
                raise self.broken("memory() set no kind, or a size that dovetail_memory does not have")
            if memory.alignment == 0 or memory.alignment & (memory.alignment - 1):
                raise self.broken(f"memory() says that its alignment is {memory.alignment}, which is no power of two")
            if memory.host_visible and self.c.memory_map == NULL:
                raise self.broken("memory() says that the host can see it, but there is no memory_map()")
            result.append((_decoded(memory.kind), memory.alignment, bool(memory.offsets), bool(memory.host_visible)))
        raise self.broken(f"memory() tells of {MAX_MEMORIES} memories and more", "answer 1 where there are no more")

    def tensor_memory(self, View device, View layer, View tensor, int slot, bint is_output, View options):
        """Return the number of the memory of one tensor; `layer` is None for what was compiled."""
        cdef const dovetail_layer *shown = NULL if layer is None else layer.subgraph.layers[0]
        cdef int32_t number = 0
        self.begin()
        try:
            with nogil:
                number = self.c.tensor_memory(
                    self.c.state, &device.device, shown, tensor.tensor, slot, is_output, &options.attributes)
        finally:
            self.end()
        return number

    @property
    def chooses_memory(self):
        """True if the backend chooses the memory of each tensor."""
        return self.c.tensor_memory != NULL

    def mapping(self, size_t context, int number):
        """Return the addresses of what lets the host see memory, and which memory that is."""
        return <size_t>self.c.memory_map, <size_t>self.c.memory_unmap, <size_t>self.c.state, context, number

    def memory_allocate(self, size_t context, int number, size_t nbytes, size_t alignment):
        """Return (status, why, address)."""
        cdef dovetail_answer answer
        cdef int status
        cdef void *data = NULL
        _empty(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.memory_allocate(self.c.state, <void *>context, number, nbytes, alignment, &data, &answer)
            if status == DOVETAIL_OK:
                self.users += 1
        finally:
            self.end()
        return status, _why(&answer), <size_t>data

    def create_workload(self, size_t context, View layer, int threads, View options):
        """Return (status, why, workload)."""
        cdef dovetail_resources resources = _resources(threads)
        cdef TableWorkload made = TableWorkload.__new__(TableWorkload)
        cdef dovetail_answer answer
        cdef int status
        made.begin(self, layer, None)
        _empty(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.create_workload(
                    self.c.state, <void *>context, layer.subgraph.layers[0], &resources, &options.attributes, made.c,
                    &answer)
        finally:
            self.end()
        return status, _why(&answer), made.finish("create_workload") if status == DOVETAIL_OK else None

    def create_compiled_workload(self, size_t context, Compiled compiled, int threads, View options):
        """Return (status, why, workload)."""
        cdef dovetail_resources resources = _resources(threads)
        cdef TableWorkload made = TableWorkload.__new__(TableWorkload)
        cdef dovetail_answer answer
        cdef int status
        made.begin(self, None, compiled)
        _empty(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.create_compiled_workload(
                    self.c.state, <void *>context, <void *>compiled.handle, &resources, &options.attributes, made.c,
                    &answer)
        finally:
            self.end()
        return status, _why(&answer), made.finish("create_compiled_workload") if status == DOVETAIL_OK else None

    def create_copy(self, size_t context, int source, int target, View tensor):
        """Return (status, why, workload)."""
        cdef TableWorkload made = TableWorkload.__new__(TableWorkload)
        cdef dovetail_answer answer
        cdef int status
        made.begin(self, tensor, None)
        _empty(&answer)
        self.begin()
        try:
            with nogil:
                status = self.c.create_copy(
                    self.c.state, <void *>context, source, target, tensor.tensor, made.c, &answer)
        finally:
            self.end()
        return status, _why(&answer), made.finish("create_copy") if status == DOVETAIL_OK else None

    def queues(self, size_t context):
        """Return (status, why, capsule)."""
        cdef dovetail_answer answer
        cdef int status
        cdef dovetail_queues *queues = <dovetail_queues *>PyMem_RawCalloc(1, sizeof(dovetail_queues))
        if queues == NULL:
            raise MemoryError()
        queues.size = sizeof(dovetail_queues)
        queues.abi_major, queues.abi_minor = self.c.abi_major, self.c.abi_minor
        _empty(&answer)
        capsule = PyCapsule_New(queues, DOVETAIL_QUEUES_CAPSULE, drop_queues)
        PyCapsule_SetContext(capsule, <void *>self)
        Py_INCREF(self)
        self.users += 1
        self.begin()
        try:
            with nogil:
                status = self.c.queues(self.c.state, <void *>context, queues, &answer)
        finally:
            self.end()
        if status != DOVETAIL_OK or not MIN_QUEUES_SIZE <= queues.size <= sizeof(dovetail_queues):
            size = queues.size
            memset(queues, 0, sizeof(dovetail_queues))      # nothing of it can be relied on, its release neither
            if status == DOVETAIL_OK:
                raise self.broken(f"queues() says that dovetail_queues has {size} bytes", "set size to sizeof(*queues)")
            return status, _why(&answer), None
        memset(<char *>queues + (queues.size & ~<size_t>7), 0, sizeof(dovetail_queues) - (queues.size & ~<size_t>7))
        return status, _why(&answer), capsule


cdef void drop_queues(object capsule) noexcept:
    """Destructor of the capsule of queues: the core has called `release` by now, if it took them."""
    cdef dovetail_queues *queues
    cdef void *table = PyCapsule_GetContext(capsule)
    if PyCapsule_IsValid(capsule, DOVETAIL_QUEUES_CAPSULE):
        queues = <dovetail_queues *>PyCapsule_GetPointer(capsule, DOVETAIL_QUEUES_CAPSULE)
        if queues.release != NULL:
            with nogil:
                queues.release(queues.state)
    else:
        queues = <dovetail_queues *>PyCapsule_GetPointer(capsule, DOVETAIL_USED_QUEUES_CAPSULE)
    PyMem_RawFree(queues)
    if table != NULL:
        (<Table>table)._left()
        Py_XDECREF(<PyObject *>table)


@cython.final
@cython.no_gc
cdef class Compiled:
    """What a table made of a subgraph; released with the last workload made of it, constants after it."""

    cdef Table table
    cdef size_t handle
    cdef View part

    @staticmethod
    def _of(Table table, size_t handle, View part):
        cdef Compiled self = Compiled.__new__(Compiled)
        self.table, self.handle, self.part = table, handle, part
        table.users += 1
        return self

    def __dealloc__(self):
        if self.handle != 0:
            self.table.release(2, self.handle)


@cython.final
@cython.no_gc
cdef class TableWorkload:
    """A workload that a table filled in, with what must live as long as it: constants, what was compiled, the table."""

    cdef dovetail_workload *c
    cdef object capsule
    cdef Table table
    cdef View view
    cdef Compiled compiled
    cdef bint counted

    cdef int begin(self, Table table, View view, Compiled compiled) except -1:
        self.table, self.view, self.compiled = table, view, compiled
        self.c = <dovetail_workload *>PyMem_RawCalloc(1, sizeof(dovetail_workload))
        if self.c == NULL:
            raise MemoryError()
        self.c.size = sizeof(dovetail_workload)
        self.c.abi_major, self.c.abi_minor = table.c.abi_major, table.c.abi_minor
        self.counted = True
        table.users += 1
        return 0

    cdef object finish(self, str method):
        cdef size_t size = self.c.size
        if not MIN_WORKLOAD_SIZE <= size <= sizeof(dovetail_workload):
            raise self.table.broken(f"{method}() says that dovetail_workload has {size} bytes", "set size to sizeof(*workload)")
        memset(<char *>self.c + (size & ~<size_t>7), 0, sizeof(dovetail_workload) - (size & ~<size_t>7))
        if self.c.execute == NULL:
            if self.c.release != NULL:
                with nogil:
                    self.c.release(self.c.state)
            raise self.table.broken(f"{method}() answered OK without an execute function")
        self.capsule = PyCapsule_New(self.c, DOVETAIL_WORKLOAD_CAPSULE, drop_workload)
        self.c = NULL
        return self

    def __dovetail_workload__(self):
        """Hand the capsule over."""
        return self.capsule

    def __dealloc__(self):
        PyMem_RawFree(self.c)
        self.capsule = None     # releases the state, if the core did not, before the rest goes
        if self.counted:
            self.table._left()


def _open_error(path, text):
    lowered = text.lower()
    if "no such file" in lowered and "cannot open shared object" in lowered:
        missing = text.split(":")[0].strip()
        what = "is not there" if not os.path.exists(path) else f"needs {missing}, which is not there"
        hint = "check the path" if not os.path.exists(path) else f"install what provides {missing}, or put it beside the library"
    elif "glibc" in lowered or "not found (required by" in lowered:
        what, hint = "needs a newer C library than this system has", "use a newer system, or ask the vendor for a build for this one"
    elif "undefined symbol" in lowered:
        what, hint = "refers to a symbol that nobody defines", "link the library with -Wl,-z,defs to see what it lacks"
    else:
        what, hint = "cannot be opened", "see the loader's message"
    return BackendError(f"library {path} {what}: {text}", hint=hint, library=str(path), loader=text)
