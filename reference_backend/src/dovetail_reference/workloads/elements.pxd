"""What the families share: element types, and the few lines around a state. Declarations and inline helpers only."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

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
    float
    double
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t

cdef enum Element:
    # In the order of dovetail.graph.tensor.DType.
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
    cdef str name = dtype.name
    if name == "FLOAT64": return FLOAT64
    if name == "FLOAT32": return FLOAT32
    if name == "FLOAT16": return FLOAT16
    if name == "BFLOAT16": return BFLOAT16
    if name == "INT8": return INT8
    if name == "INT16": return INT16
    if name == "INT32": return INT32
    if name == "INT64": return INT64
    if name == "UINT8": return UINT8
    if name == "UINT16": return UINT16
    if name == "UINT32": return UINT32
    if name == "UINT64": return UINT64
    if name == "BOOL": return BOOL
    raise ValueError(f"{dtype!r} is not an element type")


cdef inline void *allocate_state(size_t size) except NULL:
    """Zero-filled memory for a state; `free_state` releases it."""
    cdef void *state = calloc(1, size if size else 1)
    if state == NULL:
        raise MemoryError()
    return state


cdef inline void free_state(void *state) noexcept nogil:
    """The `release` of a state that holds nothing else."""
    free(state)


cdef inline bint cancelled(const dovetail_call *call) noexcept nogil:
    """True once the run should end; a long kernel asks about every millisecond and then returns DOVETAIL_CANCELLED."""
    return call.host.is_cancelled(call) != 0
