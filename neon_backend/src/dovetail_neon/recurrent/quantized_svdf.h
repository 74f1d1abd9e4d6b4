/* Filters over time of low rank, in integers: a step of each sequence.
 *
 * Source: tensorflow/lite/kernels/internal/reference/svdf.h (EvalIntegerSVDF), which defines every
 * bit.
 */
#pragma once

#include "dovetail_neon/recurrent/byte_matrix.h"
#include "dovetail_neon/recurrent/fixed_point.h"
#include "dovetail_neon/vectors/horizontal.h"

namespace dovetail_acc::ACC_ISA {

constexpr int64_t SHORTS = 2 * LANES;       /* of a vector */

/* x times a real factor; what leaves 32 bits saturates. */
INLINE Integers fixed_within(Integers x, acc_fixed_factor by) {
    const int32_t most = by.shift > 0 ? INT32_MAX >> by.shift : INT32_MAX;
    return fixed_scaled(between(x, -most, most), by);
}

/* One run, at the sequences at hand. */
struct SvdfRun {
    const acc_job *job;
    const acc_quantized_svdf *s;
    int64_t first, count;       /* sequences whose inputs are multiplied at once */

    template <typename T> T *room(int64_t place) const { return (T *)(job->workspace + place); }
};

/* Sums of the features of a sequence become the newest step behind the others. */
static bool renew_state(const acc_quantized_svdf &s, int32_t *features, const int16_t *state, int16_t *next, Pace &pace) {
    const int64_t held = s.filters * s.steps;
    const auto move = [=](int64_t first, int64_t last) {
        __builtin_memcpy(next + first, state + first + 1, (size_t)(lesser(last, held - 1) - first) * sizeof(int16_t));
    };
    const auto append = [=, &s](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i += LANES)
            store_integers(features + i, fixed_saturated(fixed_within(load_integers(features + i), s.of_features)));
        for (int64_t i = first; i < last; i++) next[(i + 1) * s.steps - 1] = (int16_t)features[i];
    };
    return pace.spans(held, 1, move) && pace.spans(s.filters, 4, append);
}

/* How the steps of a unit are read: `whole` is their count in whole vectors, and `tail` tells which
 * of the last vector are its own. */
struct UnitSteps {
    int64_t count, whole;
    Integers tail;
};

INLINE UnitSteps steps_of_unit(int64_t count) {
    UnitSteps steps = {count, (count + SHORTS - 1) / SHORTS * SHORTS, {}};
    int16_t own[SHORTS];
    for (int64_t i = 0; i < SHORTS; i++) own[i] = steps.whole - SHORTS + i < count ? -1 : 0;
    __builtin_memcpy(&steps.tail, own, sizeof(own));
    return steps;
}

/* Products of the steps of a unit, summed up in lanes; false if the run should end. A vector of
 * weights may be read behind them, and steps up to `end`. */
INLINE bool weigh_steps(const UnitSteps &steps, const int16_t *state, const int16_t *end, const int16_t *weights, Integers &sum,
                        Pace &pace) {
    if (steps.whole <= UNITS_AT_ONCE && end - state >= steps.whole) {
        const int64_t last = steps.whole - SHORTS;
        for (int64_t i = 0; i < last; i += SHORTS) sum = Halves::dot(sum, load_integers(weights + i), load_integers(state + i));
        sum = Halves::dot(sum, load_integers(weights + last) & steps.tail, load_integers(state + last));
        return true;
    }
    return pace.spans(steps.count, 1, [=, &sum](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i += SHORTS) {
            Integers x = {};
            __builtin_memcpy(&x, state + i, (size_t)lesser(SHORTS, last - i) * sizeof(int16_t));
            sum = Halves::dot(sum, load_integers(weights + i), x);
        }
    });
}

