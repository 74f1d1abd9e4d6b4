"""Images that are resampled."""

from libc.stdint cimport int64_t

from dovetail_neon.resizing.parameters cimport acc_resize, acc_taps
from dovetail_neon.workload.making cimport LONG_ROW, Kernels, Workload, keep, keep_integers, new_workload

from dovetail_neon.geometry.layouts import blocks


cdef enum:
    MANY_TAPS = 256
    LONG_TAPS = 4096            # of a row


cdef int place(Workload workload, acc_taps *axis, taps) except -1:
    """Fill in the tables of an axis."""
    axis.first, axis.position = keep_integers(workload, taps.first), keep_integers(workload, taps.position)
    axis.weight = keep(workload, taps.weight)
    return 0


def create(layer, Kernels kernels):
    """Return the workload of a `Resample`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(acc_resize), 1, 1)
    cdef acc_resize *s = <acc_resize *>workload.state.parameters
    images, channels, s.in_height, s.in_width = d.source
    s.out_height, s.out_width = len(d.rows.first) - 1, len(d.columns.first) - 1
    place(workload, &s.rows, d.rows)
    place(workload, &s.columns, d.columns)
    items = images * blocks(channels, kernels.table.lanes) * s.out_height
    taps = d.rows.most * d.columns.most
    s.polls = taps > MANY_TAPS or taps * s.out_width > LONG_ROW
    s.polls_mask, s.long_rows = 0 if taps > MANY_TAPS else 63, d.columns.most > LONG_TAPS
    nanoseconds = items * s.out_width * (1.5 * taps if d.interpolates else 1.0)
    body = kernels.table.resize.interpolate if d.interpolates else kernels.table.resize.nearest
    workload.phase(body, items, nanoseconds)
    return workload.capsule()
