/* Products of rows of bytes with packed weights, few rows at a time. */
#pragma once

#include "dovetail_neon/recurrent/pace.h"
#include "dovetail_neon/recurrent/parameters.h"
#include "dovetail_neon/vectors/bytes.h"
#include "dovetail_neon/workload/job.h"

namespace dovetail_acc::ACC_ISA {

constexpr int PIECE = 16;                               /* bytes */
constexpr int PANEL_ROWS = REGISTERS >= 32 ? 3 : 1;      /* that are multiplied by the same weights: their sums stay in registers */
constexpr int64_t PIECES_BETWEEN_LOOKS = 1 << 14;      /* at the stop word */

/* First vector of a panel of weights. */
INLINE int64_t vector_of_panel(const acc_recurrent_matrix &m, int64_t panel) { return m.vectors * panel / m.panels; }

/* `rows` rows from `in` on times a panel of `vectors` vectors; false if the run should end. */
template <typename Unit, int rows, int vectors>
static bool byte_tile(const acc_job *job, const acc_recurrent_matrix &m, const char *weights, const int32_t *begins, const char *in,
                      int32_t *out, int64_t out_step) {
    Integers sum[rows][vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) {
        const Integers begin = load_integers(begins + v * LANES);
#pragma GCC unroll 3
        for (int r = 0; r < rows; r++) sum[r][v] = begin;
    }
    for (int64_t piece = 0; piece < m.pieces;) {
        if (piece && acc_stopped(job)) return false;
        const int64_t last = lesser(m.pieces, piece + PIECES_BETWEEN_LOOKS);
        for (; piece < last; piece++, in += PIECE, weights += 4 * vectors * sizeof(Integers)) {
            typename Unit::Piece x[rows];
#pragma GCC unroll 3
            for (int r = 0; r < rows; r++) x[r] = Unit::piece(in + r * m.step);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) {
                Integers w[4];
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++) w[i] = load_integers(weights + (i * vectors + v) * sizeof(Integers));
#pragma GCC unroll 3
                for (int r = 0; r < rows; r++) {
                    sum[r][v] = Unit::template dot<0>(sum[r][v], w[0], x[r]);
                    sum[r][v] = Unit::template dot<1>(sum[r][v], w[1], x[r]);
                    sum[r][v] = Unit::template dot<2>(sum[r][v], w[2], x[r]);
                    sum[r][v] = Unit::template dot<3>(sum[r][v], w[3], x[r]);
                }
            }
        }
    }
#pragma GCC unroll 3
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) __builtin_memcpy(out + r * out_step + v * LANES, &sum[r][v], sizeof(Integers));
    return true;
}

template <typename Unit, int vectors>
static bool byte_panel(const acc_job *job, const acc_recurrent_matrix &m, const char *weights, const int32_t *begins, const char *in,
                       int64_t rows, int32_t *out, int64_t out_step) {
    Pace pace = {job};
    for (int64_t row = 0; row < rows;) {
        const char *from = in + row * m.step;
        int32_t *to = out + row * out_step;
        if (pace.stops(PANEL_ROWS * (m.pieces + 16))) return false;
        if (PANEL_ROWS > 1 && row + PANEL_ROWS <= rows) {
            if (!byte_tile<Unit, PANEL_ROWS, vectors>(job, m, weights, begins, from, to, out_step)) return false;
            row += PANEL_ROWS;
        } else {
            if (!byte_tile<Unit, 1, vectors>(job, m, weights, begins, from, to, out_step)) return false;
            row++;
        }
    }
    return true;
}

/* What `byte_panels` is told. */
struct ByteProduct {
    const acc_job *job;
    const acc_recurrent_matrix *matrix;
    const char *in;
    int64_t rows;
    int32_t *out;           /* rows of whole vectors */
};

