/* Bytes with AVX-512 (BW), and VNNI where this file is compiled with it. */
typedef uint8_t Byte;
typedef Byte GroupBytes __attribute__((vector_size(GROUP)));
typedef __m512i Register;

INLINE Integers load_bytes(const Byte *at) { return (Integers)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)at)); }
INLINE void store_bytes(Byte *at, const Integers (&x)[BLOCK_VECTORS]) {
    _mm_storeu_si128((__m128i *)at, _mm512_cvtepi32_epi8((__m512i)x[0]));
}

INLINE void store_first(Byte *at, GroupBytes x, int64_t count) {
    _mm512_mask_storeu_epi8(at, ((__mmask64)1 << count) - 1, (__m512i)x);
}
INLINE void store_first(Byte *at, const Integers (&x)[BLOCK_VECTORS], int64_t count) {
    _mm_mask_storeu_epi8(at, (__mmask16)((1u << count) - 1), _mm512_cvtepi32_epi8((__m512i)x[0]));
}

template <int bytes, int count> INLINE void store_parts(GroupBytes x, Byte *const (&at)[GROUP / bytes]) {
    const __m512i y = (__m512i)x;
    if (bytes == 64)
        _mm512_storeu_si512(at[0], y);
    else if (bytes == 32) {
        _mm256_storeu_si256((__m256i *)at[0], _mm512_castsi512_si256(y));
        if (count > 1) _mm256_storeu_si256((__m256i *)at[GROUP / bytes > 1], _mm512_extracti64x4_epi64(y, 1));
    } else {
        _mm_storeu_si128((__m128i *)at[0], _mm512_castsi512_si128(y));
        if (count > 1) _mm_storeu_si128((__m128i *)at[GROUP / bytes > 1], _mm512_extracti32x4_epi32(y, 1));
        if (count > 2) _mm_storeu_si128((__m128i *)at[GROUP / bytes > 2 ? 2 : 0], _mm512_extracti32x4_epi32(y, 2));
        if (count > 3) _mm_storeu_si128((__m128i *)at[GROUP / bytes > 3 ? 3 : 0], _mm512_extracti32x4_epi32(y, 3));
    }
}
INLINE __m512i permute_words(__m512i x, __m512i from) { return _mm512_permutexvar_epi32(from, x); }

/* Of each pair of words the first of `first` and the second of `second`. */
INLINE __m512i mixed_words(__m512i first, __m512i second) { return _mm512_mask_blend_epi32(0xAAAA, first, second); }

#define ACC_X86(name) _mm512_##name
#ifdef __AVX512VNNI__
#define ACC_VNNI(name) _mm512_##name##_epi32
#endif
#include "dovetail_neon/vectors/x86_bytes.h"
