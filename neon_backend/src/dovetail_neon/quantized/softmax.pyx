"""Softmax of rows of quantized bytes."""

from dovetail_neon.quantized.parameters cimport acc_quantized_softmax
from dovetail_neon.quantized.requantization cimport BLOCK
from dovetail_neon.workload.making cimport DOVETAIL_ALIAS_IN_PLACE, Kernels, Workload, new_workload


def create(layer, Kernels kernels):
    """Return the workload of a `SoftmaxQuantized`."""
    d, info = layer.descriptor, layer.output.info
    cdef Workload workload = new_workload(sizeof(acc_quantized_softmax), 1, 1)
    cdef acc_quantized_softmax *s = <acc_quantized_softmax *>workload.state.parameters
    cdef int distance
    s.size = info.sizes[info.rank - 1]
    for distance in range(256):
        s.terms[distance], s.powers[distance] = d.terms[distance], d.powers[distance] if d.powers else 0
    s.step, s.zero, s.fixed = d.step, d.zero, bool(d.powers)
    # A result is rounded to 0 where even the greatest element's share, by itself, makes less than a
    # half of a step.
    for distance in range(256):
        if s.powers[distance] >= 1 << 22 if s.fixed else s.terms[distance] >= 0.5 * s.step * (1 << 30):
            s.reach = distance // BLOCK * BLOCK + BLOCK
    s.low = -128 if info.dtype.is_signed else 0
    s.high = s.low + 255
    s.sign = (0x80 if info.dtype.is_signed else 0) ^ (0xFF if d.falls else 0)
    if info.elements:
        rows = info.elements // s.size
        workload.phase(kernels.quantized.softmax, rows, rows * 30.0 + info.elements * 1.5)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()