/* The steps of the filters of each unit, weighed and summed up; false if the run should end. */
static bool sum_steps(const acc_quantized_svdf &s, const int16_t *state, int32_t *sums, Pace &pace) {
    const UnitSteps steps = steps_of_unit(s.rank * s.steps);
    const int16_t *end = state + s.filters * s.steps, *weights = s.times;
    for (int64_t first = 0; first < s.units; first += LANES) {
        Integers of_units[LANES];
        if (pace.stops(LANES * lesser(steps.whole, UNITS_AT_ONCE))) return false;
        for (int64_t lane = 0; lane < LANES; lane++) {
            Integers sum = {};
            const int64_t place = (first + lane) * steps.count;
            if (first + lane < s.units && !weigh_steps(steps, state + place, end, weights + place, sum, pace)) return false;
            of_units[lane] = sum;
        }
        store_integers(sums + first, totals(of_units));
    }
    return true;
}

static bool give_results(const acc_quantized_svdf &s, const int32_t *sums, int8_t *out, Pace &pace) {
    return pace.spans(s.units, 2, [=, &s](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i += LANES) {
            const Integers total = load_integers(sums + i) + load_integers(s.bias + i);
            const Integers x = added(fixed_within(total, s.of_totals), spread_integer(s.result_zero));
            const LanesOfInt8 bytes = __builtin_convertvector(between(x, -128, 127), LanesOfInt8);
            __builtin_memcpy(out + i, &bytes, (size_t)lesser<int64_t>(LANES, s.units - i));
        }
    });
}

/* Range: sequences of those at hand. */
static void filter_sequences(int64_t begin, int64_t end, int32_t, void *arg) {
    const SvdfRun &run = *(const SvdfRun *)arg;
    const acc_quantized_svdf &s = *run.s;
    const int64_t held = s.filters * s.steps;
    Pace pace = {run.job};
    for (int64_t i = begin; i < end; i++) {
        const int64_t b = run.first + i;
        int32_t *features = run.room<int32_t>(s.sums_place) + i * s.features.vectors * LANES;
        int32_t *sums = run.room<int32_t>(s.totals_place) + i * s.units_step;
        const int16_t *state = (const int16_t *)run.job->inputs[1] + b * held;
        int16_t *next = (int16_t *)run.job->outputs[1] + b * held;
        if (!renew_state(s, features, state, next, pace) || !sum_steps(s, next, sums, pace)) return;
        if (!give_results(s, sums, (int8_t *)run.job->outputs[0] + b * s.units, pace) || pace.stops(64)) return;
    }
}

template <typename Unit> static bool multiply_features(const SvdfRun &run, Pace &pace) {
    const acc_quantized_svdf &s = *run.s;
    const int64_t width = s.features.depth;
    char *rows = run.room<char>(s.rows_place);
    for (int64_t i = 0; i < run.count; i++) {
        const int8_t *from = (const int8_t *)run.job->inputs[0] + (run.first + i) * width;
        char *to = rows + i * s.features.step;
        const auto arrange_span = [=](int64_t first, int64_t last) {
            arrange_bytes<Unit>(from + first, last - first, to + first * (int64_t)sizeof(typename Unit::Factor));
        };
        if (pace.stops(64) || !pace.spans(width, 1, arrange_span)) return false;
    }
    ByteProduct product = {run.job, &s.features, rows, run.count, run.room<int32_t>(s.sums_place)};
    return over_range(run.job, s.features.shares, s.features.panels, byte_panels<Unit>, &product);
}

/* Range: 1. */
template <typename Unit> static void quantized_svdf(int64_t, int64_t, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_svdf &s = *(const acc_quantized_svdf *)job->parameters;
    SvdfRun run = {job, &s, 0, 0};
    Pace pace = {job};
    for (; run.first < s.batch; run.first += run.count) {
        run.count = lesser(s.at_once, s.batch - run.first);
        if (!multiply_features<Unit>(run, pace)) return;
        if (!over_range(job, s.shares_sequences, run.count, filter_sequences, &run)) return;
    }
}

} // namespace dovetail_acc::ACC_ISA
