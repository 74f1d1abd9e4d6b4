"""Positions that come as data: reading one, and refusing one that is out of range; copies of any length."""

from libc.stdint cimport int32_t, int64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, memset

from dovetail.abi cimport DOVETAIL_FAILED, dovetail_call
from dovetail_reference.workloads.elements cimport INT32, Element
from dovetail_reference.workloads.walking cimport errand, go_on

cdef enum:
    COPY_CHUNK = 1 << 18    # bytes between two looks at is_cancelled


cdef inline int64_t load_position(Element kind, const char *at) noexcept nogil:
    """Read an int32 or int64."""
    return (<const int32_t *>at)[0] if kind == INT32 else (<const int64_t *>at)[0]


cdef inline int64_t resolved(int64_t position, int64_t size, int axis, errand *run) noexcept nogil:
    """Count a negative position from the end; one that is out of range fails the run, and 0 stands for it."""
    cdef char message[128]
    if -size <= position < size:
        return position + size if position < 0 else position
    snprintf(
        message,
        sizeof(message),
        "index %lld is out of range for axis %d of size %lld",
        <long long>position,
        axis,
        <long long>size,
    )
    run.code = run.call.host.fail(run.call, DOVETAIL_FAILED, message)
    return 0


cdef inline void copy_bytes(char *target, const char *source, int64_t nbytes, errand *run) noexcept nogil:
    """Copy any number of bytes; nothing if the core let the two share them."""
    cdef int64_t done = 0, n
    if target == source:
        return
    while done < nbytes and go_on(run, 1):
        n = min(<int64_t>COPY_CHUNK, nbytes - done)
        memcpy(target + done, source + done, n)
        run.work += n >> 5
        done += n


cdef inline void clear_bytes(char *target, int64_t nbytes, errand *run) noexcept nogil:
    """Write zeros, any number of them."""
    cdef int64_t done = 0, n
    while done < nbytes and go_on(run, 1):
        n = min(<int64_t>COPY_CHUNK, nbytes - done)
        memset(target + done, 0, n)
        run.work += n >> 5
        done += n
