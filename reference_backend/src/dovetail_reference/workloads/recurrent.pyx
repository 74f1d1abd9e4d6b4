"""Recurrent layers: Rnn, Gru and Lstm, over sequences.

Inputs of many steps are multiplied at once, on the packed tiles of `product.h`; recurrent weights
are packed once per run. States and sums are double from the first step to the last; what comes out
is rounded once. A step changes no sequence whose length it exceeds.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy, memset

from dovetail.abi cimport DOVETAIL_FAILED, DOVETAIL_OK, dovetail_call, tensor_data
from dovetail_reference.workloads.activations cimport FusedFunction, activation_code
from dovetail_reference.workloads.elements cimport FLOAT64, INT64, Element, element_of, real
from dovetail_reference.workloads.gates cimport Matrix, add_products, add_tile, finish_gate, pack_matrix, pack_panel
from dovetail_reference.workloads.gates cimport panels_of, within
from dovetail_reference.workloads.positions cimport clear_bytes, load_position
from dovetail_reference.workloads.product cimport DEPTH_AT_ONCE, TILE_COLUMNS, TILE_ROWS, product_double
from dovetail_reference.workloads.walking cimport errand, go_on, new_errand
from dovetail_reference.workloads.workload cimport new_workload, state_of, stated_workspace, workload_of

from dovetail.layers import GateCoupling, Gru, Lstm


cdef enum:
    ROWS_AHEAD = 64     # rows of the input that are multiplied at once, if a step has fewer
    VECTORS = 5


# Operands of one number per unit and gate, or per hidden value: where they are in the workspace.
cdef enum:
    BIAS
    RECURRENT_BIAS
    PEEPHOLES
    NORMALIZATION
    PROJECTION_BIAS


cdef struct State:
    size_t workspace        # bytes; of the places below: doubles
    bint doubles            # element type of all tensors but the lengths
    bint batch_first
    bint reverse
    int64_t steps
    int64_t batch
    int64_t inputs          # elements of a step
    int64_t units
    int64_t hidden          # elements of the hidden state
    int64_t gates
    int64_t ahead           # steps whose inputs are multiplied at once
    Element index           # element type of the lengths
    int lengths             # number of the input, or -1; so are the next ones
    int initial_hidden
    int initial_cell
    int projection
    int vectors[VECTORS]
    int64_t vector_sizes[VECTORS]
    int64_t vector_places[VECTORS]
    Matrix weights          # not packed as a whole
    Matrix recurrent
    Matrix candidate        # of a GRU: the recurrent weights of its candidate
    Matrix projected
    int64_t packed_rows
    int64_t sums            # [ahead * batch][gates * units]
    int64_t made            # [batch][units]: what is projected, or the hidden state that a reset gate scaled
    int64_t recent          # [batch][hidden]
    int64_t hidden_place    # [batch][hidden]
    int64_t cell_place      # [batch][units]
    # Functions, and where the gates stand among the blocks of rows; -1: coupled to another one.
    FusedFunction gate
    FusedFunction cell
    FusedFunction output
    int input_gate
    int output_gate
    int forget_gate
    bint reset_after
    double gate_clip
    double cell_clip
    double projection_clip
    double epsilon


# What one run has at hand.
cdef struct Run:
    errand pace
    double *room
    int64_t step
    double *sums            # of this step: [batch][gates * units]
    double *hidden
    double *cell
    double *made
    double *recent


ctypedef void (*step_function)(const State *s, Run *run) noexcept nogil


cdef void load(bint doubles, const dovetail_call *call, int index, double *target, int64_t n, errand *pace) noexcept nogil:
    """Convert an operand; zeros if it is not there."""
    cdef const void *source = tensor_data(&call.inputs[index]) if index >= 0 else NULL
    cdef int64_t i
    for i in range(n):
        if i % 4096 == 0 and not go_on(pace, min(<int64_t>4096, n - i)):
            return
        if index < 0:
            target[i] = 0.0
        else:
            target[i] = (<const double *>source)[i] if doubles else (<const float *>source)[i]


cdef void store(
    bint doubles, const double *values, void *output, int64_t offset, int64_t n, errand *pace
) noexcept nogil:
    """Round numbers into an output, from an element on."""
    cdef int64_t i
    for i in range(n):
        if i % 4096 == 0 and not go_on(pace, min(<int64_t>4096, n - i)):
            return
        if doubles:
            (<double *>output)[offset + i] = values[i]
        else:
            (<float *>output)[offset + i] = <float>values[i]


cdef const double *vector_at(const State *s, const Run *run, int which, int64_t block) noexcept nogil:
    """An operand's part for a block of units, or NULL if it is not there."""
    return NULL if s.vectors[which] < 0 else run.room + s.vector_places[which] + block * s.units


