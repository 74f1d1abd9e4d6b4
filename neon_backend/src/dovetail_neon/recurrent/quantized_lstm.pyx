"""Long short-term memory in integers."""

from libc.stdint cimport int32_t, int64_t

from dovetail_neon.quantized.requantization cimport kept
from dovetail_neon.recurrent.matrix cimport ROWS_AHEAD, WORTH_SHARING, factor_of, pack_bytes, take
from dovetail_neon.recurrent.parameters cimport (
    ACC_FORGET_GATE,
    ACC_GATES,
    ACC_INPUT_GATE,
    acc_quantized_lstm,
    acc_recurrent_matrix,
)
from dovetail_neon.workload.making cimport Kernels, Workload, new_workload, parts

import numpy as np


cdef const int32_t *rows_of(Workload workload, object array, int lanes) except? NULL:
    """Keep numbers of all gates, and room to read a vector behind them; NULL if there are none."""
    if array is None:
        return NULL
    return <const int32_t *>kept(workload, np.append(array, np.zeros(lanes, np.int32)).astype(np.int32))


cdef int fill_factors(acc_quantized_lstm *s, object d) except -1:
    cdef int gate
    for gate, factors in enumerate(d.factors, s.first_gate):
        s.of_input[gate], s.of_hidden[gate] = factor_of(factors.of_input), factor_of(factors.of_hidden)
        s.of_cell[gate], s.of_norm[gate] = factor_of(factors.of_cell), factor_of(factors.of_norm)
        s.least_variance[gate] = factors.least_variance
    s.of_made, s.of_projection = factor_of(d.of_made), factor_of(d.of_projection)
    s.cell_bits, s.cell_clip, s.projection_clip = d.cell_bits, d.cell_clip, d.projection_clip
    return 0


cdef int fill_places(Workload workload, acc_quantized_lstm *s, int64_t lanes) except -1:
    """Lay out the workspace: what is read in vectors has room for one behind it."""
    s.units_step = parts(s.units, lanes) * lanes
    cdef int64_t rows = min(s.ahead, s.steps) * s.batch
    s.rows_place = take(workload, rows * s.weights.step)
    s.given_place = take(workload, rows * s.weights.vectors * lanes * 4)
    s.sums_place = take(workload, s.batch * max(s.recurrent.vectors, s.projected.vectors) * lanes * 4)
    s.values_place = take(workload, s.batch * ACC_GATES * s.units_step * 4 if s.normalization != NULL else 0)
    s.state_place = take(workload, s.batch * s.recurrent.step)
    s.made_place = take(workload, s.batch * s.projected.step)
    s.cell_place = take(workload, s.batch * s.units_step * 4)
    return 0


def create(layer, Kernels kernels):
    """Return the workload of a `QuantizedLstmSteps`."""
    d, infos = layer.descriptor, layer.input_infos
    cdef Workload workload = new_workload(sizeof(acc_quantized_lstm), 3, 3)
    cdef acc_quantized_lstm *s = <acc_quantized_lstm *>workload.state.parameters
    cdef int unit = kernels.quantized.has_quads, lanes = kernels.table.lanes
    s.batch_first, (s.steps, s.batch, s.inputs) = d.batch_first, infos[0].sizes
    if d.batch_first:
        s.steps, s.batch = s.batch, s.steps
    s.hidden, s.units = infos[1].sizes[1], infos[2].sizes[1]
    if s.batch == 0:
        return workload.capsule()
    s.ahead = max(ROWS_AHEAD // s.batch, <int64_t>1)
    s.first_gate = ACC_INPUT_GATE if len(d.factors) == ACC_GATES else ACC_FORGET_GATE
    fill_factors(s, d)
    input_zero, hidden_zero, made_zero = d.zeros
    normalizes, s.projects = d.normalization is not None, d.projection_weights is not None
    pack_bytes(workload, &s.weights, d.weights, None if normalizes else d.bias, input_zero, ROWS_AHEAD, layer.name, kernels)
    pack_bytes(workload, &s.recurrent, d.recurrent_weights, None, hidden_zero, s.batch, layer.name, kernels)
    s.made_zero, s.hidden_zero = made_zero, hidden_zero
    if s.projects:  # the zero point is subtracted there, and its products are added here
        s.made_zero = -s.made_zero
        pack_bytes(workload, &s.projected, d.projection_weights, d.projection_bias, s.made_zero, s.batch, layer.name, kernels)
    s.peepholes, s.normalization = rows_of(workload, d.peepholes, lanes), rows_of(workload, d.normalization, lanes)
    s.bias = rows_of(workload, d.bias if normalizes else None, lanes)
    s.shares_inputs = s.weights.shares and min(s.ahead, s.steps) * s.batch * 4 > ROWS_AHEAD
    s.shares_gates = s.batch > 1 and s.batch * s.units * 4.0 > WORTH_SHARING
    fill_places(workload, s, lanes)
    workload.phase(kernels.quantized.recurrent.lstm[unit], 1, 0.0)
    return workload.capsule()
