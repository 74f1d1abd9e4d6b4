/* Long short-term memory in integers: sums in 32 bits, gates and cells in 16, states in 8.
 *
 * Source: tensorflow/lite/kernels/lstm_eval.cc (EvalInteger8x8_16), which defines every bit.
 */
#pragma once

#include "dovetail_neon/recurrent/byte_matrix.h"
#include "dovetail_neon/recurrent/fixed_point.h"

namespace dovetail_acc::ACC_ISA {

typedef int16_t LanesOfInt16 __attribute__((vector_size(LANES * 2)));

/* One run, at the step at hand. */
struct LstmRun {
    const acc_job *job;
    const acc_quantized_lstm *s;
    int64_t first, count;       /* steps whose inputs are multiplied */
    int64_t step;

    int64_t row_of(int64_t t, int64_t b) const { return s->batch_first ? b * s->steps + t : t * s->batch + b; }
    template <typename T> T *room(int64_t place) const { return (T *)(job->workspace + place); }
    char *state(int64_t b) const { return room<char>(s->state_place) + b * s->recurrent.step; }
    char *made(int64_t b) const { return room<char>(s->made_place) + b * s->projected.step; }
    int32_t *cell(int64_t b) const { return room<int32_t>(s->cell_place) + b * s->units_step; }
};

/* One sequence at a step: its gates. */
struct LstmStep {
    const acc_quantized_lstm &s;
    const int32_t *given, *sums;
    int32_t *cell;

    INLINE_MEMBER int64_t at(int gate, int64_t i) const { return (gate - s.first_gate) * s.units + i; }

    /* What goes into a gate's function, or into its normalization. */
    INLINE_MEMBER Integers sum_of(int gate, int64_t i) const {
        const int64_t place = at(gate, i);
        Integers x = fixed_saturated(added(fixed_scaled(load_integers(sums + place), s.of_hidden[gate]), load_integers(given + place)));
        if (s.peepholes && gate != ACC_CELL_GATE)
            x = fixed_saturated(added(fixed_scaled(load_integers(s.peepholes + place) * load_integers(cell + i), s.of_cell[gate]), x));
        return x;
    }
};

/* Deviations from the mean of all units in 1024ths, times factors, plus a bias; false if the run
 * should end. */
static bool normalize_gate(const LstmStep &at, int gate, int32_t *values, Pace &pace) {
    const acc_quantized_lstm &s = at.s;
    if (s.units == 0) return true;
    int64_t total = 0, squares = 0;
    const bool summed = pace.spans(s.units, 4, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i += LANES) store_integers(values + i, at.sum_of(gate, i));
        for (int64_t i = first; i < last; i++) total += values[i], squares += (int64_t)values[i] * values[i];
    });
    if (!summed) return false;
    const int32_t mean = (int32_t)(total * 1024 / s.units);
    const int32_t variance = (int32_t)((squares * ((1 << 20) / s.units) - (int64_t)mean * mean) / (1 << 20));
    const acc_fixed_factor by = inverse_square_root(variance >= 1 ? variance : s.least_variance[gate]);
    const acc_fixed_factor norm = {s.of_norm[gate].multiplier, s.of_norm[gate].shift + 12};
    const int32_t *factors = s.normalization + at.at(gate, 0), *bias = s.bias + at.at(gate, 0);
    return pace.spans(s.units, 4, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i += LANES) {
            const Integers deviation = fixed_scaled(load_integers(values + i) * 1024 - mean, by);
            const Integers weighed = deviation * load_integers(factors + i) + load_integers(bias + i);
            const Integers nudged = weighed + either(weighed > 0, spread_integer(512), spread_integer(-512));
            store_integers(values + i, fixed_saturated(fixed_scaled((nudged + ((nudged >> 31) & 1023)) >> 10, norm)));
        }
    });
}

/* Sums of all gates become the new cell of one sequence, and what its output gate lets out of it,
 * written as stored elements to `out` and as factors of the next products to `factors`; false if
 * the run should end. */
