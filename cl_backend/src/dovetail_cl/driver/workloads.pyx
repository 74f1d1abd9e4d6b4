"""The queues of an opened device, and the workloads that are made for it."""

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from dovetail.abi cimport (
    DOVETAIL_ALIAS_IN_PLACE,
    DOVETAIL_ALIAS_PART,
    DOVETAIL_ALIAS_VIEW,
    DOVETAIL_QUEUES_CAPSULE,
    DOVETAIL_USED_QUEUES_CAPSULE,
    dovetail_alias,
    dovetail_queues,
    dovetail_workload,
    workload_capsule,
)
from dovetail_cl.driver.device cimport Kernel, OpenDevice
from dovetail_cl.driver.library cimport CL
from dovetail_cl.driver.opencl cimport *

import numpy as np

from .arguments import ConstantArray, Input, Local, Output, Reports, Scratch
from .library import check

_RELATIONS = {"in place": DOVETAIL_ALIAS_IN_PLACE, "part": DOVETAIL_ALIAS_PART, "view": DOVETAIL_ALIAS_VIEW}


def queues(OpenDevice device, int32_t fail_at=-1):
    """Return the capsule of the queue functions; of its commands, one may fail, for tests."""
    cdef dovetail_queues *table = <dovetail_queues *>PyMem_RawCalloc(1, sizeof(dovetail_queues))
    if table == NULL:
        raise MemoryError()
    if queue_table(device.handle, fail_at, table) != 0:
        PyMem_RawFree(table)
        raise MemoryError()
    return PyCapsule_New(table, DOVETAIL_QUEUES_CAPSULE, drop_queues)


def copy(OpenDevice device, str direction, size_t nbytes):
    """Return the workload that copies a tensor: "in", "out" or "inside" of the device."""
    cdef launch_list *made = _new_list(device, "copy")
    made.work = {"in": WORK_COPY_IN, "out": WORK_COPY_OUT, "inside": WORK_COPY_INSIDE}[direction]
    made.copied = nbytes
    return _capsule(made, 0)


def workload(OpenDevice device, str name, work):
    """Return the workload of a layer, by its name, for errors, and its `Work`."""
    cdef launch_list *made = _new_list(device, name)
    cdef size_t private = 0
    try:
        launches = [one for one in work.launches if all(one.sizes)]
        constants = [
            argument for one in launches for argument in one.arguments if isinstance(argument, ConstantArray)]
        made.scratch, made.is_elidable = work.scratch, work.is_elidable
        made.aliases = <dovetail_alias *>calloc(len(work.aliases) + 1, sizeof(dovetail_alias))
        made.constants = <cl_mem *>calloc(len(constants) + 1, sizeof(cl_mem))
        made.launches = <launch *>calloc(len(launches) + 1, sizeof(launch))
        if made.aliases == NULL or made.constants == NULL or made.launches == NULL:
            raise MemoryError()
        for alias in work.aliases:
            made.aliases[made.n_aliases].relation = _RELATIONS[alias.relation]
            made.aliases[made.n_aliases].output = alias.output
            made.aliases[made.n_aliases].input = alias.input
            made.aliases[made.n_aliases].offset = alias.offset
            made.n_aliases += 1
        for one in launches:
            private += _add_launch(device, made, one)
            made.launches[made.n_launches - 1].alias = -1 if one.unless is None else work.aliases.index(one.unless)
    except BaseException:
        launch_release(made)
        raise
    return _capsule(made, private)


cdef launch_list *_new_list(OpenDevice device, str name) except NULL:
    cdef launch_list *made = <launch_list *>calloc(1, sizeof(launch_list))
    text = name.encode()[:sizeof(made.name) - 1]
    if made == NULL:
        raise MemoryError()
    made.device = device.handle
    memcpy(made.name, <const char *>text, len(text))
    return made


