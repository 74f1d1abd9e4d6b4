"""Layer normalization of rows."""

from dovetail_neon.rows.parameters cimport acc_layer_normalization
from dovetail_neon.workload.making cimport DOVETAIL_ALIAS_IN_PLACE, Kernels, Workload, keep, new_workload

import math

import numpy as np


def create(layer, Kernels kernels):
    """Return the workload of a `LayerNormalization` with constant scale and offset."""
    d = layer.descriptor
    shape = layer.output.info.sizes
    tail = shape[d.axis % len(shape):]
    size = math.prod(tail)
    given = [layer.constant(i) if i < len(layer.inputs) else None for i in (1, 2)]
    scale, offset = (
        np.broadcast_to(np.float32(default) if value is None else value, tail)
        for value, default in zip(given, (1.0, 0.0))
    )
    cdef Workload workload = new_workload(sizeof(acc_layer_normalization), 1, 1)
    cdef acc_layer_normalization *s = <acc_layer_normalization *>workload.state.parameters
    s.size, s.epsilon, s.center = size, d.epsilon, d.center
    s.scale, s.offset = keep(workload, scale), keep(workload, offset)
    rows = math.prod(shape) // size if size else 0
    workload.phase(kernels.table.rows.layer_normalization, rows, rows * size * 0.5)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()
