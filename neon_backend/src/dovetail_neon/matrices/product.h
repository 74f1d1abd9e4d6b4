/* Products of matrices that are computed: packed into panels, or as they lie. */
#pragma once

#include "dovetail_neon/convolution/tile.h"
#include "dovetail_neon/vectors/transpose.h"

namespace dovetail_acc::ACC_ISA {

/* Rows in a tile: as many as the registers hold, but few enough that most of their addresses stay
 * in registers too. */
constexpr int rows_of(int vectors) {
    return vectors == 1 ? (pixels_of(1) < 12 ? pixels_of(1) : 12) : (pixels_of(vectors) < 10 ? pixels_of(vectors) : 10);
}

/* First vector of a panel, when vectors are shared out as evenly as can be. */
INLINE int64_t first_of_panel(int64_t vectors, int64_t panels, int64_t panel) { return vectors * panel / panels; }
INLINE int64_t vectors_of(int64_t count) { return (count + LANES - 1) / LANES; }

/* What the tiles of one panel of columns share: rows of `in` times a panel [depth, vectors, LANES],
 * whose rows lie `step` apart. */
struct Panel {
    const float *in;
    int64_t in_step;
    const float *right;
    int64_t step;
    int64_t depth;
    int last_lanes;         /* columns in the last vector; a panel that was packed is padded */
};

template <bool packed> INLINE Vector load_right(const float *at, bool last, int lanes) {
    return packed || !last ? load(at) : load_part(at, lanes);
}

/* sum[r][v] = the product of row r with vector v. */
template <bool packed, int vectors, int rows>
INLINE void multiply(Vector (&sum)[rows][vectors], const Panel &panel, int64_t first) {
    const float *in[rows];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        in[r] = panel.in + (first + r) * panel.in_step;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sum[r][v] = zeros();
    }
    const float *right = panel.right;
    const int64_t step = packed ? vectors * LANES : panel.step, depth = panel.depth;
    const int last_lanes = panel.last_lanes;
    int64_t k = 0;
#if ACC_IS == 3
    for (; k + LANES <= depth; k += LANES) {
        Vector x[rows];
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) x[r] = load(in[r] + k);
#pragma GCC unroll 4
        for (int lane = 0; lane < LANES; lane++, right += step) {
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                const Vector w = load_right<packed>(right + v * LANES, v == vectors - 1, last_lanes);
#pragma GCC unroll 16
                for (int r = 0; r < rows; r++)
                    sum[r][v] = (Vector)vfmaq_laneq_f32((float32x4_t)sum[r][v], (float32x4_t)w, (float32x4_t)x[r], lane);
            }
        }
    }
#endif
#pragma GCC unroll 2
    for (; k < depth; k++, right += step) {
        Vector w[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) w[v] = load_right<packed>(right + v * LANES, v == vectors - 1, last_lanes);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const Vector x = broadcast(in[r][k]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sum[r][v] = fma(w[v], x, sum[r][v]);
        }
    }
}

/* `finish(sum, first)` takes what a tile computed, whose first row is `first`. */
template <bool packed, int vectors, int rows, typename Finish>
void product_tile(const Panel &panel, const Finish &finish, int64_t first) {
    Vector sum[rows][vectors];
    multiply<packed>(sum, panel, first);
    finish(sum, first);
}

template <bool packed, int vectors, int rows, typename Finish> struct ProductTiles {
    static void run(const Panel &panel, const Finish &finish, int64_t first, int count) {
        if (count == rows)
            product_tile<packed, vectors, rows>(panel, finish, first);
        else
            ProductTiles<packed, vectors, rows - 1, Finish>::run(panel, finish, first, count);
    }
};
template <bool packed, int vectors, typename Finish> struct ProductTiles<packed, vectors, 0, Finish> {
    static void run(const Panel &, const Finish &, int64_t, int) {}
};

/* Rows [begin, end), in tiles of as equal a size as possible. */
template <bool packed, int vectors, typename Finish>
void product_rows(const Panel &panel, const Finish &finish, int64_t begin, int64_t end) {
    constexpr int most = rows_of(vectors);
    int64_t left = (end - begin + most - 1) / most;
    for (int64_t at = begin; left > 0; left--) {
        const int count = (int)((end - at + left - 1) / left);
        ProductTiles<packed, vectors, most, Finish>::run(panel, finish, at, count);
        at += count;
    }
}

template <bool packed, typename Finish>
INLINE void product(const Panel &panel, int64_t vectors, const Finish &finish, int64_t begin, int64_t end) {
    switch (vectors) {
    case 1: product_rows<packed, 1>(panel, finish, begin, end); break;
    case 2: product_rows<packed, 2>(panel, finish, begin, end); break;
#if ACC_IS == 1 || ACC_IS == 3
    case 3: product_rows<packed, 3>(panel, finish, begin, end); break;
    case 4: product_rows<packed, 4>(panel, finish, begin, end); break;
#endif
    }
}

/* One vector of columns of [depth, columns]: rows become `out_step` apart; missing lanes are 0. */
INLINE void pack_columns(const float *from, int64_t step, int64_t depth, int lanes, float *out, int64_t out_step) {
    if (lanes == LANES)
        for (int64_t k = 0; k < depth; k++) store(out + k * out_step, load(from + k * step));
    else
        for (int64_t k = 0; k < depth; k++) store(out + k * out_step, load_part(from + k * step, lanes));
}

/* The same of [columns, depth]. */
static void pack_transposed(const float *from, int64_t step, int64_t depth, int lanes, float *out, int64_t out_step) {
    for (int64_t k = 0; k < depth; k += LANES) {
        const int count = (int)lesser<int64_t>(LANES, depth - k);
        Vector x[LANES];
        if (lanes == LANES && count == LANES) {
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) x[i] = load(from + i * step + k);
        } else {
            for (int i = 0; i < LANES; i++) x[i] = i < lanes ? load_part(from + i * step + k, count) : zeros();
        }
        transpose(x);
        if (count == LANES) {
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) store(out + (k + i) * out_step, x[i]);
        } else {
            for (int i = 0; i < count; i++) store(out + (k + i) * out_step, x[i]);
        }
    }
}

} // namespace dovetail_acc::ACC_ISA
