"""What a table of C functions makes on a device: contexts, memory, workloads, queues."""

cimport cython
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.pycapsule cimport (
    PyCapsule_GetContext,
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyCapsule_New,
    PyCapsule_SetContext,
)
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.string cimport memset

from dovetail.abi cimport (
    DOVETAIL_OK,
    DOVETAIL_QUEUES_CAPSULE,
    DOVETAIL_USED_QUEUES_CAPSULE,
    DOVETAIL_WORKLOAD_CAPSULE,
    dovetail_layer,
    dovetail_memory,
    dovetail_queues,
    dovetail_workload,
    drop_workload,
)
from dovetail.native.layer_view cimport View
from dovetail.native.questions cimport Compiled
from dovetail.native.table cimport Call, Table, decoded

from ..contract.memory import MAX_ALIGNMENT

cdef extern from "taken_sizes.h":
    const size_t DVT_MIN_WORKLOAD
    const size_t DVT_MIN_QUEUES
    const size_t DVT_MIN_MEMORY

MAX_MEMORIES = 64
"""More of them are no list that somebody made."""


def context_open(Table table, int device, int threads, View options):
    """Return (status, why, context)."""
    cdef void *context = NULL
    cdef Call call = Call(table, threads)
    with call:
        with nogil:
            call.status = table.c.context_open(
                table.c.state, device, &call.resources, &options.attributes, &context, &call.answer)
        if call.status == DOVETAIL_OK:
            table.users += 1
    return call.status, call.why(), <size_t>context


# -- memory ----------------------------------------------------------------------------------------


def memories(Table table, int device):
    """Return (status, why, what `memory` says of each).

    That is its kind, alignment, offsets, host_visible, images, imports_host.
    """
    cdef dovetail_memory memory
    cdef Call call
    cdef int index
    result = []
    for index in range(MAX_MEMORIES):
        call = Call(table)
        memset(&memory, 0, sizeof(memory))
        memory.size = sizeof(memory)
        with call, nogil:
            call.status = table.c.memory(table.c.state, device, index, &memory, &call.answer)
        if call.status == 1 and index:
            # Between the host and the one memory that it can see the core copies; else the backend.
            if table.c.create_copy == NULL and (len(result) > 1 or not result[0][3]):
                raise table.broken(
                    "lacks create_copy", "it is needed where the host cannot see a memory, and between several; see abi.h")
            return DOVETAIL_OK, call.why(), result
        if call.status != DOVETAIL_OK:
            return call.status, call.why(), None
        table.accept(&memory, DVT_MIN_MEMORY, sizeof(memory), "memory", "dovetail_memory")
        if memory.kind == NULL:
            raise table.broken("memory() set no kind")
        if memory.alignment == 0 or memory.alignment & (memory.alignment - 1):
            raise table.broken(f"memory() says that its alignment is {memory.alignment}, which is no power of two")
        if memory.alignment > MAX_ALIGNMENT:
            raise table.broken(f"memory() says that its alignment is {memory.alignment}; {MAX_ALIGNMENT} is the largest")
        if memory.host_visible and table.c.memory_map == NULL:
            raise table.broken("memory() says that the host can see it, but there is no memory_map()")
        needed = "image_allocate" if memory.images else "memory_allocate"
        if needed not in table.functions:
            raise table.broken(f"memory() tells of {decoded(memory.kind)!r}, for which there is no {needed}()")
        if memory.images and memory.offsets:
            raise table.broken("memory() says that images lie at offsets", "set offsets to 0: each image is an allocation")
        result.append((
            decoded(memory.kind), memory.alignment, bool(memory.offsets), bool(memory.host_visible), bool(memory.images),
            bool(memory.imports_host)))
    raise table.broken(f"memory() tells of {MAX_MEMORIES} memories and more", "answer 1 where there are no more")


def tensor_memory(Table table, View device, View layer, View tensor, int slot, bint is_output, View options):
    """Return the number of the memory of one tensor; `layer` is None for what was compiled."""
    cdef const dovetail_layer *shown = NULL if layer is None else layer.subgraph.layers[0]
    cdef Call call = Call(table)
    with call, nogil:
        call.status = table.c.tensor_memory(
            table.c.state, &device.device, shown, tensor.tensor, slot, is_output, &options.attributes)
    return call.status


def mapping(Table table, size_t context, int number):
    """Return the addresses of what lets the host see memory, and which memory that is."""
    return <size_t>table.c.memory_map, <size_t>table.c.memory_unmap, <size_t>table.c.state, context, number


def image_allocate(Table table, size_t context, int number, View tensor):
    """Return (status, why, address)."""
    cdef void *data = NULL
    cdef Call call = Call(table)
    with call:
        with nogil:
            call.status = table.c.image_allocate(
                table.c.state, <void *>context, number, tensor.tensor, &data, &call.answer)
        if call.status == DOVETAIL_OK:
            table.users += 1
    return call.status, call.why(), <size_t>data


