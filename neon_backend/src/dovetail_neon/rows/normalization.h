/* Channels scaled and shifted. */
#pragma once

#include "dovetail_neon/rows/parameters.h"
#include "dovetail_neon/vectors/horizontal.h"
#include "dovetail_neon/workload/spans.h"

namespace dovetail_acc::ACC_ISA {

/* in * factor + offset, of a run with one factor and one offset. */
INLINE void scale_run(const acc_job *job, const float *in, float *out, int64_t count, float factor, float offset) {
    const Vector f = broadcast(factor), o = broadcast(offset);
    int64_t i = 0;
    while (i + LANES <= count) {
        const int64_t end = span_end(job, i, count);
        if (end == i) return;
#pragma GCC unroll 4
        for (; i + LANES <= end; i += LANES) store(out + i, fma(load(in + i), f, o));
    }
    if (i < count) store_part(out + i, fma(load_part(in + i, (int)(count - i)), f, o), (int)(count - i));
}

static void affine(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_affine &s = *(const acc_affine *)job->parameters;
    const float *in = (const float *)job->inputs[0];
    float *out = (float *)job->outputs[0];
    if (s.inner != 1) {
        for (int64_t item = begin; item < end; item++) {
            const int64_t channel = item % s.channels;
            scale_run(job, in + item * s.inner, out + item * s.inner, s.inner, s.factor[channel], s.offset[channel]);
        }
        return;
    }
    for (int64_t item = begin; item < end; item++) {
        const float *from = in + item * s.channels;
        float *to = out + item * s.channels;
        int64_t i = 0;
#pragma GCC unroll 2
        for (; i + LANES <= s.channels; i += LANES) store(to + i, fma(load(from + i), load(s.factor + i), load(s.offset + i)));
        const int left = (int)(s.channels - i);
        if (left) store_part(to + i, fma(load_part(from + i, left), load_part(s.factor + i, left), load_part(s.offset + i, left)), left);
    }
}

/* Sum of (x - middle)^power over a run, power 1 or 2; several sums at once, which also keeps each
 * of them short. */
template <int power> INLINE float sum_of_run(const acc_job *job, const float *in, int64_t count, float middle) {
    const Vector m = broadcast(middle);
    Vector sum[4] = {};
    int64_t i = 0;
    while (i + 4 * LANES <= count) {
        const int64_t end = span_end(job, i, count);
        if (end == i) return 0.0f;
        for (; i + 4 * LANES <= end; i += 4 * LANES)
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                const Vector d = load(in + i + k * LANES) - m;
                sum[k] = power == 1 ? sum[k] + d : fma(d, d, sum[k]);
            }
    }
    for (; i + LANES <= count; i += LANES) {
        const Vector d = load(in + i) - m;
        sum[0] = power == 1 ? sum[0] + d : fma(d, d, sum[0]);
    }
    float result = total((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (; i < count; i++) result += power == 1 ? in[i] - middle : (in[i] - middle) * (in[i] - middle);
    return result;
}

/* The same of numbers whose sum or squares leave the range of float32: rare, and one by one. */
static void normalize_widely(
    const float *in, float *out, int64_t count, int64_t inner, const float *scale, const float *offset, float epsilon
) {
    double sum = 0.0, squares = 0.0;
    for (int64_t k = 0; k < count; k++) sum += in[k];
    const double mean = sum / (double)count;
    for (int64_t k = 0; k < count; k++) squares += (in[k] - mean) * (in[k] - mean);
    const double factor = 1.0 / __builtin_sqrt(squares / (double)count + epsilon);
    for (int64_t k = 0; k < count; k++) out[k] = (float)((in[k] - mean) * factor * scale[k / inner] + offset[k / inner]);
}

/* A column: element k lies at in[k * stride], all of one channel. */
static void normalize_column_widely(
    const float *in, float *out, int64_t count, int64_t stride, float scale, float offset, float epsilon
) {
    double sum = 0.0, squares = 0.0;
    for (int64_t k = 0; k < count; k++) sum += in[k * stride];
    const double mean = sum / (double)count;
    for (int64_t k = 0; k < count; k++) squares += (in[k * stride] - mean) * (in[k * stride] - mean);
    const double factor = 1.0 / __builtin_sqrt(squares / (double)count + epsilon);
    for (int64_t k = 0; k < count; k++) out[k * stride] = (float)((in[k * stride] - mean) * factor * scale + offset);
}

INLINE bool leaves_the_range(float variance) { return !(variance <= 3.4e38f); }

/* The mean first, then that of the squared distances from it: no cancellation. */
static void normalize_groups(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_group_normalization &s = *(const acc_group_normalization *)job->parameters;
    const int64_t count = s.channels * s.inner;
    for (int64_t item = begin; item < end; item++) {
        const float *in = (const float *)job->inputs[0] + item * count;
        float *out = (float *)job->outputs[0] + item * count;
        const float mean = sum_of_run<1>(job, in, count, 0.0f) / (float)count;
        const float variance = sum_of_run<2>(job, in, count, mean) / (float)count;
        const float factor = 1.0f / __builtin_sqrtf(variance + s.epsilon);
        const int64_t first = item % s.groups * s.channels;
        if (leaves_the_range(variance)) {
            if (acc_stopped(job)) return;
            normalize_widely(in, out, count, s.inner, s.scale + first, s.offset + first, s.epsilon);
            continue;
        }
        for (int64_t channel = 0; channel < s.channels; channel++) {
            if (channel && channel % (SPAN / 8) == 0 && acc_stopped(job)) return;
            const float scale = s.scale[first + channel] * factor;
            const Vector m = broadcast(mean), f = broadcast(scale), o = broadcast(s.offset[first + channel]);
            const float *from = in + channel * s.inner;
            float *to = out + channel * s.inner;
            int64_t i = 0;
            while (i + LANES <= s.inner) {
                const int64_t end = span_end(job, i, s.inner);
                if (end == i) return;
#pragma GCC unroll 2
                for (; i + LANES <= end; i += LANES) store(to + i, fma(load(from + i) - m, f, o));
            }
            const int left = (int)(s.inner - i);
            if (left) store_part(to + i, fma(load_part(from + i, left) - m, f, o), left);
        }
    }
}

static void normalize_columns(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_column_normalization &s = *(const acc_column_normalization *)job->parameters;
    const int64_t vectors = (s.channels + LANES - 1) / LANES;
    const Vector share = broadcast(1.0f / (float)s.pixels), epsilon = broadcast(s.epsilon);
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / vectors, channel = item % vectors * LANES;
        const int count = (int)lesser<int64_t>(LANES, s.channels - channel);
        const float *in = (const float *)job->inputs[0] + image * s.pixels * s.channels + channel;
        float *out = (float *)job->outputs[0] + image * s.pixels * s.channels + channel;
        /* Four sums each: shorter sums err less. */
        Vector sum[4] = {}, squares[4] = {};
        for (int64_t p = 0; p < s.pixels;) {
            const int64_t end = span_end(job, p, s.pixels);
            if (end == p) return;
            for (; p < end; p++) sum[p & 3] += load_part(in + p * s.channels, count);
        }
        const Vector mean = ((sum[0] + sum[1]) + (sum[2] + sum[3])) * share;
        for (int64_t p = 0; p < s.pixels;) {
            const int64_t end = span_end(job, p, s.pixels);
            if (end == p) return;
            for (; p < end; p++) {
                const Vector distance = load_part(in + p * s.channels, count) - mean;
                squares[p & 3] = fma(distance, distance, squares[p & 3]);
            }
        }
        const Vector variance = ((squares[0] + squares[1]) + (squares[2] + squares[3])) * share;
        float variances[LANES];
        store(variances, variance);
        bool is_wide = false;
        for (int lane = 0; lane < count; lane++) is_wide |= leaves_the_range(variances[lane]);
        if (is_wide) {
            if (acc_stopped(job)) return;
            for (int lane = 0; lane < count; lane++)
                normalize_column_widely(in + lane, out + lane, s.pixels, s.channels, s.scale[channel + lane], s.offset[channel + lane], s.epsilon);
            continue;
        }
        const Vector factor = load_part(s.scale + channel, count) / square_root(variance + epsilon);
        const Vector offset = load_part(s.offset + channel, count);
        for (int64_t p = 0; p < s.pixels;) {
            const int64_t end = span_end(job, p, s.pixels);
            if (end == p) return;
            for (; p < end; p++)
                store_part(out + p * s.channels, fma(load_part(in + p * s.channels, count) - mean, factor, offset), count);
        }
    }
}

static const acc_normalization_kernels normalization_kernels = {affine, normalize_groups, normalize_columns};

} // namespace dovetail_acc::ACC_ISA
