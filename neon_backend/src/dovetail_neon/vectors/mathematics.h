/* Transcendental functions, by range reduction and polynomials fitted for the least largest
 * relative error.
 *
 * The largest errors stated are those over a sample of all floats (tests/test_mathematics.py), with
 * fused multiply-add and without; below the least normal number an ulp is that of it. NaN gives
 * NaN; infinities give the limits.
 */
#pragma once

#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

/* c[0] + c[1] x + c[2] x^2 + ..., by Horner's rule. */
template <int count> INLINE Vector polynomial(Vector x, const float (&c)[count]) {
    Vector sum = broadcast(c[count - 1]);
#pragma GCC unroll 16
    for (int i = count - 2; i >= 0; i--) sum = fma(sum, x, broadcast(c[i]));
    return sum;
}

INLINE Vector with_sign_of(Vector magnitude, Vector sign) {
    return floats_of(bits_of(magnitude) | (bits_of(sign) & INT32_MIN));
}

/* x = n log 2 + r with |r| <= log(2) / 2; the two parts of log 2 are such that n times the first is
 * exact (Cody and Waite 1980). Adding 1.5 * 2^23 rounds to a whole number, and taking it away again
 * leaves that. */
INLINE Vector reduce_by_log2(Vector x, Vector &n) {
    const Vector magic = broadcast(12582912.0f);
    n = fma(x, broadcast(1.44269504088896341f), magic) - magic;
    return fma(n, broadcast(2.12194440e-4f), fma(n, broadcast(-0.693359375f), x));
}

/* e^x for x from -105 to 90. */
INLINE Vector exponential_inside(Vector x) {
    static constexpr float c[] = {1.0f, 1.0f, 4.999999333e-01f, 1.666651889e-01f, 4.166840852e-02f, 8.368927373e-03f, 1.381416264e-03f};
    Vector n;
    const Vector r = reduce_by_log2(x, n);
    return scale(polynomial(r, c), n);
}

/* e^x; below 1.5 ulp. */
INLINE Vector exponential(Vector x) {
    return exponential_inside(minimum(broadcast(90.0f), maximum(broadcast(-105.0f), x)));
}

/* e^x for x that are not positive: below 1.5 ulp. */
INLINE Vector exponential_below_one(Vector x) { return exponential_inside(maximum(broadcast(-105.0f), x)); }

/* e^x - 1; below 1.5 ulp. */
INLINE Vector exponential_less_one(Vector x) {
    static constexpr float c[] = {5.000000000e-01f, 1.666666727e-01f, 4.166666880e-02f, 8.333156290e-03f, 1.388856011e-03f,
                                  1.997208289e-04f, 2.496977184e-05f};
    const Vector small = fma(polynomial(x, c), x * x, x);
    return select(absolute(x) < broadcast(0.5f), small, exponential(x) - broadcast(1.0f));
}

/* 1 / (1 + e^-x); below 2.5 ulp. */
INLINE Vector sigmoid(Vector x) {
    /* From 30 on it is 1; far below zero it is e^x itself. */
    const Vector e = exponential_inside(minimum(broadcast(30.0f), maximum(broadcast(-105.0f), x)));
    return quotient(e, broadcast(1.0f) + e);
}

/* Below 2.5 ulp. */
INLINE Vector hyperbolic_tangent(Vector x) {
    /* With e = e^(-2 |x|) - 1 it is -e / (2 + e); and e is 2^n (e^r - 1) + (2^n - 1), where nothing
     * cancels. */
    static constexpr float c[] = {4.999999333e-01f, 1.666651889e-01f, 4.166840852e-02f, 8.368927373e-03f, 1.381416264e-03f};
    Vector n;
    const Vector one = broadcast(1.0f), r = reduce_by_log2(maximum(broadcast(-30.0f), absolute(x) * broadcast(-2.0f)), n);
    const Vector power = scale(one, n), e = fma(power, fma(polynomial(r, c), r * r, r), power - one);
    return with_sign_of(quotient(zeros() - e, broadcast(2.0f) + e), x);
}

/* 1 - erf(x) for x from 0.93 on, as e to a power that a polynomial gives: to three digits at 4, and
 * beyond it falls to 0. */
INLINE Vector error_function_tail(Vector x) {
    static constexpr float c[] = {-1.653933072e-04f, 1.129460491e+00f, 6.334836174e-01f, 1.080880138e-01f, -2.495438825e-02f,
                                  4.082301706e-03f, -4.052957728e-04f, 1.574313355e-05f, 4.197433552e-07f};
    return exponential_below_one(-polynomial(x, c));
}

/* erf(x) for x from -0.93 to 0.93. */
INLINE Vector error_function_core(Vector x) {
    static constexpr float c[] = {1.128379166e+00f, -3.761263229e-01f, 1.128367255e-01f, -2.685810429e-02f,
                                  5.197797167e-03f, -8.105965117e-04f, 8.215423703e-05f};
    return x * polynomial(x * x, c);
}

/* Below 2.5 ulp. */
INLINE Vector error_function(Vector x) {
    const Vector size = absolute(x), large = broadcast(1.0f) - error_function_tail(size);
    return select(size < broadcast(0.93f), error_function_core(x), with_sign_of(large, x));
}

/* 1 + erf(x), without cancellation far below zero. */
INLINE Vector error_function_plus_one(Vector x) {
    const Vector size = absolute(x), tail = error_function_tail(size);
    const Vector large = select(x < zeros(), tail, broadcast(2.0f) - tail);
    return select(size < broadcast(0.93f), error_function_core(x) + broadcast(1.0f), large);
}

/* log x; below 1 ulp. */
INLINE Vector logarithm(Vector x) {
    static constexpr float c[] = {3.333332508e-01f,  -2.500000006e-01f, 2.000206681e-01f,  -1.666787072e-01f, 1.420417059e-01f,
                                  -1.240542556e-01f, 1.210956676e-01f, -1.175194613e-01f, 6.131898359e-02f};
    const Integers tiny = x < broadcast(1.17549435e-38f);
    const Vector normal = select(tiny, x * broadcast(8388608.0f), x);
    /* The mantissa, from sqrt(1/2) to sqrt(2), less one. */
    const Integers shifted = bits_of(normal) - 0x3F3504F3;
    const Vector exponent = to_floats((shifted >> 23) - (tiny & 23));
    const Vector f = floats_of((shifted & 0x007FFFFF) + 0x3F3504F3) - broadcast(1.0f);
    const Vector square = f * f;
    Vector result = fma(polynomial(f, c) * square, f, exponent * broadcast(-2.12194440e-4f));
    result = fma(square, broadcast(-0.5f), result) + f;
    result = fma(exponent, broadcast(0.693359375f), result);
    result = select(x == zeros(), broadcast(-__builtin_inff()), result);
    result = select(x < zeros(), broadcast(__builtin_nanf("")), result);
    return select((x == broadcast(__builtin_inff())) | (x != x), x, result);
}

/* log(1 + e^x); below 2 ulp. */
INLINE Vector soft_plus(Vector x) {
    /* log1p(e) with the rounding of 1 + e put right. */
    const Vector one = broadcast(1.0f), e = exponential_below_one(-absolute(x)), sum = one + e;
    const Vector log1p = logarithm(sum) + quotient(e - (sum - one), sum);
    return maximum(zeros(), x) + log1p;
}

} // namespace dovetail_acc::ACC_ISA
