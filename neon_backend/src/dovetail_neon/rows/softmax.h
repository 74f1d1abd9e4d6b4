/* What is worked out along one axis. */
#pragma once

#include "dovetail_neon/rows/parameters.h"
#include "dovetail_neon/vectors/mathematics.h"
#include "dovetail_neon/vectors/horizontal.h"
#include "dovetail_neon/workload/spans.h"

namespace dovetail_acc::ACC_ISA {

/* The lanes of a row's last vector that lie beyond it hold what `outside` says, so that they change
 * no sum and no maximum. */
INLINE Vector row_at(const float *row, int64_t i, int64_t size, Vector outside) {
    if (size - i >= LANES) return load(row + i);
    Integers lanes;
    for (int lane = 0; lane < LANES; lane++) lanes[lane] = lane;
    return select(lanes < (int32_t)(size - i), load_part(row + i, (int)(size - i)), outside);
}

INLINE void store_row_at(float *row, int64_t i, int64_t size, Vector x) {
    if (size - i >= LANES)
        store(row + i, x);
    else
        store_part(row + i, x, (int)(size - i));
}

INLINE Vector lanes_below(int64_t count, Vector x, Vector outside) {
    Integers lanes;
#pragma GCC unroll 16
    for (int lane = 0; lane < LANES; lane++) lanes[lane] = lane;
    return select(lanes < (int32_t)count, x, outside);
}

/* e^(beta * (x - max)) over its sum; the exponents are never positive, so that nothing overflows.
 * The maximum may pass over a NaN: the sum does not. */
static void softmax_rows(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_softmax &s = *(const acc_softmax *)job->parameters;
    const Vector lowest = broadcast(-__builtin_inff()), beta = broadcast(s.beta);
    const int64_t whole = s.size / LANES * LANES, left = s.size - whole;
    for (int64_t item = begin; item < end; item++) {
        const float *in = (const float *)job->inputs[0] + item * s.size;
        float *out = (float *)job->outputs[0] + item * s.size;
        Vector best[2] = {lowest, lowest}, sum[2] = {};
        int64_t i = 0;
        while (i + 2 * LANES <= whole) {
            const int64_t last = span_end(job, i, whole);
            if (last == i) return;
            for (; i + 2 * LANES <= last; i += 2 * LANES)
#pragma GCC unroll 2
                for (int k = 0; k < 2; k++) best[k] = maximum(load(in + i + k * LANES) * beta, best[k]);
        }
        if (i < whole) best[0] = maximum(load(in + i) * beta, best[0]);
        if (left) best[1] = maximum(lanes_below(left, load_part(in + whole, (int)left) * beta, lowest), best[1]);
        const Vector top = broadcast(largest(maximum(best[0], best[1])));
        for (i = 0; i + 2 * LANES <= whole;) {
            const int64_t last = span_end(job, i, whole);
            if (last == i) return;
            for (; i + 2 * LANES <= last; i += 2 * LANES)
#pragma GCC unroll 2
                for (int k = 0; k < 2; k++) {
                    const Vector shifted = fma(load(in + i + k * LANES), beta, -top), power = exponential_below_one(shifted);
                    sum[k] += power;
                    store(out + i + k * LANES, s.logarithm ? shifted : power);
                }
        }
        if (i < whole) {
            const Vector shifted = fma(load(in + i), beta, -top), power = exponential_below_one(shifted);
            sum[0] += power;
            store(out + i, s.logarithm ? shifted : power);
        }
        if (left) {
            const Vector shifted = fma(load_part(in + whole, (int)left), beta, -top), power = exponential_below_one(shifted);
            sum[1] += lanes_below(left, power, zeros());
            store_part(out + whole, s.logarithm ? shifted : power, (int)left);
        }
        const Vector all = broadcast(total(sum[0] + sum[1]));
        const Vector factor = s.logarithm ? broadcast(1.0f) : broadcast(1.0f) / all;
        const Vector offset = s.logarithm ? -logarithm(all) : zeros();
        for (i = 0; i < whole;) {
            const int64_t last = span_end(job, i, whole);
            if (last == i) return;
#pragma GCC unroll 2
            for (; i < last; i += LANES) store(out + i, fma(load(out + i), factor, offset));
        }
        if (left) store_part(out + whole, fma(load_part(out + whole, (int)left), factor, offset), (int)left);
    }
}

INLINE Vector larger_or_nan(Vector best, Vector x) { return select((x > best) | (x != x), x, best); }

/* The same down the columns of [size, inner]: a vector holds LANES columns. */
static void softmax_columns(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_softmax &s = *(const acc_softmax *)job->parameters;
    const Vector beta = broadcast(s.beta);
    for (int64_t item = begin; item < end; item++) {
        const int64_t plane = item / s.chunks, chunk = item % s.chunks;
        const float *in = (const float *)job->inputs[0] + plane * s.size * s.inner;
        float *out = (float *)job->outputs[0] + plane * s.size * s.inner;
        const int64_t last = s.inner * (chunk + 1) / s.chunks;
        for (int64_t column = s.inner * chunk / s.chunks; column < last; column += LANES) {
            const int count = (int)lesser<int64_t>(LANES, last - column);
            Vector top = broadcast(-__builtin_inff()), sum = zeros();
            for (int64_t i = 0; i < s.size;) {
                const int64_t end = span_end(job, i, s.size);
                if (end == i) return;
                for (; i < end; i++) top = larger_or_nan(top, load_part(in + i * s.inner + column, count) * beta);
            }
            for (int64_t i = 0; i < s.size;) {
                const int64_t end = span_end(job, i, s.size);
                if (end == i) return;
                for (; i < end; i++) {
                    const Vector shifted = fma(load_part(in + i * s.inner + column, count), beta, -top);
                    const Vector power = exponential_below_one(shifted);
                    sum += power;
                    store_part(out + i * s.inner + column, s.logarithm ? shifted : power, count);
                }
            }
            const Vector change = s.logarithm ? logarithm(sum) : broadcast(1.0f) / sum;
            for (int64_t i = 0; i < s.size;) {
                const int64_t end = span_end(job, i, s.size);
                if (end == i) return;
                for (; i < end; i++) {
                    const Vector x = load_part(out + i * s.inner + column, count);
                    store_part(out + i * s.inner + column, s.logarithm ? x - change : x * change, count);
                }
            }
        }
    }
}

/* Mean first, then the mean of the squared distances from it: no cancellation (two passes over a
 * row that lies in the cache). */
static void layer_normalization(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_layer_normalization &s = *(const acc_layer_normalization *)job->parameters;
    for (int64_t row = begin; row < end; row++) {
        const float *in = (const float *)job->inputs[0] + row * s.size;
        float *out = (float *)job->outputs[0] + row * s.size;
        Vector sum[2] = {}, squares[2] = {};
        int turn = 0;
        for (int64_t i = 0; i < s.size;) {
            const int64_t last = span_end(job, i, s.size);
            if (last == i) return;
            for (; i < last; i += LANES, turn ^= 1) sum[turn] += row_at(in, i, s.size, zeros());
        }
        const Vector mean = broadcast(s.center ? sum_of(sum[0] + sum[1]) / (float)s.size : 0.0f);
        for (int64_t i = 0; i < s.size;) {
            const int64_t last = span_end(job, i, s.size);
            if (last == i) return;
            for (; i < last; i += LANES, turn ^= 1) {
                const Vector distance = row_at(in, i, s.size, mean) - mean;
                squares[turn] = fma(distance, distance, squares[turn]);
            }
        }
        const float variance = sum_of(squares[0] + squares[1]) / (float)s.size;
        const Vector factor = broadcast(1.0f / __builtin_sqrtf(variance + s.epsilon));
        for (int64_t i = 0; i < s.size;) {
            const int64_t last = span_end(job, i, s.size);
            if (last == i) return;
            for (; i < last; i += LANES) {
                const Vector normal = (row_at(in, i, s.size, zeros()) - mean) * factor;
                store_row_at(out, i, s.size, fma(normal, row_at(s.scale, i, s.size, zeros()), row_at(s.offset, i, s.size, zeros())));
            }
        }
    }
}

static const acc_rows_kernels rows_kernels = {softmax_rows, softmax_columns, layer_normalization};

} // namespace dovetail_acc::ACC_ISA
