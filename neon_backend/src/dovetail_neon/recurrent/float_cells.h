/* Recurrent layers of float32: Elman's, gated recurrent units, long short-term memory. */
#pragma once

#include "dovetail_neon/elementwise/functions.h"
#include "dovetail_neon/recurrent/float_matrix.h"
#include "dovetail_neon/vectors/horizontal.h"
#include "dovetail_neon/workload/spans.h"

namespace dovetail_acc::ACC_ISA {

/* One run, at the step at hand. */
struct FloatRun {
    const acc_job *job;
    const acc_recurrence *s;
    int64_t first, count;       /* steps whose inputs are multiplied */
    int64_t step;

    int64_t row_of(int64_t step, int64_t b) const {
        const int64_t t = s->reverse ? s->steps - 1 - step : step;
        return s->batch_first ? b * s->steps + t : t * s->batch + b;
    }
    float *room(int64_t place) const { return (float *)job->workspace + place; }
    float *given(int64_t b) const { return room(s->given_place) + ((step - first) * s->batch + b) * s->weights.vectors * LANES; }
    const float *sums(int64_t b) const { return room(s->sums_place) + b * s->recurrent.vectors * LANES; }
    const float *later(int64_t b) const { return room(s->later_place) + b * s->candidate.vectors * LANES; }
    float *hidden(int64_t b) const { return room(s->hidden_place) + b * (s->recurrent.step / (int64_t)sizeof(float)); }
    float *made(int64_t b) const { return room(s->made_place) + b * s->made_step; }
    float *cell(int64_t b) const { return room(s->cell_place) + b * s->units; }
    float *sequence(int64_t b) const { return (float *)job->outputs[0] + row_of(step, b) * s->hidden; }
};

/* Each vector of `count` elements; `function(i, lanes)` has so many of them at i. */
template <typename Function> INLINE void each_vector(int64_t count, Function function) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) function(i, LANES);
    if (i < count) function(i, (int)(count - i));
}

INLINE Vector load_some(const float *at, int lanes) { return lanes == LANES ? load(at) : load_part(at, lanes); }
INLINE void store_some(float *at, Vector x, int lanes) {
    if (lanes == LANES)
        store(at, x);
    else
        store_part(at, x, lanes);
}

/* What goes into functions is cut off. */
static void clip_run(float limit, float *x, int64_t count) {
    if (limit == __builtin_inff()) return;
    const Vector low = broadcast(-limit), high = broadcast(limit);
    each_vector(count, [=](int64_t i, int lanes) { store_some(x + i, clamped(load_some(x + i, lanes), low, high), lanes); });
}

INLINE void add_run(float *x, const float *y, int64_t count) {
    each_vector(count, [=](int64_t i, int lanes) { store_some(x + i, load_some(x + i, lanes) + load_some(y + i, lanes), lanes); });
}

/* Subtract the mean of all units, divide by the root of the variance, times a scale. */
static void normalize_run(float *x, const float *scale, int64_t count, float epsilon) {
    Vector sum = zeros(), squares = zeros();
    each_vector(count, [&](int64_t i, int lanes) { sum += load_some(x + i, lanes); });
    const Vector mean = broadcast(total(sum) / (float)count);
    each_vector(count, [&](int64_t i, int lanes) {
        const Vector distance = load_some(x + i, lanes) - mean;
        store_some(x + i, distance, lanes);
        squares = fma(load_some(x + i, lanes), load_some(x + i, lanes), squares);     /* lanes beyond are 0 */
    });
    const Vector factor = broadcast(1.0f / __builtin_sqrtf(total(squares) / (float)count + epsilon));
    each_vector(count, [=](int64_t i, int lanes) {
        store_some(x + i, load_some(x + i, lanes) * factor * load_some(scale + i, lanes), lanes);
    });
}

/* Sums of gates from block `first` on, of so many blocks, become what functions are applied to. */
static void finish_gates(const acc_recurrence &s, float *x, int64_t first, int64_t blocks, const float *cell) {
    const int64_t units = s.units;
    for (int64_t block = first; block < first + blocks && cell && s.peepholes && block < s.gates - 1; block++) {
        const float *sight = s.peepholes + block * units;
        float *values = x + block * units;
        each_vector(units, [=](int64_t i, int lanes) {
            store_some(values + i, fma(load_some(sight + i, lanes), load_some(cell + i, lanes), load_some(values + i, lanes)), lanes);
        });
    }
    for (int64_t block = first; block < first + blocks && s.normalization && units; block++) {
        normalize_run(x + block * units, s.normalization + block * units, units, s.epsilon);
        if (s.bias) add_run(x + block * units, s.bias + block * units, units);
    }
    clip_run(s.gate_clip, x + first * units, blocks * units);
}

