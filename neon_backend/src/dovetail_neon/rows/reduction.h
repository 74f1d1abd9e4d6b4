/* Many elements become one, along axes. */
#pragma once

#include "dovetail_neon/rows/parameters.h"
#include "dovetail_neon/vectors/mathematics.h"
#include "dovetail_neon/vectors/horizontal.h"
#include "dovetail_neon/workload/spans.h"

namespace dovetail_acc::ACC_ISA {

/* How two vectors of partial results become one, the neutral element, and what an element counts
 * as. */
template <int combine, int before> struct Reducer {
    static constexpr float NEUTRAL = combine == ACC_REDUCE_PRODUCT   ? 1.0f
                                     : combine == ACC_REDUCE_MAXIMUM ? -__builtin_inff()
                                     : combine == ACC_REDUCE_MINIMUM ? __builtin_inff()
                                                                      : 0.0f;
    static __attribute__((always_inline)) inline Vector element(Vector x) {
        return before == ACC_BEFORE_ABSOLUTE ? absolute(x) : before == ACC_BEFORE_SQUARE ? x * x : x;
    }
    static __attribute__((always_inline)) inline Vector merge(Vector a, Vector b) {
        if (combine == ACC_REDUCE_PRODUCT) return a * b;
        if (combine == ACC_REDUCE_MAXIMUM) return select(b != b, b, maximum(b, a));
        if (combine == ACC_REDUCE_MINIMUM) return select(b != b, b, minimum(b, a));
        return a + b;
    }
};

/* The last lanes hold `outside`. */
INLINE Vector load_filled(const float *at, int n, Vector outside) {
    Integers lanes;
#pragma GCC unroll 16
    for (int lane = 0; lane < LANES; lane++) lanes[lane] = lane;
    return select(lanes < n, load_part(at, n), outside);
}

template <typename R> INLINE float reduce_row(const acc_job *job, const float *in, int64_t count) {
    const Vector neutral = broadcast(R::NEUTRAL);
    Vector x[4] = {neutral, neutral, neutral, neutral};
    int64_t i = 0;
    while (i + 4 * LANES <= count) {
        const int64_t end = span_end(job, i, count);
        if (end == i) return 0.0f;
        for (; i + 4 * LANES <= end; i += 4 * LANES)
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) x[k] = R::merge(x[k], R::element(load(in + i + k * LANES)));
    }
#pragma GCC unroll 3
    for (int k = 0; k < 3; k++)
        if (i + LANES <= count) x[k] = R::merge(x[k], R::element(load(in + i))), i += LANES;
    if (i < count) x[3] = R::merge(x[3], R::element(load_filled(in + i, (int)(count - i), neutral)));
    return reduce(R::merge(R::merge(x[0], x[1]), R::merge(x[2], x[3])), [](Vector a, Vector b) { return R::merge(a, b); });
}

/* What the exponents are taken relative to: an infinity would leave NaN. */
INLINE Vector relative_to(Vector greatest) {
    return select(absolute(greatest) < broadcast(__builtin_inff()), greatest, zeros());
}

INLINE float log_sum_exp_row(const acc_job *job, const float *in, int64_t count) {
    const Vector lowest = broadcast(-__builtin_inff());
    const Vector middle = relative_to(broadcast(reduce_row<Reducer<ACC_REDUCE_MAXIMUM, ACC_BEFORE_NOTHING>>(job, in, count)));
    Vector sum = zeros();
    int64_t i = 0;
    while (i + LANES <= count) {
        const int64_t end = span_end(job, i, count);
        if (end == i) return 0.0f;
        for (; i + LANES <= end; i += LANES) sum += exponential(load(in + i) - middle);
    }
    if (i < count) sum += exponential(load_filled(in + i, (int)(count - i), lowest) - middle);
    return (middle + logarithm(broadcast(total(sum))))[0];
}

INLINE Vector finished(const acc_reduction_stage &s, Vector x) {
    switch (s.after) {
    case ACC_AFTER_FACTOR: return x * broadcast(s.factor);
    case ACC_AFTER_ROOT: return square_root(x);
    case ACC_AFTER_LOGARITHM: return logarithm(x);
    default: return x;
    }
}

/* Down the columns of [size, inner]: `vectors` vectors of columns at once, the last of which has
 * `last` lanes. */
template <typename R, int vectors>
INLINE void reduce_columns(const acc_job *job, const acc_reduction_stage &s, const float *in, float *out, int last) {
    /* Two partial results: shorter sums err less, and no addition waits for the one before. */
    Vector x[2][vectors];
    for (int v = 0; v < vectors; v++) x[0][v] = x[1][v] = broadcast(R::NEUTRAL);
    int64_t i = 0;
    while (i + 2 <= s.size) {
        const int64_t end = span_end(job, i, s.size);
        if (end == i) return;
        for (; i + 2 <= end; i += 2, in += 2 * s.inner)
#pragma GCC unroll 2
            for (int row = 0; row < 2; row++)
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++) {
                    const float *at = in + row * s.inner + v * LANES;
                    x[row][v] = R::merge(x[row][v], R::element(last == LANES || v + 1 < vectors ? load(at) : load_part(at, last)));
                }
    }
    for (int v = 0; v < vectors; v++) {
        const int lanes = v + 1 < vectors ? LANES : last;
        if (i < s.size) x[0][v] = R::merge(x[0][v], R::element(load_part(in + v * LANES, lanes)));
        store_part(out + v * LANES, finished(s, R::merge(x[0][v], x[1][v])), lanes);
    }
}

