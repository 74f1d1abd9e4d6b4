/* Functions of fixed-point numbers, bit for bit as TensorFlow Lite's quantized LSTM computes them.
 *
 * A number of `integer_bits` stands in 16 bits for itself times 2^(15 - integer_bits). Sources:
 * gemmlowp/fixedpoint (logistic, tanh, and the exponential and quotients below them);
 * tensorflow/lite/kernels/internal/common.h (GetInvSqrtQuantizedMultiplierExp).
 */
#pragma once

#include <stdint.h>

#include "requantize.h"

static inline int16_t saturate_int16(int64_t x)
{
    return x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : (int16_t)x;
}

static inline int32_t saturate_int32(int64_t x)
{
    return x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : (int32_t)x;
}

/* a * b, where both or one of them are fractions: ties away from zero, but for negative ones. */
static inline int16_t fixed_product(int16_t a, int16_t b)
{
    int32_t product = (int32_t)a * b;
    return saturate_int16((product + (product >= 0 ? 1 << 14 : 1 - (1 << 14))) / (1 << 15));
}

/* e^x for x <= 0, as a fraction: a series around -1/8, times powers of e for the bits from 1/4. */
static inline int16_t fixed_exponential(int16_t x, int integer_bits)
{
    static const int16_t powers[] = {25520, 19875, 12055, 4435, 600, 11, 0}; /* e^-(2^(i - 2)) */
    int one = 15 - integer_bits, quarter = 1 << (one - 2);
    int32_t rest = (x & (quarter - 1)) - quarter, bits = rest - x;
    int16_t t = (int16_t)(rest * (1 << integer_bits) + 4096);
    int16_t t2 = fixed_product(t, t), t3 = fixed_product(t2, t), t4 = fixed_product(t2, t2);
    int32_t tail = fixed_product((int16_t)(rounding_divide_by_power_of_two(t4, 2) + t3), 10923) + t2;
    tail = t + rounding_divide_by_power_of_two(tail, 1);
    int16_t result = saturate_int16(28918 + fixed_product(28918, (int16_t)tail));
    if (x == 0)
        return INT16_MAX;
    if (integer_bits > 5 && x < -(1 << (20 - integer_bits))) /* below -32 */
        return 0;
    for (int i = 0; i < 7 && i < integer_bits + 2; i++)
        if (bits & quarter << i)
            result = fixed_product(result, powers[i]);
    return result;
}

/* 2 / (1 + x) for a fraction x, with two integer bits, by Newton's method. */
static inline int16_t fixed_quotient(int16_t x)
{
    int16_t half = (int16_t)((x + INT16_MAX + 1) / 2), found = (int16_t)(23130 + fixed_product(half, -15420));
    for (int i = 0; i < 3; i++) {
        int16_t error = (int16_t)(8192 - fixed_product(half, found));
        found = (int16_t)(found + saturate_int16(4 * (int32_t)fixed_product(found, error)));
    }
    return found;
}

/* 1 / (1 + e^-x) for a number of three integer bits, as a fraction. */
static inline int16_t fixed_logistic(int16_t x)
{
    if (x == 0)
        return 1 << 14;
    int16_t found = saturate_int16(2 * (int32_t)fixed_quotient(fixed_exponential((int16_t)(x < 0 ? x : -x), 3)));
    return x < 0 ? (int16_t)(INT16_MAX - found) : found;
}

/* The hyperbolic tangent of a number of up to six integer bits, as a fraction. */
static inline int16_t fixed_tanh(int16_t x, int integer_bits)
{
    if (x == 0)
        return 0;
    int16_t power = fixed_exponential((int16_t)(x < 0 ? x : -x), integer_bits + 1); /* twice the number */
    int16_t found = saturate_int16(4 * ((int32_t)fixed_quotient(power) - 8192));
    return (int16_t)(x < 0 ? -found : found);
}

/* 1 / sqrt(x), by Newton's method in 32 bits, of which three are integer. */
static inline requantization inverse_square_root(int32_t x)
{
    requantization result = {INT32_MAX, 0};
    int right = 11;
    if (x <= 1)
        return result;
    for (; x >= 1 << 29; right++)
        x /= 4;
    for (; x < 1 << 27; right--)
        x *= 4;
    int32_t half = rounding_divide_by_power_of_two(x >> 1, 1), found = 1 << 28;
    for (int i = 0; i < 5; i++) {
        int32_t square = saturating_rounding_doubling_high_multiply(found, found);
        int32_t cube = saturate_int32((int64_t)saturating_rounding_doubling_high_multiply(square, found) * 64);
        int64_t next = saturating_rounding_doubling_high_multiply((1 << 28) + (1 << 27), found);
        next -= saturating_rounding_doubling_high_multiply(half, cube);
        found = saturate_int32(next * 8);
    }
    found = saturating_rounding_doubling_high_multiply(found, 1518500250); /* times sqrt(1/2) */
    result.multiplier = right < 0 ? (int32_t)((uint32_t)found << -right) : found;
    result.shift = right < 0 ? 0 : -right;
    return result;
}
