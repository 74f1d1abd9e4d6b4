/* From sums in 32 bits to results of 8. */
#pragma once

#include "dovetail_neon/vectors/bytes.h"
#include "dovetail_neon/quantized/parameters.h"

namespace dovetail_acc::ACC_ISA {

/* To this, 0x4B400000, a float adds a whole number, and rounds it to nearest even: its last bits
 * are then that number's. */
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
    INLINE_MEMBER GroupBytes bytes(const Integers (&x)[GROUP_VECTORS]) const { return low_bytes(x); }

  private:
    INLINE_MEMBER Integers rounded(Vector x) const { return bits_of(minimum(maximum(x, low), high)); }
};

/* Results below it have all their bits when they are rounded. */
constexpr float NEAR = 4194304.0f - 1024.0f;

/* The same of results that are known to lie within it: they are whole numbers as soon as they are
 * rounded, and clamped as bytes. */
struct NearRounding {
    Vector zero;
    GroupBytes low, high;

    /* A variable: sanitizers make an int of a cast, which is too wide for a lane. */
    INLINE_MEMBER static GroupBytes every(float x) {
        const Byte byte = (Byte)x;
        return GroupBytes{} + byte;
    }

    INLINE_MEMBER NearRounding(int32_t zero, float low, float high)
        : zero(broadcast(WHOLE + (float)zero)), low(every(low)), high(every(high)) {}

    INLINE_MEMBER Integers operator()(Vector x, Vector factor) const { return (*this)(x * factor); }
    INLINE_MEMBER Integers operator()(Vector x) const { return bits_of(x + zero) - 0x4B400000; }

    /* To bytes, in the order of stacks. */
    INLINE_MEMBER GroupBytes bytes(const Integers (&x)[GROUP_VECTORS]) const {
        const GroupBytes y = saturated(x), z = y > low ? y : low;
        return z < high ? z : high;
    }
};

/* Write the first `count` bytes of a block. */
INLINE void store_block(Byte *at, const Integers (&x)[BLOCK_VECTORS], int count) {
    if (count == BLOCK)
        store_bytes(at, x);
    else
        store_first(at, x, count);
}

} // namespace dovetail_acc::ACC_ISA
