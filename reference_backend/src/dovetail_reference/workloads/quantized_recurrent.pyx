"""QuantizedLstm: the steps of one sequence after the other, bit for bit as TensorFlow Lite's.

Source: tensorflow/lite/kernels/lstm_eval.cc (EvalInteger8x8_16), unidirectional_sequence_lstm.cc
(PopulateQuantizedLstmParams8x8_16), internal/reference/portable_tensor_utils.cc. Scales are
multiplied in float32, as there; sums wrap where its own are undefined.
"""

from libc.math cimport log2
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint32_t
from libc.string cimport memcpy

from dovetail.abi cimport dovetail_call, tensor_data
from dovetail_reference.workloads.fixed_point cimport fixed_logistic, fixed_tanh, inverse_square_root, saturate_int16
from dovetail_reference.workloads.requantize cimport clamp_int32, requantization, requantization_of, requantize
from dovetail_reference.workloads.requantize cimport rounding_divide_by_power_of_two
from dovetail_reference.workloads.walking cimport errand, go_on, new_errand
from dovetail_reference.workloads.workload cimport new_workload, state_of, stated_workspace, workload_of


cdef enum:
    INPUT
    FORGET
    CELL
    OUTPUT
    GATES

cdef struct Gate:
    # Numbers of inputs, or -1.
    int weights
    int recurrent
    int bias
    int peepholes
    int normalization
    requantization of_input
    requantization of_hidden
    requantization of_cell
    requantization of_norm
    int32_t least_variance

cdef struct State:
    size_t workspace
    bint batch_first
    int64_t steps
    int64_t batch
    int64_t inputs          # elements of a step
    int64_t units
    int64_t hidden          # elements of the hidden state
    Gate gates[GATES]
    int32_t input_zero
    int32_t hidden_zero
    int32_t made_zero
    int cell_bits           # integer ones of the cell's numbers
    int32_t cell_clip       # 0: none
    int32_t projection_clip
    requantization of_made
    requantization of_projection
    int projection          # number of the input, or -1
    int projection_bias

# What one run has at hand.
cdef struct Run:
    errand pace
    int32_t *begins         # [gates][2][units]: what sums of inputs and of hidden values begin with
    int32_t *projected      # [hidden]
    int16_t *values         # [gates][units]
    int8_t *made            # [units]
    int16_t *cell           # of the sequence at hand
    int8_t *state


cdef inline const void *input_at(const Run *run, int index) noexcept nogil:
    return tensor_data(&run.pace.call.inputs[index]) if index >= 0 else NULL


cdef void find_begins(
    Run *run, const int8_t *weights, const int32_t *bias, int32_t zero, int64_t rows, int64_t n, int32_t *begins
) noexcept nogil:
    """A bias, less the zero point of what is multiplied times the sum of each row of weights."""
    cdef int64_t row, k
    cdef uint32_t total
    for row in range(rows):
        if not go_on(&run.pace, n):
            return
        total = 0
        for k in range(n):
            total += <uint32_t><int32_t>weights[row * n + k]
        begins[row] = <int32_t>(<uint32_t>(bias[row] if bias != NULL else 0) - <uint32_t>zero * total)


cdef inline int32_t dot(const int8_t *x, const int8_t *weights, int64_t n, int32_t begin) noexcept nogil:
    cdef uint32_t total = <uint32_t>begin
    cdef int64_t k
    for k in range(n):
        total += <uint32_t>(<int32_t>x[k] * <int32_t>weights[k])
    return <int32_t>total


cdef void multiply(
    const State *s, Run *run, const int8_t *x, const int8_t *weights, int64_t n, const int32_t *begins,
    requantization by, int16_t *values,
) noexcept nogil:
    """Add scaled sums of products to the values of a gate."""
    cdef int64_t row
    for row in range(s.units):
        if not go_on(&run.pace, n + 16):
            return
        values[row] = saturate_int16(<int64_t>requantize(dot(x, weights + row * n, n, begins[row]), by) + values[row])


