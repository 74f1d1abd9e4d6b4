/* Convolution of images of bytes by Intel's matrix unit: a tile of 32 pixels by 32 filters is
 * summed up, 64 channels of 16 pixels and of 16 filters at a time. */
#pragma once

#include "dovetail_neon/vectors/matrix_unit.h"
#include "dovetail_neon/quantized/requantization.h"

namespace dovetail_acc::ACC_ISA {

static void arrange_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_matrix &c = *(const acc_quantized_matrix *)job->parameters;
    const int64_t rows = c.planes * c.plane_height;
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / rows, plane = item % rows / c.plane_height, row = item % c.plane_height;
        char *to = job->workspace + image * c.image_step + item % rows * c.columns * c.step;
        const int64_t y = row * c.window.stride_y + c.plane_y[plane] - c.window.padding_top, left = c.plane_x[plane] - c.window.padding_left;
        if (y < 0 || y >= c.window.in_height) {
            __builtin_memset(to, c.outside, (size_t)(c.columns * c.step));
            continue;
        }
        const char *from = (const char *)job->inputs[0] + (image * c.window.in_height + y) * c.window.in_width * c.step;
        const int64_t stride = c.column_stride;
        const ColumnsInside inside(left, stride, c.window.in_width, c.columns);
        const int64_t first = inside.first, last = inside.last;
        __builtin_memset(to, c.outside, (size_t)(first * c.step));
        if (stride == 1)
            __builtin_memcpy(to + first * c.step, from + (first + left) * c.step, (size_t)((last - first) * c.step));
        else
            for (int64_t x = first; x < last; x++)
                for (int64_t at = 0; at < c.step; at += BLOCK)      /* whole ones: images of 4 bytes have a stride of 1 */
                    __builtin_memcpy(to + x * c.step + at, from + (x * stride + left) * c.step + at, BLOCK);
        __builtin_memset(to + last * c.step, c.outside, (size_t)((c.columns - last) * c.step));
    }
}

/* sums[block][run][row][filter] of up to two runs of pixels and two blocks of filters; `other` and
 * `below` are bytes from the first. */
template <int runs, int blocks>
static void sum_tiles(const acc_quantized_matrix &c, const char *pixels, int64_t below, const char *weights, int64_t other,
                      int32_t (*sums)[2][TILE_ROWS][LANES]) {
    _tile_zero(0);
    if constexpr (runs > 1) _tile_zero(1);
    if constexpr (blocks > 1) _tile_zero(2);
    if constexpr (runs > 1 && blocks > 1) _tile_zero(3);
    for (int64_t tap = 0; tap < c.taps; tap++) {
        const char *in = pixels + c.tap_offset[tap];
        for (int64_t piece = 0; piece < c.pieces; piece++, in += ROW_BYTES, weights += TILE_BYTES) {
            _tile_loadd(6, weights, ROW_BYTES);
            _tile_loadd(4, in, c.tile_step);
            _tile_dpbusd(0, 4, 6);
            if constexpr (runs > 1) {
                _tile_loadd(5, in + below, c.tile_step);
                _tile_dpbusd(1, 5, 6);
            }
            if constexpr (blocks > 1) {
                _tile_loadd(7, weights + other, ROW_BYTES);
                _tile_dpbusd(2, 4, 7);
                if constexpr (runs > 1) _tile_dpbusd(3, 5, 7);
            }
        }
    }
    _tile_stored(0, sums[0][0], ROW_BYTES);
    if constexpr (runs > 1) _tile_stored(1, sums[0][1], ROW_BYTES);
    if constexpr (blocks > 1) _tile_stored(2, sums[1][0], ROW_BYTES);
    if constexpr (runs > 1 && blocks > 1) _tile_stored(3, sums[1][1], ROW_BYTES);
}

/* Where results of a pair of blocks go, and how sums become them. */
struct MatrixResults {
    Byte *out;
    Integers bias[2];
    Vector factor[2];
    int lanes[2];
};

/* Finish `count` pixels of the grid from `at` on; those beyond the width of the result are dropped.
 * */
