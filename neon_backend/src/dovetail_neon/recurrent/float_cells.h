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

    int64_t row_of(int64_t number, int64_t b) const {
        const int64_t t = s->reverse ? s->steps - 1 - number : number;
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

INLINE void add_run(float *x, const float *y, int64_t count) {
    each_vector(count, [=](int64_t i, int lanes) { store_some(x + i, load_some(x + i, lanes) + load_some(y + i, lanes), lanes); });
}

/* Cut off, and a function. */
INLINE void finish_run(float limit, const acc_activation &function, float *x, int64_t count) {
    if (limit != __builtin_inff()) {
        const Vector low = broadcast(-limit), high = broadcast(limit);
        each_vector(count, [=](int64_t i, int lanes) { store_some(x + i, clamped(load_some(x + i, lanes), low, high), lanes); });
    }
    if (function.function != ACC_IDENTITY) activate_run(function, x, x, count);
}

/* Range of these: sequences. */
static void finish_rnn(int64_t begin, int64_t end, int32_t, void *arg) {
    const FloatRun &run = *(const FloatRun *)arg;
    const acc_recurrence &s = *run.s;
    Pace pace = {run.job};
    for (int64_t b = begin; b < end; b++) {
        float *x = run.given(b), *hidden = run.hidden(b), *out = run.sequence(b);
        const float *sums = run.sums(b);
        const auto span = [&](int64_t first, int64_t last) {
            add_run(x + first, sums + first, last - first);
            finish_run(s.gate_clip, s.output, x + first, last - first);
            __builtin_memcpy(hidden + first, x + first, (size_t)(last - first) * sizeof(float));
            __builtin_memcpy(out + first, x + first, (size_t)(last - first) * sizeof(float));
        };
        if (pace.stops(64) || !pace.spans(s.units, 8, span)) return;
    }
}

/* Update and reset gate; and, if the reset gate scales the state, what the candidate is made of. */
static void open_gru(int64_t begin, int64_t end, int32_t, void *arg) {
    const FloatRun &run = *(const FloatRun *)arg;
    const acc_recurrence &s = *run.s;
    Pace pace = {run.job};
    for (int64_t b = begin; b < end; b++) {
        float *x = run.given(b), *made = run.made(b);
        const float *sums = run.sums(b), *hidden = run.hidden(b), *reset = x + s.units;
        const auto span = [&](int64_t first, int64_t last) {
            for (int64_t at = first; at < 2 * s.units; at += s.units) {
                add_run(x + at, sums + at, last - first);
                finish_run(s.gate_clip, s.gate, x + at, last - first);
            }
            if (s.reset_after) return;
            each_vector(last - first, [=](int64_t i, int lanes) {
                store_some(made + first + i, load_some(reset + first + i, lanes) * load_some(hidden + first + i, lanes), lanes);
            });
        };
        if (pace.stops(64) || !pace.spans(s.units, 16, span)) return;
    }
}

static void finish_gru(int64_t begin, int64_t end, int32_t, void *arg) {
    const FloatRun &run = *(const FloatRun *)arg;
    const acc_recurrence &s = *run.s;
    Pace pace = {run.job};
    for (int64_t b = begin; b < end; b++) {
        float *x = run.given(b), *hidden = run.hidden(b), *out = run.sequence(b);
        const float *own = s.reset_after ? run.sums(b) + 2 * s.units : run.later(b);
        const auto span = [&](int64_t first, int64_t last) {
            const float *update = x + first, *reset = update + s.units, *own_here = own + first;
            float *candidate = x + 2 * s.units + first, *state = hidden + first, *to = out + first;
            const bool after = s.reset_after;
            each_vector(last - first, [=](int64_t i, int lanes) {
                const Vector mine = load_some(own_here + i, lanes);
                const Vector scaled = after ? load_some(reset + i, lanes) * mine : mine;
                store_some(candidate + i, load_some(candidate + i, lanes) + scaled, lanes);
            });
            finish_run(s.gate_clip, s.output, candidate, last - first);
            each_vector(last - first, [=](int64_t i, int lanes) {
                const Vector z = load_some(update + i, lanes), fresh = load_some(candidate + i, lanes);
                const Vector next = (broadcast(1.0f) - z) * fresh + z * load_some(state + i, lanes);
                store_some(state + i, next, lanes);
                store_some(to + i, next, lanes);
            });
        };
        if (pace.stops(64) || !pace.spans(s.units, 12, span)) return;
    }
}

/* One sequence of an LSTM at a step. */
struct FloatLstmStep {
    const acc_recurrence &s;
    float *x;               /* [gates][units]: what the inputs give, and all that is made of it */
    const float *sums;
    float *cell;

    /* Add what the state gives, and the cell where the gate sees it. */
    INLINE_MEMBER void add(int64_t block, int64_t first, int64_t last) const {
        const int64_t at = block * s.units + first;
        float *to = x + at;
        add_run(to, sums + at, last - first);
        if (!s.peepholes || block == s.gates - 1) return;
        const float *sight = s.peepholes + at, *seen = cell + first;
        each_vector(last - first, [=](int64_t i, int lanes) {
            store_some(to + i, fma(load_some(sight + i, lanes), load_some(seen + i, lanes), load_some(to + i, lanes)), lanes);
        });
    }

    INLINE_MEMBER void open(int64_t block, int64_t first, int64_t last) const {
        finish_run(s.gate_clip, block == s.gates - 1 ? s.cell : s.gate, x + block * s.units + first, last - first);
    }

    INLINE_MEMBER void renew(int64_t first, int64_t last) const {
        const float *given = x + s.input_gate * s.units + first, *kept = x + s.forget_gate * s.units + first;
        const float *fresh = x + (s.gates - 1) * s.units + first;
        float *state = cell + first;
        const Vector one = broadcast(1.0f), low = broadcast(-s.cell_clip), high = broadcast(s.cell_clip);
        const bool coupled_input = s.input_gate < 0, coupled_forget = s.forget_gate < 0;
        each_vector(last - first, [=](int64_t i, int lanes) {
            const Vector keep = coupled_forget ? one - load_some(given + i, lanes) : load_some(kept + i, lanes);
            const Vector take = coupled_input ? one - load_some(kept + i, lanes) : load_some(given + i, lanes);
            const Vector next = fma(keep, load_some(state + i, lanes), take * load_some(fresh + i, lanes));
            store_some(state + i, clamped(next, low, high), lanes);
        });
    }

    /* What the output gate lets out. */
    INLINE_MEMBER void show(float *made, int64_t first, int64_t last) const {
        const float *gate = x + s.output_gate * s.units + first;
        float *to = made + first;
        activate_run(s.output, cell + first, to, last - first);
        each_vector(last - first, [=](int64_t i, int lanes) {
            store_some(to + i, load_some(to + i, lanes) * load_some(gate + i, lanes), lanes);
        });
    }

    /* Subtract the mean of all units, divide by the root of the variance, times a scale, plus a
     * bias; false if the run should end. */
    bool normalize(int64_t block, Pace &pace) const {
        float *to = x + block * s.units;
        Vector sum = zeros(), squares = zeros();
        const bool summed = pace.spans(s.units, 4, [&](int64_t first, int64_t last) {
            add(block, first, last);
            each_vector(last - first, [&](int64_t i, int lanes) { sum += load_some(to + first + i, lanes); });
        });
        const Vector mean = broadcast(total(sum) / (float)s.units);
        const bool squared = summed && pace.spans(s.units, 3, [&](int64_t first, int64_t last) {
            each_vector(last - first, [&](int64_t i, int lanes) {
                float *here = to + first + i;
                store_some(here, load_some(here, lanes) - mean, lanes);
                squares = fma(load_some(here, lanes), load_some(here, lanes), squares);     /* lanes beyond are 0 */
            });
        });
        const Vector factor = broadcast(1.0f / __builtin_sqrtf(total(squares) / (float)s.units + s.epsilon));
        const float *scale = s.normalization + block * s.units, *bias = s.bias ? s.bias + block * s.units : nullptr;
        return squared && pace.spans(s.units, 4, [&](int64_t first, int64_t last) {
            each_vector(last - first, [&](int64_t i, int lanes) {
                const int64_t at = first + i;
                const Vector normal = load_some(to + at, lanes) * factor * load_some(scale + at, lanes);
                store_some(to + at, bias ? normal + load_some(bias + at, lanes) : normal, lanes);
            });
        });
    }

    template <bool normalizes> bool take(float *made, Pace &pace) const {
        const int64_t output = s.output_gate;
        for (int64_t block = 0; normalizes && block < s.gates; block++)
            if (block != output && !normalize(block, pace)) return false;
        const auto finish = [&](int64_t first, int64_t last) {
            if (!normalizes) add(output, first, last);
            open(output, first, last);
            show(made, first, last);
        };
        const bool renewed = pace.spans(s.units, 40, [&](int64_t first, int64_t last) {
            for (int64_t block = 0; block < s.gates; block++) {
                if (block == output) continue;
                if (!normalizes) add(block, first, last);
                open(block, first, last);
            }
            renew(first, last);
            if (!normalizes) finish(first, last);
        });
        if (!normalizes || !renewed) return renewed;
        return normalize(output, pace) && pace.spans(s.units, 16, finish);
    }
};

static void finish_lstm(int64_t begin, int64_t end, int32_t, void *arg) {
    const FloatRun &run = *(const FloatRun *)arg;
    const acc_recurrence &s = *run.s;
    Pace pace = {run.job};
    for (int64_t b = begin; b < end; b++) {
        const FloatLstmStep step = {s, run.given(b), run.sums(b), run.cell(b)};
        float *made = s.projects ? run.made(b) : run.hidden(b);
        if (!(s.normalization ? step.take<true>(made, pace) : step.take<false>(made, pace)) || pace.stops(64)) return;
        if (!s.projects && !copy_spans(run.job, run.sequence(b), made, s.units)) return;
    }
}

static bool multiply_floats(const FloatRun &run, const acc_recurrent_matrix &m, const float *in, int64_t rows, float *out, bool shares) {
    FloatProduct product = {run.job, &m, in, rows, out};
    return over_range(run.job, shares, m.panels, float_panels, &product);
}

static bool project_floats(const FloatRun &run, Pace &pace) {
    const acc_recurrence &s = *run.s;
    float *sums = run.room(s.later_place);
    const acc_activation none = {ACC_IDENTITY, 0.0f, 0.0f};
    if (!multiply_floats(run, s.projected, run.made(0), s.batch, sums, s.projected.shares)) return false;
    for (int64_t b = 0; b < s.batch; b++, sums += s.projected.vectors * LANES) {
        const auto span = [&](int64_t first, int64_t last) {
            finish_run(s.projection_clip, none, sums + first, last - first);
            __builtin_memcpy(run.hidden(b) + first, sums + first, (size_t)(last - first) * sizeof(float));
            __builtin_memcpy(run.sequence(b) + first, sums + first, (size_t)(last - first) * sizeof(float));
        };
        if (pace.stops(64) || !pace.spans(s.hidden, 3, span)) return false;
    }
    return true;
}

static bool take_float_step(FloatRun &run, Pace &pace) {
    const acc_recurrence &s = *run.s;
    if (!multiply_floats(run, s.recurrent, run.hidden(0), s.batch, run.room(s.sums_place), s.recurrent.shares)) return false;
    if (s.kind == ACC_RNN) return over_range(run.job, s.shares_gates, s.batch, finish_rnn, &run);
    if (s.kind == ACC_LSTM) {
        if (!over_range(run.job, s.shares_gates, s.batch, finish_lstm, &run)) return false;
        return !s.projects || project_floats(run, pace);
    }
    if (!over_range(run.job, s.shares_gates, s.batch, open_gru, &run)) return false;
    if (!s.reset_after && !multiply_floats(run, s.candidate, run.made(0), s.batch, run.room(s.later_place), s.candidate.shares))
        return false;
    return over_range(run.job, s.shares_gates, s.batch, finish_gru, &run);
}

/* What the inputs of the steps from `first` on give to the gates. */
static bool multiply_float_inputs(const FloatRun &run, Pace &pace) {
    const acc_recurrence &s = *run.s;
    const int64_t rows = run.count * s.batch, step = s.weights.step / (int64_t)sizeof(float);
    float *in = run.room(s.rows_place);
    for (int64_t row = 0; row < rows; row++) {
        const float *from = (const float *)run.job->inputs[0] + run.row_of(run.first + row / s.batch, row % s.batch) * s.inputs;
        if (pace.stops(64 + s.inputs) || !copy_spans(run.job, in + row * step, from, s.inputs)) return false;
    }
    return multiply_floats(run, s.weights, in, rows, run.room(s.given_place), s.shares_inputs);
}

/* The first state of a sequence: that of an input, or zeros. */
INLINE bool begin_state(const acc_job *job, int input, int64_t b, float *to, int64_t count) {
    return copy_spans(job, to, input >= 0 ? (const float *)job->inputs[input] + b * count : nullptr, count);
}

/* Range: 1. */
static void recurrence(int64_t, int64_t, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_recurrence &s = *(const acc_recurrence *)job->parameters;
    FloatRun run = {job, &s, 0, 0, 0};
    Pace pace = {job};
    for (int64_t b = 0; b < s.batch; b++) {
        if (pace.stops(64 + s.hidden) || !begin_state(job, s.initial_hidden, b, run.hidden(b), s.hidden)) return;
        if (s.kind == ACC_LSTM && !begin_state(job, s.initial_cell, b, run.cell(b), s.units)) return;
    }
    for (; run.first < s.steps; run.first += run.count) {
        run.count = lesser(s.ahead, s.steps - run.first);
        run.step = run.first;
        if (!multiply_float_inputs(run, pace)) return;
        for (; run.step < run.first + run.count; run.step++)
            if (acc_stopped(job) || !take_float_step(run, pace)) return;
    }
    for (int64_t b = 0; b < s.batch; b++) {
        if (pace.stops(64 + s.hidden) || !copy_spans(job, (float *)job->outputs[1] + b * s.hidden, run.hidden(b), s.hidden)) return;
        if (s.kind == ACC_LSTM && !copy_spans(job, (float *)job->outputs[2] + b * s.units, run.cell(b), s.units)) return;
    }
}

static const acc_recurrent_kernels recurrent_kernels = {recurrence, pack_float_matrix};

} // namespace dovetail_acc::ACC_ISA