cdef int64_t length_of(const State *s, const dovetail_call *call, int64_t b) noexcept nogil:
    """Steps of a sequence."""
    if s.lengths < 0:
        return s.steps
    return load_position(s.index, <const char *>tensor_data(&call.inputs[s.lengths]) + b * (4 if s.index != INT64 else 8))


cdef int64_t row_of(const State *s, const dovetail_call *call, int64_t step, int64_t b) noexcept nogil:
    """The row of the input that a sequence reads in a step; -1 if it has ended."""
    cdef int64_t length = length_of(s, call, b)
    if step >= length:
        return -1
    step = length - 1 - step if s.reverse else step
    return b * s.steps + step if s.batch_first else step * s.batch + b


cdef bint runs(const State *s, const Run *run, int64_t b) noexcept nogil:
    """Say whether a sequence has a step left."""
    return run.step < length_of(s, run.pace.call, b)


cdef void check_lengths(const State *s, errand *pace) noexcept nogil:
    """Fail the run if a sequence has a length that there is not."""
    cdef char message[128]
    cdef int64_t b, length
    for b in range(s.batch if s.lengths >= 0 else 0):
        length = length_of(s, pace.call, b)
        if not 0 <= length <= s.steps:
            snprintf(
                message, sizeof(message), "length %lld of sequence %lld is not within the %lld steps",
                <long long>length, <long long>b, <long long>s.steps,
            )
            pace.code = pace.call.host.fail(pace.call, DOVETAIL_FAILED, message)
            return


