/* Blocks of 32 channels of bfloat16: channels i and 16 + i lie side by side, so that either half
 * becomes a vector by one instruction. */
#pragma once

#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

constexpr int64_t BLOCK = 32, PIXEL_BYTES = 64;

INLINE __m512i load_block(const char *at) { return _mm512_loadu_si512(at); }
INLINE Vector half_of_block(__m512i block, int half) {
    return (Vector)(half ? _mm512_and_si512(block, _mm512_set1_epi32((int32_t)0xFFFF0000)) : _mm512_slli_epi32(block, 16));
}

/* Which elements of a block belong to its first `count` channels. */
INLINE __mmask32 channels_of_block(int64_t count) {
    uint32_t mask = 0;
    for (int i = 0; i < BLOCK; i++) mask |= (uint32_t)(i < count) << (2 * (i % LANES) + i / LANES);
    return mask;
}

INLINE void store_block(char *at, Vector low, Vector high, __mmask32 channels = 0xFFFFFFFFu) {
    alignas(64) static const uint16_t order[BLOCK] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
    _mm512_storeu_si512(at, _mm512_maskz_permutexvar_epi16(channels, _mm512_load_si512(order), both));
}

} // namespace dovetail_acc::ACC_ISA
