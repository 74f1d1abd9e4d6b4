/* Products of two matrices that are both computed. */
#pragma once

#include "dovetail_neon/matrices/parameters.h"
#include "dovetail_neon/matrices/product.h"
#include "dovetail_neon/workload/spans.h"
#include "dovetail_neon/vectors/horizontal.h"

namespace dovetail_acc::ACC_ISA {

constexpr int DOT_ROWS = 4, DOT_COLUMNS = 4, FEW_ROWS = 5;

static const float *left_of(const acc_job *job, const acc_matmul &m, int64_t batch) {
    const int64_t matrix = m.left_matrix ? m.left_matrix[batch] : batch * m.left_step;
    const float *left = m.left_transposed ? (const float *)job->workspace + m.packed_left : (const float *)job->inputs[m.left];
    return left + matrix * m.rows * m.depth;
}

static int64_t right_matrix_of(const acc_matmul &m, int64_t batch) {
    return m.right_matrix ? m.right_matrix[batch] : batch * m.right_step;
}

static void pack_left(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_matmul &m = *(const acc_matmul *)job->parameters;
    const int64_t blocks = vectors_of(m.rows);
    for (int64_t item = begin; item < end; item++) {
        const int64_t offset = item / blocks * m.rows * m.depth, row = item % blocks * LANES;
        const float *from = (const float *)job->inputs[m.left] + offset + row;
        float *out = (float *)job->workspace + m.packed_left + offset + row * m.depth;
        const int rows = (int)lesser<int64_t>(LANES, m.rows - row);
        for (int64_t k = 0; k < m.depth; k += LANES) {
            if (k % SPAN == 0 && k && acc_stopped(job)) return;
            const int count = (int)lesser<int64_t>(LANES, m.depth - k);
            Vector x[LANES];
            for (int i = 0; i < LANES; i++) x[i] = i < count ? load_part(from + (k + i) * m.rows, rows) : zeros();
            transpose(x);
            for (int i = 0; i < rows; i++) store_part(out + i * m.depth + k, x[i], count);
        }
    }
}

template <bool transposed> void pack_right(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_matmul &m = *(const acc_matmul *)job->parameters;
    const int64_t vectors = vectors_of(m.columns);
    for (int64_t item = begin; item < end; item++) {
        const int64_t matrix = item / vectors, vector = item % vectors, column = vector * LANES;
        /* The panel that a vector is in: the last that does not begin after it. */
        int64_t number = vector * m.panels / vectors;
        if (number + 1 < m.panels && first_of_panel(vectors, m.panels, number + 1) <= vector) number++;
        const int64_t first = first_of_panel(vectors, m.panels, number);
        const int64_t width = (first_of_panel(vectors, m.panels, number + 1) - first) * LANES;
        const float *from = (const float *)job->inputs[m.right] + matrix * m.depth * m.columns;
        float *out = (float *)job->workspace + m.packed_right + (matrix * vectors + first) * LANES * m.depth + (vector - first) * LANES;
        const int lanes = (int)lesser<int64_t>(LANES, m.columns - column);
        for (int64_t k = 0; k < m.depth;) {
            const int64_t last = span_end(job, k, m.depth);
            if (last == k) return;
            if (transposed)
                pack_transposed(from + column * m.depth + k, m.depth, last - k, lanes, out + k * width, width);
            else
                pack_columns(from + k * m.columns + column, m.columns, last - k, lanes, out + k * width, width);
            k = last;
        }
    }
}

/* Stores a tile in row-major order. */
struct StoreRows {
    float *out;
    int64_t step;
    int last_lanes;

    template <int rows, int vectors> __attribute__((always_inline)) inline void operator()(Vector (&sum)[rows][vectors], int64_t first) const {
        float *at = out + first * step;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++, at += step) {
#pragma GCC unroll 4
            for (int v = 0; v < vectors - 1; v++) store(at + v * LANES, sum[r][v]);
            if (last_lanes == LANES)
                store(at + (vectors - 1) * LANES, sum[r][vectors - 1]);
            else
                store_part(at + (vectors - 1) * LANES, sum[r][vectors - 1], last_lanes);
        }
    }
};

template <bool packed> void matmul(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_matmul &m = *(const acc_matmul *)job->parameters;
    const int64_t vectors = vectors_of(m.columns);
    for (int64_t item = begin; item < end; item++) {
        const int64_t chunk = item % m.chunks, number = item / m.chunks % m.panels, batch = item / m.chunks / m.panels;
        const int64_t first = first_of_panel(vectors, m.panels, number), here = first_of_panel(vectors, m.panels, number + 1) - first;
        const int64_t matrix = right_matrix_of(m, batch);
        Panel panel;
        panel.in = left_of(job, m, batch), panel.in_step = m.depth, panel.depth = m.depth;
        panel.last_lanes = (int)lesser<int64_t>(LANES, m.columns - (first + here - 1) * LANES);
        if (packed)
            panel.right = (const float *)job->workspace + m.packed_right + (matrix * vectors + first) * LANES * m.depth;
        else
            panel.right = (const float *)job->inputs[m.right] + matrix * m.depth * m.columns + first * LANES;
        panel.step = m.columns;
        const StoreRows finish = {(float *)job->outputs[0] + batch * m.rows * m.columns + first * LANES, m.columns, panel.last_lanes};
        const int64_t last = m.rows * (chunk + 1) / m.chunks;
        for (int64_t row = m.rows * chunk / m.chunks; row < last; row += m.rows_at_once) {
            product<packed>(panel, here, finish, row, lesser(last, row + m.rows_at_once));
            if (row + m.rows_at_once < last && acc_stopped(job)) return;
        }
    }
}

