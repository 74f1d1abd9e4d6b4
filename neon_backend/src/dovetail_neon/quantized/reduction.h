/* What the pixels of quantized images come to: sums, greatest and least elements. */
#pragma once

#include "dovetail_neon/quantized/elements.h"

namespace dovetail_acc::ACC_ISA {

constexpr int64_t PIXELS_BETWEEN_LOOKS = 1 << 16;      /* at the stop word */

struct Total {
    static constexpr int32_t FIRST = 0;
    static INLINE_MEMBER Integers of(Integers a, Integers b) { return a + b; }
};

template <typename Reduction> static void reduce_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_reduction &r = *(const acc_quantized_reduction *)job->parameters;
    const Rounding rounding(r.zero, r.low, r.high);
    const Vector factor = broadcast(r.factor);
    const int64_t blocks = (r.channels + BLOCK - 1) / BLOCK;
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / blocks, channel = item % blocks * BLOCK;
        const Byte *in = (const Byte *)job->inputs[0] + image * r.pixels * r.step + channel;
        Integers x[BLOCK_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = Integers{} + Reduction::FIRST;
        for (int64_t pixel = 0; pixel < r.pixels;) {
            if (pixel && acc_stopped(job)) return;
            const int64_t until = lesser(pixel + PIXELS_BETWEEN_LOOKS, r.pixels);
            for (; pixel < until; pixel++, in += r.step)
#pragma GCC unroll 4
                for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = Reduction::of(x[v], load_bytes(in + v * LANES));
        }
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = rounding(to_floats(x[v] - r.offset), factor);
        store_block((Byte *)job->outputs[0] + image * r.step + channel, x, (int)lesser<int64_t>(BLOCK, r.step - channel));
    }
}

} // namespace dovetail_acc::ACC_ISA