INLINE void apply_to(const acc_activation &function, float *x, int64_t count) { activate_run(function, x, x, count); }

/* Range of these: sequences. */
static void finish_rnn(int64_t begin, int64_t end, int32_t, void *arg) {
    const FloatRun &run = *(const FloatRun *)arg;
    const acc_recurrence &s = *run.s;
    for (int64_t b = begin; b < end; b++) {
        float *x = run.given(b);
        add_run(x, run.sums(b), s.units);
        clip_run(s.gate_clip, x, s.units);
        activate_run(s.output, x, run.hidden(b), s.units);
        __builtin_memcpy(run.sequence(b), run.hidden(b), (size_t)s.units * sizeof(float));
    }
}

/* Update and reset gate; and, if the reset gate scales the state, what the candidate is made of. */
static void open_gru(int64_t begin, int64_t end, int32_t, void *arg) {
    const FloatRun &run = *(const FloatRun *)arg;
    const acc_recurrence &s = *run.s;
    for (int64_t b = begin; b < end; b++) {
        float *x = run.given(b);
        add_run(x, run.sums(b), 2 * s.units);
        clip_run(s.gate_clip, x, 2 * s.units);
        apply_to(s.gate, x, 2 * s.units);
        if (s.reset_after) continue;
        const float *reset = x + s.units, *hidden = run.hidden(b);
        float *made = run.made(b);
        each_vector(s.units, [=](int64_t i, int lanes) {
            store_some(made + i, load_some(reset + i, lanes) * load_some(hidden + i, lanes), lanes);
        });
    }
}

static void finish_gru(int64_t begin, int64_t end, int32_t, void *arg) {
    const FloatRun &run = *(const FloatRun *)arg;
    const acc_recurrence &s = *run.s;
    for (int64_t b = begin; b < end; b++) {
        const float *update = run.given(b), *reset = update + s.units;
        float *candidate = run.given(b) + 2 * s.units, *hidden = run.hidden(b);
        if (s.reset_after) {
            const float *own = run.sums(b) + 2 * s.units;
            each_vector(s.units, [=](int64_t i, int lanes) {
                store_some(candidate + i, fma(load_some(reset + i, lanes), load_some(own + i, lanes), load_some(candidate + i, lanes)),
                           lanes);
            });
        } else {
            add_run(candidate, run.later(b), s.units);
        }
        clip_run(s.gate_clip, candidate, s.units);
        apply_to(s.output, candidate, s.units);
        each_vector(s.units, [=](int64_t i, int lanes) {
            const Vector z = load_some(update + i, lanes), fresh = load_some(candidate + i, lanes);
            store_some(hidden + i, (broadcast(1.0f) - z) * fresh + z * load_some(hidden + i, lanes), lanes);
        });
        __builtin_memcpy(run.sequence(b), hidden, (size_t)s.units * sizeof(float));
    }
}

/* The new cell of one sequence. */
INLINE void renew_cell(const acc_recurrence &s, const float *x, float *cell) {
    const float *given = x + s.input_gate * s.units, *kept = x + s.forget_gate * s.units, *fresh = x + (s.gates - 1) * s.units;
    const Vector one = broadcast(1.0f), low = broadcast(-s.cell_clip), high = broadcast(s.cell_clip);
    const bool coupled_input = s.input_gate < 0, coupled_forget = s.forget_gate < 0;
    each_vector(s.units, [=](int64_t i, int lanes) {
        const Vector keep = coupled_forget ? one - load_some(given + i, lanes) : load_some(kept + i, lanes);
        const Vector take = coupled_input ? one - load_some(kept + i, lanes) : load_some(given + i, lanes);
        const Vector next = fma(keep, load_some(cell + i, lanes), take * load_some(fresh + i, lanes));
        store_some(cell + i, clamped(next, low, high), lanes);
    });
}

static void finish_lstm(int64_t begin, int64_t end, int32_t, void *arg) {
    const FloatRun &run = *(const FloatRun *)arg;
    const acc_recurrence &s = *run.s;
    const bool projects = s.projected.rows > 0;
    for (int64_t b = begin; b < end; b++) {
        float *x = run.given(b), *cell = run.cell(b), *made = projects ? run.made(b) : run.hidden(b);
        add_run(x, run.sums(b), s.gates * s.units);
        float *open = x + s.output_gate * s.units;
        if (s.peepholes) {      /* the output gate sees the new cell */
            for (int64_t block = 0; block < s.gates; block++) {
                if (block == s.output_gate) continue;
                finish_gates(s, x, block, 1, cell);
                apply_to(block == s.gates - 1 ? s.cell : s.gate, x + block * s.units, s.units);
            }
            renew_cell(s, x, cell);
            finish_gates(s, x, s.output_gate, 1, cell);
            apply_to(s.gate, open, s.units);
        } else {
            finish_gates(s, x, 0, s.gates, nullptr);
            apply_to(s.gate, x, (s.gates - 1) * s.units);
            apply_to(s.cell, x + (s.gates - 1) * s.units, s.units);
            renew_cell(s, x, cell);
        }
        activate_run(s.output, cell, made, s.units);
        each_vector(s.units, [=](int64_t i, int lanes) {
            store_some(made + i, load_some(made + i, lanes) * load_some(open + i, lanes), lanes);
        });
        if (!projects) __builtin_memcpy(run.sequence(b), made, (size_t)s.units * sizeof(float));
    }
}