cdef size_t _add_launch(OpenDevice device, launch_list *made, one) except? 0:
    cdef launch *target = &made.launches[made.n_launches]
    cdef Kernel kernel = one.kernel
    cdef argument *given
    cdef size_t private = 0
    cdef int i
    name = kernel.name.encode()
    if not 1 <= len(one.sizes) <= 3 or len(name) >= sizeof(target.name):
        raise ValueError(f"kernel {kernel.name!r} of {len(one.sizes)} dimensions")
    target.arguments = <argument *>calloc(len(one.arguments) + 1, sizeof(argument))
    if target.arguments == NULL:
        raise MemoryError()
    made.n_launches += 1
    check(CL.clRetainProgram(kernel.program.program), "a program cannot be kept")
    target.program = kernel.program.program
    memcpy(target.name, <const char *>name, len(name))
    target.dimensions = len(one.sizes)
    for i in range(len(one.sizes)):
        target.sizes[i] = one.sizes[i]
        target.group[i] = one.group[i] if one.group else 0
        if one.group and one.sizes[i] % one.group[i]:
            raise ValueError(f"kernel {kernel.name!r}: {one.sizes[i]} work items in groups of {one.group[i]}")
    for argument_ in one.arguments:
        given = &target.arguments[target.n_arguments]
        target.n_arguments += 1
        if isinstance(argument_, Input):
            given.kind, given.index = ARGUMENT_INPUT, argument_.number
        elif isinstance(argument_, Output):
            given.kind, given.index = ARGUMENT_OUTPUT, argument_.number
        elif isinstance(argument_, Scratch):
            given.kind, given.offset = ARGUMENT_SCRATCH, argument_.offset
        elif isinstance(argument_, Local):
            given.kind, given.size = ARGUMENT_LOCAL, argument_.size
        elif isinstance(argument_, Reports):
            given.kind = ARGUMENT_REPORTS
        elif isinstance(argument_, ConstantArray):
            given.kind, given.index = ARGUMENT_CONSTANT, made.n_constants
            private += _add_constant(device, made, argument_.values)
        else:
            _set_value(given, argument_)
    return private


cdef size_t _add_constant(OpenDevice device, launch_list *made, values) except? 0:
    cdef cl_int code = 0
    cdef cl_mem buffer
    cdef size_t nbytes
    content = np.ascontiguousarray(values)
    cdef const unsigned char[::1] data = content.reshape(-1).view(np.uint8) if content.size else np.zeros(1, np.uint8)
    nbytes = data.shape[0]
    with nogil:
        buffer = CL.clCreateBuffer(
            device.handle.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, nbytes, <void *>&data[0], &code)
    if code in (CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY, CL_INVALID_BUFFER_SIZE):
        raise MemoryError(f"{device.facts['name']} has no {nbytes} bytes for constants")
    device.check(code, "constants cannot be brought to the device")
    made.constants[made.n_constants] = buffer
    made.n_constants += 1
    return nbytes


cdef int _set_value(argument *given, value) except -1:
    content = value.tobytes()
    if len(content) > sizeof(given.value):
        raise ValueError(f"an argument of {len(content)} bytes")
    given.kind, given.size = ARGUMENT_VALUE, len(content)
    memcpy(given.value, <const char *>content, len(content))
    return 0


cdef object _capsule(launch_list *made, size_t private):
    cdef dovetail_workload *table
    try:
        capsule = workload_capsule(launch_execute, made, launch_release, &table)
    except BaseException:
        launch_release(made)
        raise
    launch_describe(made, table)
    table.private_bytes += private
    return capsule


cdef void drop_queues(object capsule) noexcept:
    cdef const char *name = DOVETAIL_QUEUES_CAPSULE
    if not PyCapsule_IsValid(capsule, name):
        name = DOVETAIL_USED_QUEUES_CAPSULE
    cdef dovetail_queues *table = <dovetail_queues *>PyCapsule_GetPointer(capsule, name)
    free(table.state)
    PyMem_RawFree(table)