INLINE void log_sum_exp_columns(const acc_job *job, const acc_reduction_stage &s, const float *in, float *out, int lanes) {
    Vector greatest = broadcast(-__builtin_inff()), sum = zeros();
    for (int64_t i = 0; i < s.size;) {
        const int64_t end = span_end(job, i, s.size);
        if (end == i) return;
        for (; i < end; i++)
            greatest = Reducer<ACC_REDUCE_MAXIMUM, ACC_BEFORE_NOTHING>::merge(greatest, load_part(in + i * s.inner, lanes));
    }
    const Vector middle = relative_to(greatest);
    for (int64_t i = 0; i < s.size;) {
        const int64_t end = span_end(job, i, s.size);
        if (end == i) return;
        for (; i < end; i++) sum += exponential(load_part(in + i * s.inner, lanes) - middle);
    }
    store_part(out, middle + logarithm(sum), lanes);
}

template <int combine, int before>
INLINE void reduce_items(const acc_job *job, const acc_reduction_stage &s, const float *in, float *out, int64_t begin, int64_t end) {
    using R = Reducer<combine, before>;
    if (s.inner == 1) {
        for (int64_t item = begin; item < end; item++) {
            const float *row = in + item * s.size;
            if (combine == ACC_REDUCE_LOG_SUM_EXP)
                out[item] = log_sum_exp_row(job, row, s.size);
            else
                out[item] = finished(s, broadcast(reduce_row<R>(job, row, s.size)))[0];
        }
        return;
    }
    for (int64_t item = begin; item < end; item++) {
        const int64_t plane = item / s.chunks, chunk = item % s.chunks, stop = s.inner * (chunk + 1) / s.chunks;
        const float *from = in + plane * s.size * s.inner;
        float *to = out + plane * s.inner;
        for (int64_t column = s.inner * chunk / s.chunks; column < stop;) {
            const int64_t left = stop - column;
            if (combine == ACC_REDUCE_LOG_SUM_EXP) {
                log_sum_exp_columns(job, s, from + column, to + column, (int)lesser<int64_t>(LANES, left));
                column += LANES;
            } else if (left >= 4 * LANES) {
                reduce_columns<R, 4>(job, s, from + column, to + column, LANES);
                column += 4 * LANES;
            } else {
                reduce_columns<R, 1>(job, s, from + column, to + column, (int)lesser<int64_t>(LANES, left));
                column += LANES;
            }
        }
    }
}

template <int stage> static void reduce_stage(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_reduction_stage &s = ((const acc_reduction *)job->parameters)->stages[stage];
    const float *in = s.source < 0 ? (const float *)job->inputs[0] : (const float *)job->workspace + s.source;
    float *out = s.target < 0 ? (float *)job->outputs[0] : (float *)job->workspace + s.target;
    switch (s.combine) {
    case ACC_REDUCE_PRODUCT: reduce_items<ACC_REDUCE_PRODUCT, ACC_BEFORE_NOTHING>(job, s, in, out, begin, end); break;
    case ACC_REDUCE_MAXIMUM: reduce_items<ACC_REDUCE_MAXIMUM, ACC_BEFORE_NOTHING>(job, s, in, out, begin, end); break;
    case ACC_REDUCE_MINIMUM: reduce_items<ACC_REDUCE_MINIMUM, ACC_BEFORE_NOTHING>(job, s, in, out, begin, end); break;
    case ACC_REDUCE_LOG_SUM_EXP: reduce_items<ACC_REDUCE_LOG_SUM_EXP, ACC_BEFORE_NOTHING>(job, s, in, out, begin, end); break;
    default:
        if (s.before == ACC_BEFORE_ABSOLUTE)
            reduce_items<ACC_REDUCE_SUM, ACC_BEFORE_ABSOLUTE>(job, s, in, out, begin, end);
        else if (s.before == ACC_BEFORE_SQUARE)
            reduce_items<ACC_REDUCE_SUM, ACC_BEFORE_SQUARE>(job, s, in, out, begin, end);
        else
            reduce_items<ACC_REDUCE_SUM, ACC_BEFORE_NOTHING>(job, s, in, out, begin, end);
    }
}

static const acc_reduction_kernels reduction_kernels = {{reduce_stage<0>, reduce_stage<1>, reduce_stage<2>, reduce_stage<3>}};

} // namespace dovetail_acc::ACC_ISA
