"""An opened device, as the modules see it that make queues and workloads for it."""

from libc.stdint cimport int64_t

from dovetail_cl.driver.opencl cimport cl_command_queue, cl_event, cl_int, cl_program, device_handle


cdef class Program:
    cdef cl_program program
    cdef int64_t process


cdef class Kernel:
    cdef readonly Program program
    cdef readonly str name


cdef class OpenDevice:
    cdef device_handle *handle
    cdef readonly dict facts
    cdef readonly dict programs
    cdef readonly object building
    cdef cl_command_queue transfers     # for mapping

    cdef int check(self, cl_int code, str what) except -1
    cdef int _await(self, cl_event done, str what) except -1
    cdef str _log(self, Program program)
