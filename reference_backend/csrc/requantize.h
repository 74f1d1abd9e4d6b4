/* Arithmetic of quantized layers, bit for bit as TensorFlow Lite's reference kernels.
 *
 * Sources: tensorflow/lite/kernels/internal/common.h (MultiplyByQuantizedMultiplier, the
 * double-rounding form), quantization_util.cc (QuantizeMultiplier), gemmlowp/fixedpoint
 * (SaturatingRoundingDoublingHighMul, RoundingDivideByPOT).
 *
 * Where TensorFlow Lite's own arithmetic is undefined, of factors that make any step of the operand
 * more than the result can hold, it saturates.
 */
#pragma once

#include <math.h>
#include <stdint.h>

/* A real factor as multiplier * 2^(shift - 31), with multiplier in [2^30, 2^31) or zero. */
typedef struct {
    int32_t multiplier;
    int32_t shift; /* positive: left */
} requantization;

/* Scale of input times weights. TensorFlow Lite multiplies in float32 for uint8 convolutions and
 * batched matrix products (kernel_util.cc, GetQuantizedConvolutionMultipler), else in double
 * (PopulateConvolutionQuantizationParams). */
static inline double product_scale(double input, double weights, int single)
{
    float product = (float)input * (float)weights;
    return single && !isinf(product) ? (double)product : input * weights;
}

/* The scale of a product of elements, in those of its result: in float32, unless that overflows on
 * the way. */
static inline double product_ratio(float a, float b, float result)
{
    float product = a * b;
    return isinf(product) ? (double)a * b / result : (double)(product / result);
}

static inline requantization requantization_of(double factor)
{
    requantization result = {0, 0};
    if (factor == 0.0 || isnan(factor)) /* not a number: both scales are below what float32 has */
        return result;
    if (fabs(factor) > INT32_MAX) /* one step is beyond 32 bits */
        factor = copysign(INT32_MAX, factor);
    int shift;
    int64_t multiplier = (int64_t)round(frexp(factor, &shift) * 2147483648.0);
    if (multiplier == (int64_t)1 << 31) {
        multiplier /= 2;
        shift++;
    }
    if (shift < -31) { /* smaller than anything that could round to one */
        shift = 0;
        multiplier = 0;
    }
    result.multiplier = (int32_t)multiplier;
    result.shift = shift;
    return result;
}

/* The high half of 2 * a * b, rounded; only -2^31 * -2^31 saturates. */
static inline int32_t saturating_rounding_doubling_high_multiply(int32_t a, int32_t b)
{
    if (a == INT32_MIN && b == INT32_MIN)
        return INT32_MAX;
    int64_t product = (int64_t)a * (int64_t)b;
    int32_t nudge = product >= 0 ? 1 << 30 : 1 - (1 << 30);
    return (int32_t)((product + nudge) / ((int64_t)1 << 31)); /* truncates, as gemmlowp does */
}

/* x / 2^exponent, rounded to nearest, ties away from zero. */
static inline int32_t rounding_divide_by_power_of_two(int32_t x, int exponent)
{
    int32_t mask = (int32_t)(((int64_t)1 << exponent) - 1);
    int32_t remainder = x & mask, threshold = (mask >> 1) + (x < 0 ? 1 : 0);
    return (x >> exponent) + (remainder > threshold ? 1 : 0);
}

static inline int32_t requantize(int32_t x, requantization by)
{
    int left = by.shift > 0 ? by.shift : 0, right = by.shift > 0 ? 0 : -by.shift;
    int64_t wide = (int64_t)x * ((int64_t)1 << left);
    int32_t shifted = wide < INT32_MIN ? INT32_MIN : wide > INT32_MAX ? INT32_MAX : (int32_t)wide;
    return rounding_divide_by_power_of_two(saturating_rounding_doubling_high_multiply(shifted, by.multiplier), right);
}

/* The same of sums of 64 bits, which layers of 16-bit integers have: of the multiplier 15 bits are
 * kept, and ties go up. */
static inline int32_t requantize_wide(int64_t x, requantization by)
{
    int64_t multiplier = by.multiplier < 0x7FFF0000 ? (by.multiplier + (1 << 15)) >> 16 : 0x7FFF;
    int shift = 15 - by.shift;
    if (shift < 1) { /* undefined in TensorFlow Lite: a step of the sums is 2^14 steps of the result */
        double value = ldexp((double)x * (double)multiplier, -shift);
        return value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : (int32_t)value;
    }
    uint64_t product = (uint64_t)x * (uint64_t)multiplier + ((uint64_t)1 << (shift - 1));
    int64_t scaled = (int64_t)product >> shift;
    return scaled < INT32_MIN ? INT32_MIN : scaled > INT32_MAX ? INT32_MAX : (int32_t)scaled;
}

/* x times a real factor, rounded to nearest, ties away from zero, and clamped after adding the zero
 * point. Fully connected layers alone: LiteRT's reference kernel of these scales in double, as its
 * results next to ties show (2.3.0). */
static inline int32_t rescale(int64_t x, double factor, int32_t zero, int32_t low, int32_t high)
{
    double value = (x ? round((double)x * factor) : 0.0) + zero; /* the factor may be infinite */
    return value < low ? low : value > high ? high : (int32_t)value;
}

static inline int32_t clamp_int32(int32_t x, int32_t low, int32_t high)
{
    return x < low ? low : x > high ? high : x;
}

static inline int32_t clamp_sum(int32_t x, int32_t zero, int32_t low, int32_t high)
{
    int64_t sum = (int64_t)x + zero;
    return sum < low ? low : sum > high ? high : (int32_t)sum;
}