static bool multiply_floats(const FloatRun &run, const acc_recurrent_matrix &m, const float *in, int64_t rows, float *out, bool shares) {
    FloatProduct product = {run.job, &m, in, rows, out};
    return over_range(run.job, shares, m.panels, float_panels, &product);
}

static bool project_floats(const FloatRun &run) {
    const acc_recurrence &s = *run.s;
    float *sums = run.room(s.later_place);
    if (!multiply_floats(run, s.projected, run.made(0), s.batch, sums, s.projected.shares)) return false;
    for (int64_t b = 0; b < s.batch; b++, sums += s.projected.vectors * LANES) {
        clip_run(s.projection_clip, sums, s.hidden);
        __builtin_memcpy(run.hidden(b), sums, (size_t)s.hidden * sizeof(float));
        __builtin_memcpy(run.sequence(b), sums, (size_t)s.hidden * sizeof(float));
    }
    return true;
}

static bool take_float_step(FloatRun &run) {
    const acc_recurrence &s = *run.s;
    if (!multiply_floats(run, s.recurrent, run.hidden(0), s.batch, run.room(s.sums_place), s.recurrent.shares)) return false;
    if (s.kind == ACC_RNN) return over_range(run.job, s.shares_gates, s.batch, finish_rnn, &run);
    if (s.kind == ACC_LSTM) {
        if (!over_range(run.job, s.shares_gates, s.batch, finish_lstm, &run)) return false;
        return s.projected.rows == 0 || project_floats(run);
    }
    if (!over_range(run.job, s.shares_gates, s.batch, open_gru, &run)) return false;
    if (!s.reset_after && !multiply_floats(run, s.candidate, run.made(0), s.batch, run.room(s.later_place), s.candidate.shares))
        return false;
    return over_range(run.job, s.shares_gates, s.batch, finish_gru, &run);
}

/* What the inputs of the steps from `first` on give to the gates. */
static bool multiply_float_inputs(const FloatRun &run) {
    const acc_recurrence &s = *run.s;
    const int64_t rows = run.count * s.batch, step = s.weights.step / (int64_t)sizeof(float);
    float *in = run.room(s.rows_place);
    for (int64_t row = 0; row < rows; row++) {
        const float *from = (const float *)run.job->inputs[0] + run.row_of(run.first + row / s.batch, row % s.batch) * s.inputs;
        if (!copy_spans(run.job, in + row * step, from, s.inputs)) return false;
    }
    return multiply_floats(run, s.weights, in, rows, run.room(s.given_place), s.shares_inputs);
}

INLINE void begin_state(const acc_job *job, int input, int64_t offset, float *to, int64_t count) {
    if (input >= 0)
        __builtin_memcpy(to, (const float *)job->inputs[input] + offset, (size_t)count * sizeof(float));
    else
        __builtin_memset(to, 0, (size_t)count * sizeof(float));
}

/* Range: 1. */
static void recurrence(int64_t, int64_t, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_recurrence &s = *(const acc_recurrence *)job->parameters;
    FloatRun run = {job, &s, 0, 0, 0};
    for (int64_t b = 0; b < s.batch; b++) {
        begin_state(job, s.initial_hidden, b * s.hidden, run.hidden(b), s.hidden);
        if (s.kind == ACC_LSTM) begin_state(job, s.initial_cell, b * s.units, run.cell(b), s.units);
    }
    for (; run.first < s.steps; run.first += run.count) {
        run.count = lesser(s.ahead, s.steps - run.first);
        run.step = run.first;
        if (!multiply_float_inputs(run)) return;
        for (; run.step < run.first + run.count; run.step++)
            if (acc_stopped(job) || !take_float_step(run)) return;
    }
    for (int64_t b = 0; b < s.batch; b++) {
        __builtin_memcpy((float *)job->outputs[1] + b * s.hidden, run.hidden(b), (size_t)s.hidden * sizeof(float));
        if (s.kind == ACC_LSTM) __builtin_memcpy((float *)job->outputs[2] + b * s.units, run.cell(b), (size_t)s.units * sizeof(float));
    }
}

static const acc_recurrent_kernels recurrent_kernels = {recurrence, pack_float_matrix};

} // namespace dovetail_acc::ACC_ISA