cdef void normalize(const State *s, const Gate *gate, const Run *run, int16_t *values) noexcept nogil:
    """Normalize over the units: deviations in 1024ths, times factors, plus a bias."""
    cdef const int16_t *factors = <const int16_t *>input_at(run, gate.normalization)
    cdef const int32_t *bias = <const int32_t *>input_at(run, gate.bias)
    cdef int64_t i, total = 0, squares = 0, weighed
    cdef int32_t mean, variance, deviation
    cdef requantization by, last = gate.of_norm
    for i in range(s.units):
        total += values[i]
        squares += <int64_t>values[i] * values[i]
    mean = <int32_t>(total * 1024 / s.units)
    variance = <int32_t>((squares * ((1 << 20) / s.units) - <int64_t>mean * mean) / (1 << 20))
    by = inverse_square_root(variance if variance >= 1 else gate.least_variance)
    last.shift += 12
    for i in range(s.units):
        deviation = requantize(1024 * <int32_t>values[i] - mean, by)
        weighed = <int32_t>(<uint32_t>deviation * <uint32_t><int32_t>factors[i] + <uint32_t>bias[i])
        weighed = (weighed + (512 if weighed > 0 else -512)) / 1024
        values[i] = saturate_int16(requantize(<int32_t>weighed, last))


cdef void make_gate(const State *s, Run *run, int which, const int8_t *x) noexcept nogil:
    """Compute what a gate lets through, or, that of the cell, has to offer."""
    cdef const Gate *gate = &s.gates[which]
    cdef const int32_t *begins = run.begins + 2 * which * s.units
    cdef int16_t *values = run.values + which * s.units
    cdef const int16_t *sight = <const int16_t *>input_at(run, gate.peepholes)
    cdef int64_t i
    for i in range(s.units):
        values[i] = 0
    multiply(s, run, x, <const int8_t *>input_at(run, gate.weights), s.inputs, begins, gate.of_input, values)
    begins += s.units
    multiply(s, run, run.state, <const int8_t *>input_at(run, gate.recurrent), s.hidden, begins, gate.of_hidden, values)
    if not go_on(&run.pace, 32 * s.units):
        return
    for i in range(s.units if sight != NULL else 0):
        values[i] = saturate_int16(<int64_t>requantize(<int32_t>sight[i] * run.cell[i], gate.of_cell) + values[i])
    if gate.normalization >= 0 and s.units:
        normalize(s, gate, run, values)
    for i in range(s.units):
        values[i] = fixed_tanh(values[i], 3) if which == CELL else fixed_logistic(values[i])


cdef void renew_cell(const State *s, Run *run) noexcept nogil:
    cdef const int16_t *given = run.values + INPUT * s.units
    cdef const int16_t *kept = run.values + FORGET * s.units
    cdef const int16_t *fresh = run.values + CELL * s.units
    cdef int32_t old, new
    cdef int64_t i
    for i in range(s.units):
        old = rounding_divide_by_power_of_two(<int32_t>kept[i] * run.cell[i], 15)
        new = <int32_t>given[i] if s.gates[INPUT].weights >= 0 else 32767 - kept[i]
        new = rounding_divide_by_power_of_two(new * fresh[i], 15 + s.cell_bits)
        run.cell[i] = saturate_int16(old + new)
        if s.cell_clip > 0:
            run.cell[i] = <int16_t>clamp_int32(run.cell[i], -s.cell_clip, s.cell_clip)


cdef void renew_state(const State *s, Run *run) noexcept nogil:
    """The hidden values of what the output gate lets out of the cell."""
    cdef const int16_t *gate = run.values + OUTPUT * s.units
    cdef const int8_t *weights = <const int8_t *>input_at(run, s.projection)
    # Before a projection the zero point is subtracted, and its products are added with the bias.
    cdef int32_t zero = s.made_zero if weights == NULL else -s.made_zero
    cdef int8_t *made = run.state if weights == NULL else run.made
    cdef int64_t i, value
    for i in range(s.units):
        value = requantize(<int32_t>gate[i] * fixed_tanh(run.cell[i], s.cell_bits), s.of_made)
        made[i] = <int8_t>max(<int64_t>-128, min(<int64_t>127, value + zero))
    for i in range(s.hidden if weights != NULL else 0):
        if not go_on(&run.pace, s.units):
            return
        value = requantize(dot(made, weights + i * s.units, s.units, run.projected[i]), s.of_projection)
        run.state[i] = <int8_t>max(<int64_t>-128, min(<int64_t>127, value + s.hidden_zero))
        if s.projection_clip > 0:
            run.state[i] = <int8_t>clamp_int32(run.state[i], -s.projection_clip, s.projection_clip)


