/* AArch64 Advanced SIMD: 32 registers of 4 lanes. */
#include <arm_neon.h>

constexpr int LANES = 4, REGISTERS = 32;
typedef float Vector __attribute__((vector_size(16)));
typedef int32_t Integers __attribute__((vector_size(16)));

INLINE Vector load(const float *at) { return (Vector)vld1q_f32(at); }
INLINE void store(float *at, Vector x) { vst1q_f32(at, (float32x4_t)x); }
INLINE Vector broadcast(float x) { return (Vector)vdupq_n_f32(x); }
INLINE Vector fma(Vector a, Vector b, Vector c) { return (Vector)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
INLINE Vector minimum(Vector a, Vector b) { return (Vector)vminq_f32((float32x4_t)a, (float32x4_t)b); }
INLINE Vector maximum(Vector a, Vector b) { return (Vector)vmaxq_f32((float32x4_t)a, (float32x4_t)b); }
INLINE Vector square_root(Vector x) { return (Vector)vsqrtq_f32((float32x4_t)x); }
INLINE Vector round_even(Vector x) { return (Vector)vrndnq_f32((float32x4_t)x); }
INLINE Vector round_down(Vector x) { return (Vector)vrndmq_f32((float32x4_t)x); }
INLINE Integers to_integers(Vector x) { return (Integers)vcvtnq_s32_f32((float32x4_t)x); }
INLINE Vector to_floats(Integers x) { return (Vector)vcvtq_f32_s32((int32x4_t)x); }

INLINE Vector quotient(Vector a, Vector b) { return a / b; }

/* x * 2^n for whole n from -252 to 254: in two steps, so that a result that is no normal number comes out right. */
INLINE Vector scale(Vector x, Vector n) {
    const Integers whole = to_integers(n), half = whole >> 1;
    return x * (Vector)((half + 127) << 23) * (Vector)((whole - half + 127) << 23);
}

INLINE Vector load_part(const float *at, int n) {
    Vector x = {};
    for (int i = 0; i < LANES; i++)
        if (i < n) x[i] = at[i];
    return x;
}
INLINE void store_part(float *at, Vector x, int n) {
    for (int i = 0; i < LANES; i++)
        if (i < n) at[i] = x[i];
}
INLINE Vector gather(const float *at, int64_t stride) { return Vector{at[0], at[stride], at[2 * stride], at[3 * stride]}; }
