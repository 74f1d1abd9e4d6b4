/* Bytes with Advanced SIMD, and its dot products (FEAT_DotProd) where this file is compiled with
 * them. Bytes are signed: SDOT multiplies two of a kind. */
typedef int8_t Byte;
typedef Byte GroupBytes __attribute__((vector_size(GROUP)));

INLINE Integers load_bytes(const Byte *at) {
    return (Integers)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(load_word((const char *)at))))));
}
INLINE void store_bytes(Byte *at, const Integers (&x)[BLOCK_VECTORS]) {
    const int16x8_t low = vcombine_s16(vmovn_s32((int32x4_t)x[0]), vmovn_s32((int32x4_t)x[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32((int32x4_t)x[2]), vmovn_s32((int32x4_t)x[3]));
    vst1q_s8(at, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}
INLINE GroupBytes low_bytes(const Integers (&x)[GROUP_VECTORS]) {
    GroupBytes y;
    store_bytes((Byte *)&y, x);
    return y;
}

INLINE GroupBytes saturated(const Integers (&x)[GROUP_VECTORS]) {
    const int16x8_t low = vcombine_s16(vqmovn_s32((int32x4_t)x[0]), vqmovn_s32((int32x4_t)x[1]));
    const int16x8_t high = vcombine_s16(vqmovn_s32((int32x4_t)x[2]), vqmovn_s32((int32x4_t)x[3]));
    return (GroupBytes)vcombine_s8(vqmovn_s16(low), vqmovn_s16(high));
}
INLINE GroupBytes in_order(GroupBytes x) { return x; }
template <int bytes, int count> INLINE void store_parts(GroupBytes x, Byte *const (&at)[1]) { vst1q_s8(at[0], (int8x16_t)x); }

/* Look up bytes in a table of 256: a quarter of it at a time, of which what lies beyond is left. */
struct ByteTable {
    static constexpr int WIDTH = 16;
    uint8x16x4_t quarters[4];
    INLINE_MEMBER explicit ByteTable(const uint8_t *bytes) {
        for (int i = 0; i < 4; i++) quarters[i] = vld1q_u8_x4(bytes + 64 * i);
    }
    INLINE_MEMBER void operator()(const uint8_t *from, uint8_t *to) const {
        const uint8x16_t x = vld1q_u8(from);
        uint8x16_t y = vqtbl4q_u8(quarters[0], x);
        y = vqtbx4q_u8(y, quarters[1], veorq_u8(x, vdupq_n_u8(64)));
        y = vqtbx4q_u8(y, quarters[2], veorq_u8(x, vdupq_n_u8(128)));
        y = vqtbx4q_u8(y, quarters[3], veorq_u8(x, vdupq_n_u8(192)));
        vst1q_u8(to, y);
    }
};

/* A vector of weights holds the first factors of its four lanes, then the second ones: products are
 * by one element of a piece. */
struct Halves {
    typedef int16_t Factor;
    typedef int16x8_t Piece;
    static constexpr int DEPTH = 2;
    static INLINE_MEMBER Piece piece(const char *at) { return vld1q_s16((const int16_t *)at); }
    template <int i> static INLINE_MEMBER Integers dot(Integers sum, Integers w, Piece x) {
        const int32x4_t first = vmlal_laneq_s16((int32x4_t)sum, vget_low_s16((int16x8_t)w), x, 2 * i);
        return (Integers)vmlal_high_laneq_s16(first, (int16x8_t)w, x, 2 * i + 1);
    }
    static INLINE_MEMBER Integers spread(const char *at) {
        const int16_t *pair = (const int16_t *)at;
        return (Integers)vcombine_s16(vdup_n_s16(pair[0]), vdup_n_s16(pair[1]));
    }
    static INLINE_MEMBER Integers dot(Integers sum, Integers w, Integers x) {
        const int32x4_t first = vmlal_s16((int32x4_t)sum, vget_low_s16((int16x8_t)w), vget_low_s16((int16x8_t)x));
        return (Integers)vmlal_high_s16(first, (int16x8_t)w, (int16x8_t)x);
    }
    static INLINE_MEMBER void stack(const Byte *const (&rows)[DEPTH], Integers (&x)[GROUP_VECTORS]) {
        const int8x16_t a = vld1q_s8(rows[0]), b = vld1q_s8(rows[1]);
        const int16x8_t a0 = vmovl_s8(vget_low_s8(a)), a1 = vmovl_high_s8(a), b0 = vmovl_s8(vget_low_s8(b)), b1 = vmovl_high_s8(b);
        x[0] = (Integers)vcombine_s16(vget_low_s16(a0), vget_low_s16(b0));
        x[1] = (Integers)vcombine_s16(vget_high_s16(a0), vget_high_s16(b0));
        x[2] = (Integers)vcombine_s16(vget_low_s16(a1), vget_low_s16(b1));
        x[3] = (Integers)vcombine_s16(vget_high_s16(a1), vget_high_s16(b1));
    }
    static constexpr int place(int lane, int i) { return i * LANES + lane; }
};

INLINE void stack_shorts(const int16_t *const (&rows)[2], Integers (&x)[GROUP_VECTORS]) {
    for (int i = 0; i < 2; i++) {
        const int16x8_t a = vld1q_s16(rows[0] + 8 * i), b = vld1q_s16(rows[1] + 8 * i);
        x[2 * i] = (Integers)vcombine_s16(vget_low_s16(a), vget_low_s16(b));
        x[2 * i + 1] = (Integers)vcombine_s16(vget_high_s16(a), vget_high_s16(b));
    }
}
INLINE void unstack_shorts(const Integers (&x)[GROUP_VECTORS], int16_t (&out)[GROUP]) {
    for (int v = 0; v < GROUP_VECTORS; v++) vst1_s16(out + v * LANES, vmovn_s32((int32x4_t)x[v]));
}

#ifdef __ARM_FEATURE_DOTPROD
#define ACC_HAS_QUADS 1
struct Quads {
    typedef int8_t Factor;
    typedef int8x16_t Piece;
    static constexpr int DEPTH = 4;
    static INLINE_MEMBER Piece piece(const char *at) { return vld1q_s8((const int8_t *)at); }
    template <int i> static INLINE_MEMBER Integers dot(Integers sum, Integers w, Piece x) {
        return (Integers)vdotq_laneq_s32((int32x4_t)sum, (int8x16_t)w, x, i);
    }
    static INLINE_MEMBER Integers spread(const char *at) { return (Integers)vdupq_n_s32(load_word(at)); }
    static INLINE_MEMBER Integers dot(Integers sum, Integers w, Integers x) {
        return (Integers)vdotq_s32((int32x4_t)sum, (int8x16_t)w, (int8x16_t)x);
    }
    static INLINE_MEMBER void stack(const Byte *const (&rows)[DEPTH], Integers (&x)[GROUP_VECTORS]) {
        const int8x16_t a = vld1q_s8(rows[0]), b = vld1q_s8(rows[1]), c = vld1q_s8(rows[2]), d = vld1q_s8(rows[3]);
        const int16x8_t ab0 = (int16x8_t)vzip1q_s8(a, b), ab1 = (int16x8_t)vzip2q_s8(a, b);
        const int16x8_t cd0 = (int16x8_t)vzip1q_s8(c, d), cd1 = (int16x8_t)vzip2q_s8(c, d);
        x[0] = (Integers)vzip1q_s16(ab0, cd0), x[1] = (Integers)vzip2q_s16(ab0, cd0);
        x[2] = (Integers)vzip1q_s16(ab1, cd1), x[3] = (Integers)vzip2q_s16(ab1, cd1);
    }
    static constexpr int place(int lane, int i) { return lane * DEPTH + i; }
};
#endif
