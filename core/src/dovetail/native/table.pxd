"""A backend's table of C functions, and the frame of a call to it; private to the core."""

from libc.stdint cimport int32_t

from dovetail.abi cimport dovetail_answer, dovetail_backend, dovetail_backend_host, dovetail_resources


cdef class Table:
    cdef dovetail_backend c
    cdef dovetail_backend_host host
    cdef bytes encoded_path
    cdef object lock
    cdef object owner       # thread that is inside
    cdef list pending       # what nobody needs any more: (what, first address, second address, number)
    cdef bint opened
    cdef bint closing
    cdef Py_ssize_t users   # contexts, memory, workloads, queues, and what was compiled
    cdef int home           # process that opened it
    cdef int pid            # process that made the lock
    cdef readonly str path
    cdef readonly str id
    cdef readonly str version
    cdef readonly object functions

    cdef int begin(self) except -1
    cdef int end(self) except -1
    cdef int left(self) except -1
    cdef int release_compiled(self, size_t handle) except -1
    cdef int accept(self, void *filled, size_t smallest, size_t largest, str function, str name) except -1
    cdef int _release(self, int what, size_t first, size_t second, int pid, int32_t number) except -1
    cdef int _release_pending(self) except -1
    cdef int _work_off(self) except -1
    cdef bint _is_ours(self) noexcept


cdef class Call:
    cdef Table table
    cdef int status
    cdef dovetail_answer answer
    cdef dovetail_resources resources

    cdef object why(self)


cdef enum:
    MAX_ENTRIES = 4096      # a longer list of options, kinds, facts or devices is taken for garbage


cdef str decoded(const char *text)
