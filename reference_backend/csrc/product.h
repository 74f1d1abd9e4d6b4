/* The inner loop of convolutions and matrix products: a tile of sums in registers.
 *
 * Everything arrives packed and converted: `rows` is [depth][TILE_ROWS], `panel` is
 * [depth][TILE_COLUMNS], `sums` is [TILE_ROWS][TILE_COLUMNS]: it is written or, if this is `more`
 * of the depth, added to. Vectors run across the columns, never along the depth: each sum is formed
 * in order of depth, one rounding per product and one per addition, so every instruction set gives
 * the same bits, and so does a depth that comes in parts.
 */
#pragma once

#include <stdint.h>

enum { TILE_ROWS = 4, TILE_COLUMNS = 16 };

/* A pass over the depth holds TILE_ROWS x 2 vectors, which fits the registers of every instruction
 * set. */
#define DEFINE_PRODUCT(name, type, bytes, attributes)                                                              \
    attributes static void name(int64_t depth, const type *rows, const type *panel, type *sums, int more)          \
    {                                                                                                              \
        typedef type vector __attribute__((vector_size(bytes), aligned(sizeof(type)), may_alias));                 \
        enum { width = (bytes) / sizeof(type) };                                                                   \
        for (int c = 0; c < TILE_COLUMNS; c += 2 * width) {                                                        \
            vector tile[TILE_ROWS][2] = {{{0}}};                                                                   \
            for (int r = 0; more && r < TILE_ROWS; r++)                                                            \
                for (int v = 0; v < 2; v++)                                                                        \
                    tile[r][v] = *(const vector *)(sums + r * TILE_COLUMNS + c + v * width);                       \
            for (int64_t k = 0; k < depth; k++) {                                                                  \
                const vector *columns = (const vector *)(panel + k * TILE_COLUMNS + c);                            \
                for (int r = 0; r < TILE_ROWS; r++) {                                                              \
                    tile[r][0] += rows[k * TILE_ROWS + r] * columns[0];                                            \
                    tile[r][1] += rows[k * TILE_ROWS + r] * columns[1];                                            \
                }                                                                                                  \
            }                                                                                                      \
            for (int r = 0; r < TILE_ROWS; r++)                                                                    \
                for (int v = 0; v < 2; v++)                                                                        \
                    *(vector *)(sums + r * TILE_COLUMNS + c + v * width) = tile[r][v];                             \
        }                                                                                                          \
    }

#if defined(__x86_64__)
#define DEFINE_PRODUCTS(name, type)                                                                                \
    DEFINE_PRODUCT(name##_sse2, type, 16, )                                                                        \
    DEFINE_PRODUCT(name##_avx2, type, 32, __attribute__((target("avx2"))))                                         \
    static inline void name(int64_t depth, const type *rows, const type *panel, type *sums, int more)              \
    {                                                                                                              \
        (__builtin_cpu_supports("avx2") ? name##_avx2 : name##_sse2)(depth, rows, panel, sums, more);              \
    }
#else
#define DEFINE_PRODUCTS(name, type) DEFINE_PRODUCT(name, type, 16, inline)
#endif

DEFINE_PRODUCTS(product_double, double)   /* float64, and float32, whose products are exact in it */
DEFINE_PRODUCTS(product_int32, uint32_t)  /* quantized: wraps, as TensorFlow Lite's sums do in practice */
DEFINE_PRODUCTS(product_int64, uint64_t)  /* integers modulo 2^64, hence modulo any smaller width, signed or not */
