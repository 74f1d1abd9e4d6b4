"""What is installed, and an opened device with its programs, memory, queues and workloads."""

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, intptr_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.unistd cimport getpid

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
from dovetail_cl.driver.opencl cimport *

import os
import threading

import numpy as np

from .arguments import ConstantArray, Input, Local, Output, Reports, Scratch
from .errors import BuildError, ClError, DriverMissing, NoDevice, NoPlatform

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef opencl CL
_library = None     # the names that were loaded; what was loaded stays
_RELATIONS = {"in place": DOVETAIL_ALIAS_IN_PLACE, "part": DOVETAIL_ALIAS_PART, "view": DOVETAIL_ALIAS_VIEW}
_LIBRARIES = ("libOpenCL.so.1", "libOpenCL.so")

cdef enum:
    SLICE_NS = 20000000     # in which Ctrl-C is looked for
    SLICES_A_SECOND = 50
    STAGED_FROM = 65536     # bytes; of a smaller input drivers take a copy along with the command
    CHUNK = 4194304         # bytes: long against the 10 us of a command, small beside a processor's cache
    PATIENCE = 10           # seconds, after which the host's look at a buffer is given up


class _Signals:
    """Keeps the host's reactions to signals around what may load or initialise a driver."""

    def __enter__(self):
        signals_keep()

    def __exit__(self, *_):
        signals_put_back(<const void *>PyErr_CheckSignals)


_signals = _Signals()


def load(str named=""):
    """Open the OpenCL library, once in a process; the one that is named alone, if one is.

    Raises:
        DriverMissing: There is none, or it is older than OpenCL 1.2.
    """
    global _library
    cdef const char *names[3]
    cdef char why[1024]
    cdef int i
    if _library is not None:
        return
    wanted = [name.encode() for name in ((named,) if named else _LIBRARIES)]
    for i in range(len(wanted)):
        names[i] = wanted[i]
    names[len(wanted)] = NULL
    why[0] = 0
    with _signals:
        done = opencl_load(&CL, names, why, sizeof(why))
    if done != 0:
        raise DriverMissing(f"there is no OpenCL library that can be used: {why.decode('utf-8', 'replace')}")
    _library = named


def _check(cl_int code, str what):
    if code != CL_SUCCESS:
        raise ClError(what, code, (<bytes>opencl_error_name(code)).decode())


cdef str _platform_text(cl_platform_id platform, cl_uint name):
    cdef size_t size = 0
    if CL.clGetPlatformInfo(platform, name, 0, NULL, &size) != CL_SUCCESS or size == 0:
        return ""
    text = bytearray(size)
    if CL.clGetPlatformInfo(platform, name, size, <char *>text, NULL) != CL_SUCCESS:
        return ""
    return bytes(text).rstrip(b"\0").decode("utf-8", "replace").strip()


cdef str _text(cl_device_id device, cl_uint name):
    cdef size_t size = 0
    if CL.clGetDeviceInfo(device, name, 0, NULL, &size) != CL_SUCCESS or size == 0:
        return ""
    text = bytearray(size)
    if CL.clGetDeviceInfo(device, name, size, <char *>text, NULL) != CL_SUCCESS:
        return ""
    return bytes(text).rstrip(b"\0").decode("utf-8", "replace").strip()


cdef uint64_t _number(cl_device_id device, cl_uint name):
    """A number of 4 or 8 bytes; 0 where the device does not know the question."""
    cdef uint64_t value = 0
    if CL.clGetDeviceInfo(device, name, sizeof(value), &value, NULL) != CL_SUCCESS:
        return 0
    return value


cdef list _devices_of(cl_platform_id platform):
    cdef cl_uint count = 0
    cdef cl_device_id found[64]
    if CL.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 64, found, &count) != CL_SUCCESS:
        return []
    return [<intptr_t>found[i] for i in range(min(count, 64))]


def list_devices():
    """Return the facts of all devices of all platforms, in the order of the driver; opens none.

    Raises:
        NoPlatform: There is no driver behind the library.
        NoDevice: No platform has a device.
    """
    with _signals:
        return _listed()