cdef void step(const State *s, Run *run, const int8_t *x) noexcept nogil:
    cdef int which
    for which in range(OUTPUT):
        if s.gates[which].weights >= 0:
            make_gate(s, run, which, x)
    if go_on(&run.pace, s.units):
        renew_cell(s, run)
        make_gate(s, run, OUTPUT, x)
    if go_on(&run.pace, 16 * s.units):
        renew_state(s, run)


cdef void prepare(const State *s, Run *run) noexcept nogil:
    """Find what sums begin with; what is normalized takes its bias later."""
    cdef const Gate *gate
    cdef const int32_t *bias
    cdef int32_t *begins
    cdef int which
    for which in range(GATES):
        gate, begins = &s.gates[which], run.begins + 2 * which * s.units
        if gate.weights < 0:
            continue
        bias = <const int32_t *>input_at(run, gate.bias) if gate.normalization < 0 else NULL
        find_begins(run, <const int8_t *>input_at(run, gate.weights), bias, s.input_zero, s.units, s.inputs, begins)
        begins += s.units
        find_begins(run, <const int8_t *>input_at(run, gate.recurrent), NULL, s.hidden_zero, s.units, s.hidden, begins)
    if s.projection >= 0:
        bias = <const int32_t *>input_at(run, s.projection_bias)
        find_begins(run, <const int8_t *>input_at(run, s.projection), bias, -s.made_zero, s.hidden, s.units, run.projected)


cdef int execute(void *state, const dovetail_call *call) noexcept nogil:
    cdef const State *s = <const State *>state
    cdef Run run
    cdef const int8_t *x
    cdef int8_t *sequence
    cdef int64_t b, t, row
    run.pace = new_errand(call)
    run.begins = <int32_t *>call.workspace
    run.projected = run.begins + 2 * GATES * s.units
    run.values = <int16_t *>(run.projected + s.hidden)
    run.made = <int8_t *>(run.values + GATES * s.units)
    if s.batch == 0:
        return run.pace.code
    prepare(s, &run)
    for b in range(s.batch):
        if not go_on(&run.pace, s.units + s.hidden):
            break
        run.state = <int8_t *>tensor_data(&call.outputs[1]) + b * s.hidden
        run.cell = <int16_t *>tensor_data(&call.outputs[2]) + b * s.units
        memcpy(run.state, <const int8_t *>input_at(&run, 1) + b * s.hidden, s.hidden)
        memcpy(run.cell, <const int16_t *>input_at(&run, 2) + b * s.units, s.units * sizeof(int16_t))
        for t in range(s.steps):
            if not go_on(&run.pace, 16 + s.hidden):
                break
            row = b * s.steps + t if s.batch_first else t * s.batch + b
            x = <const int8_t *>input_at(&run, 0) + row * s.inputs
            sequence = <int8_t *>tensor_data(&call.outputs[0]) + row * s.hidden
            step(s, &run, x)
            memcpy(sequence, run.state, s.hidden)
    return run.pace.code


# -- preparation -----------------------------------------------------------------------------------


cdef requantization scaling(double factor):
    """A factor; beyond 2^18, TensorFlow Lite's shifts are undefined."""
    return requantization_of(min(factor, <double>(1 << 18)))


cdef double product_over(float a, float b, float result):
    """`a * b / result` in float32."""
    cdef float product = a * b
    return <double><float>(product / result)


