"""The table of a backend in a shared library: opened, checked, negotiated, and called with the GIL released.

A library stays in the process once it was opened: its threads may still run its code, and what it registered with the C library
still points into it.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memset
from posix.dlfcn cimport RTLD_LOCAL, RTLD_NOW, dlclose, dlerror, dlopen, dlsym

from dovetail.abi cimport (
    DOVETAIL_ABI_MAJOR,
    DOVETAIL_ABI_MINOR,
    DOVETAIL_ATTRIBUTE_NONE,
    DOVETAIL_BACKEND_ASYNC,
    DOVETAIL_CANCELLED,
    DOVETAIL_OK,
    DOVETAIL_OPEN_BACKEND_SYMBOL,
    DOVETAIL_QUEUES_CAPSULE,
    DOVETAIL_USED_QUEUES_CAPSULE,
    DOVETAIL_WORKLOAD_CAPSULE,
    dovetail_answer,
    dovetail_attribute,
    dovetail_attributes,
    dovetail_backend,
    dovetail_backend_host,
    dovetail_memory,
    dovetail_open_backend,
    dovetail_progress,
    dovetail_queues,
    dovetail_tensor_info,
    dovetail_workload,
    drop_workload,
)
from dovetail.native.views cimport AttributesView, Store, SubgraphView, tensor_info

import logging
import os
import threading
from typing import NamedTuple

from ..errors import BackendError, ErrorCode

_LOGGER = logging.getLogger("dovetail.backend")

# Sizes of the structs as ABI 0.2, the first with a table, had them: what every backend fills in at least.
cdef enum:
    FIRST_TABLE = 224
    FIRST_WORKLOAD = 96
    FIRST_QUEUES = 72
    FIRST_MEMORY = 32


class Answer(NamedTuple):
    """What a backend said about a refusal or a failure.

    Attributes:
        code: A stable word, such as "dtype".
        subject: The attribute or input to blame, or an empty string.
        text: A sentence.
    """

    code: str
    subject: str
    text: str


class MemoryFacts(NamedTuple):
    """Memory of a backend's own; see `dovetail_memory`."""

    kind: str
    alignment: int
    offsets: bool
    host_visible: bool


cdef str as_text(const char *text, size_t most):
    """Read at most so many bytes of a text that ought to end with NUL."""
    cdef size_t length = 0
    if text == NULL:
        return ""
    while length < most and text[length] != 0:
        length += 1
    return text[:length].decode("utf-8", "replace")


cdef class Why:
    """An empty answer, for a backend to fill in."""

    cdef dovetail_answer answer

    def __cinit__(self):
        self.answer.size = sizeof(dovetail_answer)

    cdef object read(self):
        return Answer(
            as_text(self.answer.code, sizeof(self.answer.code)),
            as_text(self.answer.subject, sizeof(self.answer.subject)),
            as_text(self.answer.text, sizeof(self.answer.text)),
        )


cdef void on_log(int32_t level, const char *text) noexcept with gil:
    try:
        _LOGGER.log(level, "%s", as_text(text, 1 << 16))
    except BaseException:  # a handler's fault must not unwind into the backend
        pass


cdef const void *no_extension(const char *name) noexcept nogil:
    return NULL


cdef int on_progress(void *context, double fraction, const char *what) noexcept with gil:
    """Pass progress on; Ctrl-C, and whatever the listener raises, ends the compilation."""
    listener = <Listener>context
    if listener.error is not None:
        return 1
    try:
        PyErr_CheckSignals()
        listener.report(min(max(fraction, 0.0), 1.0) if fraction == fraction else 0.0, as_text(what, 1 << 12))
    except BaseException as error:
        listener.error = error
        return 1
    return 0


cdef class Listener:
    """Whom to tell of progress, and what ended it."""

    cdef object report
    cdef object error


cdef int on_write(void *sink, const void *bytes, size_t count) noexcept with gil:
    try:
        (<object>sink).append(PyBytes_FromStringAndSize(<const char *>bytes, count))
    except BaseException:
        return -3  # DOVETAIL_OUT_OF_MEMORY
    return 0


