/* Bytes with AVX2, and AVX-VNNI where this file is compiled with it. */
typedef uint8_t Byte;

INLINE Integers load_bytes(const Byte *at) { return (Integers)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)at)); }
INLINE void store_bytes(Byte *at, const Integers (&x)[BLOCK_VECTORS]) {
    const __m256i low = _mm256_set1_epi32(0xFF);
    const __m256i words = _mm256_packus_epi32((__m256i)x[0] & low, (__m256i)x[1] & low);    /* 0-3 8-11 | 4-7 12-15 */
    const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)at, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}

/* What the units share: a word is broadcast from memory by the load itself. */
struct BroadcastWords {
    typedef const char *Piece;
    static INLINE_MEMBER Piece piece(const char *at) { return at; }
    static INLINE_MEMBER Integers spread(const char *at) { return (Integers)_mm256_set1_epi32(load_word(at)); }
};

struct Halves : BroadcastWords {
    typedef int16_t Factor;
    static constexpr int DEPTH = 2;
    static INLINE_MEMBER Integers dot(Integers sum, Integers w, Integers x) {
#ifdef __AVXVNNI__
        return (Integers)_mm256_dpwssd_avx_epi32((__m256i)sum, (__m256i)w, (__m256i)x);
#else
        return sum + (Integers)_mm256_madd_epi16((__m256i)w, (__m256i)x);
#endif
    }
    template <int i> static INLINE_MEMBER Integers dot(Integers sum, Integers w, Piece x) { return dot(sum, w, spread(x + 4 * i)); }
    static INLINE_MEMBER void stack(const Byte *const (&rows)[DEPTH], Integers (&x)[BLOCK_VECTORS]) {
#pragma GCC unroll 2
        for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = load_bytes(rows[0] + v * LANES) | load_bytes(rows[1] + v * LANES) << 16;
    }
    static constexpr int place(int lane, int i) { return lane * DEPTH + i; }
};

#ifdef __AVXVNNI__
#define ACC_HAS_QUADS 1
struct Quads : BroadcastWords {
    typedef int8_t Factor;
    static constexpr int DEPTH = 4;
    static INLINE_MEMBER Integers dot(Integers sum, Integers w, Integers x) {
        return (Integers)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)x, (__m256i)w);
    }
    template <int i> static INLINE_MEMBER Integers dot(Integers sum, Integers w, Piece x) { return dot(sum, w, spread(x + 4 * i)); }
    static INLINE_MEMBER void stack(const Byte *const (&rows)[DEPTH], Integers (&x)[BLOCK_VECTORS]) {
#pragma GCC unroll 2
        for (int v = 0; v < BLOCK_VECTORS; v++) {
            const int at = v * LANES;
            x[v] = (load_bytes(rows[0] + at) | load_bytes(rows[1] + at) << 8) |
                   (load_bytes(rows[2] + at) << 16 | load_bytes(rows[3] + at) << 24);
        }
    }
    static constexpr int place(int lane, int i) { return lane * DEPTH + i; }
};
#endif
