/* Functions of one element. */
#pragma once

#include "dovetail_neon/elementwise/activation.h"
#include "dovetail_neon/vectors/mathematics.h"

namespace dovetail_acc::ACC_ISA {

/* NaN survives. */
INLINE Vector clamped(Vector x, Vector low, Vector high) { return minimum(high, maximum(low, x)); }

/* So many vectors are read before the first result is written: a chain of some twenty operations
 * takes half as long again alone. */
constexpr int ABREAST = 4;

/* Vectors that were just computed, in place. */
struct Computed {
    Vector *x;
    int count;

    template <typename Function> __attribute__((always_inline)) inline void operator()(Function function) const {
        int i = 0;
        for (; i + ABREAST <= count; i += ABREAST) {
            Vector results[ABREAST];
#pragma GCC unroll 4
            for (int k = 0; k < ABREAST; k++) results[k] = function(x[i + k]);
#pragma GCC unroll 4
            for (int k = 0; k < ABREAST; k++) x[i + k] = results[k];
        }
        for (; i < count; i++) x[i] = function(x[i]);
    }
};

/* Elements as they lie in memory. */
struct Run {
    const float *in;
    float *out;
    int64_t count;

    template <typename Function> __attribute__((always_inline)) inline void operator()(Function function) const {
        int64_t i = 0;
        for (; i + ABREAST * LANES <= count; i += ABREAST * LANES) {
            Vector results[ABREAST];
#pragma GCC unroll 4
            for (int k = 0; k < ABREAST; k++) results[k] = function(load(in + i + k * LANES));
#pragma GCC unroll 4
            for (int k = 0; k < ABREAST; k++) store(out + i + k * LANES, results[k]);
        }
        for (; i < count; i += LANES) {
            const int rest = (int)lesser<int64_t>(LANES, count - i);
            store_part(out + i, function(load_part(in + i, rest)), rest);
        }
    }
};

/* What few networks use and the library of C computes well. */
static __attribute__((noinline)) Vector each_lane(float (*function)(float), Vector x) {
    for (int lane = 0; lane < LANES; lane++) x[lane] = function(x[lane]);
    return x;
}

template <typename Each> INLINE void with_function(const acc_activation &with, Each each) {
    const Vector a = broadcast(with.a), b = broadcast(with.b), one = broadcast(1.0f), half = broadcast(0.5f), none = zeros();
    switch (with.function) {
    case ACC_IDENTITY: each([](Vector v) { return v; }); break;
    case ACC_CLAMP: each([=](Vector v) { return clamped(v, a, b); }); break;
    case ACC_LINEAR: each([=](Vector v) { return a * v + b; }); break;
    case ACC_LEAKY_RELU: each([=](Vector v) { return select(v < none, v * a, v); }); break;
    case ACC_THRESHOLDED_RELU: each([=](Vector v) { return select(v <= a, none, v); }); break;
    case ACC_ELU: each([=](Vector v) { return select(v < none, a * exponential_less_one(v), v); }); break;
    case ACC_SELU: each([=](Vector v) { return b * select(v > none, v, a * exponential_less_one(v)); }); break;
    case ACC_CELU: each([=](Vector v) { return select(v < none, a * exponential_less_one(v / a), v); }); break;
    case ACC_SIGMOID: each([](Vector v) { return sigmoid(v); }); break;
    case ACC_TANH: each([](Vector v) { return hyperbolic_tangent(v); }); break;
    case ACC_HARD_SIGMOID: each([=](Vector v) { return clamped(fma(v, a, b), none, one); }); break;
    case ACC_HARD_SWISH: {
        const Vector sixth = broadcast(1.0f / 6.0f);
        each([=](Vector v) { return v * clamped(fma(v, sixth, half), none, one); });
        break;
    }
    case ACC_SWISH:
        if (with.a == 1.0f)
            each([](Vector v) { return v * sigmoid(v); });
        else
            each([=](Vector v) { return v * sigmoid(a * v); });
        break;
    case ACC_GELU: {
        const Vector root = broadcast(0.70710678118654752f);
        each([=](Vector v) { return half * v * error_function_plus_one(v * root); });
        break;
    }
    case ACC_GELU_TANH: {
        /* (1 + tanh u) / 2 is sigmoid(2 u), where nothing cancels far below zero. */
        const Vector inner = broadcast(1.59576912160573072f), cube = broadcast(1.59576912160573072f * 0.044715f);
        each([=](Vector v) { return v * sigmoid(v * fma(cube, v * v, inner)); });
        break;
    }
    case ACC_SOFT_PLUS: each([](Vector v) { return soft_plus(v); }); break;
    case ACC_SOFT_SIGN: each([=](Vector v) { return v / (one + absolute(v)); }); break;
    case ACC_MISH: {
        /* tanh(log(1 + w)) is n / (n + 2) with n = w (w + 2); from 20 on it is 1. */
        const Vector two = broadcast(2.0f), most = broadcast(20.0f);
        each([=](Vector v) {
            const Vector w = exponential(minimum(most, v)), n = w * (w + two);
            return v * quotient(n, n + two);
        });
        break;
    }
    case ACC_SHRINK: each([=](Vector v) { return select(v < -a, v + b, select(v > a, v - b, v != v ? v : none)); }); break;
    case ACC_ABS: each([](Vector v) { return absolute(v); }); break;
    case ACC_NEGATE: each([](Vector v) { return -v; }); break;
    case ACC_SQUARE_ROOT: each([](Vector v) { return square_root(v); }); break;
    case ACC_RECIPROCAL_SQUARE_ROOT: each([=](Vector v) { return one / square_root(v); }); break;
    case ACC_RECIPROCAL: each([=](Vector v) { return one / v; }); break;
    case ACC_EXP: each([](Vector v) { return exponential(v); }); break;
    case ACC_LOG: each([](Vector v) { return logarithm(v); }); break;
    case ACC_ERF: each([](Vector v) { return error_function(v); }); break;
    case ACC_FLOOR: each([](Vector v) { return round_down(v); }); break;
    case ACC_CEIL: each([](Vector v) { return -round_down(-v); }); break;
    case ACC_ROUND: each([](Vector v) { return round_even(v); }); break;
    case ACC_SIGN: each([=](Vector v) { return select(v > none, one, select(v < none, -one, v + none)); }); break;
    case ACC_SIN: each([](Vector v) { return each_lane(__builtin_sinf, v); }); break;
    case ACC_COS: each([](Vector v) { return each_lane(__builtin_cosf, v); }); break;
    case ACC_TAN: each([](Vector v) { return each_lane(__builtin_tanf, v); }); break;
    case ACC_ASIN: each([](Vector v) { return each_lane(__builtin_asinf, v); }); break;
    case ACC_ACOS: each([](Vector v) { return each_lane(__builtin_acosf, v); }); break;
    case ACC_ATAN: each([](Vector v) { return each_lane(__builtin_atanf, v); }); break;
    case ACC_SINH: each([](Vector v) { return each_lane(__builtin_sinhf, v); }); break;
    case ACC_COSH: each([](Vector v) { return each_lane(__builtin_coshf, v); }); break;
    case ACC_ASINH: each([](Vector v) { return each_lane(__builtin_asinhf, v); }); break;
    case ACC_ACOSH: each([](Vector v) { return each_lane(__builtin_acoshf, v); }); break;
    case ACC_ATANH: each([](Vector v) { return each_lane(__builtin_atanhf, v); }); break;
    default: break;
    }
}

/* Apply a function to `count` vectors that were just computed. */
static __attribute__((noinline)) void activate(const acc_activation &with, Vector *x, int count) {
    if (with.function != ACC_IDENTITY) with_function(with, Computed{x, count});
}

/* Apply a function to a run of elements. */
static __attribute__((noinline)) void activate_run(const acc_activation &with, const float *in, float *out, int64_t count) {
    with_function(with, Run{in, out, count});
}

} // namespace dovetail_acc::ACC_ISA
