/* From one element type to another. Integers wrap; floats are cut off, and wrap too; NaN and the
 * infinities become 0. */
#pragma once

#include "dovetail_neon/elementwise/parameters.h"
#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

/* A byte that is true if it is not 0. */
struct Truth {
    uint8_t byte;
};

/* The whole part modulo 2^64. */
static int64_t wrapped(double x) {
    if (x > -0x1p63 && x < 0x1p63) return (int64_t)x;
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof(bits));
    const int shift = (int)(bits >> 52 & 0x7FF) - 1075;     /* 11 or more: x is whole */
    if (shift > 63) return 0;                               /* NaN and infinities among them */
    const uint64_t whole = ((bits & 0xFFFFFFFFFFFFF) | 1ull << 52) << shift;
    return (int64_t)(bits >> 63 ? 0 - whole : whole);
}

/* Elements that are converted together: a constant, so that the loops over them are vectorized. */
constexpr int CAST_TOGETHER = 64;

template <typename To, typename From> struct Converted {
    INLINE To of(From x) { return (To)x; }
};
template <typename To> struct FromReal {
    INLINE To of(double x) { return (To)wrapped(x); }
};
template <> struct FromReal<float> {
    INLINE float of(double x) { return (float)x; }
};
template <> struct FromReal<double> {
    INLINE double of(double x) { return x; }
};
template <typename To> struct Converted<To, float> : FromReal<To> {};
template <typename To> struct Converted<To, double> : FromReal<To> {};
template <typename To> struct Converted<To, Truth> {
    INLINE To of(Truth x) { return (To)(x.byte != 0); }
};
template <typename From> struct Converted<Truth, From> {
    INLINE Truth of(From x) { return {(uint8_t)(x != 0)}; }
};
template <> struct Converted<Truth, float> {
    INLINE Truth of(float x) { return {(uint8_t)(x != 0)}; }
};
template <> struct Converted<Truth, double> {
    INLINE Truth of(double x) { return {(uint8_t)(x != 0)}; }
};
template <> struct Converted<Truth, Truth> {
    INLINE Truth of(Truth x) { return x; }
};

template <typename From, typename To> struct Together {
    INLINE void convert(const From *__restrict in, To *__restrict out) {
        for (int i = 0; i < CAST_TOGETHER; i++) out[i] = Converted<To, From>::of(in[i]);
    }
};

/* Reals that all fit into an int32 need no care. */
template <typename From, typename To> INLINE void convert_reals(const From *__restrict in, To *__restrict out) {
    int fit = 1;
    for (int i = 0; i < CAST_TOGETHER; i++) fit &= (int)(in[i] >= (From)-0x1p31) & (int)(in[i] < (From)0x1p31);
    if (fit)
        for (int i = 0; i < CAST_TOGETHER; i++) out[i] = (To)(int32_t)in[i];
    else
        for (int i = 0; i < CAST_TOGETHER; i++) out[i] = Converted<To, From>::of(in[i]);
}
#define DOVETAIL_NEON_REALS(From, To)                                                                                          \
    template <> struct Together<From, To> {                                                                                    \
        INLINE void convert(const From *in, To *out) { convert_reals(in, out); }                                               \
    };
DOVETAIL_NEON_REALS(float, int8_t)
DOVETAIL_NEON_REALS(float, uint8_t)
DOVETAIL_NEON_REALS(float, int16_t)
DOVETAIL_NEON_REALS(float, uint16_t)
DOVETAIL_NEON_REALS(float, int32_t)
DOVETAIL_NEON_REALS(float, int64_t)
DOVETAIL_NEON_REALS(double, int8_t)
DOVETAIL_NEON_REALS(double, uint8_t)
DOVETAIL_NEON_REALS(double, int16_t)
DOVETAIL_NEON_REALS(double, uint16_t)
DOVETAIL_NEON_REALS(double, int32_t)
DOVETAIL_NEON_REALS(double, int64_t)
#undef DOVETAIL_NEON_REALS

template <typename From, typename To> static void convert(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const From *in = (const From *)job->inputs[0];
    To *out = (To *)job->outputs[0];
    for (; end - begin >= CAST_TOGETHER; begin += CAST_TOGETHER) Together<From, To>::convert(in + begin, out + begin);
    for (; begin < end; begin++) out[begin] = Converted<To, From>::of(in[begin]);
}

#define DOVETAIL_NEON_CASTS(From)                                                                                              \
    {convert<From, Truth>, convert<From, int8_t>, convert<From, uint8_t>, convert<From, int16_t>, convert<From, uint16_t>,    \
     convert<From, int32_t>, convert<From, int64_t>, convert<From, float>, convert<From, double>}

static const acc_cast_kernels cast_kernels = {{
    DOVETAIL_NEON_CASTS(Truth),
    DOVETAIL_NEON_CASTS(int8_t),
    DOVETAIL_NEON_CASTS(uint8_t),
    DOVETAIL_NEON_CASTS(int16_t),
    DOVETAIL_NEON_CASTS(uint16_t),
    DOVETAIL_NEON_CASTS(int32_t),
    DOVETAIL_NEON_CASTS(int64_t),
    DOVETAIL_NEON_CASTS(float),
    DOVETAIL_NEON_CASTS(double),
}};
#undef DOVETAIL_NEON_CASTS

} // namespace dovetail_acc::ACC_ISA