def memory_allocate(Table table, size_t context, int number, size_t nbytes, size_t alignment):
    """Return (status, why, address)."""
    cdef void *data = NULL
    cdef Call call = Call(table)
    with call:
        with nogil:
            call.status = table.c.memory_allocate(
                table.c.state, <void *>context, number, nbytes, alignment, &data, &call.answer)
        if call.status == DOVETAIL_OK:
            table.users += 1
    return call.status, call.why(), <size_t>data


# -- workloads and queues --------------------------------------------------------------------------


@cython.final
@cython.no_gc
cdef class TableWorkload:
    """A workload that a table filled in.

    It holds what must live as long as it: constants, what was compiled, the table.
    """

    cdef dovetail_workload *c
    cdef object capsule
    cdef Table table
    cdef View view
    cdef Compiled compiled

    @staticmethod
    cdef TableWorkload begin(Table table, View view, Compiled compiled):
        cdef TableWorkload self = TableWorkload.__new__(TableWorkload)
        self.c = <dovetail_workload *>PyMem_RawCalloc(1, sizeof(dovetail_workload))
        if self.c == NULL:
            raise MemoryError()
        self.c.size = sizeof(dovetail_workload)
        self.c.abi_major, self.c.abi_minor = table.c.abi_major, table.c.abi_minor
        self.table, self.view, self.compiled = table, view, compiled
        table.users += 1
        return self

    cdef object finish(self, Call call, str function):
        """Return (status, why, the workload or None)."""
        if call.status != DOVETAIL_OK:
            return call.status, call.why(), None
        self.table.accept(self.c, DVT_MIN_WORKLOAD, sizeof(dovetail_workload), function, "dovetail_workload")
        if self.c.execute == NULL:
            if self.c.release != NULL:
                with nogil:
                    self.c.release(self.c.state)
            raise self.table.broken(f"{function}() answered OK without an execute function")
        self.capsule = PyCapsule_New(self.c, DOVETAIL_WORKLOAD_CAPSULE, drop_workload)
        self.c = NULL
        return call.status, call.why(), self

    def __dovetail_workload__(self):
        """Hand the capsule over."""
        return self.capsule

    def __dealloc__(self):
        PyMem_RawFree(self.c)
        self.capsule = None     # releases the state, if the core did not, before the rest goes
        if self.table is not None:
            self.table.left()


def create_workload(Table table, size_t context, View layer, int threads, View options):
    """Return (status, why, workload)."""
    cdef Call call = Call(table, threads)
    cdef TableWorkload made = TableWorkload.begin(table, layer, None)
    with call, nogil:
        call.status = table.c.create_workload(
            table.c.state, <void *>context, layer.subgraph.layers[0], &call.resources, &options.attributes, made.c, &call.answer)
    return made.finish(call, "create_workload")


def create_compiled_workload(Table table, size_t context, Compiled compiled, int threads, View options):
    """Return (status, why, workload)."""
    cdef Call call = Call(table, threads)
    cdef TableWorkload made = TableWorkload.begin(table, None, compiled)
    with call, nogil:
        call.status = table.c.create_compiled_workload(
            table.c.state, <void *>context, compiled.handle, &call.resources, &options.attributes, made.c, &call.answer)
    return made.finish(call, "create_compiled_workload")


def create_copy(Table table, size_t context, int source, int target, View tensor):
    """Return (status, why, workload)."""
    cdef Call call = Call(table)
    cdef TableWorkload made = TableWorkload.begin(table, tensor, None)
    with call, nogil:
        call.status = table.c.create_copy(
            table.c.state, <void *>context, source, target, tensor.tensor, made.c, &call.answer)
    return made.finish(call, "create_copy")


def queues(Table table, size_t context):
    """Return (status, why, capsule)."""
    cdef Call call = Call(table)
    cdef dovetail_queues *filled = <dovetail_queues *>PyMem_RawCalloc(1, sizeof(dovetail_queues))
    if filled == NULL:
        raise MemoryError()
    filled.size = sizeof(dovetail_queues)
    filled.abi_major, filled.abi_minor = table.c.abi_major, table.c.abi_minor
    capsule = PyCapsule_New(filled, DOVETAIL_QUEUES_CAPSULE, drop_queues)
    PyCapsule_SetContext(capsule, <void *>table)
    Py_INCREF(table)
    table.users += 1
    with call, nogil:
        call.status = table.c.queues(table.c.state, <void *>context, filled, &call.answer)
    accepted = False
    try:
        if call.status == DOVETAIL_OK:
            table.accept(filled, DVT_MIN_QUEUES, sizeof(dovetail_queues), "queues", "dovetail_queues")
            accepted = True
    finally:
        if not accepted:
            memset(filled, 0, sizeof(dovetail_queues))      # nothing of it can be relied on, its release neither
    return call.status, call.why(), capsule if accepted else None


cdef void drop_queues(object capsule) noexcept:
    """Free a capsule of queues: the core has called `release` by now, if it took them."""
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
        (<Table>table).left()
        Py_XDECREF(<PyObject *>table)
