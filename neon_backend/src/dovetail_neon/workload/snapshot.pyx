"""Write workloads down, and take them up again without making them.

All that a workload consists of lies in its state and in blocks of memory that this holds: the
parameters, which are the first block and alone have pointers in them, factors, packed weights. So a
snapshot is a copy of these, with a list of where in it pointers lie and where they point: into the
snapshot itself, or into a module of this package. What restores it writes the pointers anew and
copies nothing.

Pointers are found in the parameters by their value. A value that is the beginning of a block is a
pointer to it; any other address of memory that is not in a module of this package is a reason to
have no snapshot.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from dovetail.abi cimport DOVETAIL_WORKLOAD_CAPSULE, dovetail_execute, dovetail_workload
from dovetail_neon.workload.packed cimport Block
from dovetail_neon.workload.workload cimport MAX_BLOCKS, MAX_PACKED, acc_state, capsule_of, first_line

import os
from importlib import import_module

cdef extern from "dovetail_neon/workload/snapshot.h" nogil:
    uintptr_t base_of "acc_base_of"(const char *file)
    const char *file_of "acc_file_of"(const void *address)
    bint is_memory "acc_is_memory"(uintptr_t address)

cdef enum:
    LINE = 64                       # bytes: what begins one; some kernels read a line behind the end of weights, too
    MAX_POINTERS = 256
    MAX_MODULES = 8
    MAX_NAME = 120
    ITSELF = -1                     # the place of a pointer into the snapshot, among the modules

cdef uint64_t MAGIC = 0x3130746f68736e73    # "snshot01"

cdef struct Pointer:
    uint64_t at                     # bytes from the beginning of the snapshot
    uint64_t to                     # bytes from the beginning of the snapshot, or of what its module was loaded as
    int32_t module
    int32_t reserved

cdef struct Links:
    int32_t n_pointers
    int32_t n_modules
    Pointer pointers[MAX_POINTERS]
    char modules[MAX_MODULES][MAX_NAME]     # files below the package's folder

# What a snapshot begins with; the pointers and the modules follow, then the parts.
cdef struct Head:
    uint64_t magic
    uint64_t nbytes
    void *execute
    uint32_t flags
    int32_t n_pointers
    int32_t n_modules
    int32_t reserved
    acc_state state


cdef struct Part:
    const char *data
    size_t nbytes
    size_t at                       # where it lies in the snapshot


cdef bytes folder_of_package():
    """Return the folder that modules of this package are loaded from, with a slash behind it."""
    own = bytes(file_of(<const void *>snapshot))
    return own[: own.rindex(b"workload/")]


cdef bytes FOLDER = folder_of_package()
cdef dict bases = {}                # where modules were loaded, by their file below that folder


cdef int32_t parts_of(acc_state *state, Part *parts) except -1:
    """List what a state holds; return how many parts that is."""
    cdef int32_t i, n = 0
    cdef Block block
    for i in range(state.n_blocks):
        parts[n].data, parts[n].nbytes = <const char *>first_line(state.blocks[i]), state.block_bytes[i]
        n += 1
    for i in range(state.n_packed):
        block = <Block>state.packed[i]
        parts[n].data, parts[n].nbytes = <const char *>block.data, block.nbytes
        n += 1
    return n


cdef size_t placed(Part *parts, int32_t count, size_t at) noexcept:
    """Give each part a place behind what comes first; return the bytes of all."""
    cdef int32_t i
    at = whole_lines(at)
    for i in range(count):
        parts[i].at = at
        at += whole_lines(parts[i].nbytes) + LINE
    return at


cdef size_t whole_lines(size_t nbytes) noexcept:
    return (nbytes + LINE - 1) // LINE * LINE


cdef int32_t module_of(Links *links, const char *file) except -2:
    """Return the place of a module in the list, where it is put; -1 if it is another package's."""
    cdef bytes name = bytes(file)
    cdef int32_t i
    if not name.startswith(FOLDER):
        return -1
    name = name[len(FOLDER):]
    for i in range(links.n_modules):
        if bytes(<const char *>links.modules[i]) == name:
            return i
    if links.n_modules == MAX_MODULES or len(name) >= MAX_NAME:
        return -1
    memset(links.modules[links.n_modules], 0, MAX_NAME)
    memcpy(links.modules[links.n_modules], <const char *>name, len(name))
    links.n_modules += 1
    return links.n_modules - 1


cdef bint add(Links *links, uint64_t at, uint64_t to, int32_t module) noexcept:
    if links.n_pointers == MAX_POINTERS:
        return False
    pointer = &links.pointers[links.n_pointers]
    pointer.at, pointer.to, pointer.module, pointer.reserved = at, to, module, 0
    links.n_pointers += 1
    return True


cdef bint add_code(Links *links, uint64_t at, const void *code) except -1:
    """Note a pointer into a module of this package; false if it is into something else."""
    cdef const char *file = file_of(code)
    cdef int32_t module = -1 if file == NULL else module_of(links, file)
    return module >= 0 and add(links, at, <uintptr_t>code - base_of(file), module)