cdef void pack_inputs(
    const State *s, const dovetail_call *call, const real *x, int64_t first, int64_t row, int64_t begin, int64_t n,
    double *packed,
) noexcept nogil:
    """Convert part of TILE_ROWS rows of the input, counted from the step `first`."""
    cdef int64_t r, k, at
    for r in range(TILE_ROWS):
        at = row_of(s, call, first + (row + r) // s.batch, (row + r) % s.batch)
        for k in range(n):
            packed[k * TILE_ROWS + r] = <double>x[at * s.inputs + begin + k] if at >= 0 else 0.0


cdef void multiply_part(
    const State *s, Run *run, const real *x, const real *weights, int64_t first, int64_t rows, int64_t panel, int64_t begin
) noexcept nogil:
    """Multiply a part of the depth of all rows of inputs by one panel."""
    cdef double sums[64]    # TILE_ROWS x TILE_COLUMNS
    cdef int64_t tile, row, n = min(<int64_t>DEPTH_AT_ONCE, s.inputs - begin), stride = s.weights.lines
    cdef double *packed = run.room + s.packed_rows
    cdef double *panels = run.room + s.weights.place
    pack_panel(&s.weights, panel, begin, n, weights, panels)
    for tile in range((rows + TILE_ROWS - 1) // TILE_ROWS):
        row = tile * TILE_ROWS
        if not go_on(&run.pace, n):
            return
        pack_inputs(s, run.pace.call, x, first, row, begin, n, packed)
        product_double(n, packed, panels, sums, 0)
        add_tile(
            sums, min(<int64_t>TILE_ROWS, rows - row), min(<int64_t>TILE_COLUMNS, stride - panel * TILE_COLUMNS),
            run.room + s.sums + row * stride + panel * TILE_COLUMNS, stride,
        )


cdef void multiply_inputs(const State *s, Run *run, int64_t first) noexcept nogil:
    """Multiply the inputs of some steps by the weights."""
    cdef const void *x = tensor_data(&run.pace.call.inputs[0])
    cdef const void *weights = tensor_data(&run.pace.call.inputs[1])
    cdef int64_t rows = min(s.ahead, s.steps - first) * s.batch, panel, begin
    clear_bytes(<char *>(run.room + s.sums), rows * s.weights.lines * sizeof(double), &run.pace)
    for panel in range(panels_of(s.weights.lines)):
        begin = 0
        while begin < s.inputs and run.pace.code == DOVETAIL_OK:
            if s.doubles:
                multiply_part(s, run, <const double *>x, <const double *>weights, first, rows, panel, begin)
            else:
                multiply_part(s, run, <const float *>x, <const float *>weights, first, rows, panel, begin)
            begin += DEPTH_AT_ONCE


cdef void add_state(const State *s, Run *run, const Matrix *m, const double *rows, double *out, int64_t stride) noexcept nogil:
    """Add a state of all sequences, times a packed matrix."""
    add_products(m, run.room + m.place, rows, s.batch, run.room + s.packed_rows, out, stride, &run.pace)


cdef void step_rnn(const State *s, Run *run) noexcept nogil:
    cdef int64_t b
    add_state(s, run, &s.recurrent, run.hidden, run.sums, s.units)
    for b in range(s.batch):
        if not go_on(&run.pace, s.units):
            return
        if runs(s, run, b):
            finish_gate(
                run.sums + b * s.units, s.units, NULL, 0.0, vector_at(s, run, BIAS, 0), s.gate_clip, &s.output,
                &run.pace,
            )
            memcpy(run.hidden + b * s.units, run.sums + b * s.units, s.units * sizeof(double))


cdef void finish_gru(const State *s, Run *run, int64_t b) noexcept nogil:
    """The candidate of one sequence, and its new hidden state."""
    cdef double *update = run.sums + b * s.gates * s.units
    cdef double *reset = update + s.units
    cdef double *candidate = reset + s.units
    cdef double *hidden = run.hidden + b * s.units
    cdef const double *recent = run.recent + b * s.units
    cdef const double *bias = vector_at(s, run, RECURRENT_BIAS, 2)
    cdef double addend
    cdef int64_t i
    for i in range(s.units):
        addend = recent[i] + (bias[i] if bias != NULL else 0.0)
        candidate[i] += reset[i] * addend if s.reset_after else addend
    finish_gate(candidate, s.units, NULL, 0.0, vector_at(s, run, BIAS, 2), s.gate_clip, &s.output, &run.pace)
    for i in range(s.units):
        hidden[i] = (1.0 - update[i]) * candidate[i] + update[i] * hidden[i]


cdef void step_gru(const State *s, Run *run) noexcept nogil:
    cdef int64_t b, i, at, block
    cdef double *reset
    cdef const double *bias
    add_state(s, run, &s.recurrent, run.hidden, run.sums, s.gates * s.units)
    for b in range(s.batch):
        for block in range(2):
            at = (b * s.gates + block) * s.units
            bias = vector_at(s, run, RECURRENT_BIAS, block)
            if not go_on(&run.pace, s.units):
                return
            for i in range(s.units if bias != NULL else 0):
                run.sums[at + i] += bias[i]
            finish_gate(
                run.sums + at, s.units, NULL, 0.0, vector_at(s, run, BIAS, block), s.gate_clip, &s.gate, &run.pace
            )
        reset = run.sums + (b * s.gates + 1) * s.units
        for i in range(s.units):
            at = b * s.units + i
            run.made[at] = run.hidden[at] if s.reset_after else reset[i] * run.hidden[at]
    clear_bytes(<char *>run.recent, s.batch * s.units * sizeof(double), &run.pace)
    add_state(s, run, &s.candidate, run.made, run.recent, s.units)
    for b in range(s.batch):
        if not go_on(&run.pace, s.units):
            return
        if runs(s, run, b):
            finish_gru(s, run, b)


cdef void make_gate(
    const State *s, Run *run, int64_t b, int block, int peephole, const FusedFunction *function
) noexcept nogil:
    """Finish a gate of one sequence; `peephole` counts those that see the cell, -1: it does not."""
    cdef double *values = run.sums + (b * s.gates + block) * s.units
    cdef const double *sight = NULL if peephole < 0 else vector_at(s, run, PEEPHOLES, peephole)
    cdef const double *cell = run.cell + b * s.units
    cdef int64_t i
    if not go_on(&run.pace, s.units):
        return
    for i in range(s.units if sight != NULL else 0):
        values[i] += sight[i] * cell[i]
    finish_gate(
        values, s.units, vector_at(s, run, NORMALIZATION, block), s.epsilon, vector_at(s, run, BIAS, block), s.gate_clip,
        function, &run.pace,
    )


cdef void renew_cell(const State *s, Run *run, int64_t b) noexcept nogil:
    """The new cell state of one sequence, of its gates."""
    cdef const double *sums = run.sums + b * s.gates * s.units
    cdef const double *given = sums + s.input_gate * s.units
    cdef const double *kept = sums + s.forget_gate * s.units
    cdef const double *fresh = sums + (s.gates - 1) * s.units
    cdef double *cell = run.cell + b * s.units
    cdef double keep, take
    cdef int64_t i
    for i in range(s.units):
        keep = 1.0 - given[i] if s.forget_gate < 0 else kept[i]
        take = 1.0 - kept[i] if s.input_gate < 0 else given[i]
        cell[i] = within(keep * cell[i] + take * fresh[i], s.cell_clip)


cdef void make_output(const State *s, Run *run, int64_t b) noexcept nogil:
    """What the output gate lets out of the cell of one sequence."""
    cdef const double *gate = run.sums + (b * s.gates + s.output_gate) * s.units
    cdef const double *cell = run.cell + b * s.units
    cdef double *made = run.made + b * s.units
    cdef int64_t i
    memcpy(made, cell, s.units * sizeof(double))
    finish_gate(made, s.units, NULL, 0.0, NULL, INFINITY, &s.output, &run.pace)
    for i in range(s.units):
        made[i] *= gate[i]


cdef void project(const State *s, Run *run) noexcept nogil:
    """Hidden states of what came out of the cells, projected if there are weights for it."""
    cdef const double *bias = vector_at(s, run, PROJECTION_BIAS, 0)
    cdef int64_t b, i, at
    if s.projection >= 0:
        clear_bytes(<char *>run.recent, s.batch * s.hidden * sizeof(double), &run.pace)
        add_state(s, run, &s.projected, run.made, run.recent, s.hidden)
    for b in range(s.batch):
        if not go_on(&run.pace, s.hidden):
            return
        if not runs(s, run, b):
            continue
        at = b * s.hidden
        for i in range(s.hidden):
            if s.projection < 0:
                run.hidden[at + i] = run.made[at + i]
            else:
                run.hidden[at + i] = within(run.recent[at + i] + (bias[i] if bias != NULL else 0.0), s.projection_clip)


cdef void step_lstm(const State *s, Run *run) noexcept nogil:
    cdef int64_t b
    add_state(s, run, &s.recurrent, run.hidden, run.sums, s.gates * s.units)
    for b in range(s.batch):
        if not go_on(&run.pace, 1):
            return
        if not runs(s, run, b):
            continue
        if s.input_gate >= 0:
            make_gate(s, run, b, s.input_gate, s.input_gate, &s.gate)
        if s.forget_gate >= 0:
            make_gate(s, run, b, s.forget_gate, s.forget_gate, &s.gate)
        make_gate(s, run, b, <int>s.gates - 1, -1, &s.cell)
        renew_cell(s, run, b)
        make_gate(s, run, b, s.output_gate, s.output_gate, &s.gate)
        make_output(s, run, b)
    project(s, run)


cdef void store_step(const State *s, Run *run) noexcept nogil:
    """Write the hidden states of a step into the sequence."""
    cdef void *sequence = tensor_data(&run.pace.call.outputs[0])
    cdef int64_t b, row
    for b in range(s.batch):
        row = row_of(s, run.pace.call, run.step, b)
        if row >= 0:
            store(s.doubles, run.hidden + b * s.hidden, sequence, row * s.hidden, s.hidden, &run.pace)


cdef void pack_state_matrix(const State *s, Run *run, const Matrix *m, int index) noexcept nogil:
    """Pack weights that states are multiplied by."""
    cdef const void *weights = tensor_data(&run.pace.call.inputs[index])
    if s.doubles:
        pack_matrix(m, <const double *>weights, run.room + m.place, &run.pace)
    else:
        pack_matrix(m, <const float *>weights, run.room + m.place, &run.pace)


cdef void prepare(const State *s, Run *run) noexcept nogil:
    """Convert what every step needs, and the states before the first one."""
    cdef const dovetail_call *call = run.pace.call
    cdef int64_t item = sizeof(double) if s.doubles else sizeof(float)
    cdef int which
    check_lengths(s, &run.pace)
    for which in range(VECTORS):
        if s.vectors[which] >= 0:
            load(s.doubles, call, s.vectors[which], run.room + s.vector_places[which], s.vector_sizes[which], &run.pace)
    pack_state_matrix(s, run, &s.recurrent, 2)
    pack_state_matrix(s, run, &s.candidate, 2)
    if s.projection >= 0:
        pack_state_matrix(s, run, &s.projected, s.projection)
    load(s.doubles, call, s.initial_hidden, run.hidden, s.batch * s.hidden, &run.pace)
    load(s.doubles, call, s.initial_cell, run.cell, s.batch * s.units, &run.pace)
    if s.lengths >= 0:      # what no step writes
        clear_bytes(<char *>tensor_data(&call.outputs[0]), s.steps * s.batch * s.hidden * item, &run.pace)


cdef int run_steps(const State *s, const dovetail_call *call, step_function advance) noexcept nogil:
    """Run all steps, and store the last states."""
    cdef Run run
    memset(&run, 0, sizeof(run))
    run.pace, run.room = new_errand(call), <double *>call.workspace
    run.hidden, run.cell = run.room + s.hidden_place, run.room + s.cell_place
    run.made, run.recent = run.room + s.made, run.room + s.recent
    if s.batch == 0:
        return DOVETAIL_OK
    prepare(s, &run)
    for run.step in range(s.steps):
        if not go_on(&run.pace, 16):    # a step takes some time even if nothing has elements
            break
        if run.step % s.ahead == 0:
            multiply_inputs(s, &run, run.step)
        run.sums = run.room + s.sums + run.step % s.ahead * s.batch * s.weights.lines
        advance(s, &run)
        if run.pace.code == DOVETAIL_OK:
            store_step(s, &run)
    if run.pace.code == DOVETAIL_OK:
        store(s.doubles, run.hidden, tensor_data(&call.outputs[1]), 0, s.batch * s.hidden, &run.pace)
        if call.n_outputs > 2:
            store(s.doubles, run.cell, tensor_data(&call.outputs[2]), 0, s.batch * s.units, &run.pace)
    return run.pace.code


cdef int execute_rnn(void *opaque, const dovetail_call *call) noexcept nogil:
    return run_steps(<const State *>opaque, call, step_rnn)


cdef int execute_gru(void *opaque, const dovetail_call *call) noexcept nogil:
    return run_steps(<const State *>opaque, call, step_gru)


cdef int execute_lstm(void *opaque, const dovetail_call *call) noexcept nogil:
    return run_steps(<const State *>opaque, call, step_lstm)


cdef FusedFunction function_of(object descriptor, str name) except *:
    """The function of a descriptor's attributes `<name>_activation`, `_alpha` and `_beta`."""
    cdef FusedFunction result
    result.code = activation_code(getattr(descriptor, f"{name}_activation"))
    result.alpha, result.beta = getattr(descriptor, f"{name}_alpha"), getattr(descriptor, f"{name}_beta")
    return result


def connected(layer, name):
    """Return the number of an input, or -1 if the layer has none of this name."""
    names = layer.descriptor.input_names
    index = names.index(name) if name in names else len(layer.inputs)
    return index if index < len(layer.inputs) and layer.inputs[index].source is not None else -1


cdef void fill_gates(State *s, object descriptor) except *:
    """Functions and limits, and in which order the gates of an LSTM stand."""
    s.output = function_of(descriptor, "hidden")
    s.gate_clip = INFINITY if descriptor.gate_clip is None else descriptor.gate_clip
    if isinstance(descriptor, (Gru, Lstm)):
        s.gate = function_of(descriptor, "gate")
    if isinstance(descriptor, Gru):
        s.reset_after = descriptor.reset_after
    if isinstance(descriptor, Lstm):
        s.cell, s.epsilon = function_of(descriptor, "cell"), descriptor.epsilon
        s.cell_clip = INFINITY if descriptor.cell_clip is None else descriptor.cell_clip
        s.projection_clip = INFINITY if descriptor.projection_clip is None else descriptor.projection_clip
        s.input_gate, s.output_gate, s.forget_gate = {
            GateCoupling.NONE: (0, 1, 2),
            GateCoupling.FORGET: (0, 1, -1),
            GateCoupling.INPUT: (-1, 0, 1),
        }[descriptor.coupling]


cdef void fill_sizes(State *s, object layer) except *:
    """Sizes, and which operands are there."""
    descriptor, infos = layer.descriptor, layer.input_infos
    s.steps, s.batch = descriptor.steps_and_batch(infos)
    s.batch_first, s.reverse, s.gates = descriptor.batch_first, descriptor.reverse, descriptor.gates
    s.inputs, s.hidden = infos[1].sizes[1], infos[2].sizes[1]
    s.units = infos[1].sizes[0] // descriptor.gates
    s.ahead = max(ROWS_AHEAD // max(s.batch, <int64_t>1), <int64_t>1)
    s.lengths, s.projection = connected(layer, "lengths"), connected(layer, "projection_weights")
    s.initial_hidden, s.initial_cell = connected(layer, "initial_hidden"), connected(layer, "initial_cell")
    if s.lengths >= 0:
        s.index = element_of(infos[s.lengths].dtype)
    for which, name in enumerate(("bias", "recurrent_bias", "peepholes", "normalization", "projection_bias")):
        s.vectors[which] = connected(layer, name)
        s.vector_sizes[which] = infos[s.vectors[which]].elements if s.vectors[which] >= 0 else 0


cdef void fill_matrices(State *s, bint apart) except *:
    """Which lines of the weights are packed together: a GRU's candidate apart from its gates."""
    s.weights.lines, s.weights.depth = s.gates * s.units, s.inputs
    s.recurrent.lines = 2 * s.units if apart else s.gates * s.units
    s.recurrent.depth = s.candidate.depth = s.hidden
    s.candidate.first, s.candidate.lines = s.recurrent.lines, s.units if apart else 0
    if s.projection >= 0:
        s.projected.lines, s.projected.depth = s.hidden, s.units


cdef void fill_places(State *s) except *:
    """Lay out the workspace; Python's integers, since sizes may be anything."""
    total = 0
    panels = [panels_of(m) * TILE_COLUMNS for m in (s.recurrent.lines, s.candidate.lines, s.projected.lines)]
    deepest = min(max(s.inputs, s.hidden, s.units), DEPTH_AT_ONCE)
    batch, units, hidden, lines = int(s.batch), int(s.units), int(s.hidden), int(s.weights.lines)
    sizes = (
        panels[0] * int(s.recurrent.depth), panels[1] * int(s.candidate.depth), panels[2] * int(s.projected.depth),
        min(s.inputs, DEPTH_AT_ONCE) * TILE_COLUMNS, deepest * TILE_ROWS, min(s.ahead, s.steps) * batch * lines,
        batch * units, batch * max(hidden, units), batch * hidden, batch * units, *[s.vector_sizes[i] for i in range(VECTORS)],
    )
    places = []
    for size in sizes:
        places.append(total)
        total += size
    s.recurrent.place, s.candidate.place, s.projected.place, s.weights.place, s.packed_rows = places[:5]
    s.sums, s.made, s.recent, s.hidden_place, s.cell_place = places[5:10]
    for which in range(VECTORS):
        s.vector_places[which] = places[10 + which]
    s.workspace = total * sizeof(double) if s.batch else 0


def create(layer, dtype):
    """Return the workload capsule; `dtype` is FLOAT32 or FLOAT64."""
    descriptor = layer.descriptor
    if isinstance(descriptor, Lstm):
        capsule = new_workload(execute_lstm, sizeof(State))
    elif isinstance(descriptor, Gru):
        capsule = new_workload(execute_gru, sizeof(State))
    else:
        capsule = new_workload(execute_rnn, sizeof(State))
    cdef State *s = <State *>state_of(capsule)
    s.doubles = element_of(dtype) == FLOAT64
    fill_gates(s, descriptor)
    fill_sizes(s, layer)
    fill_matrices(s, isinstance(descriptor, Gru))
    fill_places(s)
    workload_of(capsule).workspace = stated_workspace
    return capsule
