/* AVX2 and FMA3: 16 registers of 8 lanes. */
#include <immintrin.h>

constexpr int LANES = 8, REGISTERS = 16;
typedef float Vector __attribute__((vector_size(32)));
typedef int32_t Integers __attribute__((vector_size(32)));

INLINE Vector load(const float *at) { return (Vector)_mm256_loadu_ps(at); }
INLINE void store(float *at, Vector x) { _mm256_storeu_ps(at, (__m256)x); }
INLINE Vector broadcast(float x) { return (Vector)_mm256_set1_ps(x); }
INLINE Vector fma(Vector a, Vector b, Vector c) { return (Vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
INLINE Vector minimum(Vector a, Vector b) { return (Vector)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE Vector maximum(Vector a, Vector b) { return (Vector)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE Vector permute(Vector x, Integers from) { return (Vector)_mm256_permutevar8x32_ps((__m256)x, (__m256i)from); }
INLINE Vector merge(Vector kept, Vector x, Integers from) {
    return (Vector)_mm256_blendv_ps((__m256)permute(x, from), (__m256)kept, (__m256)from);
}
INLINE Vector square_root(Vector x) { return (Vector)_mm256_sqrt_ps((__m256)x); }
INLINE Vector round_even(Vector x) { return (Vector)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE Vector round_down(Vector x) { return (Vector)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
INLINE Integers to_integers(Vector x) { return (Integers)_mm256_cvtps_epi32((__m256)x); }
INLINE Vector to_floats(Integers x) { return (Vector)_mm256_cvtepi32_ps((__m256i)x); }

typedef double HalfDoubles __attribute__((vector_size(32)));
typedef int32_t HalfIntegers __attribute__((vector_size(16)));
INLINE HalfDoubles fma(HalfDoubles a, HalfDoubles b, HalfDoubles c) { return (HalfDoubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }
INLINE HalfDoubles round_even(HalfDoubles x) { return (HalfDoubles)_mm256_round_pd((__m256d)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE HalfIntegers to_integers(HalfDoubles x) { return (HalfIntegers)_mm256_cvtpd_epi32((__m256d)x); }
INLINE Integers joined(HalfIntegers low, HalfIntegers high) { return (Integers)_mm256_set_m128i((__m128i)high, (__m128i)low); }
INLINE HalfDoubles to_doubles(HalfIntegers x) { return (HalfDoubles)_mm256_cvtepi32_pd((__m128i)x); }

INLINE Vector quotient(Vector a, Vector b) { return a / b; }

/* x * 2^n for whole n from -252 to 254: in two steps, so that a result that is no normal number
 * comes out right. */
INLINE Vector scale(Vector x, Vector n) {
    const Integers whole = to_integers(n), half = whole >> 1;
    return x * (Vector)((half + 127) << 23) * (Vector)((whole - half + 127) << 23);
}

INLINE __m256i first_lanes(int n) {
    Integers lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    return (__m256i)(lanes < n);
}
INLINE Vector load_part(const float *at, int n) { return (Vector)_mm256_maskload_ps(at, first_lanes(n)); }
INLINE void store_part(float *at, Vector x, int n) { _mm256_maskstore_ps(at, first_lanes(n), (__m256)x); }
INLINE Vector gather(const float *at, int64_t stride) {
    Vector x;
    for (int i = 0; i < LANES; i++) x[i] = at[i * stride];
    return x;
}
