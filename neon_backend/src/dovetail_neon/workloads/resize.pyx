"""Images that are resampled."""

from libc.stdint cimport int64_t

from dovetail_neon.interface.resize cimport neon_resize, neon_taps
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workloads.workload cimport Workload, keep, new_workload

import numpy as np

from dovetail_neon.layouts import blocks



cdef int place(Workload workload, neon_taps *axis, given) except -1:
    """Fill in the tables of an axis from one list of taps per result."""
    cdef int64_t *first = <int64_t *>workload.allocate((len(given) + 1) * sizeof(int64_t))
    cdef int64_t *position = <int64_t *>workload.allocate(sum(map(len, given)) * sizeof(int64_t))
    cdef int64_t used = 0, i
    weights = [weight for row in given for _, weight in row]
    axis.first, axis.position = first, position
    axis.weight = keep(workload, np.asarray(weights, np.float32))
    for i, row in enumerate(given):
        for at, _ in row:
            position[used] = at
            used += 1
        first[i + 1] = used
    return 0


def create(layer, Kernels kernels):
    """Return the workload of a `Resample`."""
    d = layer.descriptor
    cdef Workload workload = new_workload(sizeof(neon_resize), 1, 1)
    cdef neon_resize *s = <neon_resize *>workload.state.parameters
    images, channels, s.in_height, s.in_width = d.source
    s.out_height, s.out_width = len(d.rows), len(d.columns)
    place(workload, &s.rows, d.rows)
    place(workload, &s.columns, d.columns)
    items = images * blocks(channels, kernels.table.lanes) * s.out_height
    taps = len(d.rows[0]) * len(d.columns[0])
    nanoseconds = items * s.out_width * (1.5 * taps if d.interpolates else 1.0)
    body = kernels.table.resize.interpolate if d.interpolates else kernels.table.resize.nearest
    workload.phase(body, items, nanoseconds)
    return workload.capsule()
