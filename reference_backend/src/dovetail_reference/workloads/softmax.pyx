"""Softmax and its logarithm along one axis, in double: the greatest element is subtracted first, so nothing overflows."""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t

from dovetail.abi cimport (
    DOVETAIL_ALIAS_IN_PLACE,
    DOVETAIL_OK,
    dovetail_alias,
    dovetail_call,
    dovetail_workload,
    tensor_data,
    workload_capsule,
)
from dovetail_reference.workloads.elements cimport FLOAT32, Element, allocate_state, element_of, free_state, real
from dovetail_reference.workloads.walking cimport errand, span_end

import math



cdef struct State:
    Element element
    bint logarithm
    double beta
    int64_t outer
    int64_t size
    int64_t inner
    dovetail_alias alias


cdef void softmax_line(const State *s, const real *x, real *y, errand *run) noexcept nogil:
    """One line of `size` elements, `inner` apart. x and y may be the same memory."""
    cdef int64_t i, begin = 0, end
    cdef double greatest = -INFINITY, total = 0.0, shifted, logarithm
    while begin < s.size:
        end = span_end(run, begin, s.size)
        if end == begin:
            return
        for i in range(begin, end):
            greatest = max(greatest, s.beta * x[i * s.inner])
        begin = end
    begin = 0
    while begin < s.size:
        end = span_end(run, begin, s.size)
        if end == begin:
            return
        for i in range(begin, end):
            total += exp(s.beta * x[i * s.inner] - greatest)
        begin = end
    logarithm = log(total)
    begin = 0
    while begin < s.size:
        end = span_end(run, begin, s.size)
        if end == begin:
            return
        for i in range(begin, end):
            shifted = s.beta * x[i * s.inner] - greatest
            y[i * s.inner] = <real>(shifted - logarithm if s.logarithm else exp(shifted) / total)
        begin = end


cdef int softmax(const State *s, const dovetail_call *call, const real *x, real *y) noexcept nogil:
    cdef int64_t outer, inner, at
    cdef errand run
    run.call, run.work, run.code = call, 1 << 15, DOVETAIL_OK  # look at once
    for outer in range(s.outer):
        for inner in range(s.inner):
            at = outer * s.size * s.inner + inner
            softmax_line(s, x + at, y + at, &run)
            if run.code != DOVETAIL_OK:
                return run.code
    return DOVETAIL_OK


cdef int execute(void *opaque, const dovetail_call *call) noexcept nogil:
    cdef const State *s = <const State *>opaque
    cdef void *x = tensor_data(&call.inputs[0])
    cdef void *y = tensor_data(&call.outputs[0])
    if s.element == FLOAT32:
        return softmax(s, call, <const float *>x, <float *>y)
    return softmax(s, call, <const double *>x, <double *>y)


def create(layer, dtype):
    """Return the workload capsule; `dtype` is FLOAT32 or FLOAT64."""
    cdef dovetail_workload *made = NULL
    sizes = layer.input_infos[0].sizes
    axis = layer.descriptor.axis % len(sizes)
    cdef State *s = <State *>allocate_state(sizeof(State))
    try:
        s.element = element_of(dtype)
        s.logarithm, s.beta = layer.descriptor.log, layer.descriptor.beta
        s.outer, s.size, s.inner = math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])
        s.alias.relation = DOVETAIL_ALIAS_IN_PLACE
        capsule = workload_capsule(execute, s, free_state, &made)
    except BaseException:
        free_state(s)
        raise
    made.aliases, made.n_aliases = &s.alias, 1
    return capsule
