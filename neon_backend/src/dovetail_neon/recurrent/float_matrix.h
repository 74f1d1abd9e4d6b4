/* Products of rows of float32 with packed weights, few rows at a time. */
#pragma once

#include "dovetail_neon/recurrent/byte_matrix.h"

namespace dovetail_acc::ACC_ISA {

constexpr int64_t ELEMENTS_BETWEEN_LOOKS = 1 << 15;    /* at the stop word */

/* `rows` rows from `in` on times a panel of `vectors` vectors; false if the run should end. */
template <int rows, int vectors>
static bool float_tile(const acc_job *job, const acc_recurrent_matrix &m, const float *weights, const float *begins, const float *in,
                       float *out, int64_t out_step) {
    const int64_t step = m.step / (int64_t)sizeof(float);
    Vector sum[rows][vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 3
        for (int r = 0; r < rows; r++) sum[r][v] = load(begins + v * LANES);
    for (int64_t k = 0; k < m.depth;) {
        if (k && acc_stopped(job)) return false;
        const int64_t last = lesser(m.depth, k + ELEMENTS_BETWEEN_LOOKS);
#pragma GCC unroll 2
        for (; k < last; k++, weights += vectors * LANES) {
            Vector x[rows];
#pragma GCC unroll 3
            for (int r = 0; r < rows; r++) x[r] = broadcast(in[r * step + k]);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++) {
                const Vector w = load(weights + v * LANES);
#pragma GCC unroll 3
                for (int r = 0; r < rows; r++) sum[r][v] = fma(w, x[r], sum[r][v]);
            }
        }
    }
#pragma GCC unroll 3
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) store(out + r * out_step + v * LANES, sum[r][v]);
    return true;
}

template <int vectors>
static bool float_panel(const acc_job *job, const acc_recurrent_matrix &m, const float *weights, const float *begins, const float *in,
                        int64_t rows, float *out, int64_t out_step) {
    const int64_t step = m.step / (int64_t)sizeof(float);
    Pace pace = {job};
    for (int64_t row = 0; row < rows;) {
        const float *from = in + row * step;
        float *to = out + row * out_step;
        if (pace.stops(PANEL_ROWS * (m.depth + 16))) return false;
        if (PANEL_ROWS > 1 && row + PANEL_ROWS <= rows) {
            if (!float_tile<PANEL_ROWS, vectors>(job, m, weights, begins, from, to, out_step)) return false;
            row += PANEL_ROWS;
        } else {
            if (!float_tile<1, vectors>(job, m, weights, begins, from, to, out_step)) return false;
            row++;
        }
    }
    return true;
}

/* What `float_panels` is told. */
struct FloatProduct {
    const acc_job *job;
    const acc_recurrent_matrix *matrix;
    const float *in;
    int64_t rows;
    float *out;             /* rows of whole vectors */
};

/* Range: panels. */
static void float_panels(int64_t begin, int64_t end, int32_t, void *arg) {
    const FloatProduct &p = *(const FloatProduct *)arg;
    const acc_recurrent_matrix &m = *p.matrix;
    const int64_t out_step = m.vectors * LANES;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t first = vector_of_panel(m, panel), vectors = vector_of_panel(m, panel + 1) - first;
        const float *weights = (const float *)m.packed + first * LANES * m.depth, *begins = (const float *)m.begins + first * LANES;
        float *out = p.out + first * LANES;
        bool goes_on = true;
        switch (vectors) {
        case 1: goes_on = float_panel<1>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 2: goes_on = float_panel<2>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 3: goes_on = float_panel<3>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 4: goes_on = float_panel<4>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 5: goes_on = float_panel<5>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 6: goes_on = float_panel<6>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 7: goes_on = float_panel<7>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        case 8: goes_on = float_panel<8>(p.job, m, weights, begins, p.in, p.rows, out, out_step); break;
        }
        if (!goes_on) return;
    }
}

/* Pack weights, which are in rows and columns of these steps. */
static void pack_float_matrix(const float *weights, int64_t row_step, int64_t column_step, const acc_recurrent_matrix *matrix,
                              float *packed, acc_packing *packing) {
    const acc_recurrent_matrix &m = *matrix;
    for (int64_t panel = 0; panel < m.panels; panel++) {
        const int64_t first = vector_of_panel(m, panel) * LANES, last = vector_of_panel(m, panel + 1) * LANES;
        for (int64_t column = 0; column < m.depth; column++) {
            if (acc_packing_stops(packing, last - first)) return;
            for (int64_t row = first; row < last; row++, packed++)
                if (row < m.rows) *packed = weights[row * row_step + column * column_step];
        }
    }
}

} // namespace dovetail_acc::ACC_ISA