template <int blocks>
static void finish_tiles(const acc_quantized_matrix &c, const MatrixResults &to, int64_t at, int64_t count,
                         const int32_t (*first)[LANES], const int32_t (*second)[LANES]) {
    const Rounding rounding(c.result.zero, c.result.low, c.result.high);
    int64_t y = at / c.plane_width, x = at % c.plane_width;
    while (count > 0) {
        const int64_t row = lesser(count, c.plane_width - x), kept = greater<int64_t>(lesser(row, c.window.out_width - x), 0);
        Byte *out = to.out + (y * c.window.out_width + x) * c.out_step;
        for (int64_t i = 0; i < kept; i++, out += c.out_step)
#pragma GCC unroll 2
            for (int b = 0; b < blocks; b++) {
                const Integers sum = load_integers((b ? second : first)[i]) + to.bias[b];
                const Integers result[BLOCK_VECTORS] = {rounding(to_floats(sum), to.factor[b])};
                store_block(out + b * BLOCK, result, to.lanes[b]);
            }
        first += row, second += row, count -= row;
        x = 0, y++;
    }
}

template <int blocks>
static void multiply_some(const acc_quantized_matrix &c, const char *in, const char *weights, const MatrixResults &to, int64_t first,
                          int64_t last) {
    alignas(64) int32_t sums[2][2][TILE_ROWS][LANES];
    const int64_t other = c.taps * c.pieces * TILE_BYTES;
    for (int64_t at = first; at < last;) {
        const int runs = at + c.rows < last ? 2 : 1;
        int64_t begin[2];
        /* The last run ends with the grid, and begins among pixels that another run has finished.
         * */
        for (int run = 0; run < 2; run++) begin[run] = lesser(at + run * c.rows, c.grid - c.rows);
        const char *pixels = in + begin[0] * c.tile_step;
        if (runs == 2)
            sum_tiles<2, blocks>(c, pixels, (begin[1] - begin[0]) * c.tile_step, weights, other, sums);
        else
            sum_tiles<1, blocks>(c, pixels, 0, weights, other, sums);
        for (int run = 0; run < runs; run++, at += c.rows)
            finish_tiles<blocks>(c, to, at, lesser(c.rows, last - at), sums[0][run] + (at - begin[run]), sums[1][run] + (at - begin[run]));
    }
}

static void multiply_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_matrix &c = *(const acc_quantized_matrix *)job->parameters;
    const int64_t pairs = (c.blocks + 1) / 2, runs = (c.grid + c.rows - 1) / c.rows, out_pixels = c.window.out_height * c.window.out_width;
    const char *images = c.direct ? (const char *)job->inputs[0] : job->workspace;
    begin_tiles(c.rows);
    for (int64_t item = begin; item < end; item++) {
        const int64_t pair = item % pairs, chunk = item / pairs % c.chunks, group = item / pairs / c.chunks % c.groups;
        const int64_t image = item / pairs / c.chunks / c.groups, block = pair * 2;
        const int64_t first = runs * chunk / c.chunks * c.rows, last = lesser(runs * (chunk + 1) / c.chunks * c.rows, c.grid);
        const char *in = images + image * c.image_step + group * c.channels;
        const char *weights = c.weights + (group * c.blocks + block) * c.taps * c.pieces * TILE_BYTES;
        const int64_t filter = (group * c.blocks + block) * BLOCK;
        const int count = block + 1 < c.blocks ? 2 : 1;
        MatrixResults to;
        to.out = (Byte *)job->outputs[0] + image * out_pixels * c.out_step + group * c.filters + block * BLOCK;
        for (int b = 0; b < count; b++) {
            to.bias[b] = load_integers(c.result.bias + filter + b * BLOCK);
            to.factor[b] = load(c.result.factors + filter + b * BLOCK);
            to.lanes[b] = block + b + 1 < c.blocks ? BLOCK : c.last_lanes;
        }
        if (count == 2)
            multiply_some<2>(c, in, weights, to, first, last);
        else
            multiply_some<1>(c, in, weights, to, first, last);
    }
    _tile_release();
}

static void pack_tiles(const int16_t *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t filters, int64_t taps,
                       int64_t channels, char *packed, acc_packing *packing) {
    for (int64_t start = 0; start < filters; start += BLOCK)
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t channel = 0; channel < channels; channel += ROW_BYTES, packed += TILE_BYTES) {
                if (acc_packing_stops(packing, TILE_BYTES)) return;
                for (int64_t k = 0; k < lesser<int64_t>(ROW_BYTES, channels - channel); k++)
                    for (int64_t f = 0; f < lesser<int64_t>(BLOCK, filters - start); f++)
                        packed[k / 4 * ROW_BYTES + f * 4 + k % 4] =
                            (char)weights[(start + f) * filter_step + tap * tap_step + (channel + k) * channel_step];
            }
}

static const acc_quantized_matrix_kernels quantized_matrix_kernels = {"amx", arrange_bytes, multiply_bytes, pack_tiles};

} // namespace dovetail_acc::ACC_ISA
