/* Bytes without any instruction set. */
typedef uint8_t Byte;
typedef Byte GroupBytes __attribute__((vector_size(GROUP)));

INLINE Integers load_bytes(const Byte *at) { return Integers{at[0], at[1], at[2], at[3]}; }
INLINE void store_bytes(Byte *at, const Integers (&x)[BLOCK_VECTORS]) {
    for (int i = 0; i < BLOCK; i++) at[i] = (Byte)x[i / LANES][i % LANES];
}
INLINE GroupBytes low_bytes(const Integers (&x)[GROUP_VECTORS]) {
    GroupBytes y;
    store_bytes((Byte *)&y, x);
    return y;
}

INLINE GroupBytes saturated(const Integers (&x)[GROUP_VECTORS]) {
    GroupBytes y;
    for (int i = 0; i < GROUP; i++) y[i] = (Byte)lesser(greater(x[i / LANES][i % LANES], 0), 255);
    return y;
}
INLINE GroupBytes in_order(GroupBytes x) { return x; }
template <int bytes, int count> INLINE void store_parts(GroupBytes x, Byte *const (&at)[1]) { __builtin_memcpy(at[0], &x, sizeof(x)); }

/* Look up bytes in a table of 256. */
struct ByteTable {
    static constexpr int WIDTH = 1;
    const uint8_t *bytes;
    INLINE_MEMBER explicit ByteTable(const uint8_t *bytes) : bytes(bytes) {}
    INLINE_MEMBER void operator()(const uint8_t *from, uint8_t *to) const { *to = bytes[*from]; }
};

struct Halves {
    typedef int16_t Factor;
    typedef const char *Piece;
    static constexpr int DEPTH = 2;
    static INLINE_MEMBER Piece piece(const char *at) { return at; }
    static INLINE_MEMBER Integers spread(const char *at) {
        const int32_t word = load_word(at);
        return Integers{word, word, word, word};
    }
    static INLINE_MEMBER Integers dot(Integers sum, Integers w, Integers x) {
        return sum + (w << 16 >> 16) * (x << 16 >> 16) + (w >> 16) * (x >> 16);
    }
    template <int i> static INLINE_MEMBER Integers dot(Integers sum, Integers w, Piece x) { return dot(sum, w, spread(x + 4 * i)); }
    static INLINE_MEMBER void stack(const Byte *const (&rows)[DEPTH], Integers (&x)[GROUP_VECTORS]) {
        for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = load_bytes(rows[0] + v * LANES) | load_bytes(rows[1] + v * LANES) << 16;
    }
    static constexpr int place(int lane, int i) { return lane * DEPTH + i; }
};

INLINE void stack_shorts(const int16_t *const (&rows)[2], Integers (&x)[GROUP_VECTORS]) {
    for (int i = 0; i < GROUP; i++) x[i / LANES][i % LANES] = (int32_t)((uint32_t)(uint16_t)rows[0][i] | (uint32_t)(uint16_t)rows[1][i] << 16);
}
INLINE void unstack_shorts(const Integers (&x)[GROUP_VECTORS], int16_t (&out)[GROUP]) {
    for (int i = 0; i < GROUP; i++) out[i] = (int16_t)x[i / LANES][i % LANES];
}
