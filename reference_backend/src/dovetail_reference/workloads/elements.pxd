"""What the families share: element types. Declarations and inline helpers only."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from dovetail.abi cimport dovetail_call

ctypedef fused real:
    float
    double

ctypedef fused integer:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused number:
    real
    integer

cdef enum Element:
    # In the order of dovetail.graph.element_types.DType.
    FLOAT64
    FLOAT32
    FLOAT16
    BFLOAT16
    INT8
    INT16
    INT32
    INT64
    UINT8
    UINT16
    UINT32
    UINT64
    BOOL

cdef enum:
    MAX_RANK = 16   # of any tensor that a state keeps sizes of


cdef inline Element element_of(object dtype) except *:
    """Code of a `DType`, to switch on in C."""
    cdef tuple names = (
        "FLOAT64", "FLOAT32", "FLOAT16", "BFLOAT16",
        "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL",
    )
    return <Element><int>names.index(dtype.name)


cdef inline bint cancelled(const dovetail_call *call) noexcept nogil:
    """Return True once the run should end.

    A long kernel asks about every millisecond and then returns DOVETAIL_CANCELLED.
    """
    return call.host.is_cancelled(call) != 0


cdef inline void copy_elements(
    char *target, int64_t target_step, const char *source, int64_t source_step, int64_t itemsize, int64_t n
) noexcept nogil:
    """Copy n elements of 1, 2, 4 or 8 bytes; the steps are bytes, too."""
    cdef int64_t i
    if source_step == itemsize and target_step == itemsize:
        memcpy(target, source, n * itemsize)
    elif itemsize == 1:
        for i in range(n):
            target[i * target_step] = source[i * source_step]
    elif itemsize == 2:
        for i in range(n):
            (<uint16_t *>(target + i * target_step))[0] = (<const uint16_t *>(source + i * source_step))[0]
    elif itemsize == 4:
        for i in range(n):
            (<uint32_t *>(target + i * target_step))[0] = (<const uint32_t *>(source + i * source_step))[0]
    else:
        for i in range(n):
            (<uint64_t *>(target + i * target_step))[0] = (<const uint64_t *>(source + i * source_step))[0]
