/* Bytes with AVX-512 (BW), and VNNI where this file is compiled with it. */
typedef uint8_t Byte;

INLINE Integers load_bytes(const Byte *at) { return (Integers)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)at)); }
INLINE void store_bytes(Byte *at, const Integers (&x)[BLOCK_VECTORS]) {
    _mm_storeu_si128((__m128i *)at, _mm512_cvtepi32_epi8((__m512i)x[0]));
}

/* What the units share: a word is broadcast from memory by the load itself. */
struct BroadcastWords {
    typedef const char *Piece;
    static INLINE_MEMBER Piece piece(const char *at) { return at; }
    static INLINE_MEMBER Integers spread(const char *at) { return (Integers)_mm512_set1_epi32(load_word(at)); }
};

struct Halves : BroadcastWords {
    typedef int16_t Factor;
    static constexpr int DEPTH = 2;
    static INLINE_MEMBER Integers dot(Integers sum, Integers w, Integers x) {
#ifdef __AVX512VNNI__
        return (Integers)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)w, (__m512i)x);
#else
        return sum + (Integers)_mm512_madd_epi16((__m512i)w, (__m512i)x);
#endif
    }
    template <int i> static INLINE_MEMBER Integers dot(Integers sum, Integers w, Piece x) { return dot(sum, w, spread(x + 4 * i)); }
    static INLINE_MEMBER void stack(const Byte *const (&rows)[DEPTH], Integers (&x)[BLOCK_VECTORS]) {
        x[0] = load_bytes(rows[0]) | load_bytes(rows[1]) << 16;
    }
    static constexpr int place(int lane, int i) { return lane * DEPTH + i; }
};

#ifdef __AVX512VNNI__
#define ACC_HAS_QUADS 1
struct Quads : BroadcastWords {
    typedef int8_t Factor;
    static constexpr int DEPTH = 4;
    static INLINE_MEMBER Integers dot(Integers sum, Integers w, Integers x) {
        return (Integers)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)x, (__m512i)w);
    }
    template <int i> static INLINE_MEMBER Integers dot(Integers sum, Integers w, Piece x) { return dot(sum, w, spread(x + 4 * i)); }
    static INLINE_MEMBER void stack(const Byte *const (&rows)[DEPTH], Integers (&x)[BLOCK_VECTORS]) {
        x[0] = (load_bytes(rows[0]) | load_bytes(rows[1]) << 8) | (load_bytes(rows[2]) << 16 | load_bytes(rows[3]) << 24);
    }
    static constexpr int place(int lane, int i) { return lane * DEPTH + i; }
};
#endif
