"""An opened device with its programs and memory."""

from libc.stdint cimport int64_t, intptr_t, uint64_t
from libc.stdlib cimport calloc
from posix.unistd cimport getpid

from dovetail_cl.driver.library cimport CL
from dovetail_cl.driver.opencl cimport *

import os
import threading

from .errors import BuildError, ClError
from .library import check, host_signals

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef enum:
    SLICE_NS = 20000000     # in which Ctrl-C is looked for
    SLICES_A_SECOND = 50
    PATIENCE = 10           # seconds, after which the host's look at a buffer is given up


cdef class Program:
    """A built program."""

    def __cinit__(self):
        self.process = os.getpid()

    def __dealloc__(self):
        if self.program != NULL and self.process == getpid():
            CL.clReleaseProgram(self.program)


cdef class Kernel:
    """A kernel of a program, by name."""

    def __init__(self, Program program, str name):
        self.program, self.name = program, name


cdef class OpenDevice:
    """A device that is open; stays so until the process ends, as drivers keep threads anyway.

    Attributes:
        facts: See `list_devices`.
        programs: What was built, by source.
        building: Held while a program is built.
    """

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
        with host_signals:
            with nogil:
                self.handle.context = CL.clCreateContext(properties, 1, &device, NULL, NULL, &code)
            check(code, f"device {facts['name']!r} cannot be opened")
            with nogil:
                self.transfers = CL.clCreateCommandQueue(self.handle.context, device, 0, &code)
                if code != CL_SUCCESS:
                    CL.clReleaseContext(self.handle.context)
        check(code, f"device {facts['name']!r} gives no queue")

    @property
    def process(self):
        """The process that opened it."""
        return self.handle.process

    @property
    def is_lost(self):
        """Whether it ended, with what was made on it; to be opened again."""
        return bool(self.handle.is_lost)

    cdef int check(self, cl_int code, str what) except -1:
        if is_loss(self.handle, code):
            what = f"{what}, as the device is lost; load the network again"
        check(code, what)
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
        self.check(code, "a program cannot be made of its source")
        with host_signals, nogil:
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
        with host_signals, nogil:
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
            self.check(code, "a buffer cannot be allocated")
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
        self.check(code, "a buffer cannot be mapped")
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
        self.check(code, "a buffer cannot be unmapped")
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
                    self.check(status, what)
                    return 0
                PyErr_CheckSignals()
        finally:
            CL.clReleaseEvent(done)
        raise ClError(f"{what} within {PATIENCE} s", CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE")