def _listed():
    cdef cl_uint count = 0, i
    cdef cl_platform_id platforms[32]
    cdef cl_device_id device
    cdef uint64_t kind
    cdef cl_int code = CL.clGetPlatformIDs(32, platforms, &count)
    if code == CL_PLATFORM_NOT_FOUND or (code == CL_SUCCESS and count == 0):
        raise NoPlatform("the OpenCL library finds no platform: no driver of a device is installed")
    _check(code, "the OpenCL platforms cannot be listed")
    found = []
    for i in range(min(count, 32)):
        for handle in _devices_of(platforms[i]):
            device = <cl_device_id><intptr_t>handle
            if not _number(device, CL_DEVICE_AVAILABLE):
                continue
            kind = _number(device, CL_DEVICE_TYPE)
            found.append({
                "handles": (<intptr_t>platforms[i], <intptr_t>device),
                "name": _text(device, CL_DEVICE_NAME),
                "vendor": _text(device, CL_DEVICE_VENDOR),
                "platform": _platform_text(platforms[i], CL_PLATFORM_NAME),
                "platform_version": _platform_text(platforms[i], CL_PLATFORM_VERSION),
                "driver": _text(device, CL_DRIVER_VERSION),
                "version": _text(device, CL_DEVICE_VERSION),
                "extensions": _text(device, CL_DEVICE_EXTENSIONS),
                "kind": "cpu" if kind & CL_DEVICE_TYPE_CPU else "gpu" if kind & CL_DEVICE_TYPE_GPU else "accelerator",
                "has_compiler": bool(_number(device, CL_DEVICE_COMPILER_AVAILABLE)),
                "memory": _number(device, CL_DEVICE_GLOBAL_MEM_SIZE),
                "max_allocation": _number(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE),
                "local_memory": _number(device, CL_DEVICE_LOCAL_MEM_SIZE),
                "has_local_memory": _number(device, CL_DEVICE_LOCAL_MEM_TYPE) == 1,
                "compute_units": _number(device, CL_DEVICE_MAX_COMPUTE_UNITS),
                "max_group": _number(device, CL_DEVICE_MAX_WORK_GROUP_SIZE),
                "alignment": max(_number(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) // 8, 64),
                "vector_width": _number(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT),
                "is_unified": bool(_number(device, CL_DEVICE_HOST_UNIFIED_MEMORY)),
                "svm": bool(_number(device, CL_DEVICE_SVM_CAPABILITIES) & CL_DEVICE_SVM_FINE_GRAIN_BUFFER)
                    and CL.clSVMAlloc != NULL,
                "staged_from": STAGED_FROM,
                "chunk": CHUNK,
                "divides_exactly": bool(_number(device, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT),
                "subgroups": _number(device, CL_DEVICE_MAX_NUM_SUB_GROUPS),
                # PoCL compiles a kernel once more for each size of group that it meets.
                "compiles_late": _platform_text(platforms[i], CL_PLATFORM_NAME) == "Portable Computing Language",
            })
    if not found:
        raise NoDevice(f"none of the {count} OpenCL platforms has a device that is available")
    return found


cdef class Program:
    """A built program."""

    cdef cl_program program
    cdef int64_t process

    def __cinit__(self):
        self.process = os.getpid()

    def __dealloc__(self):
        if self.program != NULL and self.process == getpid():
            CL.clReleaseProgram(self.program)


cdef class Kernel:
    """A kernel of a program, by name."""

    cdef readonly Program program
    cdef readonly str name

    def __init__(self, Program program, str name):
        self.program, self.name = program, name


cdef class OpenDevice:
    """A device that is open; stays so until the process ends, as drivers keep threads anyway.

    Attributes:
        facts: See `list_devices`.
        programs: What was built, by source.
        building: Held while a program is built.
    """

    cdef device_handle *handle
    cdef readonly dict facts
    cdef readonly dict programs
    cdef readonly object building
    cdef cl_command_queue transfers     # for mapping

    def __init__(self, dict facts):
        cdef intptr_t properties[3]
        cdef intptr_t platform, number
        cdef cl_device_id device
        cdef cl_int code = 0
        platform, number = facts["handles"]
        device = <cl_device_id>number
        properties[0], properties[1], properties[2] = CL_CONTEXT_PLATFORM, platform, 0
        self.facts, self.programs, self.building = facts, {}, threading.Lock()
        self.handle = <device_handle *>calloc(1, sizeof(device_handle))
        if self.handle == NULL:
            raise MemoryError()
        self.handle.cl, self.handle.device, self.handle.process = &CL, device, os.getpid()
        self.handle.spins = facts["kind"] != "cpu"
        self.handle.is_coherent = facts["kind"] == "cpu"
        self.handle.staged_from, self.handle.chunk = facts["staged_from"], facts["chunk"]
        with _signals:
            with nogil:
                self.handle.context = CL.clCreateContext(properties, 1, &device, NULL, NULL, &code)
            _check(code, f"device {facts['name']!r} cannot be opened")
            with nogil:
                self.transfers = CL.clCreateCommandQueue(self.handle.context, device, 0, &code)
                if code != CL_SUCCESS:
                    CL.clReleaseContext(self.handle.context)
        _check(code, f"device {facts['name']!r} gives no queue")

    @property
    def process(self):
        """The process that opened it."""
        return self.handle.process

    @property
    def is_lost(self):
        """Whether it ended, with what was made on it; to be opened again."""
        return bool(self.handle.is_lost)

    cdef int _check(self, cl_int code, str what) except -1:
        if is_loss(self.handle, code):
            what = f"{what}, as the device is lost; load the network again"
        _check(code, what)
        return 0

    # -- programs --------------------------------------------------------------------------------

    def build(self, bytes source, bytes options):
        """Compile a program.

        Raises:
            BuildError: The compiler refused it; the text has its log.
        """
        cdef const char *text = source
        cdef size_t length = len(source)
        cdef const char *flags = options
        cdef cl_int code = 0
        cdef Program made = Program()
        with nogil:
            made.program = CL.clCreateProgramWithSource(self.handle.context, 1, &text, &length, &code)
        self._check(code, "a program cannot be made of its source")
        with _signals, nogil:
            code = CL.clBuildProgram(made.program, 1, &self.handle.device, flags, NULL, NULL)
        if code != CL_SUCCESS:
            raise BuildError(
                "the device's compiler failed", code, (<bytes>opencl_error_name(code)).decode(), self._log(made))
        return made

    cdef str _log(self, Program program):
        cdef size_t size = 0
        CL.clGetProgramBuildInfo(program.program, self.handle.device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size)
        text = bytearray(size + 1)
        CL.clGetProgramBuildInfo(program.program, self.handle.device, CL_PROGRAM_BUILD_LOG, size, <char *>text, NULL)
        return bytes(text).rstrip(b"\0").decode("utf-8", "replace").strip()

    def restore(self, bytes binary):
        """Return the program of a binary, or None if the driver refuses it."""
        cdef const unsigned char *content = binary
        cdef size_t length = len(binary)
        cdef cl_int code = 0, status = 0
        cdef Program made = Program()
        with _signals, nogil:
            made.program = CL.clCreateProgramWithBinary(
                self.handle.context, 1, &self.handle.device, &length, &content, &status, &code)
            if code == CL_SUCCESS and status == CL_SUCCESS:
                code = CL.clBuildProgram(made.program, 1, &self.handle.device, NULL, NULL, NULL)
        return made if code == CL_SUCCESS and status == CL_SUCCESS else None

    def binary(self, Program program):
        """Return what `restore` takes; empty if the driver gives none."""
        cdef size_t size = 0
        cdef unsigned char *content
        if CL.clGetProgramInfo(program.program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, NULL) != CL_SUCCESS or not size:
            return b""
        kept = bytearray(size)
        content = kept
        if CL.clGetProgramInfo(program.program, CL_PROGRAM_BINARIES, sizeof(content), &content, NULL) != CL_SUCCESS:
            return b""
        return bytes(kept)

    # -- memory ----------------------------------------------------------------------------------

    def allocate(self, size_t nbytes):
        """Allocate a buffer.

        Returns:
            The buffer and the address at which the host sees it: 0 if it does not.

        Raises:
            MemoryError: There is not that much.
        """
        cdef cl_int code = 0
        cdef void *shared = NULL
        cdef cl_mem buffer
        if nbytes > <uint64_t>self.facts["max_allocation"]:
            raise MemoryError(f"{self.facts['name']} allocates at most {self.facts['max_allocation']} bytes at a time")
        if self.facts["svm"]:
            with nogil:
                shared = CL.clSVMAlloc(self.handle.context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, nbytes, 0)
            if shared == NULL:
                raise MemoryError(f"{self.facts['name']} has no {nbytes} bytes")
        with nogil:
            buffer = CL.clCreateBuffer(
                self.handle.context, CL_MEM_READ_WRITE | (CL_MEM_USE_HOST_PTR if shared != NULL else 0), nbytes, shared, &code)
        if code != CL_SUCCESS:
            if shared != NULL:
                CL.clSVMFree(self.handle.context, shared)
            if code in (CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY, CL_INVALID_BUFFER_SIZE):
                raise MemoryError(f"{self.facts['name']} has no {nbytes} bytes: {opencl_error_name(code).decode()}")
            self._check(code, "a buffer cannot be allocated")
        return <intptr_t>buffer, <intptr_t>shared

    def free(self, intptr_t buffer, intptr_t shared):
        """Give a buffer back; nothing that is enqueued uses it any more."""
        if self.handle.process != os.getpid():
            return
        self.handle.freed += 1
        with nogil:
            CL.clReleaseMemObject(<cl_mem>buffer)
            if shared:
                CL.clSVMFree(self.handle.context, <void *>shared)

    def map(self, intptr_t buffer, size_t offset, size_t nbytes, bint writes):
        """Let the host see some bytes of a buffer; returns their address."""
        cdef cl_int code = 0
        cdef void *address
        cdef cl_event done = NULL
        cdef cl_bitfield access = CL_MAP_WRITE_INVALIDATE_REGION if writes else CL_MAP_READ
        with nogil:
            address = CL.clEnqueueMapBuffer(
                self.transfers, <cl_mem>buffer, 0, access, offset, nbytes, 0, NULL, &done, &code)
        self._check(code, "a buffer cannot be mapped")
        try:
            self._await(done, "a buffer cannot be mapped")
        except BaseException:
            CL.clEnqueueUnmapMemObject(self.transfers, <cl_mem>buffer, address, 0, NULL, NULL)
            raise
        return <intptr_t>address

    def unmap(self, intptr_t buffer, intptr_t address):
        """End a `map`."""
        cdef cl_int code
        cdef cl_event done = NULL
        with nogil:
            code = CL.clEnqueueUnmapMemObject(self.transfers, <cl_mem>buffer, <void *>address, 0, NULL, &done)
        self._check(code, "a buffer cannot be unmapped")
        self._await(done, "a buffer cannot be unmapped")

    cdef int _await(self, cl_event done, str what) except -1:
        """Wait for a transfer, and drop its event; a device that hangs does not hang the host."""
        cdef cl_int status = 0
        cdef int i
        try:
            with nogil:
                CL.clFlush(self.transfers)
            for i in range(PATIENCE * SLICES_A_SECOND):
                with nogil:
                    status = await_event(&CL, done, SLICE_NS)
                if status <= CL_COMPLETE:
                    self._check(status, what)
                    return 0
                PyErr_CheckSignals()
        finally:
            CL.clReleaseEvent(done)
        raise ClError(f"{what} within {PATIENCE} s", CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE")

    # -- queues and workloads --------------------------------------------------------------------

    def queues(self, int32_t fail_at=-1):
        """Return the capsule of the queue functions; of its commands, one may fail, for tests."""
        cdef dovetail_queues *table = <dovetail_queues *>PyMem_RawCalloc(1, sizeof(dovetail_queues))
        if table == NULL:
            raise MemoryError()
        if queue_table(self.handle, fail_at, table) != 0:
            PyMem_RawFree(table)
            raise MemoryError()
        return PyCapsule_New(table, DOVETAIL_QUEUES_CAPSULE, drop_queues)

    def copy(self, str direction, size_t nbytes):
        """Return the workload that copies a tensor: "in", "out" or "inside" of the device."""
        cdef launch_list *made = self._new_list("copy")
        made.work = {"in": WORK_COPY_IN, "out": WORK_COPY_OUT, "inside": WORK_COPY_INSIDE}[direction]
        made.copied = nbytes
        return _capsule(made, 0)

    def workload(self, str name, work):
        """Return the workload of a layer, by its name, for errors, and its `Work`."""
        cdef launch_list *made = self._new_list(name)
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
                private += self._add_launch(made, one)
                made.launches[made.n_launches - 1].alias = -1 if one.unless is None else work.aliases.index(one.unless)
        except BaseException:
            launch_release(made)
            raise
        return _capsule(made, private)

    cdef launch_list *_new_list(self, str name) except NULL:
        cdef launch_list *made = <launch_list *>calloc(1, sizeof(launch_list))
        text = name.encode()[:sizeof(made.name) - 1]
        if made == NULL:
            raise MemoryError()
        made.device = self.handle
        memcpy(made.name, <const char *>text, len(text))
        return made

    cdef size_t _add_launch(self, launch_list *made, one) except? 0:
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
        _check(CL.clRetainProgram(kernel.program.program), "a program cannot be kept")
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
                private += self._add_constant(made, argument_.values)
            else:
                self._set_value(given, argument_)
        return private

    cdef size_t _add_constant(self, launch_list *made, values) except? 0:
        cdef cl_int code = 0
        cdef cl_mem buffer
        cdef size_t nbytes
        content = np.ascontiguousarray(values)
        cdef const unsigned char[::1] data = content.reshape(-1).view(np.uint8) if content.size else np.zeros(1, np.uint8)
        nbytes = data.shape[0]
        with nogil:
            buffer = CL.clCreateBuffer(
                self.handle.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, nbytes, <void *>&data[0], &code)
        if code in (CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY, CL_INVALID_BUFFER_SIZE):
            raise MemoryError(f"{self.facts['name']} has no {nbytes} bytes for constants")
        self._check(code, "constants cannot be brought to the device")
        made.constants[made.n_constants] = buffer
        made.n_constants += 1
        return nbytes

    cdef int _set_value(self, argument *given, value) except -1:
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
    table.private_bytes = private
    return capsule


cdef void drop_queues(object capsule) noexcept:
    cdef const char *name = DOVETAIL_QUEUES_CAPSULE
    if not PyCapsule_IsValid(capsule, name):
        name = DOVETAIL_USED_QUEUES_CAPSULE
    cdef dovetail_queues *table = <dovetail_queues *>PyCapsule_GetPointer(capsule, name)
    free(table.state)
    PyMem_RawFree(table)
