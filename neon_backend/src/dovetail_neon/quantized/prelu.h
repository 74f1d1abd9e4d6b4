/* PReLU of quantized bytes, in fixed point as TensorFlow Lite's reference kernel has it
 * (reference_ops::BroadcastPrelu4DSlow). */
#pragma once

#include "dovetail_neon/quantized/requantization.h"
#include "dovetail_neon/quantized/second.h"
#include "dovetail_neon/vectors/fixed_point.h"

namespace dovetail_acc::ACC_ISA {

/* Elements, and those below zero times their slope, become results in one multiplication: what it
 * is by is chosen lane by lane.
 *
 * What is shifted up need not saturate. Multipliers are at least 2^30, or 0: a shift by 9 makes at
 * least 256 of 1, which is beyond every byte, and less than 2^26 of the greatest product. */
struct Bending {
    static constexpr int32_t MAX_LEFT_SHIFT = 9;
    const int32_t zero_x, zero_slope, zero, one, left;
    const Integers above, below;                    /* multipliers */
    const Integers right_above, right_below;
    const Integers half_above, half_below, half_negative;

    explicit Bending(const acc_quantized_prelu &s)
        : zero_x(s.zero_x), zero_slope(s.zero_slope), zero(s.zero), one(1 << lesser(s.above.left, MAX_LEFT_SHIFT)),
          left(lesser(s.below.left, MAX_LEFT_SHIFT)), above(spread_integer(s.above.multiplier)),
          below(spread_integer(s.below.multiplier)), right_above(spread_integer(s.above.right)), right_below(spread_integer(s.below.right)),
          half_above(spread_integer(half(s.above.right))), half_below(spread_integer(half(s.below.right))),
          half_negative(half_below - (s.below.right ? 1 : 0)) {}

    INLINE_MEMBER Integers operator()(const Byte *elements, const Byte *slopes) const {
        const Integers x = load_bytes(elements) - zero_x, slope = (load_bytes(slopes) - zero_slope) << left;
        const Integers bent = x < 0;
        const Integers high = high_product(x * either(bent, slope, spread_integer(one)), either(bent, below, above));
        /* Halves go away from zero: of results below it, which only what is bent has. */
        const Integers nudge = either(high < 0, half_negative, either(bent, half_below, half_above));
        return ((high + nudge) >> either(bent, right_below, right_above)) + zero;
    }

  private:
    static int32_t half(int32_t right) { return (int32_t)((1u << right) >> 1); }
};

/* Of tensors of one layout. Range: blocks of 16 bytes. */
static void prelu_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_prelu &s = *(const acc_quantized_prelu *)job->parameters;
    const Bending bending(s);
    const Byte *in = (const Byte *)job->inputs[0];
    Byte *out = (Byte *)job->outputs[0];
    const int64_t stop = lesser(end * BLOCK, s.count);
    int64_t at = begin * BLOCK;
    Second second(job, s.second, at);
    for (; at + GROUP <= stop; at += GROUP, second.advance(GROUP)) {
        Integers y[GROUP_VECTORS];
        const Byte *const slopes = second.here();
#pragma GCC unroll 4
        for (int v = 0; v < GROUP_VECTORS; v++) y[v] = bending(in + at + v * LANES, slopes + v * LANES);
        const GroupBytes bytes = in_order(saturated(y));
        __builtin_memcpy(out + at, &bytes, sizeof(bytes));
    }
    for (; at < stop; at += BLOCK, second.advance(BLOCK)) {
        Integers y[BLOCK_VECTORS];
        const Byte *const slopes = second.here();
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) y[v] = between(bending(in + at + v * LANES, slopes + v * LANES), s.low, s.high);
        store_block(out + at, y, (int)lesser<int64_t>(BLOCK, s.count - at));
    }
}

} // namespace dovetail_acc::ACC_ISA
