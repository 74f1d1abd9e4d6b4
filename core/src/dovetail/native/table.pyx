"""Open a backend's C table (`dovetail_backend` in abi.h) from a shared library; call it safely.

Every call is made without the GIL, by one thread at a time (`Call`). What ends something (a
context, memory, what was compiled, the table) never waits: it is put on a list that whoever has the
lock works off, so that the garbage collector may do it at any moment.

After fork() the child may use a table that has no device, unless another thread was inside it; what
it inherited of a device is the parent's: the child ends none of it, and the adapter refuses to use
it (`NativeContext`).

A library is never unloaded once it opened: threads, thread-local data and atexit handlers of its
own may still need its code.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memset
from posix.unistd cimport getpid

from dovetail.abi cimport (
    DOVETAIL_ABI_MAJOR,
    DOVETAIL_ABI_MINOR,
    DOVETAIL_BACKEND_ASYNC,
    DOVETAIL_OPEN_BACKEND_SYMBOL,
    dovetail_backend,
    dovetail_backend_host,
    dovetail_open_backend,
)

import logging
import os
import threading

from ..ground.errors import BackendError, ErrorCode
from ..ground.foreign_text import one_line
from ..ground.host_exceptions import is_of_host

cdef extern from "<string.h>" nogil:
    size_t strnlen(const char *text, size_t limit)

cdef extern from "<dlfcn.h>" nogil:
    const int RTLD_NOW
    const int RTLD_LOCAL
    void *dlopen(const char *path, int flags)
    void *dlsym(void *library, const char *name)
    const char *dlerror()
    int dlclose(void *library)

cdef extern from "Python.h":
    int Py_AddPendingCall(int (*function)(void *) except -1 with gil, void *argument)

cdef extern from "taken_sizes.h":
    const size_t DVT_STRUCT_HEAD
    const size_t DVT_MIN_BACKEND

_log = logging.getLogger("dovetail")

cdef enum:
    CONTEXT, MEMORY, COMPILED       # what is released


cdef void log_from_table(int32_t level, const char *text) noexcept with gil:
    try:
        _log.log(level, "%s", decoded(text))
    except BaseException as error:     # a handler's fault must not unwind through the library
        if is_of_host(error) and raise_later(error) == 0:
            return
        _log.debug("a log handler failed: %r", error)


cdef const void *no_extension(const char *name) noexcept nogil:
    return NULL


cdef int raise_pending(void *error) except -1 with gil:
    held = <object>error
    Py_XDECREF(<PyObject *>held)
    raise held


cdef int raise_later(object error):
    """Raise a host exception on the main thread once the library has returned; 0 on success."""
    Py_INCREF(error)
    if Py_AddPendingCall(raise_pending, <void *>error) != 0:
        Py_XDECREF(<PyObject *>error)
        return -1
    return 0


cdef str decoded(const char *text):
    return (<bytes>text).decode("utf-8", "backslashreplace") if text != NULL else ""


cdef str _field(const char *text, size_t limit):
    """A text that may fill its field to the last byte."""
    return one_line(PyBytes_FromStringAndSize(text, strnlen(text, limit)).decode("utf-8", "backslashreplace"))


NEEDS = (
    ("compile_subgraph", "compiled_release"), ("compile_subgraph", "create_compiled_workload"),
    ("claim_subgraph", "compile_subgraph"), ("memory", "memory_release"),
    ("memory_map", "memory_unmap"), ("context_open", "context_close"),
)
"""A table with the first of two functions must have the second."""

ARTEFACTS = frozenset(("artefact_save", "artefact_check", "artefact_load"))
"""All of them or none."""


cdef object functions_of(dovetail_backend *c):
    """Return the names of the functions that a table has, as far as others depend on them."""
    there = {
        "supports": c.supports != NULL,
        "claim_subgraph": c.claim_subgraph != NULL,
        "compile_subgraph": c.compile_subgraph != NULL,
        "compiled_release": c.compiled_release != NULL,
        "artefact_save": c.artefact_save != NULL,
        "artefact_check": c.artefact_check != NULL,
        "artefact_load": c.artefact_load != NULL,
        "context_open": c.context_open != NULL,
        "context_close": c.context_close != NULL,
        "create_workload": c.create_workload != NULL,
        "create_compiled_workload": c.create_compiled_workload != NULL,
        "queues": c.queues != NULL,
        "memory": c.memory != NULL,
        "tensor_memory": c.tensor_memory != NULL,
        "memory_allocate": c.memory_allocate != NULL,
        "image_allocate": c.image_allocate != NULL,
        "memory_release": c.memory_release != NULL,
        "memory_map": c.memory_map != NULL,
        "memory_unmap": c.memory_unmap != NULL,
        "create_copy": c.create_copy != NULL,
    }
    return frozenset([name for name, is_there in there.items() if is_there])


cdef void clear_rest(void *filled, size_t largest) noexcept nogil:
    """Clear the fields that are younger than whoever filled in a struct, whatever lies there."""
    cdef size_t known = (<size_t *>filled)[0] & ~<size_t>7
    memset(<char *>filled + known, 0, largest - known)


class Why:
    """What a table said of a refusal or failure: see `dovetail_answer`."""

    def __init__(self, code, subject, text):
        self.code, self.subject, self.text = code, subject, text


cdef class Table:
    """One opened library.

    Attributes:
        path: Where it lies.
        id, version: As the table says.
        functions: Names of those that it has.
    """

    def __cinit__(self):
        self.lock = threading.Lock()
        self.pending = []
        self.home = self.pid = getpid()

    # -- opening -----------------------------------------------------------------------------------

    @staticmethod
    def open(path):
        """Open a library and check its table.

        Raises:
            BackendError: It cannot be opened, was built for another ABI (`ABI_MISMATCH`), or breaks
                its contract (`BACKEND_CONTRACT`).
        """
        cdef Table self = Table.__new__(Table)
        cdef void *library
        cdef void *entry
        cdef const char *name
        cdef Call call
        self.path = os.fspath(path)
        self.encoded_path = os.fsencode(os.path.abspath(path))
        name = PyBytes_AS_STRING(self.encoded_path)
        with nogil:
            library = dlopen(name, RTLD_NOW | RTLD_LOCAL)
        if library == NULL:
            raise _open_error(self.path, decoded(dlerror()))
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
        call = Call(self)
        with nogil:     # nobody else knows the table yet
            call.status = (<dovetail_open_backend>entry)(&self.host, &self.c, &call.answer)
        if call.status < 0:
            why = call.why()
            raise BackendError(
                f"library {self.path} refuses to open: {why.text or f'code {call.status}, no reason given'}",
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
        if size < DVT_STRUCT_HEAD:
            raise self.broken(f"filled in a table of {size} bytes, which does not even hold its version", "set size to sizeof(*table)")
        if c.abi_major != DOVETAIL_ABI_MAJOR or c.abi_minor > DOVETAIL_ABI_MINOR:
            raise BackendError(
                f"library {self.path}: built for ABI {c.abi_major}.{c.abi_minor}; this core has ABI "
                f"{DOVETAIL_ABI_MAJOR}.{DOVETAIL_ABI_MINOR}",
                code=ErrorCode.ABI_MISMATCH,
                hint="rebuild the backend against this dovetail-core, or install the dovetail-core that it was built for",
                library=self.path,
            )
        if not DVT_MIN_BACKEND <= size <= sizeof(dovetail_backend):
            raise self.broken(
                f"says that its table has {size} bytes; one of ABI {c.abi_major}.{c.abi_minor} has {DVT_MIN_BACKEND} to "
                f"{sizeof(dovetail_backend)}",
                "set size to sizeof(*table)",
            )
        clear_rest(c, sizeof(dovetail_backend))
        if c.id == NULL:
            raise self.broken("has no id", "set table->id")
        self.id, self.version = one_line(decoded(c.id)), one_line(decoded(c.version))
        self.functions = functions = functions_of(c)
        missing = [needed for having, needed in NEEDS if having in functions and needed not in functions]
        if not functions & {"create_workload", "compile_subgraph"}:
            missing.insert(0, "create_workload or compile_subgraph")
        if "memory" in functions and not functions & {"memory_allocate", "image_allocate"}:
            missing.append("memory_allocate or image_allocate")
        if c.capabilities & DOVETAIL_BACKEND_ASYNC and "queues" not in functions:
            missing.append("queues")
        if missing:
            raise self.broken(f"lacks {', '.join(missing)}", "fill in these functions of the table; abi.h says which need which")
        artefacts = functions & ARTEFACTS
        if artefacts and not (artefacts == ARTEFACTS and "compile_subgraph" in functions):
            raise self.broken(f"offers some of {', '.join(sorted(ARTEFACTS))} and compile_subgraph but not all")
        for what, count, pointer in (
            ("options", c.n_options, <size_t>c.options), ("kind_versions", c.n_kind_versions, <size_t>c.kind_versions),
            ("devices", c.n_devices, 1),
        ):
            if not 0 <= count <= MAX_ENTRIES or (count and not pointer):
                raise self.broken(f"says that it has {count} {what}" + ("" if pointer else ", but lists none"))

    cdef int accept(self, void *filled, size_t smallest, size_t largest, str function, str name) except -1:
        """Check the size of a struct that a function filled in; clear what lies behind it."""
        cdef size_t size = (<size_t *>filled)[0]
        if not smallest <= size <= largest:
            raise self.broken(f"{function}() says that {name} has {size} bytes", f"set size to sizeof({name})")
        clear_rest(filled, largest)
        return 0

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
    def has_device(self):
        """True if it keeps anything that does not survive fork(): a context, memory, queues."""
        return self.c.context_open != NULL or self.c.memory != NULL or bool(self.c.capabilities & DOVETAIL_BACKEND_ASYNC)

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
                if what == CONTEXT:
                    self.c.context_close(self.c.state, first)
                elif what == MEMORY:
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

    def release_context(self, size_t address, int pid):
        """Close a context, now or when the table is free.

        Nothing happens in another process than `pid`, unless that is 0.
        """
        self._release(CONTEXT, address, 0, pid, 0)

    def release_memory(self, size_t context, int number, size_t address, int pid):
        """Release what memory `number` of a context gave, likewise."""
        self._release(MEMORY, context, address, pid, number)

    cdef int release_compiled(self, size_t handle) except -1:
        return self._release(COMPILED, handle, 0, 0, 0)

    cdef int _release(self, int what, size_t first, size_t second, int pid, int32_t number) except -1:
        if pid and pid != getpid():
            self.users -= 1
            return 0
        self.pending.append((what, first, second, number))
        return self._release_pending()

    cdef int left(self) except -1:
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


cdef class Call:
    """One call of a function of a table, and what it answered.

    It is made without the GIL, while no other thread is inside:
    ``with call, nogil: call.status = function(..., &call.answer)``.

    Args:
        threads: What the user lets the backend have of the host.
    """

    def __cinit__(self, Table table, int threads=1):
        self.table = table
        self.answer.size = sizeof(self.answer)      # all else of these two comes zeroed
        self.resources.size, self.resources.threads = sizeof(self.resources), threads

    def __enter__(self):
        self.table.begin()
        return self

    def __exit__(self, kind, error, traceback):
        self.table.end()

    cdef object why(self):
        """Return the reason that was given."""
        return Why(
            _field(self.answer.code, sizeof(self.answer.code)),
            _field(self.answer.subject, sizeof(self.answer.subject)),
            _field(self.answer.text, sizeof(self.answer.text)),
        )


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