cdef class Reader:
    """Numbers of a layer's inputs, and their scales."""

    cdef object layer

    def __init__(self, layer):
        self.layer = layer

    cdef int number(self, str name) except -2:
        index = self.layer.descriptor.input_names.index(name)
        return index if index < len(self.layer.inputs) and self.layer.inputs[index].source is not None else -1

    cdef double scale(self, str name) except -1.0:
        return self.layer.input_infos[self.number(name)].quantization.scale[0]


cdef int fill_gate(Gate *gate, Reader reader, str name, double scale, double cell_scale) except -1:
    """Numbers and factors of a gate whose values have a scale."""
    cdef float norm_scale = 1.0
    gate.weights, gate.recurrent = reader.number(f"{name}_weights"), reader.number(f"{name}_recurrent_weights")
    gate.bias, gate.normalization = reader.number(f"{name}_bias"), reader.number(f"{name}_normalization")
    gate.peepholes = -1 if name == "cell" else reader.number(f"{name}_peepholes")
    if gate.weights < 0:
        return 0
    gate.of_input = scaling(product_over(reader.scale(f"{name}_weights"), reader.scale("input"), scale))
    gate.of_hidden = scaling(product_over(reader.scale(f"{name}_recurrent_weights"), reader.scale("initial_hidden"), scale))
    if gate.peepholes >= 0:
        gate.of_cell = scaling(<float>(cell_scale * <float>reader.scale(f"{name}_peepholes") / <float>scale))
    if gate.normalization >= 0:
        norm_scale = reader.scale(f"{name}_normalization")
    gate.of_norm = scaling(norm_scale)
    gate.least_variance = max(1, int(min(<float>10000 * norm_scale, 2.0**30)))
    return 0


cdef int32_t limit(object clip, double scale, int most):
    """A limit in the integers of a scale; 0 for none."""
    cdef float found
    if clip is None:
        return 0
    found = <float>min(clip, 3.0e38) / <float>scale
    return <int32_t>min(found, <float>most)


def create(layer, dtype):
    """Make the workload capsule."""
    descriptor, infos = layer.descriptor, layer.input_infos
    capsule = new_workload(execute, sizeof(State))
    cdef State *s = <State *>state_of(capsule)
    cdef Reader reader = Reader(layer)
    cdef double cell_scale = reader.scale("initial_cell"), hidden_scale = reader.scale("initial_hidden"), made_scale = hidden_scale
    cdef int which
    s.batch_first = descriptor.batch_first
    s.steps, s.batch = descriptor.steps_and_batch(infos)
    s.inputs, s.hidden, s.units = infos[0].sizes[2], infos[1].sizes[1], infos[2].sizes[1]
    s.input_zero, s.hidden_zero = infos[0].quantization.zero_point[0], infos[1].quantization.zero_point[0]
    s.made_zero = s.hidden_zero
    if descriptor.hidden_scale is not None:
        made_scale, s.made_zero = descriptor.hidden_scale, descriptor.hidden_zero_point
    s.cell_bits = 15 + <int>log2(cell_scale)
    normalizes = reader.number("forget_normalization") >= 0
    for which, name in enumerate(("input", "forget", "cell", "output")):
        fill_gate(&s.gates[which], reader, name, descriptor.gate_scales[which] if normalizes else 2.0**-12, cell_scale)
    s.of_made = scaling(<float>(2.0**-15 / <float>made_scale * 2.0**-15))
    s.projection, s.projection_bias = reader.number("projection_weights"), reader.number("projection_bias")
    if s.projection >= 0:
        s.of_projection = scaling(product_over(reader.scale("projection_weights"), made_scale, hidden_scale))
    s.cell_clip = limit(descriptor.cell_clip, cell_scale, 32767)
    s.projection_clip = limit(descriptor.projection_clip, hidden_scale, 127)
    units, hidden = int(s.units), int(s.hidden)
    s.workspace = 4 * (2 * GATES * units + hidden) + 2 * GATES * units + units if s.batch else 0
    workload_of(capsule).workspace = stated_workspace
    return capsule
