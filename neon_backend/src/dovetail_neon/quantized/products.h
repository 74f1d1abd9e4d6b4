/* Products of two matrices of quantized bytes that are both computed at run time, in fixed point as
 * TensorFlow Lite's reference kernels have it. Elements are multiplied in 16 bits, less their zero
 * points: words of two go into sums of 32 bits. */
#pragma once

#include "dovetail_neon/quantized/requantization.h"
#include "dovetail_neon/vectors/fixed_point.h"

namespace dovetail_acc::ACC_ISA {

constexpr int PRODUCT_ROWS = BLOCK_VECTORS == 1 ? 8 : 4;    /* of a tile of BLOCK columns */
constexpr int64_t PAIRS_BETWEEN_LOOKS = 1 << 16;            /* of a tile, at the stop word */

INLINE int16_t less_zero(uint8_t stored, uint8_t sign, int32_t zero) { return (int16_t)((stored ^ sign) - zero); }

/* Rows of the left matrices, each [pairs] words. Range: matrices * rows. */
static void pack_left_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_product &p = *(const acc_quantized_product *)job->parameters;
    const acc_quantized_factor &f = p.left;
    for (int64_t item = begin; item < end; item++) {
        const uint8_t *in = (const uint8_t *)job->inputs[f.input] + item / p.rows * f.matrix_step + item % p.rows * f.line_step;
        int16_t *out = (int16_t *)job->workspace + item * 2 * p.pairs;
        int64_t k = 0;
        if (f.depth_step == 1)
            for (; k + BLOCK <= p.depth; k += BLOCK)
                for (int i = 0; i < BLOCK; i++) out[k + i] = less_zero(in[k + i], p.sign, f.zero);
        for (; k < p.depth; k++) out[k] = less_zero(in[k * f.depth_step], p.sign, f.zero);
        if (p.depth % 2) out[p.depth] = 0;
    }
}

INLINE int place_of(int column, int i) {
    return column / LANES * LANES * Halves::DEPTH + Halves::place(column % LANES, i);
}

/* Columns of the right matrices in panels of BLOCK, each [pairs][BLOCK] words. Range: matrices *
 * panels. */
static void pack_right_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_product &p = *(const acc_quantized_product *)job->parameters;
    const acc_quantized_factor &f = p.right;
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = item % p.panels * BLOCK;
        const int count = (int)lesser<int64_t>(BLOCK, p.columns - first);
        const uint8_t *in = (const uint8_t *)job->inputs[f.input] + item / p.panels * f.matrix_step + first * f.line_step;
        int16_t *out = (int16_t *)(job->workspace + p.packed_right) + item * p.pairs * BLOCK * 2;
        for (int64_t pair = 0; pair < p.pairs; pair++, out += BLOCK * 2) {
            const uint8_t *at = in + 2 * pair * f.depth_step;
            const bool both = 2 * pair + 1 < p.depth;
            if (count == BLOCK && both && f.line_step == 1) {
                for (int j = 0; j < BLOCK; j++) {
                    out[place_of(j, 0)] = less_zero(at[j], p.sign, f.zero);
                    out[place_of(j, 1)] = less_zero(at[f.depth_step + j], p.sign, f.zero);
                }
                continue;
            }
            if (count < BLOCK || !both) __builtin_memset(out, 0, BLOCK * 2 * sizeof(int16_t));
            for (int j = 0; j < count; j++) out[place_of(j, 0)] = less_zero(at[j * f.line_step], p.sign, f.zero);
            if (!both) continue;
            at += f.depth_step;
            for (int j = 0; j < count; j++) out[place_of(j, 1)] = less_zero(at[j * f.line_step], p.sign, f.zero);
        }
    }
}

INLINE Integers requantized(const acc_quantized_product &p, Integers sums) {
    const Integers x = scaled_integers(sums, p.scale.multiplier, p.scale.left - p.scale.right);
    return between(x, p.low - p.zero, p.high - p.zero) + p.zero;
}

/* `rows` rows by a panel; false if the run should end. */
template <int rows>
INLINE bool product_tile(const acc_job *job, const acc_quantized_product &p, const char *left, const char *right, uint8_t *out, int count) {
    Integers sums[rows][BLOCK_VECTORS] = {};
    for (int64_t pair = 0; pair < p.pairs;) {
        if (pair && acc_stopped(job)) return false;
        const int64_t until = lesser(pair + PAIRS_BETWEEN_LOOKS, p.pairs);
        for (; pair < until; pair++) {
            Integers w[BLOCK_VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < BLOCK_VECTORS; v++) w[v] = load_integers(right + (pair * BLOCK + v * LANES) * 4);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                const Integers x = Halves::spread(left + (r * p.pairs + pair) * 4);
#pragma GCC unroll 4
                for (int v = 0; v < BLOCK_VECTORS; v++) sums[r][v] = Halves::dot(sums[r][v], w[v], x);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        Integers y[BLOCK_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) y[v] = requantized(p, sums[r][v]);
        store_block((Byte *)out + r * p.columns, y, count);
    }
    return true;
}

/* Range: batches * panels * chunks of rows. */
static void multiply_matrices(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_product &p = *(const acc_quantized_product *)job->parameters;
    for (int64_t item = begin; item < end; item++) {
        const int64_t chunk = item % p.chunks, panel = item / p.chunks % p.panels, batch = item / p.chunks / p.panels;
        const int64_t last = p.rows * (chunk + 1) / p.chunks, column = panel * BLOCK;
        const int64_t a = p.left.matrices ? p.left.matrices[batch] : batch * p.left.step;
        const int64_t b = p.right.matrices ? p.right.matrices[batch] : batch * p.right.step;
        const char *left = job->workspace + a * p.rows * p.pairs * 4;
        const char *right = job->workspace + p.packed_right + (b * p.panels + panel) * p.pairs * BLOCK * 4;
        uint8_t *out = (uint8_t *)job->outputs[0] + batch * p.rows * p.columns + column;
        const int count = (int)lesser<int64_t>(BLOCK, p.columns - column);
        int64_t row = p.rows * chunk / p.chunks, work = 0;
        for (int64_t rows; row < last; row += rows, work += rows * p.pairs) {
            if (work > PAIRS_BETWEEN_LOOKS) {
                if (acc_stopped(job)) return;
                work = 0;
            }
            const char *lines = left + row * p.pairs * 4;
            uint8_t *to = out + row * p.columns;
            rows = last - row >= PRODUCT_ROWS ? PRODUCT_ROWS : last - row >= 4 ? 4 : last - row >= 2 ? 2 : 1;
            const bool done = rows == PRODUCT_ROWS ? product_tile<PRODUCT_ROWS>(job, p, lines, right, to, count)
                              : rows == 4          ? product_tile<4>(job, p, lines, right, to, count)
                              : rows == 2          ? product_tile<2>(job, p, lines, right, to, count)
                                                   : product_tile<1>(job, p, lines, right, to, count);
            if (!done) return;
        }
    }
}

} // namespace dovetail_acc::ACC_ISA