@cython.no_gc
cdef class Table:
    """An open backend table. Create it with `Table.open`; it closes when nothing uses it any more.

    Attributes:
        lock: Held during every call: a backend is called from one thread at a time.
        path: The library.
    """

    cdef dovetail_backend table
    cdef dovetail_backend_host host
    cdef bint opened
    cdef bytes library
    cdef readonly object lock
    cdef readonly str path
    cdef readonly str id

    @staticmethod
    def open(path):
        """Open a library's table.

        Raises:
            BackendError: It cannot be loaded or has no table (`BACKEND_BROKEN`), speaks another version (`ABI_MISMATCH`), refuses
                (`BACKEND_BROKEN`), or its table lacks what it must have (`BACKEND_CONTRACT`).
        """
        cdef Table self = Table.__new__(Table)
        cdef dovetail_open_backend function
        cdef void *handle
        cdef int status
        cdef Why why = Why()
        self.path = os.path.abspath(os.fsdecode(path))
        self.library = os.fsencode(self.path)
        self.lock = threading.RLock()
        # RTLD_NOW: a symbol that is missing shows here, not in the middle of a run.
        handle = dlopen(PyBytes_AS_STRING(self.library), RTLD_NOW | RTLD_LOCAL)
        if handle == NULL:
            raise BackendError(
                f"{self.path} cannot be loaded: {as_text(dlerror(), 1 << 12)}",
                hint="install the library or the version that is named, or a build of the backend for this system",
                library=self.path,
                phase="dlopen",
            )
        function = <dovetail_open_backend>dlsym(handle, DOVETAIL_OPEN_BACKEND_SYMBOL)
        if function == NULL:
            dlclose(handle)
            raise BackendError(
                f"{self.path} exports no function {DOVETAIL_OPEN_BACKEND_SYMBOL.decode()}",
                hint="it is no backend for this major version of the ABI; see 'The backend table' in abi.h",
                library=self.path,
                phase="symbol",
            )
        self.table.size = sizeof(dovetail_backend)
        self.host.size = sizeof(dovetail_backend_host)
        self.host.abi_major, self.host.abi_minor = DOVETAIL_ABI_MAJOR, DOVETAIL_ABI_MINOR
        self.host.library = PyBytes_AS_STRING(self.library)
        self.host.log, self.host.extension = on_log, no_extension
        with nogil:
            status = function(&self.host, &self.table, &why.answer)
        if status < 0:
            answer = why.read()
            raise BackendError(
                f"{self.path} refused to open: {answer.text or f'it gave no reason (status {status})'}",
                hint="the text is the backend's own; its documentation knows more",
                library=self.path,
                phase="open",
                reason=answer.code,
            )
        self.check()
        self.opened = True
        self.host.abi_minor = self.table.abi_minor  # the lower one of the two: `check` made sure
        self.id = as_text(self.table.id, 256)
        return self

    cdef check(self):
        """Refuse a table that is not whole."""
        cdef dovetail_backend *table = &self.table
        if table.abi_major != DOVETAIL_ABI_MAJOR or table.abi_minor > DOVETAIL_ABI_MINOR:
            raise BackendError(
                f"{self.path} was built for ABI {table.abi_major}.{table.abi_minor}; this core speaks ABI "
                f"{DOVETAIL_ABI_MAJOR}.{DOVETAIL_ABI_MINOR}",
                code=ErrorCode.ABI_MISMATCH,
                hint="install versions of the backend and of dovetail-core that fit each other",
                library=self.path,
            )
        if not FIRST_TABLE <= table.size <= sizeof(dovetail_backend):
            raise self.contract(
                f"its table says that it has {table.size} bytes, not {FIRST_TABLE} to {sizeof(dovetail_backend)}",
                "set `size` to sizeof(dovetail_backend)",
            )
        missing = []
        if table.id == NULL:
            missing.append("id")
        if table.version == NULL:
            missing.append("version")
        if table.supports == NULL:
            missing.append("supports")
        if table.create_workload == NULL and table.compile_subgraph == NULL:
            missing.append("create_workload or compile_subgraph")
        if table.compile_subgraph != NULL:
            if table.create_compiled_workload == NULL:
                missing.append("create_compiled_workload")
            if table.compiled_release == NULL:
                missing.append("compiled_release")
        if table.capabilities & DOVETAIL_BACKEND_ASYNC and table.queues == NULL:
            missing.append("queues")
        if table.memory != NULL:
            if table.memory_allocate == NULL:
                missing.append("memory_allocate")
            if table.memory_release == NULL:
                missing.append("memory_release")
            if table.create_copy == NULL:
                missing.append("create_copy")
        artefacts = (table.artefact_save != NULL) + (table.artefact_check != NULL) + (table.artefact_load != NULL)
        if artefacts not in (0, 3):
            missing.append("one of artefact_save, artefact_check and artefact_load")
        if table.context_open != NULL and table.context_close == NULL:
            missing.append("context_close")
        if missing:
            raise self.contract(f"its table lacks {', '.join(missing)}", "see dovetail_backend in abi.h")
        if table.n_devices < 0 or (table.n_options > 0 and table.options == NULL) or table.n_options < 0 or (
            table.n_kind_versions > 0 and table.kind_versions == NULL) or table.n_kind_versions < 0:
            raise self.contract("its table counts options, kinds or devices that are not there", "fill in count and list alike")

    def contract(self, what, hint):
        """Make the error of a backend that breaks its contract."""
        return BackendError(f"{self.id or self.path}: {what}", code=ErrorCode.BACKEND_CONTRACT, hint=hint, library=self.path)

    def __dealloc__(self):
        if self.opened and self.table.close != NULL:
            with nogil:
                self.table.close(self.table.state)

    # -- what it says about itself --------------------------------------------------------------------------------------------

    @property
    def version(self):
        """The backend's own version."""
        return as_text(self.table.version, 256)

    @property
    def abi(self):
        """Major and minor that both sides use."""
        return self.host.abi_major, self.host.abi_minor

    @property
    def capabilities(self):
        """`DOVETAIL_BACKEND_...` flags."""
        return self.table.capabilities

    @property
    def compiles(self):
        """True if it compiles subgraphs."""
        return self.table.compile_subgraph != NULL

    @property
    def runs_layers(self):
        """True if it makes workloads of single layers."""
        return self.table.create_workload != NULL

    @property
    def has_artefacts(self):
        """True if what it compiled can be kept."""
        return self.table.artefact_save != NULL

    @property
    def has_memory(self):
        """True if it has memory of its own."""
        return self.table.memory != NULL

    def options(self):
        """Names, types, defaults and descriptions of its options."""
        cdef const dovetail_attribute *value
        result = []
        for i in range(self.table.n_options):
            if self.table.options[i] == NULL or self.table.options[i].value == NULL or self.table.options[i].value.name == NULL:
                raise self.contract(f"option {i} has no value or no name", "see dovetail_option in abi.h")
            value = self.table.options[i].value
            result.append((
                as_text(value.name, 256), value.type, self.values(value), as_text(self.table.options[i].description, 1 << 12)))
        return result

    cdef list values(self, const dovetail_attribute *value):
        cdef int64_t i
        if value.integers != NULL:
            return [value.integers[i] for i in range(value.count)]
        if value.reals != NULL:
            return [value.reals[i] for i in range(value.count)]
        if value.strings != NULL:
            return [as_text(value.strings[i], 1 << 16) for i in range(value.count)]
        if value.type == DOVETAIL_ATTRIBUTE_NONE or value.count == 0:
            return []
        raise self.contract(f"option {as_text(value.name, 256)!r} has no default", "options are numbers, texts or lists of them")

    def kind_versions(self):
        """Newest version known, by kind."""
        return {
            as_text(self.table.kind_versions[i].kind, 256): self.table.kind_versions[i].version
            for i in range(self.table.n_kind_versions)
            if self.table.kind_versions[i] != NULL
        }

    def devices(self):
        """Names of the devices."""
        cdef const char *name
        names = []
        for i in range(self.table.n_devices):
            name = self.table.device_name(self.table.state, i) if self.table.device_name != NULL else NULL
            names.append(as_text(name, 256) or f"device {i}")
        return names

    def device_state(self, int32_t device):
        """`DOVETAIL_DEVICE_...` of a device, and why."""
        cdef Why why = Why()
        cdef int state
        if self.table.device_state == NULL:
            return 0, why.read()
        with self.lock, nogil:
            state = self.table.device_state(self.table.state, device, &why.answer)
        return state, why.read()

    # -- without a device -----------------------------------------------------------------------------------------------------

    def supports(self, SubgraphView view, AttributesView options):
        """Ask about the only layer of a view: 1 yes, 0 no, negative failed; and why."""
        cdef Why why = Why()
        cdef int status
        with self.lock, nogil:
            status = self.table.supports(self.table.state, view.table.layers[0], &options.table, &why.answer)
        return status, why.read()

    def compile(self, SubgraphView view, AttributesView options, report):
        """Compile a subgraph.

        Args:
            view: What to compile; it lives as long as the result.
            options: Options of the backend.
            report: Called with a fraction and a text; what it raises ends the compilation and is raised again.

        Returns:
            Status, `Compiled` or None, and why.
        """
        cdef Why why = Why()
        cdef Listener listener = Listener()
        cdef dovetail_progress progress
        cdef void *made = NULL
        cdef int status
        listener.report = report
        memset(&progress, 0, sizeof(progress))
        progress.size, progress.context, progress.report = sizeof(progress), <void *>listener, on_progress
        with self.lock, nogil:
            status = self.table.compile_subgraph(
                self.table.state, &view.table, &options.table, &progress, &made, &why.answer)
        compiled = Compiled.of(self, made, view) if status == DOVETAIL_OK and made != NULL else None
        if listener.error is not None:
            raise listener.error
        if status == DOVETAIL_OK and made == NULL:
            raise self.contract("compile_subgraph() answered OK without a result", "set *compiled")
        return status, compiled, why.read()

    def artefact_save(self, Compiled compiled):
        """Return status, bytes and why."""
        cdef Why why = Why()
        cdef int status
        cdef list chunks = []
        with self.lock, nogil:
            status = self.table.artefact_save(self.table.state, compiled.pointer, on_write, <void *>chunks, &why.answer)
        return status, b"".join(chunks), why.read()

    def artefact_check(self, bytes content):
        """Return `DOVETAIL_ARTEFACT_...` and why."""
        cdef Why why = Why()
        cdef int status
        cdef const char *start = PyBytes_AS_STRING(content)
        cdef size_t count = PyBytes_GET_SIZE(content)
        with self.lock, nogil:
            status = self.table.artefact_check(self.table.state, start, count, &why.answer)
        return status, why.read()

    def artefact_load(self, bytes content):
        """Return status, `Compiled` or None, and why."""
        cdef Why why = Why()
        cdef int status
        cdef void *made = NULL
        cdef const char *start = PyBytes_AS_STRING(content)
        cdef size_t count = PyBytes_GET_SIZE(content)
        with self.lock, nogil:
            status = self.table.artefact_load(self.table.state, start, count, &made, &why.answer)
        return status, Compiled.of(self, made, content) if status == DOVETAIL_OK and made != NULL else None, why.read()

    # -- with a device --------------------------------------------------------------------------------------------------------

    def context_open(self, int32_t device, AttributesView options):
        """Return status, `DeviceContext` and why."""
        cdef Why why = Why()
        cdef DeviceContext context = DeviceContext.__new__(DeviceContext)
        cdef void *made = NULL
        cdef int status = DOVETAIL_OK
        if self.table.context_open != NULL:
            with self.lock, nogil:
                status = self.table.context_open(self.table.state, device, &options.table, &made, &why.answer)
        if status == DOVETAIL_OK:
            context.table, context.pointer, context.device, context.is_open = self, made, device, True
        return status, context, why.read()

    def create_workload(self, DeviceContext context, SubgraphView view, AttributesView options):
        """Make the workload of the only layer of a view. Returns status, `NativeWorkload` or None, and why."""
        cdef Why why = Why()
        cdef NativeWorkload made = NativeWorkload.of(self, (context, view, options))
        cdef int status
        with self.lock, nogil:
            status = self.table.create_workload(
                self.table.state, context.pointer, view.table.layers[0], &options.table, made.workload, &why.answer)
        return status, made.checked("create_workload") if status >= 0 else None, why.read()

    def create_compiled_workload(self, DeviceContext context, Compiled compiled, AttributesView options):
        """Make a workload of what was compiled. Returns status, `NativeWorkload` or None, and why."""
        cdef Why why = Why()
        cdef NativeWorkload made = NativeWorkload.of(self, (context, compiled, options))
        cdef int status
        with self.lock, nogil:
            status = self.table.create_compiled_workload(
                self.table.state, context.pointer, compiled.pointer, &options.table, made.workload, &why.answer)
        return status, made.checked("create_compiled_workload") if status >= 0 else None, why.read()

    def create_copy(self, DeviceContext context, int32_t direction, info):
        """Make the workload of a copy (`DOVETAIL_COPY_...`). Returns status, `NativeWorkload` or None, and why."""
        cdef Why why = Why()
        cdef Store store = Store()
        cdef NativeWorkload made = NativeWorkload.of(self, (context, store))
        cdef const dovetail_tensor_info *tensor = tensor_info(store, info, 0)
        cdef int status
        with self.lock, nogil:
            status = self.table.create_copy(
                self.table.state, context.pointer, direction, tensor, made.workload, &why.answer)
        return status, made.checked("create_copy") if status >= 0 else None, why.read()

    def queues(self, DeviceContext context):
        """Return status, a capsule 'dovetail.queues.v0' or None, and why."""
        cdef Why why = Why()
        cdef dovetail_queues *made = <dovetail_queues *>PyMem_RawCalloc(1, sizeof(dovetail_queues))
        cdef int status
        if made == NULL:
            raise MemoryError()
        made.size = sizeof(dovetail_queues)
        with self.lock, nogil:
            status = self.table.queues(self.table.state, context.pointer, made, &why.answer)
        if status < 0:
            PyMem_RawFree(made)
            return status, None, why.read()
        capsule = PyCapsule_New(made, DOVETAIL_QUEUES_CAPSULE, drop_queues)
        if not FIRST_QUEUES <= made.size <= sizeof(dovetail_queues):
            raise self.contract(f"queues() says that its table has {made.size} bytes", "set `size` to sizeof(dovetail_queues)")
        if made.queue_create == NULL or made.queue_wait == NULL or made.queue_abort == NULL or made.queue_destroy == NULL:
            raise self.contract("queues() left out a function", "queue_create, queue_wait, queue_abort and queue_destroy are needed")
        return status, capsule, why.read()

    def memory(self, int32_t device):
        """Return status, `MemoryFacts` or None, and why."""
        cdef Why why = Why()
        cdef dovetail_memory memory
        cdef int status
        memset(&memory, 0, sizeof(memory))
        memory.size = sizeof(memory)
        with self.lock, nogil:
            status = self.table.memory(self.table.state, device, &memory, &why.answer)
        if status < 0:
            return status, None, why.read()
        alignment = memory.alignment
        if not FIRST_MEMORY <= memory.size <= sizeof(memory) or alignment < 1 or alignment & (alignment - 1) or memory.kind == NULL:
            raise self.contract(
                f"memory() says: size {memory.size}, alignment {alignment}", "set `size`, `kind` and an alignment that is a power of two")
        facts = MemoryFacts(as_text(memory.kind, 256), alignment, bool(memory.offsets), bool(memory.host_visible))
        return status, facts, why.read()

    def memory_allocate(self, DeviceContext context, size_t nbytes, size_t alignment):
        """Return status, address and why."""
        cdef Why why = Why()
        cdef void *data = NULL
        cdef int status
        with self.lock, nogil:
            status = self.table.memory_allocate(self.table.state, context.pointer, nbytes, alignment, &data, &why.answer)
        return status, <uintptr_t>data, why.read()

    def memory_release(self, DeviceContext context, uintptr_t address):
        """Give memory back."""
        with self.lock, nogil:
            self.table.memory_release(self.table.state, context.pointer, <void *>address)


