/* From sums in 32 bits to results of 8. */
#pragma once

#include "dovetail_neon/vectors/bytes.h"
#include "dovetail_neon/quantized/parameters.h"

namespace dovetail_acc::ACC_ISA {

/* To this a float adds a whole number, and rounds it to nearest even: its last bits are then that
 * number's. */
constexpr float WHOLE = 12582912.0f;

/* Real numbers, counted from the zero point, to clamped integers. Not even here is a multiplication
 * fused with an addition, so that quantized layers give the same bits on every machine. */
struct Rounding {
    Vector zero, low, high;

    INLINE_MEMBER Rounding(int32_t zero, float low, float high)
        : zero(broadcast(WHOLE + (float)zero)), low(broadcast(WHOLE + low)), high(broadcast(WHOLE + high)) {}

    /* x * factor; a NaN becomes the lower bound. The low byte of each lane is the result. */
    INLINE_MEMBER Integers operator()(Vector x, Vector factor) const { return rounded(x * factor + zero); }
    INLINE_MEMBER Integers operator()(Vector x) const { return rounded(x + zero); }

  private:
    INLINE_MEMBER Integers rounded(Vector x) const { return bits_of(minimum(maximum(x, low), high)); }
};

/* Write the first `count` bytes of a block. */
INLINE void store_block(Byte *at, const Integers (&x)[BLOCK_VECTORS], int count) {
    if (count == BLOCK) {
        store_bytes(at, x);
        return;
    }
    Byte whole[BLOCK];
    store_bytes(whole, x);
    for (int i = 0; i < count; i++) at[i] = whole[i];
}

} // namespace dovetail_acc::ACC_ISA