/* Range: panels. */
template <typename Unit> static void byte_panels(int64_t begin, int64_t end, int32_t, void *arg) {
    const ByteProduct &p = *(const ByteProduct *)arg;
    const acc_recurrent_matrix &m = *p.matrix;
    const int64_t out_step = m.vectors * LANES;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t first = vector_of_panel(m, panel), vectors = vector_of_panel(m, panel + 1) - first;
        const char *weights = m.packed + first * m.pieces * 4 * (int64_t)sizeof(Integers);
        const int32_t *begins = (const int32_t *)m.begins + first * LANES;
        int32_t *out = p.out + first * LANES;
        bool goes_on = true;
        switch (vectors) {
        case 1: goes_on = byte_panel<Unit, 1>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 2: goes_on = byte_panel<Unit, 2>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 3: goes_on = byte_panel<Unit, 3>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 4: goes_on = byte_panel<Unit, 4>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 5: goes_on = byte_panel<Unit, 5>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 6: goes_on = byte_panel<Unit, 6>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 7: goes_on = byte_panel<Unit, 7>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 8: goes_on = byte_panel<Unit, 8>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        }
        if (!goes_on) return;
    }
}

/* Pack weights, which are in rows and columns of these steps. */
template <typename Unit>
static void pack_byte_matrix(const int8_t *weights, int64_t row_step, int64_t column_step, const acc_recurrent_matrix *matrix,
                             char *packed, acc_packing *packing) {
    const acc_recurrent_matrix &m = *matrix;
    typename Unit::Factor *to = (typename Unit::Factor *)packed;
    for (int64_t panel = 0; panel < m.panels; panel++) {
        const int64_t first = vector_of_panel(m, panel), last = vector_of_panel(m, panel + 1);
        for (int64_t word = 0; word < m.pieces * 4; word++) {
            if (acc_packing_stops(packing, (last - first) * LANES * Unit::DEPTH)) return;
            for (int64_t vector = first; vector < last; vector++, to += LANES * Unit::DEPTH)
                for (int lane = 0; lane < LANES; lane++)
                    for (int i = 0; i < Unit::DEPTH; i++) {
                        const int64_t row = vector * LANES + lane, column = word * Unit::DEPTH + i;
                        if (row < m.rows && column < m.depth) to[Unit::place(lane, i)] = weights[row * row_step + column * column_step];
                    }
        }
    }
}

/* Run a body over a range, shared out if that pays; false if the run should end. */
INLINE bool over_range(const acc_job *job, bool shares, int64_t range, dovetail_body body, void *arg) {
    if (shares && job->call->workers > 1) {
        if (job->call->host->parallel_for(job->call, range, 1, body, arg) != DOVETAIL_OK) {
            __atomic_store_n(job->stopped, 1, __ATOMIC_RELAXED);
            return false;
        }
    } else {
        body(0, range, 0, arg);
    }
    return !__atomic_load_n(job->stopped, __ATOMIC_RELAXED);
}

/* Rows [count, depth] of bytes, from_step apart, become rows that a unit multiplies. */
template <typename Unit> INLINE void arrange_bytes(const int8_t *from, int64_t count, char *to) {
    typedef int8_t Sixteen __attribute__((vector_size(16)));
    typedef typename Unit::Factor Factors __attribute__((vector_size(16 * sizeof(typename Unit::Factor))));
    const int8_t sign = Unit::DEPTH == 4 && !SIGNED_BYTES ? -128 : 0;
    for (int64_t i = 0; i < count; i += 16) {
        Sixteen x = {};
        if (count - i >= 16)
            __builtin_memcpy(&x, from + i, sizeof(x));
        else
            for (int k = 0; k < (int)(count - i); k++) x[k] = from[i + k];
        const Factors y = __builtin_convertvector(x ^ sign, Factors);
        __builtin_memcpy(to + i * sizeof(typename Unit::Factor), &y, sizeof(y));
    }
}

} // namespace dovetail_acc::ACC_ISA
