/* Bytes with AVX2, and AVX-VNNI where this file is compiled with it. */
typedef uint8_t Byte;
typedef __m256i Register;

INLINE Integers load_bytes(const Byte *at) { return (Integers)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)at)); }
INLINE void store_bytes(Byte *at, const Integers (&x)[BLOCK_VECTORS]) {
    const __m256i low = _mm256_set1_epi32(0xFF);
    const __m256i words = _mm256_packus_epi32((__m256i)x[0] & low, (__m256i)x[1] & low);    /* 0-3 8-11 | 4-7 12-15 */
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)at, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}

#define ACC_X86(name) _mm256_##name
#ifdef __AVXVNNI__
#define ACC_VNNI(name) _mm256_##name##_avx_epi32
#endif
#include "dovetail_neon/vectors/x86_bytes.h"