cdef void drop_queues(object capsule) noexcept:
    """Destructor of a capsule of queues: the core calls `release` of one that it took, which says so by its name."""
    cdef dovetail_queues *made
    if PyCapsule_IsValid(capsule, DOVETAIL_QUEUES_CAPSULE):
        made = <dovetail_queues *>PyCapsule_GetPointer(capsule, DOVETAIL_QUEUES_CAPSULE)
        if made.release != NULL:
            made.release(made.state)
    else:
        made = <dovetail_queues *>PyCapsule_GetPointer(capsule, DOVETAIL_USED_QUEUES_CAPSULE)
    PyMem_RawFree(made)


@cython.no_gc
cdef class Compiled:
    """What a backend compiled; released when no workload is made of it any more."""

    cdef Table table
    cdef void *pointer
    cdef object kept

    @staticmethod
    cdef Compiled of(Table table, void *pointer, object kept):
        cdef Compiled self = Compiled.__new__(Compiled)
        self.table, self.pointer, self.kept = table, pointer, kept
        return self

    def __dealloc__(self):
        if self.pointer != NULL:
            with self.table.lock, nogil:
                self.table.table.compiled_release(self.table.table.state, self.pointer)


@cython.no_gc
cdef class DeviceContext:
    """An open device of a backend, or the place of one for a backend that keeps nothing."""

    cdef Table table
    cdef void *pointer
    cdef readonly int32_t device
    cdef bint is_open

    def close(self):
        """Give the device back; harmless the second time."""
        if self.is_open:
            self.is_open = False
            if self.table.table.context_close != NULL and self.table.table.context_open != NULL:
                with self.table.lock, nogil:
                    self.table.table.context_close(self.table.table.state, self.pointer)

    def __dealloc__(self):
        self.close()


