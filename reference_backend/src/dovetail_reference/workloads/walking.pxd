"""One walk over the elements of up to four tensors of one (broadcast) shape, row by row.

Every elementwise kind and every copy is such a walk with another row function, so that broadcast, cancelling and odd shapes are
dealt with here alone.
"""

from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport DOVETAIL_CANCELLED, DOVETAIL_OK, dovetail_call

cdef enum:
    MAX_RANK = 64       # NumPy's own limit
    MAX_OPERANDS = 4
    BLOCK = 256         # most elements a row function sees at once, unless its walk says otherwise

cdef struct walk:
    int32_t rank                            # axes outside the row
    int32_t operands
    int64_t rows
    int64_t length                          # elements of a row
    int64_t block                           # most elements a row function sees at once
    int64_t sizes[MAX_RANK]
    int64_t strides[MAX_OPERANDS][MAX_RANK] # bytes
    int64_t steps[MAX_OPERANDS]             # bytes from one element of the row to the next

# Treats n elements: operand o's are at[o], at[o] + steps[o], ...
ctypedef void (*row_function)(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil

cdef int plan_walk(walk *route, object shape, object strides) except -1
cdef int run_walk(const walk *route, char **bases, row_function row, void *arg, const dovetail_call *call) noexcept nogil

# What a row function that does much for each element is given: it polls by itself, and stops once `code` is not DOVETAIL_OK.
cdef struct errand:
    void *state
    const dovetail_call *call
    int64_t work        # elements since the last look at is_cancelled
    int code


cdef inline bint go_on(errand *run, int64_t work) noexcept nogil:
    """Count elements that are about to be treated; False once the run should end."""
    run.work += work
    if run.work > 1 << 15:
        run.work = 0
        if run.code == DOVETAIL_OK and run.call.host.is_cancelled(run.call):
            run.code = DOVETAIL_CANCELLED
    return run.code == DOVETAIL_OK


cdef inline int64_t span_end(errand *run, int64_t begin, int64_t size) noexcept nogil:
    """Where the part of a long line that begins at `begin` ends; `begin` itself once the run should end."""
    cdef int64_t end = min(size, begin + (1 << 15))
    return end if go_on(run, end - begin) else begin


cdef inline int run_errand(
    const walk *route, char **bases, row_function row, void *state, const dovetail_call *call
) noexcept nogil:
    """Walk with a row function whose argument is an `errand`."""
    cdef errand run
    cdef int code
    run.state, run.call, run.work, run.code = state, call, 0, DOVETAIL_OK
    code = run_walk(route, bases, row, &run, call)
    return code if run.code == DOVETAIL_OK else run.code
