/* Numbers in fixed point, in lanes of 32 bits, rounded as TensorFlow Lite's reference kernels do.
 *
 * Sources: gemmlowp/fixedpoint (SaturatingRoundingDoublingHighMul, RoundingDivideByPOT). Of a
 * product the halves are rounded up: what gemmlowp cuts off of negative ones comes to the same.
 */
#pragma once

#include "dovetail_neon/vectors/bytes.h"

namespace dovetail_acc::ACC_ISA {

typedef int64_t Longs __attribute__((vector_size(LANES * 4)));

INLINE Integers spread_integer(int32_t x) { return Integers{} + x; }
INLINE Integers either(Integers condition, Integers yes, Integers no) { return condition ? yes : no; }
INLINE Integers between(Integers x, int32_t low, int32_t high) {
    x = either(x < low, spread_integer(low), x);
    return either(x > high, spread_integer(high), x);
}

/* The high half of 2 * a * b, rounded; not of -2^31 twice. */
INLINE Integers high_product(Integers a, Integers b) {
#if ACC_IS == 3
    return (Integers)vqrdmulhq_s32((int32x4_t)a, (int32x4_t)b);
#elif ACC_IS == 4
    Integers high;
    for (int i = 0; i < LANES; i++) high[i] = (int32_t)(((int64_t)a[i] * b[i] + (1 << 30)) >> 31);
    return high;
#else
    /* Of each pair of lanes the lower ones are multiplied, whatever the upper ones are. */
    const Longs half = Longs{} + (1LL << 30);
    const Longs even = half + (Longs)ACC_X86(mul_epi32)((Register)a, (Register)b);
    const Longs odd = half + (Longs)ACC_X86(mul_epi32)(ACC_X86(srli_epi64)((Register)a, 32), ACC_X86(srli_epi64)((Register)b, 32));
    return (Integers)mixed_words(ACC_X86(srli_epi64)((Register)even, 31), (Register)(odd << 1));
#endif
}

/* x / 2^exponent, rounded to nearest, halves away from zero. */
INLINE Integers rounding_shift(Integers x, int exponent) {
    const int32_t mask = (int32_t)(((int64_t)1 << exponent) - 1);
    const Integers threshold = (mask >> 1) - (x < 0);   /* what is true is -1 */
    return (x >> exponent) - ((x & mask) > threshold);
}

/* x times a real factor, multiplier * 2^(shift - 31); what is shifted up saturates. */
INLINE Integers scaled_integers(Integers x, int32_t multiplier, int shift) {
    if (shift > 0) {
        const int32_t most = INT32_MAX >> shift, least = INT32_MIN >> shift;
        const Integers up = either(x > most, spread_integer(INT32_MAX), either(x < least, spread_integer(INT32_MIN), x << shift));
        return high_product(up, spread_integer(multiplier));
    }
    return rounding_shift(high_product(x, spread_integer(multiplier)), -shift);
}

} // namespace dovetail_acc::ACC_ISA