template <typename Unit, bool normalizes>
INLINE bool finish_step(const LstmStep &at, int32_t *values, int8_t *out, char *factors, Pace &pace) {
    typedef typename Unit::Factor Factors __attribute__((vector_size(LANES * sizeof(typename Unit::Factor))));
    const acc_quantized_lstm &s = at.s;
    const int8_t sign = Unit::DEPTH == 4 && !SIGNED_BYTES ? -128 : 0;
    const auto value = [&](int gate, int64_t i) __attribute__((always_inline)) {
        return normalizes ? load_integers(values + gate * s.units_step + i) : at.sum_of(gate, i);
    };
    const auto renew = [&](int64_t first, int64_t last) __attribute__((always_inline)) {
        for (int64_t i = first; i < last; i += LANES) {
            const Integers kept = fixed_logistic(value(ACC_FORGET_GATE, i)), fresh = fixed_tanh(value(ACC_CELL_GATE, i), 3);
            const Integers given = s.first_gate == ACC_INPUT_GATE ? fixed_logistic(value(ACC_INPUT_GATE, i)) : 32767 - kept;
            const Integers old = rounding_shift(kept * load_integers(at.cell + i), 15);
            Integers cell = fixed_saturated(old + rounding_shift(given * fresh, 15 + s.cell_bits));
            if (s.cell_clip > 0) cell = between(cell, -s.cell_clip, s.cell_clip);
            store_integers(at.cell + i, cell);
        }
    };
    const auto show = [&](int64_t first, int64_t last) __attribute__((always_inline)) {
        for (int64_t i = first; i < last; i += LANES) {
            const Integers open = fixed_logistic(value(ACC_OUTPUT_GATE, i));
            const Integers shown = fixed_tanh(load_integers(at.cell + i), s.cell_bits);
            const Integers made = between(added(fixed_scaled(open * shown, s.of_made), spread_integer(s.made_zero)), -128, 127);
            const LanesOfInt8 bytes = __builtin_convertvector(made, LanesOfInt8);
            const Factors next = __builtin_convertvector(bytes ^ sign, Factors);
            __builtin_memcpy(factors + i * sizeof(typename Unit::Factor), &next, sizeof(next));
            if (out) __builtin_memcpy(out + i, &bytes, (size_t)lesser<int64_t>(LANES, s.units - i));
        }
    };
    if (normalizes)
        for (int gate = s.first_gate; gate < ACC_OUTPUT_GATE; gate++)
            if (!normalize_gate(at, gate, values + gate * s.units_step, pace)) return false;
    if (!pace.spans(s.units, 24, renew)) return false;
    if (normalizes && !normalize_gate(at, ACC_OUTPUT_GATE, values + ACC_OUTPUT_GATE * s.units_step, pace)) return false;
    return pace.spans(s.units, 16, show);
}

/* Range: sequences. */
template <typename Unit> static void finish_steps(int64_t begin, int64_t end, int32_t, void *arg) {
    const LstmRun &run = *(const LstmRun *)arg;
    const acc_quantized_lstm &s = *run.s;
    const int64_t given_step = s.weights.vectors * LANES, sums_step = s.recurrent.vectors * LANES;
    Pace pace = {run.job};
    for (int64_t b = begin; b < end; b++) {
        const int32_t *given = run.room<int32_t>(s.given_place) + ((run.step - run.first) * s.batch + b) * given_step;
        const LstmStep at = {s, given, run.room<int32_t>(s.sums_place) + b * sums_step, run.cell(b)};
        int32_t *values = run.room<int32_t>(s.values_place) + b * ACC_GATES * s.units_step;
        int8_t *out = s.projects ? nullptr : (int8_t *)run.job->outputs[0] + run.row_of(run.step, b) * s.hidden;
        char *factors = s.projects ? run.made(b) : run.state(b);
        const bool done = s.normalization ? finish_step<Unit, true>(at, values, out, factors, pace)
                                          : finish_step<Unit, false>(at, values, out, factors, pace);
        if (!done || pace.stops(64)) return;
    }
}

/* Hidden states of what came out of the cells. */
template <typename Unit> static bool project_states(LstmRun &run, Pace &pace) {
    const acc_quantized_lstm &s = *run.s;
    int32_t *sums = run.room<int32_t>(s.sums_place);
    ByteProduct product = {run.job, &s.projected, run.made(0), s.batch, sums};
    if (!over_range(run.job, s.projected.shares, s.projected.panels, byte_panels<Unit>, &product)) return false;
    for (int64_t b = 0; b < s.batch; b++, sums += s.projected.vectors * LANES) {
        int8_t *out = (int8_t *)run.job->outputs[0] + run.row_of(run.step, b) * s.hidden;
        const auto store_span = [&](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; i += LANES) {
                Integers x = added(fixed_scaled(load_integers(sums + i), s.of_projection), spread_integer(s.hidden_zero));
                x = between(x, -128, 127);
                if (s.projection_clip > 0) x = between(x, -s.projection_clip, s.projection_clip);
                const LanesOfInt8 bytes = __builtin_convertvector(x, LanesOfInt8);
                __builtin_memcpy(out + i, &bytes, (size_t)lesser<int64_t>(LANES, s.hidden - i));
            }
            arrange_bytes<Unit>(out + first, last - first, run.state(b) + first * (int64_t)sizeof(typename Unit::Factor));
        };
        if (pace.stops(64) || !pace.spans(s.hidden, 4, store_span)) return false;
    }
    return true;
}

