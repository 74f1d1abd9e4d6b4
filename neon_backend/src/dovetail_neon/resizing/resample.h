/* Images that are resampled: nearest pixels, or sums of pixels with weights. */
#pragma once

#include "dovetail_neon/resizing/parameters.h"
#include "dovetail_neon/workload/spans.h"

namespace dovetail_acc::ACC_ISA {

static void resize_nearest(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_resize &s = *(const acc_resize *)job->parameters;
    const int64_t *columns = s.columns.position;
    for (int64_t item = begin; item < end; item++) {
        const int64_t plane = item / s.out_height, y = item % s.out_height;
        const float *in = (const float *)job->inputs[0] + (plane * s.in_height + s.rows.position[y]) * s.in_width * LANES;
        float *out = (float *)job->outputs[0] + item * s.out_width * LANES;
        for (int64_t x = 0; x < s.out_width;) {
            const int64_t last = span_end(job, x, s.out_width);
            if (last == x) return;
            for (; x < last; x++) store(out + x * LANES, load(in + columns[x] * LANES));
        }
    }
}

/* Taps of weight 0 are not in the tables: what they would multiply may be infinite. */
static void resize_interpolate(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_resize &s = *(const acc_resize *)job->parameters;
    for (int64_t item = begin; item < end; item++) {
        const int64_t plane = item / s.out_height, y = item % s.out_height;
        const float *in = (const float *)job->inputs[0] + plane * s.in_height * s.in_width * LANES;
        float *out = (float *)job->outputs[0] + item * s.out_width * LANES;
        const int64_t top = s.rows.first[y], bottom = s.rows.first[y + 1];
        for (int64_t x = 0; x < s.out_width; x++) {
            if (s.polls && (x & s.polls_mask) == 0 && acc_stopped(job)) return;
            const int64_t left = s.columns.first[x], right = s.columns.first[x + 1];
            Vector sum = zeros();
            for (int64_t k = top; k < bottom; k++) {
                if (s.long_rows && acc_stopped(job)) return;
                const float *line = in + s.rows.position[k] * s.in_width * LANES;
                Vector across = load(line + s.columns.position[left] * LANES) * broadcast(s.columns.weight[left]);
                for (int64_t i = left + 1; i < right; i++)
                    across = fma(load(line + s.columns.position[i] * LANES), broadcast(s.columns.weight[i]), across);
                sum = k == top ? across * broadcast(s.rows.weight[k]) : fma(across, broadcast(s.rows.weight[k]), sum);
            }
            store(out + x * LANES, sum);
        }
    }
}

static const acc_resize_kernels resize_kernels = {resize_nearest, resize_interpolate};

} // namespace dovetail_acc::ACC_ISA
