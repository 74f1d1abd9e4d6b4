/* Functions of fixed-point numbers of 16 bits in lanes of 32, bit for bit as TensorFlow Lite's
 * integer LSTM computes them.
 *
 * A number of `integer_bits` stands for itself times 2^(15 - integer_bits). Sources:
 * gemmlowp/fixedpoint (logistic, tanh, and the exponential and quotients below them);
 * tensorflow/lite/kernels/internal/common.h (MultiplyByQuantizedMultiplier,
 * GetInvSqrtQuantizedMultiplierExp). Their roundings, halves away from zero but for what a quotient
 * of integers cuts off, come to halves up in products, since what is cut off is negative there.
 */
#pragma once

#include "dovetail_neon/recurrent/parameters.h"
#include "dovetail_neon/vectors/fixed_point.h"

namespace dovetail_acc::ACC_ISA {

typedef int8_t LanesOfInt8 __attribute__((vector_size(LANES)));

INLINE void store_integers(int32_t *at, Integers x) { __builtin_memcpy(at, &x, sizeof(x)); }
INLINE Integers fixed_saturated(Integers x) { return between(x, -32768, 32767); }
INLINE Integers fixed_scaled(Integers x, acc_fixed_factor by) { return scaled_integers(x, by.multiplier, by.shift); }

/* a * b, one of which is a fraction. */
INLINE Integers short_product(Integers a, Integers b) { return (a * b + (1 << 14)) >> 15; }

/* A scaled sum plus a zero point, or another sum of 16 bits: beyond these bounds both saturate. */
INLINE Integers added(Integers x, Integers y) { return between(x, -(1 << 18), 1 << 18) + y; }

/* e^x for x <= 0, as a fraction: a series around -1/8, times powers of e for the bits from 1/4. */
INLINE Integers fixed_exponential(Integers x, int integer_bits) {
    static constexpr int32_t powers[] = {25520, 19875, 12055, 4435, 600, 11, 0};     /* e^-(2^(i - 2)) */
    const int quarter = 1 << (13 - integer_bits);
    const Integers rest = (x & (quarter - 1)) - quarter, bits = rest - x, t = rest * (1 << integer_bits) + 4096;
    const Integers t2 = short_product(t, t), t3 = short_product(t2, t), t4 = short_product(t2, t2);
    const Integers tail = t + rounding_shift(short_product(rounding_shift(t4, 2) + t3, spread_integer(10923)) + t2, 1);
    Integers result = between(short_product(tail, spread_integer(28918)) + 28918, -32768, 32767);
#pragma GCC unroll 7
    for (int i = 0; i < 7; i++)
        if (i < integer_bits + 2)
            result = either((bits & (quarter << i)) != 0, short_product(result, spread_integer(powers[i])), result);
    if (integer_bits > 5) result = either(x < -(1 << (20 - integer_bits)), Integers{}, result);  /* below -32 */
    return either(x == 0, spread_integer(32767), result);
}

/* 2 / (1 + x) for a fraction x, with two integer bits, by Newton's method. */
INLINE Integers fixed_quotient(Integers x) {
    const Integers half = (x + 32768) >> 1;
    Integers found = short_product(half, spread_integer(-15420)) + 23130;
#pragma GCC unroll 3
    for (int i = 0; i < 3; i++) {
        const Integers error = 8192 - short_product(half, found);
        found += fixed_saturated(short_product(found, error) * 4);
    }
    return found;
}

/* 1 / (1 + e^-x) for a number of three integer bits, as a fraction. */
INLINE Integers fixed_logistic(Integers x) {
    const Integers power = fixed_exponential(either(x < 0, x, -x), 3);
    const Integers found = fixed_saturated(fixed_quotient(power) * 2), result = either(x < 0, 32767 - found, found);
    return either(x == 0, spread_integer(1 << 14), result);
}

/* The hyperbolic tangent of a number of up to six integer bits, as a fraction. */
INLINE Integers fixed_tanh(Integers x, int integer_bits) {
    const Integers power = fixed_exponential(either(x < 0, x, -x), integer_bits + 1);  /* of twice the number */
    const Integers found = fixed_saturated((fixed_quotient(power) - 8192) * 4);
    return either(x == 0, Integers{}, either(x < 0, -found, found));
}

/* --- one number at a time --- */

INLINE int32_t high_product_of(int32_t a, int32_t b) { return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31); }
INLINE int32_t clipped(int64_t x) { return (int32_t)greater<int64_t>(INT32_MIN, lesser<int64_t>(INT32_MAX, x)); }

/* 1 / sqrt(x), by Newton's method in 32 bits, of which three are integer. */
static acc_fixed_factor inverse_square_root(int32_t x) {
    if (x <= 1) return {INT32_MAX, 0};
    int right = 11;
    for (; x >= 1 << 29; right++) x /= 4;
    for (; x < 1 << 27; right--) x *= 4;
    const int32_t half = ((x >> 1) + 1) >> 1;
    int32_t found = 1 << 28;
    for (int i = 0; i < 5; i++) {
        const int32_t square = high_product_of(found, found), cube = clipped((int64_t)high_product_of(square, found) * 64);
        const int64_t next = (int64_t)high_product_of((1 << 28) + (1 << 27), found) - high_product_of(half, cube);
        found = clipped(next * 8);
    }
    found = high_product_of(found, 1518500250);     /* times sqrt(1/2) */
    return right < 0 ? acc_fixed_factor{(int32_t)((uint32_t)found << -right), 0} : acc_fixed_factor{found, -right};
}

} // namespace dovetail_acc::ACC_ISA