cdef bint add_parameters(Links *links, const Part *parts, int32_t count) except -1:
    """Note the pointers in the parameters; false if one of them cannot be found again.

    Where they are is counted from the first part, and where they point is the number of a part.
    """
    cdef const uintptr_t *words = <const uintptr_t *>parts[0].data
    cdef size_t i, at
    cdef int32_t j
    cdef uintptr_t word
    for i in range(parts[0].nbytes // sizeof(uintptr_t)):
        word, at = words[i], i * sizeof(uintptr_t)
        for j in range(count):
            if word == <uintptr_t>parts[j].data:
                break
        else:
            j = -1
        if j >= 0:
            if not add(links, at, j, ITSELF):
                return False
        # Numbers are small. Memory may be as low as they are, what modules hold is not.
        elif (<uintptr_t>1 << 32) <= word < (<uintptr_t>1 << 48) and is_memory(word):
            if not add_code(links, at, <const void *>word):
                return False
    return True


cdef size_t written(const dovetail_workload *self, char *into, size_t room) except? 0:
    cdef acc_state *state = <acc_state *>self.state
    cdef Part parts[MAX_BLOCKS + MAX_PACKED]
    cdef Links links
    cdef Pointer *pointer
    cdef Head *head = <Head *>into
    cdef size_t nbytes, at_modules
    cdef int32_t count, in_parameters, i
    if state.is_restored:
        return 0
    count = parts_of(state, parts)
    links.n_pointers = links.n_modules = 0
    if not add_parameters(&links, parts, count):
        return 0
    in_parameters = links.n_pointers
    if not add(&links, <char *>&head.state.parameters - into, 0, ITSELF):
        return 0
    for i in range(state.n_phases):
        if not add_code(&links, <char *>&head.state.phases[i].body - into, <const void *>state.phases[i].body):
            return 0
    if not add_code(&links, <char *>&head.execute - into, <const void *>self.execute):
        return 0
    at_modules = sizeof(Head) + links.n_pointers * sizeof(Pointer)
    nbytes = placed(parts, count, at_modules + links.n_modules * MAX_NAME)
    if room < nbytes:
        return nbytes
    for i in range(links.n_pointers):
        pointer = &links.pointers[i]
        if i < in_parameters:
            pointer.at += parts[0].at
        if pointer.module == ITSELF:
            pointer.to = parts[pointer.to].at
    memset(into, 0, nbytes)
    head.magic, head.nbytes, head.flags, head.state = MAGIC, nbytes, self.flags, state[0]
    head.n_pointers, head.n_modules = links.n_pointers, links.n_modules
    memset(head.state.blocks, 0, sizeof(head.state.blocks))
    memset(head.state.packed, 0, sizeof(head.state.packed))
    head.state.n_blocks = 0
    head.state.n_packed, head.state.is_restored = 1, True
    memcpy(into + sizeof(Head), links.pointers, links.n_pointers * sizeof(Pointer))
    memcpy(into + at_modules, links.modules, links.n_modules * MAX_NAME)
    for i in range(count):
        memcpy(into + parts[i].at, parts[i].data, parts[i].nbytes)
    for i in range(links.n_pointers):   # where things lie in this process is nobody's business
        memset(into + links.pointers[i].at, 0, sizeof(void *))
    return nbytes


cdef size_t snapshot(const dovetail_workload *self, void *into, size_t room) noexcept with gil:
    try:
        return written(self, <char *>into, room)
    except Exception:
        return 0


def offer(capsule):
    """Have a workload, fresh from its maker, written down where the core wants that."""
    cdef dovetail_workload *workload = <dovetail_workload *>PyCapsule_GetPointer(capsule, DOVETAIL_WORKLOAD_CAPSULE)
    workload.snapshot = snapshot


cdef uintptr_t loaded_at(bytes file) except? 0:
    """Return where a module of this package was loaded, which it is now if it was not yet."""
    cdef object base = bases.get(file)
    cdef bytes whole = FOLDER + file
    if base is None:
        import_module(f"dovetail_neon.{os.fsdecode(file).partition('.')[0].replace('/', '.')}")
        base = base_of(whole)
        if not base:
            raise ValueError(f"the module {os.fsdecode(whole)} of a snapshot was not loaded")
        bases[file] = base
    return base


def restored(memory):
    """Return the capsule of a workload that was written down.

    Args:
        memory: The snapshot, which is written to, and which nobody else may use from now on; it is
            held as long as the workload lives. Aligned to 64 bytes.

    Raises:
        ValueError: It is none of this build.
    """
    cdef Py_buffer view
    cdef char *begin
    cdef Head *head
    cdef Pointer *pointer
    cdef const char *name
    cdef uintptr_t *place
    cdef uintptr_t base[MAX_MODULES]
    cdef int32_t i
    PyObject_GetBuffer(memory, &view, PyBUF_WRITABLE)
    begin, nbytes = <char *>view.buf, view.len
    PyBuffer_Release(&view)
    head = <Head *>begin
    if nbytes < <Py_ssize_t>sizeof(Head) or head.magic != MAGIC or head.nbytes != <uint64_t>nbytes or <uintptr_t>begin % LINE:
        raise ValueError("a snapshot of a workload is damaged, or of another build")
    pointer = <Pointer *>(begin + sizeof(Head))
    name = <const char *>(pointer + head.n_pointers)
    for i in range(head.n_modules):
        base[i] = loaded_at(bytes(name + i * MAX_NAME))
    for i in range(head.n_pointers):
        place = <uintptr_t *>(begin + pointer[i].at)
        place[0] = pointer[i].to + (<uintptr_t>begin if pointer[i].module == ITSELF else base[pointer[i].module])
    head.state.packed[0] = <PyObject *>memory
    Py_INCREF(memory)
    return capsule_of(&head.state, <dovetail_execute>head.execute, head.flags)
