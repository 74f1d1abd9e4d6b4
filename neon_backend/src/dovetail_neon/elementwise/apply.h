/* A function of every element, and factors per channel. */
#pragma once

#include "dovetail_neon/elementwise/functions.h"
#include "dovetail_neon/elementwise/parameters.h"

namespace dovetail_acc::ACC_ISA {

static void scale_channels(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_scale &s = *(const acc_scale *)job->parameters;
    const int64_t blocks = (s.channels + LANES - 1) / LANES;
    for (int64_t item = begin; item < end; item++) {
        const int64_t chunk = item % s.chunks, plane = item / s.chunks, block = plane % blocks, image = plane / blocks;
        const int left = (int)lesser<int64_t>(LANES, s.channels - block * LANES);
        const Vector factor = load_part((const float *)job->inputs[1] + image * s.channels + block * LANES, left);
        const float *in = (const float *)job->inputs[0] + plane * s.pixels * LANES;
        float *out = (float *)job->outputs[0] + plane * s.pixels * LANES;
        const int64_t last = s.pixels * (chunk + 1) / s.chunks;
        for (int64_t p = s.pixels * chunk / s.chunks; p < last;) {
            Vector x[8];
            const int count = (int)lesser<int64_t>(8, last - p);
            for (int i = 0; i < count; i++) x[i] = load(in + (p + i) * LANES) * factor;
            if (s.activation.function != ACC_IDENTITY) activate(s.activation, x, count);
            for (int i = 0; i < count; i++) store(out + (p + i) * LANES, x[i]);
            p += count;
        }
    }
}

static void apply(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    activate_run(((const acc_flat *)job->parameters)->activation, (const float *)job->inputs[0] + begin,
                 (float *)job->outputs[0] + begin, end - begin);
}

} // namespace dovetail_acc::ACC_ISA
