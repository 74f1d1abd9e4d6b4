"""Normalization by a norm along one axis, and by the squares of neighbouring channels; in double."""

from libc.math cimport fabs, pow, sqrt
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
from dovetail_reference.workloads.walking cimport errand, go_on, span_end

import math

from dovetail import DataLayout
from dovetail.layers import LpNormalization


cdef struct State:
    Element element
    bint local              # local response normalization, else Lp
    int64_t outer           # lines lie along one axis: [outer, size, inner]
    int64_t size
    int64_t inner
    # Lp
    int p
    double epsilon
    # Local response
    int64_t before          # neighbours on either side
    int64_t after
    double factor           # alpha / size
    double beta
    double k
    dovetail_alias alias


cdef void lp_line(const State *s, const real *x, real *y, errand *run) noexcept nogil:
    """Divide a line by its norm; a line of zeros stays one, whatever epsilon is. x and y may be the same memory."""
    cdef int64_t i, begin = 0, end
    cdef double norm = 0.0, value
    while begin < s.size:
        end = span_end(run, begin, s.size)
        if end == begin:
            return
        for i in range(begin, end):
            value = x[i * s.inner]
            norm += fabs(value) if s.p == 1 else value * value
        begin = end
    norm = max(norm if s.p == 1 else sqrt(norm), s.epsilon)
    begin = 0
    while begin < s.size:
        end = span_end(run, begin, s.size)
        if end == begin:
            return
        for i in range(begin, end):
            y[i * s.inner] = <real>(x[i * s.inner] / norm) if norm != 0.0 else 0
        begin = end


cdef void local_response_line(const State *s, const real *x, real *y, errand *run) noexcept nogil:
    """Normalize each element of a line of channels by its neighbours; x and y must not overlap."""
    cdef int64_t i, j, first, last
    cdef double total
    for i in range(s.size):
        total = 0.0
        first, last = max(<int64_t>0, i - s.before), min(s.size, i + s.after + 1)
        if not go_on(run, last - first):
            return
        for j in range(first, last):
            total += <double>x[j * s.inner] * <double>x[j * s.inner]
        y[i * s.inner] = <real>(x[i * s.inner] / pow(s.k + s.factor * total, s.beta))


cdef int normalize(const State *s, const dovetail_call *call, const real *x, real *y) noexcept nogil:
    cdef int64_t outer, inner, at
    cdef errand run
    run.call, run.work, run.code = call, 1 << 15, DOVETAIL_OK  # look at once
    for outer in range(s.outer):
        for inner in range(s.inner):
            at = outer * s.size * s.inner + inner
            if s.local:
                local_response_line(s, x + at, y + at, &run)
            else:
                lp_line(s, x + at, y + at, &run)
            if run.code != DOVETAIL_OK:
                return run.code
    return DOVETAIL_OK


cdef int execute(void *opaque, const dovetail_call *call) noexcept nogil:
    cdef const State *s = <const State *>opaque
    cdef void *x = tensor_data(&call.inputs[0])
    cdef void *y = tensor_data(&call.outputs[0])
    if s.element == FLOAT32:
        return normalize(s, call, <const float *>x, <float *>y)
    return normalize(s, call, <const double *>x, <double *>y)


def create(layer, dtype):
    """Return the workload capsule; `dtype` is FLOAT32 or FLOAT64."""
    descriptor, sizes = layer.descriptor, layer.input_infos[0].sizes
    cdef dovetail_workload *made = NULL
    cdef State *s = <State *>allocate_state(sizeof(State))
    try:
        s.element = element_of(dtype)
        if isinstance(descriptor, LpNormalization):
            axis = descriptor.axis % len(sizes)
            s.p, s.epsilon = descriptor.p, descriptor.epsilon
            s.alias.relation = DOVETAIL_ALIAS_IN_PLACE
        else:
            axis = 1 if descriptor.layout is DataLayout.NCHW else len(sizes) - 1
            s.local, s.before, s.after = True, (descriptor.size - 1) // 2, descriptor.size // 2
            s.factor, s.beta, s.k = descriptor.alpha / descriptor.size, descriptor.beta, descriptor.k
        s.outer, s.size, s.inner = math.prod(sizes[:axis]), sizes[axis], math.prod(sizes[axis + 1 :])
        capsule = workload_capsule(execute, s, free_state, &made)
    except BaseException:
        free_state(s)
        raise
    if not s.local:
        made.aliases, made.n_aliases = &s.alias, 1
    return capsule
