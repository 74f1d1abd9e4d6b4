/* AVX-512 (F, BW, DQ, VL): 32 registers of 16 lanes, masks for what is left over. */
#include <immintrin.h>

constexpr int LANES = 16, REGISTERS = 32;
typedef float Vector __attribute__((vector_size(64)));
typedef int32_t Integers __attribute__((vector_size(64)));

INLINE Vector load(const float *at) { return (Vector)_mm512_loadu_ps(at); }
INLINE void store(float *at, Vector x) { _mm512_storeu_ps(at, (__m512)x); }
INLINE Vector broadcast(float x) { return (Vector)_mm512_set1_ps(x); }
INLINE Vector fma(Vector a, Vector b, Vector c) { return (Vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
INLINE Vector minimum(Vector a, Vector b) { return (Vector)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE Vector maximum(Vector a, Vector b) { return (Vector)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE Vector permute(Vector x, Integers from) { return (Vector)_mm512_permutexvar_ps((__m512i)from, (__m512)x); }
INLINE Vector merge(Vector kept, Vector x, Integers from) {
    const __mmask16 taken = _mm512_cmpge_epi32_mask((__m512i)from, _mm512_setzero_si512());
    return (Vector)_mm512_mask_permutexvar_ps((__m512)kept, taken, (__m512i)from, (__m512)x);
}
INLINE Vector square_root(Vector x) { return (Vector)_mm512_sqrt_ps((__m512)x); }
INLINE Vector round_even(Vector x) { return (Vector)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE Vector round_down(Vector x) { return (Vector)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
INLINE Integers to_integers(Vector x) { return (Integers)_mm512_cvtps_epi32((__m512)x); }
INLINE Vector to_floats(Integers x) { return (Vector)_mm512_cvtepi32_ps((__m512i)x); }

/* a / b within an ulp, where 1 / b is a normal number, but for the sign of 0: a division takes as
 * long as sixteen products. */
INLINE Vector quotient(Vector a, Vector b) {
    const Vector guess = (Vector)_mm512_rcp14_ps((__m512)b), near = fma(fma(-b, guess, broadcast(1.0f)), guess, guess);
    const Vector q = a * near;
    return fma(fma(-b, q, a), near, q);
}

/* x * 2^n */
INLINE Vector scale(Vector x, Vector n) { return (Vector)_mm512_scalef_ps((__m512)x, (__m512)n); }

typedef double HalfDoubles __attribute__((vector_size(64)));
typedef int32_t HalfIntegers __attribute__((vector_size(32)));
INLINE HalfDoubles fma(HalfDoubles a, HalfDoubles b, HalfDoubles c) { return (HalfDoubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c); }
INLINE HalfDoubles round_even(HalfDoubles x) { return (HalfDoubles)_mm512_roundscale_pd((__m512d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE HalfIntegers to_integers(HalfDoubles x) { return (HalfIntegers)_mm512_cvtpd_epi32((__m512d)x); }
INLINE Integers joined(HalfIntegers low, HalfIntegers high) {
    return (Integers)_mm512_inserti64x4(_mm512_castsi256_si512((__m256i)low), (__m256i)high, 1);
}
INLINE HalfDoubles to_doubles(HalfIntegers x) { return (HalfDoubles)_mm512_cvtepi32_pd((__m256i)x); }

INLINE Vector load_part(const float *at, int n) { return (Vector)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), at); }
INLINE void store_part(float *at, Vector x, int n) { _mm512_mask_storeu_ps(at, (__mmask16)((1u << n) - 1), (__m512)x); }
INLINE Vector gather(const float *at, int64_t stride) {
    Integers lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    if (stride > (1 << 26) || stride < -(1 << 26)) {
        Vector x;
        for (int i = 0; i < LANES; i++) x[i] = at[i * stride];
        return x;
    }
    return (Vector)_mm512_i32gather_ps((__m512i)(lanes * (int32_t)stride), at, 4);
}
