/* Bytes with AVX2, and AVX-VNNI where this file is compiled with it. */
typedef uint8_t Byte;
typedef Byte GroupBytes __attribute__((vector_size(GROUP)));
typedef __m256i Register;

INLINE Integers load_bytes(const Byte *at) { return (Integers)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)at)); }
INLINE void store_bytes(Byte *at, const Integers (&x)[BLOCK_VECTORS]) {
    const __m256i low = _mm256_set1_epi32(0xFF);
    const __m256i words = _mm256_packus_epi32((__m256i)x[0] & low, (__m256i)x[1] & low);    /* 0-3 8-11 | 4-7 12-15 */
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)at, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}

template <int bytes, int count> INLINE void store_parts(GroupBytes x, Byte *const (&at)[GROUP / bytes]) {
    const __m256i y = (__m256i)x;
    if (bytes == 32)
        _mm256_storeu_si256((__m256i *)at[0], y);
    else {
        _mm_storeu_si128((__m128i *)at[0], _mm256_castsi256_si128(y));
        if (count > 1) _mm_storeu_si128((__m128i *)at[GROUP / bytes > 1], _mm256_extracti128_si256(y, 1));
    }
}
INLINE __m256i permute_words(__m256i x, __m256i from) { return _mm256_permutevar8x32_epi32(x, from); }

/* Of each pair of words the first of `first` and the second of `second`. */
INLINE __m256i mixed_words(__m256i first, __m256i second) { return _mm256_blend_epi32(first, second, 0xAA); }

#define ACC_X86(name) _mm256_##name
#ifdef __AVXVNNI__
#define ACC_VNNI(name) _mm256_##name##_avx_epi32
#endif
#include "dovetail_neon/vectors/x86_bytes.h"
