/* Bytes with AVX-512 (BW), and VNNI where this file is compiled with it. */
typedef uint8_t Byte;
typedef __m512i Register;

INLINE Integers load_bytes(const Byte *at) { return (Integers)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)at)); }
INLINE void store_bytes(Byte *at, const Integers (&x)[BLOCK_VECTORS]) {
    _mm_storeu_si128((__m128i *)at, _mm512_cvtepi32_epi8((__m512i)x[0]));
}

#define ACC_X86(name) _mm512_##name
#ifdef __AVX512VNNI__
#define ACC_VNNI(name) _mm512_##name##_epi32
#endif
#include "dovetail_neon/vectors/x86_bytes.h"
