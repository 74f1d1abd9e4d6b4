"""Compute softmax and its logarithm along one axis, in double.

The greatest element is subtracted first, so nothing overflows.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t

from dovetail.abi cimport dovetail_call
from dovetail_reference.workloads.elements cimport element_of, real
from dovetail_reference.workloads.lines cimport lines, lines_along, run_lines
from dovetail_reference.workloads.walking cimport errand, next_span, span
from dovetail_reference.workloads.workload cimport allow_in_place, new_workload, state_of

from .quantized import is_quantized
from .quantized_softmax import create as create_quantized


cdef struct State:
    lines along
    bint logarithm
    double beta


cdef void softmax_line(const void *opaque, int64_t line, const real *x, real *y, errand *run) noexcept nogil:
    """One line; x and y may be the same memory."""
    cdef const State *s = <const State *>opaque
    cdef int64_t i, size = s.along.size, stride = s.along.stride
    cdef span part = span(0, 0)
    cdef double greatest = -INFINITY, total = 0.0, shifted, logarithm
    while next_span(run, &part, size):
        for i in range(part.begin, part.end):
            greatest = max(greatest, s.beta * x[i * stride])
    while next_span(run, &part, size):
        for i in range(part.begin, part.end):
            total += exp(s.beta * x[i * stride] - greatest)
    logarithm = log(total)
    while next_span(run, &part, size):
        for i in range(part.begin, part.end):
            shifted = s.beta * x[i * stride] - greatest
            y[i * stride] = <real>(shifted - logarithm if s.logarithm else exp(shifted) / total)


cdef int execute(void *opaque, const dovetail_call *call) noexcept nogil:
    return run_lines(&(<const State *>opaque).along, softmax_line[float], softmax_line[double], opaque, call)


def create(layer, dtype):
    """Return the workload capsule; `dtype` is FLOAT32, FLOAT64 or that of quantized bytes."""
    if is_quantized(layer):
        return create_quantized(layer)
    descriptor = layer.descriptor
    capsule = new_workload(execute, sizeof(State))
    cdef State *s = <State *>state_of(capsule)
    s.along = lines_along(element_of(dtype), layer.input_infos[0].sizes, descriptor.axis)
    s.logarithm, s.beta = descriptor.log, descriptor.beta
    allow_in_place(capsule)
    return capsule