@cython.no_gc
cdef class NativeWorkload:
    """A workload that a table made, and what it stands on; taken over by the core as a capsule."""

    cdef Table table
    cdef dovetail_workload *workload
    cdef object kept
    cdef object capsule

    @staticmethod
    cdef NativeWorkload of(Table table, object kept):
        cdef NativeWorkload self = NativeWorkload.__new__(NativeWorkload)
        self.table, self.kept = table, kept
        self.workload = <dovetail_workload *>PyMem_RawCalloc(1, sizeof(dovetail_workload))
        if self.workload == NULL:
            raise MemoryError()
        self.workload.size = sizeof(dovetail_workload)
        return self

    cdef NativeWorkload checked(self, str method):
        """Refuse a workload that is not whole; else hand it to a capsule."""
        cdef size_t size = self.workload.size
        if not FIRST_WORKLOAD <= size <= sizeof(dovetail_workload) or self.workload.execute == NULL:
            raise self.table.contract(
                f"{method}() made a workload of {size} bytes" + (" without execute" if self.workload.execute == NULL else ""),
                "set `size` to sizeof(dovetail_workload), the versions, and `execute`",
            )
        self.capsule = PyCapsule_New(self.workload, DOVETAIL_WORKLOAD_CAPSULE, drop_workload)
        self.workload = NULL
        return self

    def __dovetail_workload__(self):
        """Return the capsule, always the same: the core takes it once."""
        return self.capsule

    def __dealloc__(self):
        PyMem_RawFree(self.workload)
