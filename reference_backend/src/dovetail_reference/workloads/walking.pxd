"""One walk over the elements of up to four tensors of one (broadcast) shape, row by row.

Every elementwise kind and every copy is such a walk with another row function, so that broadcast,
cancelling and odd shapes are dealt with here alone.
"""

from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport DOVETAIL_CANCELLED, DOVETAIL_OK, dovetail_call, tensor_data

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


cdef inline void place_operands(const walk *route, const dovetail_call *call, char **bases) noexcept nogil:
    """Find where a walk's operands begin: the first inputs of a call and all its outputs."""
    cdef int32_t operand, inputs = route.operands - call.n_outputs
    for operand in range(inputs):
        bases[operand] = <char *>tensor_data(&call.inputs[operand])
    for operand in range(inputs, route.operands):
        bases[operand] = <char *>tensor_data(&call.outputs[operand - inputs])


cdef inline int walk_tensors(const walk *route, row_function row, void *arg, const dovetail_call *call) noexcept nogil:
    """Walk over the inputs of a call and its outputs, in this order."""
    cdef char *bases[MAX_OPERANDS]
    place_operands(route, call, bases)
    return run_walk(route, bases, row, arg, call)


# What a row function that does much for each element is given: it polls by itself, and stops once
# `code` is not DOVETAIL_OK.
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


# A part of a long line: as many elements as are treated between two looks at is_cancelled.
cdef struct span:
    int64_t begin
    int64_t end


cdef inline bint next_span(errand *run, span *part, int64_t size) noexcept nogil:
    """Move on to the next part of a line; False behind the last one, and once the run should end.

    A `span` of zeros stands before the first part, and so does one that went through: the next pass
    begins again.
    """
    part.begin, part.end = part.end, min(size, part.end + (1 << 15))
    if part.begin < part.end and go_on(run, part.end - part.begin):
        return True
    part.begin = part.end = 0
    return False


cdef inline errand new_errand(const dovetail_call *call, void *state=NULL) noexcept nogil:
    """An errand that looks at is_cancelled as soon as it goes on."""
    cdef errand run
    run.state, run.call, run.work, run.code = state, call, 1 << 15, DOVETAIL_OK
    return run


cdef inline int run_errand(const walk *route, row_function row, void *state, const dovetail_call *call) noexcept nogil:
    """`walk_tensors` with a row function whose argument is an `errand`."""
    cdef errand run = new_errand(call, state)
    cdef int code = walk_tensors(route, row, &run, call)
    return code if run.code == DOVETAIL_OK else run.code
