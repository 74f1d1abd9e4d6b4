"""One walk over the elements of up to four tensors; see `walking.pxd`."""

from libc.stdint cimport int64_t

from dovetail.abi cimport DOVETAIL_CANCELLED, DOVETAIL_OK, dovetail_call

from .strides import coalesce

# Elements between two looks at is_cancelled: below a millisecond for anything a row function does.
cdef int64_t POLL = 1 << 15


cdef int plan_walk(walk *route, object shape, object strides) except -1:
    """Fill in a walk over `shape`; `strides` holds one sequence of byte strides per operand."""
    sizes, merged = coalesce(shape, strides)
    if len(sizes) > MAX_RANK or len(merged) > MAX_OPERANDS:
        raise ValueError(f"a walk over {len(sizes)} axes of {len(merged)} tensors is beyond {MAX_RANK} and {MAX_OPERANDS}")
    cdef int32_t axis, operand
    route.rank = len(sizes) - 1
    route.operands = len(merged)
    route.length = sizes[route.rank]
    route.block = BLOCK
    route.rows = 1
    for axis in range(route.rank):
        route.sizes[axis] = sizes[axis]
        route.rows *= route.sizes[axis]
    for operand in range(route.operands):
        for axis in range(route.rank):
            route.strides[operand][axis] = merged[operand][axis]
        route.steps[operand] = merged[operand][route.rank]
    return 0


cdef int run_walk(const walk *route, char **bases, row_function row, void *arg, const dovetail_call *call) noexcept nogil:
    """Call `row` for all elements, in row-major order; return DOVETAIL_OK or DOVETAIL_CANCELLED."""
    cdef int64_t index[MAX_RANK]
    cdef char *start[MAX_OPERANDS]
    cdef char *at[MAX_OPERANDS]
    cdef int64_t visited, done, n, patience = POLL
    cdef int32_t axis, operand
    if route.rank == 0 and route.length <= route.block:
        row(bases, route.steps, route.length, arg)      # a handful of elements: the loops below would cost more than they do
        return DOVETAIL_OK
    for axis in range(route.rank):      # rank alone: clearing all of it would cost more than a small walk
        index[axis] = 0
    for operand in range(route.operands):
        start[operand] = bases[operand]
    for visited in range(route.rows):
        done = 0
        while done < route.length:
            n = min(route.block, route.length - done)
            for operand in range(route.operands):
                at[operand] = start[operand] + done * route.steps[operand]
            row(at, route.steps, n, arg)
            done += n
            patience -= n + 8
            if patience <= 0:
                patience = POLL
                if call.host.is_cancelled(call):
                    return DOVETAIL_CANCELLED
        axis = route.rank - 1
        while axis >= 0:
            index[axis] += 1
            for operand in range(route.operands):
                start[operand] += route.strides[operand][axis]
            if index[axis] < route.sizes[axis]:
                break
            for operand in range(route.operands):
                start[operand] -= route.strides[operand][axis] * route.sizes[axis]
            index[axis] = 0
            axis -= 1
    return DOVETAIL_OK
