"""Read positions that come as data, refuse those out of range, and copy runs of any length."""

from libc.stdint cimport int32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from dovetail.abi cimport DOVETAIL_FAILED, dovetail_call
from dovetail_reference.workloads.elements cimport INT32, Element, element_of
from dovetail_reference.workloads.walking cimport errand, go_on
from dovetail_reference.workloads.workload cimport allocate

cdef enum:
    COPY_CHUNK = 1 << 18    # bytes between two looks at is_cancelled


cdef inline int64_t load_position(Element kind, const char *at) noexcept nogil:
    """Read an int32 or int64."""
    return (<const int32_t *>at)[0] if kind == INT32 else (<const int64_t *>at)[0]


cdef inline int64_t resolved(int64_t position, int64_t size, int axis, errand *run) noexcept nogil:
    """Count negative positions from the end; one out of range fails the run and counts as 0."""
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


# What the coordinates of a position mean that names several axes.
cdef struct named_axes:
    Element kind        # of the coordinates
    int64_t index_bytes
    int first           # axis of the first coordinate
    int depth           # coordinates of a position
    int64_t *sizes      # [depth]
    int64_t *strides    # [depth], bytes


cdef inline int name_axes(named_axes *axes, object indices, object sizes, object strides, int first, int depth) except -1:
    """Fill in what positions of `indices`' dtype mean for these sizes; `free_axes` releases it."""
    cdef int i
    axes.kind, axes.index_bytes, axes.first = element_of(indices.dtype), indices.dtype.itemsize, first
    axes.sizes = <int64_t *>allocate(depth, sizeof(int64_t))
    axes.strides = <int64_t *>allocate(depth, sizeof(int64_t))
    axes.depth = depth
    for i in range(depth):
        axes.sizes[i], axes.strides[i] = sizes[first + i], strides[first + i]
    return 0


cdef inline void free_axes(const named_axes *axes) noexcept nogil:
    """Release what `name_axes` allocated, as far as it came."""
    free(axes.sizes)
    free(axes.strides)


cdef inline int64_t named_offset(const named_axes *axes, const char *position, errand *run) noexcept nogil:
    """Return a position's byte offset in the tensor; one that is out of range fails the run."""
    cdef int64_t offset = 0
    cdef int i
    for i in range(axes.depth):
        offset += axes.strides[i] * resolved(
            load_position(axes.kind, position + i * axes.index_bytes), axes.sizes[i], axes.first + i, run
        )
    return offset


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
