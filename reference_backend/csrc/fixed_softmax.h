/* The exponential and the quotient in 32 bits of which TensorFlow Lite's quantized softmax is made.
 *
 * Sources: gemmlowp/fixedpoint (exp_on_negative_values, one_over_one_plus_x_for_x_in_0_1) and
 * tensorflow/lite/kernels/internal/common.h (GetReciprocal).
 */
#pragma once

#include <stdint.h>

#include "requantize.h"

static inline int32_t times_power_of_two(int32_t x, int exponent)
{
    int64_t wide = (int64_t)x * ((int64_t)1 << exponent);
    return wide < INT32_MIN ? INT32_MIN : wide > INT32_MAX ? INT32_MAX : (int32_t)wide;
}

/* e^x for x <= 0 of five integer bits, as a fraction: a series around -1/8, times powers of e for
 * the bits from 1/4. */
static inline int32_t wide_exponential(int32_t x)
{
    static const int32_t powers[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242}; /* e^-(2^(i - 2)) */
    const int32_t quarter = 1 << 24, rest = (x & (quarter - 1)) - quarter, bits = rest - x;
    const int32_t t = times_power_of_two(rest, 5) + (1 << 28);
    const int32_t t2 = saturating_rounding_doubling_high_multiply(t, t);
    const int32_t t3 = saturating_rounding_doubling_high_multiply(t2, t);
    const int32_t t4 = saturating_rounding_doubling_high_multiply(t2, t2);
    int32_t tail = saturating_rounding_doubling_high_multiply(rounding_divide_by_power_of_two(t4, 2) + t3, 715827883);
    tail = t + rounding_divide_by_power_of_two(tail + t2, 1);
    int32_t result = 1895147668 + saturating_rounding_doubling_high_multiply(1895147668, tail);
    if (x == 0)
        return INT32_MAX;
    for (int i = 0; i < 7; i++)
        if (bits & quarter << i)
            result = saturating_rounding_doubling_high_multiply(result, powers[i]);
    return result;
}

/* 1 / x for x > 0 of twelve integer bits, by Newton's method. */
static inline requantization reciprocal_of(int32_t x)
{
    int zeros = 0;
    while (!((uint32_t)x << zeros & 1u << 31))
        zeros++;
    const int32_t rest = (int32_t)(((uint32_t)x << zeros) - (1u << 31));
    const int32_t half = (int32_t)(((int64_t)rest + INT32_MAX + 1) / 2);
    int32_t found = 1515870810 + saturating_rounding_doubling_high_multiply(half, -1010580540);
    for (int i = 0; i < 3; i++) {
        const int32_t error = (1 << 29) - saturating_rounding_doubling_high_multiply(half, found);
        found += times_power_of_two(saturating_rounding_doubling_high_multiply(found, error), 2);
    }
    const requantization result = {times_power_of_two(found, 1), zeros - 12};
    return result;
}
