"""Recurrent layers of float32."""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t

from dovetail_neon.elementwise.activation cimport acc_activation
from dovetail_neon.recurrent.matrix cimport ROWS_AHEAD, WORTH_SHARING, pack_floats, take
from dovetail_neon.recurrent.parameters cimport ACC_GRU, ACC_LSTM, ACC_RNN, acc_recurrence
from dovetail_neon.workload.making cimport Kernels, Workload, keep, new_workload, parts

_KINDS = {"dovetail.Rnn": ACC_RNN, "dovetail.Gru": ACC_GRU, "dovetail.Lstm": ACC_LSTM}


cdef int fill_function(acc_activation *function, object given) except -1:
    function.function, function.a, function.b = given
    return 0


cdef int fill_attributes(acc_recurrence *s, object d) except -1:
    fill_function(&s.gate, d.functions[0])
    fill_function(&s.cell, d.functions[1])
    fill_function(&s.output, d.functions[2])
    s.gate_clip, s.cell_clip, s.projection_clip = (INFINITY if clip is None else clip for clip in d.clips)
    s.epsilon, s.reset_after = d.epsilon, d.reset_after
    s.input_gate, s.output_gate, s.forget_gate = d.blocks
    s.kind, s.gates, s.reverse, s.batch_first = _KINDS[d.kind_of_cell], d.gates, d.reverse, d.batch_first
    return 0


cdef int fill_matrices(Workload workload, acc_recurrence *s, object d, object name, Kernels kernels) except -1:
    """Pack the weights: of a GRU whose reset gate scales the state, the candidate's apart."""
    own, units = d.recurrent_bias, int(s.units)
    bias = None if d.normalization is not None else d.bias
    pack_floats(workload, &s.weights, d.weights, bias, ROWS_AHEAD, name, kernels)
    if s.kind != ACC_GRU or s.reset_after:
        pack_floats(workload, &s.recurrent, d.recurrent_weights, own, s.batch, name, kernels)
    else:
        first, last = d.recurrent_weights[:2 * units], d.recurrent_weights[2 * units:]
        pack_floats(workload, &s.recurrent, first, None if own is None else own[:2 * units], s.batch, name, kernels)
        pack_floats(workload, &s.candidate, last, None if own is None else own[2 * units:], s.batch, name, kernels)
    s.projects = d.projection_weights is not None
    if s.projects:
        pack_floats(workload, &s.projected, d.projection_weights, d.projection_bias, s.batch, name, kernels)
    s.peepholes = NULL if d.peepholes is None else keep(workload, d.peepholes)
    s.normalization = NULL if d.normalization is None else keep(workload, d.normalization)
    s.bias = NULL if d.normalization is None or d.bias is None else keep(workload, d.bias)
    return 0


cdef int fill_places(Workload workload, acc_recurrence *s, int64_t lanes) except -1:
    cdef int64_t rows = min(s.ahead, s.steps) * s.batch
    s.made_step = max(s.candidate.step, s.projected.step) // 4
    s.rows_place = take(workload, rows * s.weights.step) // 4
    s.given_place = take(workload, rows * s.weights.vectors * lanes * 4) // 4
    s.sums_place = take(workload, s.batch * s.recurrent.vectors * lanes * 4) // 4
    s.later_place = take(workload, s.batch * max(s.candidate.vectors, s.projected.vectors) * lanes * 4) // 4
    s.hidden_place = take(workload, s.batch * s.recurrent.step) // 4
    s.made_place = take(workload, s.batch * s.made_step * 4) // 4
    s.cell_place = take(workload, s.batch * s.units * 4 if s.kind == ACC_LSTM else 0) // 4
    return 0


def create(layer, Kernels kernels):
    """Return the workload of a `Recurrence`."""
    d, infos = layer.descriptor, layer.input_infos
    cdef Workload workload = new_workload(sizeof(acc_recurrence), len(infos), len(layer.outputs))
    cdef acc_recurrence *s = <acc_recurrence *>workload.state.parameters
    fill_attributes(s, d)
    s.steps, s.batch, s.inputs = infos[0].sizes
    if d.batch_first:
        s.steps, s.batch = s.batch, s.steps
    s.hidden, s.units = d.recurrent_weights.shape[1], d.weights.shape[0] // d.gates
    if s.batch == 0:
        return workload.capsule()
    s.initial_hidden, s.initial_cell = (
        number if number < len(infos) and infos[number] is not None else -1 for number in (1, 2))
    s.ahead = max(ROWS_AHEAD // s.batch, <int64_t>1)
    fill_matrices(workload, s, d, layer.name, kernels)
    s.shares_inputs = s.weights.shares and min(s.ahead, s.steps) * s.batch * 4 > ROWS_AHEAD
    s.shares_gates = s.batch > 1 and s.batch * s.units * 2.0 > WORTH_SHARING
    fill_places(workload, s, kernels.table.lanes)
    workload.phase(kernels.table.recurrent.recurrence, 1, 0.0)
    return workload.capsule()
