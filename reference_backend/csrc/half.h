/* Conversions between float32 and the 16-bit floats, bit-exact on every machine: integers only, no
 * compiler _Float16.
 *
 * Narrowing rounds to nearest, ties to even; overflow gives infinity; subnormals are kept; a NaN
 * stays a (quiet) NaN with the upper bits of its payload. Formats: IEEE 754-2019 binary16 (1-5-10)
 * and bfloat16 (1-8-7, the upper half of a float32).
 */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float float_of_bfloat16(uint16_t half)
{
    return float_of_bits((uint32_t)half << 16);
}

static inline uint16_t bfloat16_of_float(float value)
{
    uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u); /* NaN: a set quiet bit survives the cut */
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float float_of_float16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1fu, fraction = half & 0x3ffu;
    if (exponent == 0x1fu)
        return float_of_bits(sign | 0x7f800000u | (fraction ? 0x400000u | fraction << 13 : 0u));
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24, exact in float32 */
        float magnitude = (float)fraction * 0x1p-24f;
        return float_of_bits(sign | bits_of_float(magnitude));
    }
    return float_of_bits(sign | (exponent + 112u) << 23 | fraction << 13);
}

static inline uint16_t float16_of_float(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x47800000u) /* 2^16 and above; what rounds up to 2^16 overflows by itself below */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x33000000u) /* below 2^-25, half of the least subnormal */
        return (uint16_t)sign;
    uint32_t exponent = magnitude >> 23, fraction = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t cut = exponent < 113u ? 126u - exponent : 13u; /* bits of the fraction that are dropped */
    uint32_t kept = fraction >> cut, dropped = fraction & ((1u << cut) - 1u), tie = 1u << (cut - 1u);
    if (dropped > tie || (dropped == tie && (kept & 1u)))
        kept++;
    /* A carry out of the fraction moves into the exponent, as it should. */
    return (uint16_t)(sign | (exponent < 113u ? kept : ((exponent - 112u) << 10) + kept - 0x400u));
}
