"""Normalize by a norm along one axis, or by the squares of neighbouring channels; in double."""

from libc.math cimport fabs, pow, sqrt
from libc.stdint cimport int64_t

from dovetail.abi cimport dovetail_call
from dovetail_reference.workloads.elements cimport element_of, real
from dovetail_reference.workloads.lines cimport lines, lines_along, run_lines
from dovetail_reference.workloads.walking cimport errand, go_on, next_span, span
from dovetail_reference.workloads.workload cimport allow_in_place, new_workload, state_of

from dovetail import DataLayout
from dovetail.layers import LpNormalization


cdef struct State:
    lines along
    # Lp
    int p
    double epsilon
    # Local response
    int64_t before          # neighbours on either side
    int64_t after
    double factor           # alpha / size
    double beta
    double k


cdef void lp_line(const void *opaque, int64_t line, const real *x, real *y, errand *run) noexcept nogil:
    """Divide a line by its norm; zeros stay zeros for any epsilon.

    x and y may be the same memory.
    """
    cdef const State *s = <const State *>opaque
    cdef int64_t i, size = s.along.size, stride = s.along.stride
    cdef span part = span(0, 0)
    cdef double norm = 0.0, value
    while next_span(run, &part, size):
        for i in range(part.begin, part.end):
            value = x[i * stride]
            norm += fabs(value) if s.p == 1 else value * value
    norm = max(norm if s.p == 1 else sqrt(norm), s.epsilon)
    while next_span(run, &part, size):
        for i in range(part.begin, part.end):
            y[i * stride] = <real>(x[i * stride] / norm) if norm != 0.0 else 0


cdef void local_response_line(const void *opaque, int64_t line, const real *x, real *y, errand *run) noexcept nogil:
    """Normalize each element of a line of channels by its neighbours; x and y must not overlap."""
    cdef const State *s = <const State *>opaque
    cdef int64_t i, j, first, last, size = s.along.size, stride = s.along.stride
    cdef double total
    for i in range(size):
        total = 0.0
        first, last = max(<int64_t>0, i - s.before), min(size, i + s.after + 1)
        if not go_on(run, last - first):
            return
        for j in range(first, last):
            total += <double>x[j * stride] * <double>x[j * stride]
        y[i * stride] = <real>(x[i * stride] / pow(s.k + s.factor * total, s.beta))


cdef int execute_lp(void *opaque, const dovetail_call *call) noexcept nogil:
    return run_lines(&(<const State *>opaque).along, lp_line[float], lp_line[double], opaque, call)


cdef int execute_local_response(void *opaque, const dovetail_call *call) noexcept nogil:
    return run_lines(&(<const State *>opaque).along, local_response_line[float], local_response_line[double], opaque, call)


def create(layer, dtype):
    """Return the workload capsule; `dtype` is FLOAT32 or FLOAT64."""
    descriptor, sizes = layer.descriptor, layer.input_infos[0].sizes
    cdef bint lp = isinstance(descriptor, LpNormalization)
    capsule = new_workload(execute_lp if lp else execute_local_response, sizeof(State))
    cdef State *s = <State *>state_of(capsule)
    if lp:
        s.along = lines_along(element_of(dtype), sizes, descriptor.axis)
        s.p, s.epsilon = descriptor.p, descriptor.epsilon
        allow_in_place(capsule)
    else:
        s.along = lines_along(element_of(dtype), sizes, 1 if descriptor.layout is DataLayout.NCHW else -1)
        s.before, s.after = (descriptor.size - 1) // 2, descriptor.size // 2
        s.factor, s.beta, s.k = descriptor.alpha / descriptor.size, descriptor.beta, descriptor.k
    return capsule