/* What the inputs of the steps from `first` on give to the gates. */
template <typename Unit> static bool multiply_inputs(LstmRun &run, Pace &pace) {
    const acc_quantized_lstm &s = *run.s;
    const int64_t rows = run.count * s.batch, step = s.weights.vectors * LANES;
    char *in = run.room<char>(s.rows_place);
    int32_t *given = run.room<int32_t>(s.given_place);
    for (int64_t row = 0; row < rows; row++) {
        const int8_t *from = (const int8_t *)run.job->inputs[0] + run.row_of(run.first + row / s.batch, row % s.batch) * s.inputs;
        char *to = in + row * s.weights.step;
        const auto arrange_span = [=](int64_t first, int64_t last) {
            arrange_bytes<Unit>(from + first, last - first, to + first * (int64_t)sizeof(typename Unit::Factor));
        };
        if (pace.stops(64) || !pace.spans(s.inputs, 1, arrange_span)) return false;
    }
    ByteProduct product = {run.job, &s.weights, in, rows, given};
    if (!over_range(run.job, s.shares_inputs, s.weights.panels, byte_panels<Unit>, &product)) return false;
    for (int64_t row = 0; row < rows; row++, given += step)
        for (int gate = s.first_gate; gate < ACC_GATES; gate++) {
            int32_t *values = given + (gate - s.first_gate) * s.units;
            const auto scale_span = [=, &s](int64_t first, int64_t last) {
                for (int64_t i = first; i < last; i += LANES) {     /* the sums of the next gate lie behind */
                    const Integers x = fixed_saturated(fixed_scaled(load_integers(values + i), s.of_input[gate]));
                    __builtin_memcpy(values + i, &x, (size_t)lesser<int64_t>(LANES, last - i) * sizeof(int32_t));
                }
            };
            if (pace.stops(16) || !pace.spans(s.units, 2, scale_span)) return false;
        }
    return true;
}

template <typename Unit> static bool begin_states(const LstmRun &run, Pace &pace) {
    const acc_quantized_lstm &s = *run.s;
    for (int64_t b = 0; b < s.batch; b++) {
        const int8_t *hidden = (const int8_t *)run.job->inputs[1] + b * s.hidden;
        const int16_t *cell = (const int16_t *)run.job->inputs[2] + b * s.units;
        const auto take_hidden = [&](int64_t first, int64_t last) {
            arrange_bytes<Unit>(hidden + first, last - first, run.state(b) + first * (int64_t)sizeof(typename Unit::Factor));
            __builtin_memcpy((int8_t *)run.job->outputs[1] + b * s.hidden + first, hidden + first, (size_t)(last - first));
        };
        const auto take_cell = [&](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; i++) run.cell(b)[i] = cell[i];
        };
        if (pace.stops(64) || !pace.spans(s.hidden, 2, take_hidden) || !pace.spans(s.units, 4, take_cell)) return false;
    }
    return true;
}

static void end_states(const LstmRun &run, Pace &pace) {
    const acc_quantized_lstm &s = *run.s;
    for (int64_t b = 0; b < s.batch; b++) {
        int8_t *hidden = (int8_t *)run.job->outputs[1] + b * s.hidden;
        int16_t *cell = (int16_t *)run.job->outputs[2] + b * s.units;
        const auto give_hidden = [&](int64_t first, int64_t last) {
            const int8_t *final = (const int8_t *)run.job->outputs[0] + run.row_of(s.steps - 1, b) * s.hidden;
            __builtin_memcpy(hidden + first, final + first, (size_t)(last - first));
        };
        const auto give_cell = [&](int64_t first, int64_t last) {
            for (int64_t i = first; i < last; i += LANES) {
                const LanesOfInt16 shorts = __builtin_convertvector(load_integers(run.cell(b) + i), LanesOfInt16);
                __builtin_memcpy(cell + i, &shorts, (size_t)lesser<int64_t>(LANES, s.units - i) * sizeof(int16_t));
            }
        };
        if (pace.stops(64) || !pace.spans(s.steps ? s.hidden : 0, 1, give_hidden) || !pace.spans(s.units, 2, give_cell)) return;
    }
}

template <typename Unit> static bool take_step(LstmRun &run, Pace &pace) {
    const acc_quantized_lstm &s = *run.s;
    ByteProduct product = {run.job, &s.recurrent, run.state(0), s.batch, run.room<int32_t>(s.sums_place)};
    if (!over_range(run.job, s.recurrent.shares, s.recurrent.panels, byte_panels<Unit>, &product)) return false;
    if (!over_range(run.job, s.shares_gates, s.batch, finish_steps<Unit>, &run)) return false;
    return !s.projects || project_states<Unit>(run, pace);
}

/* Range: 1. */
template <typename Unit> static void quantized_lstm(int64_t, int64_t, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_lstm &s = *(const acc_quantized_lstm *)job->parameters;
    LstmRun run = {job, &s, 0, 0, 0};
    Pace pace = {job};
    if (!begin_states<Unit>(run, pace)) return;
    for (; run.first < s.steps; run.first += run.count) {
        run.count = lesser(s.ahead, s.steps - run.first);
        if (!multiply_inputs<Unit>(run, pace)) return;
        for (run.step = run.first; run.step < run.first + run.count; run.step++)
            if (acc_stopped(job) || !take_step<Unit>(run, pace)) return;
    }
    end_states(run, pace);
}

} // namespace dovetail_acc::ACC_ISA