/* Columns [begin, end) of a chunk: whole vectors, but for the last. */
INLINE void chunk_of_columns(const acc_matmul &m, int64_t chunk, int64_t &begin, int64_t &end) {
    const int64_t vectors = vectors_of(m.columns);
    begin = vectors * chunk / m.chunks * LANES, end = lesser(m.columns, vectors * (chunk + 1) / m.chunks * LANES);
}

/* y += x[0..depth) times so many rows of the right matrix, `step` apart; y stays in the cache. */
template <int depth> INLINE void add_rows(const float *x, const float *right, int64_t step, float *y, int64_t count, bool first) {
    Vector factor[depth];
#pragma GCC unroll 8
    for (int k = 0; k < depth; k++) factor[k] = broadcast(x[k]);
    int64_t n = 0;
    for (; n + LANES <= count; n += LANES) {
        Vector sum = first ? zeros() : load(y + n);
#pragma GCC unroll 8
        for (int k = 0; k < depth; k++) sum = fma(load(right + k * step + n), factor[k], sum);
        store(y + n, sum);
    }
    if (n < count) {
        const int lanes = (int)(count - n);
        Vector sum = first ? zeros() : load_part(y + n, lanes);
        for (int k = 0; k < depth; k++) sum = fma(load_part(right + k * step + n, lanes), factor[k], sum);
        store_part(y + n, sum, lanes);
    }
}

/* A chunk of the columns of one product: `column_step` elements of the right matrix lie between the
 * first two. */
struct MatmulItem {
    const float *left, *right;
    float *out;
    int64_t columns;

    INLINE_MEMBER MatmulItem(const acc_job *job, const acc_matmul &m, int64_t item, int64_t column_step) {
        const int64_t batch = item / m.chunks;
        int64_t first, last;
        chunk_of_columns(m, item % m.chunks, first, last);
        left = left_of(job, m, batch);
        right = (const float *)job->inputs[m.right] + right_matrix_of(m, batch) * m.depth * m.columns + first * column_step;
        out = (float *)job->outputs[0] + batch * m.rows * m.columns + first;
        columns = last - first;
    }
};

/* Few rows: each run of the right matrix is read once from memory, and again from the cache by the
 * rows but for the first. */
static void matmul_few(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_matmul &m = *(const acc_matmul *)job->parameters;
    for (int64_t item = begin; item < end; item++) {
        const MatmulItem chunk(job, m, item, 1);
        const float *left = chunk.left, *right = chunk.right;
        float *out = chunk.out;
        int64_t k = 0;
        for (; k + 8 <= m.depth; k += 8) {
            if (k % (SPAN / 256) == 0 && k && acc_stopped(job)) return;
            for (int64_t row = 0; row < m.rows; row++)
                add_rows<8>(left + row * m.depth + k, right + k * m.columns, m.columns, out + row * m.columns, chunk.columns, k == 0);
        }
        for (; k < m.depth; k++)
            for (int64_t row = 0; row < m.rows; row++)
                add_rows<1>(left + row * m.depth + k, right + k * m.columns, m.columns, out + row * m.columns, chunk.columns, k == 0);
    }
}

/* Dot products of `rows` rows with `columns` columns that lie as rows, `step` apart. */
template <int rows, int columns>
INLINE void dot_tile(const acc_job *job, const float *left, const float *right, int64_t depth, float *out, int64_t out_step) {
    Vector sum[rows][columns] = {};
    int64_t k = 0;
    while (k + LANES <= depth) {
        const int64_t end = span_end(job, k, depth);
        if (end == k) return;
        for (; k + LANES <= end; k += LANES) {
            Vector x[rows];
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) x[r] = load(left + r * depth + k);
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) {
                const Vector w = load(right + c * depth + k);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++) sum[r][c] = fma(x[r], w, sum[r][c]);
            }
        }
    }
    if (k < depth) {
        const int lanes = (int)(depth - k);
        for (int c = 0; c < columns; c++) {
            const Vector w = load_part(right + c * depth + k, lanes);
            for (int r = 0; r < rows; r++) sum[r][c] = fma(load_part(left + r * depth + k, lanes), w, sum[r][c]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) out[r * out_step + c] = total(sum[r][c]);
}

template <int rows> INLINE void dot_columns(const acc_job *job, const float *left, const float *right, const acc_matmul &m, float *out, int64_t count) {
    int64_t n = 0;
    for (; n + DOT_COLUMNS <= count; n += DOT_COLUMNS)
        dot_tile<rows, DOT_COLUMNS>(job, left, right + n * m.depth, m.depth, out + n, m.columns);
    for (; n < count; n++) dot_tile<rows, 1>(job, left, right + n * m.depth, m.depth, out + n, m.columns);
}

static void matmul_dots(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_matmul &m = *(const acc_matmul *)job->parameters;
    for (int64_t item = begin; item < end; item++) {
        const MatmulItem chunk(job, m, item, m.depth);
        switch (m.rows) {
        case 1: dot_columns<1>(job, chunk.left, chunk.right, m, chunk.out, chunk.columns); break;
        case 2: dot_columns<2>(job, chunk.left, chunk.right, m, chunk.out, chunk.columns); break;
        case 3: dot_columns<3>(job, chunk.left, chunk.right, m, chunk.out, chunk.columns); break;
        case 4: dot_columns<4>(job, chunk.left, chunk.right, m, chunk.out, chunk.columns); break;
        }
    }
}

static const acc_matmul_kernels matmul_kernels = {
    MAX_VECTORS, rows_of(MAX_VECTORS), DOT_ROWS, FEW_ROWS, pack_left, pack_right<false>, pack_right<true>,
    matmul<true>, matmul<false>, matmul_few, matmul_dots,
};

} // namespace dovetail_acc::ACC_ISA
