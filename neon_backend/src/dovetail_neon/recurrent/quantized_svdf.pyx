"""Filters over time of low rank, in integers."""

from libc.stdint cimport int16_t, int32_t, int64_t

from dovetail_neon.recurrent.matrix cimport ROWS_AHEAD, WORTH_SHARING, factor_of, pack_bytes, take
from dovetail_neon.recurrent.parameters cimport acc_quantized_svdf
from dovetail_neon.workload.making cimport Kernels, Workload, new_workload, parts
from dovetail_neon.workload.workload cimport fill

import numpy as np


cdef void *padded(Workload workload, object values, int64_t nbytes) except NULL:
    """Keep numbers, if there are any, in so many bytes; zeros stand behind them."""
    cdef void *memory = workload.allocate(nbytes)
    if values is not None:
        fill(memory, values, values.dtype.type)
    return memory


def create(layer, Kernels kernels):
    """Return the workload of a `QuantizedSvdfStep`."""
    d, infos = layer.descriptor, layer.input_infos
    cdef Workload workload = new_workload(sizeof(acc_quantized_svdf), 2, 2)
    cdef acc_quantized_svdf *s = <acc_quantized_svdf *>workload.state.parameters
    cdef int unit = kernels.quantized.has_quads, lanes = kernels.table.lanes
    s.batch, s.rank = infos[0].sizes[0], d.rank
    s.filters, s.steps = d.time_weights.shape
    if d.time_weights.dtype != np.int16 or infos[1].sizes != (s.batch, s.filters * s.steps):
        raise ValueError(f"weights of {layer.name!r} do not fit a state of {infos[1].shape_text}")
    s.units = s.filters // s.rank
    if s.batch == 0 or s.filters == 0:
        return workload.capsule()
    s.at_once = min(s.batch, <int64_t>ROWS_AHEAD)
    s.of_features, s.of_totals = factor_of(d.of_features), factor_of(d.of_totals)
    input_zero, s.result_zero = d.zeros
    pack_bytes(workload, &s.features, d.feature_weights, None, input_zero, s.at_once, layer.name, kernels)
    s.units_step = parts(s.units, lanes) * lanes
    s.times = <const int16_t *>padded(workload, d.time_weights, (s.filters * s.steps + 2 * lanes) * 2)
    s.bias = <const int32_t *>padded(workload, d.bias, s.units_step * 4)
    s.shares_sequences = s.at_once > 1 and s.at_once * s.filters * s.steps / 8.0 > WORTH_SHARING
    s.rows_place = take(workload, s.at_once * s.features.step)
    s.sums_place = take(workload, s.at_once * s.features.vectors * lanes * 4)
    s.totals_place = take(workload, s.at_once * s.units_step * 4)
    workload.phase(kernels.quantized.recurrent.svdf[unit], 1, 0.0)
    return workload.capsule()
