/* From one element type to another. Integers wrap; floats are cut off, and wrap too; NaN and the infinities become 0. */
#ifndef DOVETAIL_NEON_KERNELS_CAST_H
#define DOVETAIL_NEON_KERNELS_CAST_H

#include "../interface/cast.h"
#include "../vector.h"

namespace dovetail_neon {
namespace DOVETAIL_NEON_ISA {

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

template <typename From, typename To> static void convert(int64_t begin, int64_t end, int32_t, void *arg) {
    const neon_job *job = (const neon_job *)arg;
    const From *in = (const From *)job->inputs[0];
    To *out = (To *)job->outputs[0];
    for (int64_t i = begin; i < end; i++) out[i] = Converted<To, From>::of(in[i]);
}

#define DOVETAIL_NEON_CASTS(From)                                                                                              \
    {convert<From, Truth>, convert<From, int8_t>, convert<From, uint8_t>, convert<From, int32_t>, convert<From, int64_t>,      \
     convert<From, float>, convert<From, double>}

static const neon_cast_kernels cast_kernels = {{
    DOVETAIL_NEON_CASTS(Truth),
    DOVETAIL_NEON_CASTS(int8_t),
    DOVETAIL_NEON_CASTS(uint8_t),
    DOVETAIL_NEON_CASTS(int32_t),
    DOVETAIL_NEON_CASTS(int64_t),
    DOVETAIL_NEON_CASTS(float),
    DOVETAIL_NEON_CASTS(double),
}};
#undef DOVETAIL_NEON_CASTS

} // namespace DOVETAIL_NEON_ISA
} // namespace dovetail_neon

#endif
