/* What AVX2 and AVX-512 share of bytes: ACC_X86 is the intrinsic of the width at hand, and ACC_VNNI
 * that of dot products, where this file is compiled with them. */

INLINE Register load_register(const void *at) { return (Register)load_as<GroupBytes>(at); }

/* Look up bytes in a table of 256. A shuffle reads one of 16 entries, and gives zero where the
 * highest bit of the index is set. Of each half of the table every 16 entries are kept as what
 * changes against those before, so that as many changes are combined as the index is multiples of
 * 16; what is subtracted from it saturates, so that a negative index stays one. */
struct ByteTable {
    static constexpr int WIDTH = (int)sizeof(Register);
    Register changes[16];
    INLINE_MEMBER explicit ByteTable(const uint8_t *bytes) {
        for (int i = 0; i < 16; i++) {
            __m128i entries = _mm_loadu_si128((const __m128i *)(bytes + 16 * i));
            if (i % 8) entries ^= _mm_loadu_si128((const __m128i *)(bytes + 16 * i - 16));
            for (int at = 0; at < WIDTH; at += 16) __builtin_memcpy((char *)&changes[i] + at, &entries, sizeof(entries));
        }
    }
    INLINE_MEMBER void operator()(const uint8_t *from, uint8_t *to) const {
        Register low = load_register(from), high = low ^ ACC_X86(set1_epi8)(-128), result = {};
        const Register sixteen = ACC_X86(set1_epi8)(16);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            result ^= ACC_X86(shuffle_epi8)(changes[i], low) ^ ACC_X86(shuffle_epi8)(changes[8 + i], high);
            low = ACC_X86(subs_epi8)(low, sixteen), high = ACC_X86(subs_epi8)(high, sixteen);
        }
        __builtin_memcpy(to, &result, sizeof(result));
    }
};

INLINE GroupBytes low_bytes(const Integers (&x)[GROUP_VECTORS]) {
    const Register low = ACC_X86(set1_epi32)(0xFF);
    const Register first = ACC_X86(packus_epi32)((Register)x[0] & low, (Register)x[1] & low);
    const Register second = ACC_X86(packus_epi32)((Register)x[2] & low, (Register)x[3] & low);
    return (GroupBytes)ACC_X86(packus_epi16)(first, second);
}
INLINE GroupBytes saturated(const Integers (&x)[GROUP_VECTORS]) {
    const Register first = ACC_X86(packs_epi32)((Register)x[0], (Register)x[1]);
    const Register second = ACC_X86(packs_epi32)((Register)x[2], (Register)x[3]);
    return (GroupBytes)ACC_X86(packus_epi16)(first, second);
}
INLINE GroupBytes in_order(GroupBytes x) {
    Integers from;
    for (int i = 0; i < LANES; i++) from[i] = i % (LANES / 4) * 4 + i / (LANES / 4);
    return (GroupBytes)permute_words((Register)x, (Register)from);
}

/* What the units share: a word is broadcast from memory by the load itself. */
struct BroadcastWords {
    typedef const char *Piece;
    static INLINE_MEMBER Piece piece(const char *at) { return at; }
    static INLINE_MEMBER Integers spread(const char *at) { return (Integers)ACC_X86(set1_epi32)(load_word(at)); }
};

struct Halves : BroadcastWords {
    typedef int16_t Factor;
    static constexpr int DEPTH = 2;
    static INLINE_MEMBER Integers dot(Integers sum, Integers w, Integers x) {
#ifdef ACC_VNNI
        return (Integers)ACC_VNNI(dpwssd)((Register)sum, (Register)w, (Register)x);
#else
        return sum + (Integers)ACC_X86(madd_epi16)((Register)w, (Register)x);
#endif
    }
    template <int i> static INLINE_MEMBER Integers dot(Integers sum, Integers w, Piece x) { return dot(sum, w, spread(x + 4 * i)); }
    static INLINE_MEMBER void stack(const Byte *const (&rows)[DEPTH], Integers (&x)[GROUP_VECTORS]) {
        const Register a = load_register(rows[0]), b = load_register(rows[1]), none = {};
        const Register low = ACC_X86(unpacklo_epi8)(a, b), high = ACC_X86(unpackhi_epi8)(a, b);
        x[0] = (Integers)ACC_X86(unpacklo_epi8)(low, none), x[1] = (Integers)ACC_X86(unpackhi_epi8)(low, none);
        x[2] = (Integers)ACC_X86(unpacklo_epi8)(high, none), x[3] = (Integers)ACC_X86(unpackhi_epi8)(high, none);
    }
    static constexpr int place(int lane, int i) { return lane * DEPTH + i; }
};

/* GROUP words of one element of each row of two, as interleaved registers have them. */
INLINE void stack_shorts(const int16_t *const (&rows)[2], Integers (&x)[GROUP_VECTORS]) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        const Register a = load_register(rows[0] + 2 * LANES * i), b = load_register(rows[1] + 2 * LANES * i);
        x[2 * i] = (Integers)ACC_X86(unpacklo_epi16)(a, b), x[2 * i + 1] = (Integers)ACC_X86(unpackhi_epi16)(a, b);
    }
}
/* Integers of such words that fit 16 bits, in the order of the rows. */
INLINE void unstack_shorts(const Integers (&x)[GROUP_VECTORS], int16_t (&out)[GROUP]) {
    const Register first = ACC_X86(packs_epi32)((Register)x[0], (Register)x[1]);
    const Register second = ACC_X86(packs_epi32)((Register)x[2], (Register)x[3]);
    __builtin_memcpy(out, &first, sizeof(first));
    __builtin_memcpy(out + 2 * LANES, &second, sizeof(second));
}

#ifdef ACC_VNNI
#define ACC_HAS_QUADS 1
struct Quads : BroadcastWords {
    typedef int8_t Factor;
    static constexpr int DEPTH = 4;
    static INLINE_MEMBER Integers dot(Integers sum, Integers w, Integers x) {
        return (Integers)ACC_VNNI(dpbusd)((Register)sum, (Register)x, (Register)w);
    }
    template <int i> static INLINE_MEMBER Integers dot(Integers sum, Integers w, Piece x) { return dot(sum, w, spread(x + 4 * i)); }
    static INLINE_MEMBER void stack(const Byte *const (&rows)[DEPTH], Integers (&x)[GROUP_VECTORS]) {
        const Register a = load_register(rows[0]), b = load_register(rows[1]), c = load_register(rows[2]), d = load_register(rows[3]);
        const Register low = ACC_X86(unpacklo_epi8)(a, b), high = ACC_X86(unpackhi_epi8)(a, b);
        const Register lower = ACC_X86(unpacklo_epi8)(c, d), higher = ACC_X86(unpackhi_epi8)(c, d);
        x[0] = (Integers)ACC_X86(unpacklo_epi16)(low, lower), x[1] = (Integers)ACC_X86(unpackhi_epi16)(low, lower);
        x[2] = (Integers)ACC_X86(unpacklo_epi16)(high, higher), x[3] = (Integers)ACC_X86(unpackhi_epi16)(high, higher);
    }
    static constexpr int place(int lane, int i) { return lane * DEPTH + i; }
};
#endif
