/* Functions of one element. */
#ifndef DOVETAIL_NEON_KERNELS_ACTIVATION_H
#define DOVETAIL_NEON_KERNELS_ACTIVATION_H

#include "../interface/activation.h"
#include "mathematics.h"

namespace dovetail_neon {
namespace DOVETAIL_NEON_ISA {

/* NaN survives. */
INLINE Vector clamped(Vector x, Vector low, Vector high) { return minimum(high, maximum(low, x)); }

template <typename Function> INLINE void each(Vector *x, int count, Function function) {
    for (int i = 0; i < count; i++) x[i] = function(x[i]);
}

/* What few networks use and the library of C computes well. */
static __attribute__((noinline)) void each_lane(float (*function)(float), Vector *x, int count) {
    for (int i = 0; i < count; i++)
        for (int lane = 0; lane < LANES; lane++) x[i][lane] = function(x[i][lane]);
}

/* Apply a function to `count` vectors that were just computed. */
static __attribute__((noinline)) void activate(const neon_activation &with, Vector *x, int count) {
    const Vector a = broadcast(with.a), b = broadcast(with.b), one = broadcast(1.0f), half = broadcast(0.5f), none = zeros();
    switch (with.function) {
    case NEON_IDENTITY: break;
    case NEON_CLAMP: each(x, count, [=](Vector v) { return clamped(v, a, b); }); break;
    case NEON_LINEAR: each(x, count, [=](Vector v) { return a * v + b; }); break;
    case NEON_LEAKY_RELU: each(x, count, [=](Vector v) { return select(v < none, v * a, v); }); break;
    case NEON_THRESHOLDED_RELU: each(x, count, [=](Vector v) { return select(v <= a, none, v); }); break;
    case NEON_ELU: each(x, count, [=](Vector v) { return select(v < none, a * exponential_less_one(v), v); }); break;
    case NEON_SELU: each(x, count, [=](Vector v) { return b * select(v > none, v, a * exponential_less_one(v)); }); break;
    case NEON_CELU: each(x, count, [=](Vector v) { return select(v < none, a * exponential_less_one(v / a), v); }); break;
    case NEON_SIGMOID: each(x, count, [](Vector v) { return sigmoid(v); }); break;
    case NEON_TANH: each(x, count, [](Vector v) { return hyperbolic_tangent(v); }); break;
    case NEON_HARD_SIGMOID: each(x, count, [=](Vector v) { return clamped(fma(v, a, b), none, one); }); break;
    case NEON_HARD_SWISH: {
        const Vector sixth = broadcast(1.0f / 6.0f);
        each(x, count, [=](Vector v) { return v * clamped(fma(v, sixth, half), none, one); });
        break;
    }
    case NEON_SWISH: each(x, count, [=](Vector v) { return v * sigmoid(a * v); }); break;
    case NEON_GELU: {
        const Vector root = broadcast(0.70710678118654752f);
        each(x, count, [=](Vector v) { return half * v * error_function_plus_one(v * root); });
        break;
    }
    case NEON_GELU_TANH: {
        /* (1 + tanh u) / 2 is sigmoid(2 u), where nothing cancels far below zero. */
        const Vector inner = broadcast(-1.59576912160573072f), cube = broadcast(-1.59576912160573072f * 0.044715f);
        each(x, count, [=](Vector v) { return v / (one + exponential(v * fma(cube, v * v, inner))); });
        break;
    }
    case NEON_SOFT_PLUS: each(x, count, [](Vector v) { return soft_plus(v); }); break;
    case NEON_SOFT_SIGN: each(x, count, [=](Vector v) { return v / (one + absolute(v)); }); break;
    case NEON_MISH: {
        /* tanh(log(1 + w)) is n / (n + 2) with n = w (w + 2); from 20 on it is 1. */
        const Vector two = broadcast(2.0f), most = broadcast(20.0f);
        each(x, count, [=](Vector v) {
            const Vector w = exponential(minimum(most, v)), n = w * (w + two);
            return v * (n / (n + two));
        });
        break;
    }
    case NEON_SHRINK: each(x, count, [=](Vector v) { return select(v < -a, v + b, select(v > a, v - b, v != v ? v : none)); }); break;
    case NEON_ABS: each(x, count, [](Vector v) { return absolute(v); }); break;
    case NEON_NEGATE: each(x, count, [](Vector v) { return -v; }); break;
    case NEON_SQUARE_ROOT: each(x, count, [](Vector v) { return square_root(v); }); break;
    case NEON_RECIPROCAL_SQUARE_ROOT: each(x, count, [=](Vector v) { return one / square_root(v); }); break;
    case NEON_RECIPROCAL: each(x, count, [=](Vector v) { return one / v; }); break;
    case NEON_EXP: each(x, count, [](Vector v) { return exponential(v); }); break;
    case NEON_LOG: each(x, count, [](Vector v) { return logarithm(v); }); break;
    case NEON_ERF: each(x, count, [](Vector v) { return error_function(v); }); break;
    case NEON_FLOOR: each(x, count, [](Vector v) { return round_down(v); }); break;
    case NEON_CEIL: each(x, count, [](Vector v) { return -round_down(-v); }); break;
    case NEON_ROUND: each(x, count, [](Vector v) { return round_even(v); }); break;
    case NEON_SIGN: each(x, count, [=](Vector v) { return select(v > none, one, select(v < none, -one, v)); }); break;
    case NEON_SIN: each_lane(__builtin_sinf, x, count); break;
    case NEON_COS: each_lane(__builtin_cosf, x, count); break;
    case NEON_TAN: each_lane(__builtin_tanf, x, count); break;
    case NEON_ASIN: each_lane(__builtin_asinf, x, count); break;
    case NEON_ACOS: each_lane(__builtin_acosf, x, count); break;
    case NEON_ATAN: each_lane(__builtin_atanf, x, count); break;
    case NEON_SINH: each_lane(__builtin_sinhf, x, count); break;
    case NEON_COSH: each_lane(__builtin_coshf, x, count); break;
    case NEON_ASINH: each_lane(__builtin_asinhf, x, count); break;
    case NEON_ACOSH: each_lane(__builtin_acoshf, x, count); break;
    case NEON_ATANH: each_lane(__builtin_atanhf, x, count); break;
    default: break;
    }
}

} // namespace DOVETAIL_NEON_ISA
} // namespace dovetail_neon

#endif
