"""Treat each line of a float tensor by itself: along one axis, or evenly spaced elements."""

from libc.stdint cimport int64_t

from dovetail.abi cimport DOVETAIL_OK, dovetail_call, tensor_data
from dovetail_reference.workloads.elements cimport FLOAT32, Element
from dovetail_reference.workloads.walking cimport errand, new_errand

cdef struct lines:
    # Steps are counted in elements.
    Element element         # FLOAT32 or FLOAT64
    int64_t outer
    int64_t inner           # lines per step of `outer_step`
    int64_t outer_step
    int64_t inner_step
    int64_t size            # elements of a line
    int64_t stride          # from one element of a line to the next

# Treats the line number `line`, which may begin at the same place in both tensors.
ctypedef void (*line_of_floats)(
    const void *state, int64_t line, const float *x, float *y, errand *run
) noexcept nogil
ctypedef void (*line_of_doubles)(
    const void *state, int64_t line, const double *x, double *y, errand *run
) noexcept nogil


cdef inline lines lines_along(Element element, tuple sizes, int axis) except *:
    """The lines of a tensor along an axis, which may be counted from the end."""
    cdef lines along
    cdef int i
    axis = axis + len(sizes) if axis < 0 else axis
    along.element, along.outer, along.inner, along.size = element, 1, 1, sizes[axis]
    for i in range(axis):
        along.outer *= sizes[i]
    for i in range(axis + 1, len(sizes)):
        along.inner *= sizes[i]
    along.outer_step, along.inner_step, along.stride = along.size * along.inner, 1, along.inner
    return along


cdef inline int run_lines(
    const lines *along, line_of_floats floats, line_of_doubles doubles, const void *state, const dovetail_call *call
) noexcept nogil:
    """Treat every line of input 0 and output 0 by its element type; return the run's code."""
    cdef int64_t outer, inner, at
    cdef void *x = tensor_data(&call.inputs[0])
    cdef void *y = tensor_data(&call.outputs[0])
    cdef errand run = new_errand(call)
    if along.size == 0:
        return DOVETAIL_OK
    for outer in range(along.outer):
        for inner in range(along.inner):
            at = outer * along.outer_step + inner * along.inner_step
            if along.element == FLOAT32:
                floats(state, outer * along.inner + inner, <const float *>x + at, <float *>y + at, &run)
            else:
                doubles(state, outer * along.inner + inner, <const double *>x + at, <double *>y + at, &run)
            if run.code != DOVETAIL_OK:
                return run.code
    return DOVETAIL_OK
