/* The register tile: `vectors` vectors of filters times `pixels` pixels stay in registers while the
 * channels go by.
 *
 * Per channel a tile loads its weights once, and broadcasts one element of each pixel from memory.
 * With 32 registers of 16 lanes 4 x 6 sums, 4 weights and a broadcast fit: 24 multiply-adds for 10
 * loads, so that the multipliers are the limit. NEON multiplies by a lane: 4 x 6 sums, a vector of
 * channels for each pixel and one of weights.
 */
#pragma once

#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

constexpr int MAX_VECTORS = REGISTERS >= 32 ? 4 : 2;
constexpr int MAX_PIXELS = 14;

#if ACC_IS == 3
constexpr int room_for_pixels(int vectors) { return (REGISTERS - 1) / (vectors + 1); }
#else
constexpr int room_for_pixels(int vectors) { return (REGISTERS - 1 - vectors) / vectors; }
#endif
constexpr int pixels_of(int vectors) { return room_for_pixels(vectors) < MAX_PIXELS ? room_for_pixels(vectors) : MAX_PIXELS; }

/* Memory that is wanted soon: a few bytes of it are asked for with every channel, so that it
 * arrives while others are computed. */
struct Ahead {
    const char *at;
    int64_t step;
};

/* Where the pixels of a tile lie: anywhere, or `step` elements apart, which the instructions hold,
 * so that no register is needed for the address of each. */
template <int pixels> struct Scattered {
    static constexpr bool overlaps = false;
    const float *in[pixels];
    INLINE_MEMBER const float *at(int p) const { return in[p]; }
};
template <int step> struct SideBySide {
    static constexpr bool overlaps = step < LANES;
    const float *in;
    INLINE_MEMBER const float *at(int p) const { return in + p * step; }
};

/* sum[p][v] += pixel p's element k * weights[k][v] for `count` channels; moves the weights on. */
template <int vectors, int pixels, typename Pixels>
INLINE void multiply_add(Vector (&sum)[pixels][vectors], const Pixels &in, const float *&weights, int64_t count, Ahead &ahead) {
    /* Of the next weights one line per channel is enough where tiles share the fetching into the L2
     * cache; a tile's own, which come from there, are asked for some channels before they are used:
     * 1 to 2 % of a convolution. Tiles of one vector are limited by their loads, and their weights
     * are few. A lone pixel reads each weight once, and as fast as the caches give them: what it
     * asks for itself has to go to the L1 cache, and not far ahead, or it halves the bandwidth of
     * the second. */
    constexpr bool shares = pixels > 1 && vectors > 1;
    constexpr int64_t near = 64 * LANES, soon = 16 * vectors * LANES;
    constexpr int line = 64 / sizeof(float), lines_apart = line < LANES ? 1 : line / LANES;
    int64_t k = 0;
#if ACC_IS == 3
    for (; k + LANES <= count; k += LANES) {
        Vector x[pixels];
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++) x[p] = load(in.at(p) + k);
#pragma GCC unroll 4
        for (int lane = 0; lane < LANES; lane++, weights += vectors * LANES) {
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                Vector w = load(weights + v * LANES);
#pragma GCC unroll 16
                for (int p = 0; p < pixels; p++)
                    sum[p][v] = (Vector)vfmaq_laneq_f32((float32x4_t)sum[p][v], (float32x4_t)w, (float32x4_t)x[p], lane);
            }
        }
    }
#endif
#pragma GCC unroll 4
    for (; k < count; k++, weights += vectors * LANES) {
        Vector w[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) w[v] = load(weights + v * LANES);
        /* An element of one pixel is that of another a step later: to load it again costs less than
         * the register to keep it. */
        if (Pixels::overlaps) asm volatile("" ::: "memory");
        if (shares) {
            __builtin_prefetch(ahead.at, 0, 2);
            ahead.at += ahead.step;
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v += lines_apart) __builtin_prefetch(weights + soon + v * LANES, 0, 3);
        } else if (pixels == 1) {
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) __builtin_prefetch(weights + near + v * LANES, 0, 3);
        }
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++) {
            Vector x = broadcast(in.at(p)[k]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sum[p][v] = fma(w[v], x, sum[p][v]);
        }
    }
}

} // namespace dovetail_acc::ACC_ISA
