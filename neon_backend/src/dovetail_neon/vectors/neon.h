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
/* Indexes of bytes: below 0 those beyond the table, for which TBX keeps what was there. */
INLINE uint8x16_t bytes_of_lanes(Integers from) { return (uint8x16_t)(from * 0x04040404 + 0x03020100); }
INLINE Vector permute(Vector x, Integers from) { return (Vector)vqtbl1q_u8((uint8x16_t)x, bytes_of_lanes(from)); }
INLINE Vector merge(Vector kept, Vector x, Integers from) {
    return (Vector)vqtbx1q_u8((uint8x16_t)kept, (uint8x16_t)x, bytes_of_lanes(from));
}
INLINE Vector square_root(Vector x) { return (Vector)vsqrtq_f32((float32x4_t)x); }
INLINE Vector round_even(Vector x) { return (Vector)vrndnq_f32((float32x4_t)x); }
INLINE Vector round_down(Vector x) { return (Vector)vrndmq_f32((float32x4_t)x); }
INLINE Integers to_integers(Vector x) { return (Integers)vcvtnq_s32_f32((float32x4_t)x); }
INLINE Vector to_floats(Integers x) { return (Vector)vcvtq_f32_s32((int32x4_t)x); }

typedef double HalfDoubles __attribute__((vector_size(16)));
typedef int32_t HalfIntegers __attribute__((vector_size(8)));
INLINE HalfDoubles fma(HalfDoubles a, HalfDoubles b, HalfDoubles c) { return (HalfDoubles)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b); }
INLINE HalfDoubles round_even(HalfDoubles x) { return (HalfDoubles)vrndnq_f64((float64x2_t)x); }
INLINE HalfIntegers to_integers(HalfDoubles x) { return (HalfIntegers)vmovn_s64(vcvtnq_s64_f64((float64x2_t)x)); }
INLINE Integers joined(HalfIntegers low, HalfIntegers high) { return (Integers)vcombine_s32((int32x2_t)low, (int32x2_t)high); }
INLINE HalfDoubles to_doubles(HalfIntegers x) { return (HalfDoubles)vcvtq_f64_s64(vmovl_s32((int32x2_t)x)); }

#include "dovetail_neon/vectors/four_lanes.h"
