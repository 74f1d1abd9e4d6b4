/* Convolution with bfloat16 factors: a tile of 32 pixels by 32 filters is summed up by a matrix
 * unit or by the dot products of vectors, and finished in float32. */
#pragma once

#include "dovetail_neon/convolution/parameters.h"
#include "dovetail_neon/elementwise/functions.h"
#include "dovetail_neon/vectors/bfloat16.h"
#include "dovetail_neon/elementwise/bfloat16_functions.h"
#include "dovetail_neon/vectors/matrix_unit.h"

namespace dovetail_acc::ACC_ISA {

constexpr int64_t TILE_WEIGHTS = 512;   /* elements: 16 pairs of channels of 16 filters */

/* --- arranging
 * -------------------------------------------------------------------------------------------------
 * */

/* 32 channels of a pixel, of which `count` exist; lanes that nobody reads may hold anything, and
 * become 0. */
INLINE void arrange_pixel(const char *from, const acc_bfloat16_image &in, int64_t count, char *to) {
    if (in.element == 2) {
        _mm512_storeu_si512(to, _mm512_loadu_si512(from));
        return;
    }
    const int64_t more = count - LANES;
    const char *next = in.block == LANES ? from + in.block_step : from + LANES * 4;
    const Vector low = more >= 0 ? load((const float *)from) : load_part((const float *)from, (int)count);
    const Vector high = more >= LANES ? load((const float *)next) : more > 0 ? load_part((const float *)next, (int)more) : zeros();
    store_block(to, low, high);
}

static void arrange(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_bfloat16 &c = *(const acc_bfloat16 *)job->parameters;
    for (int64_t item = begin; item < end; item++) {
        int64_t rest = item;
        const int64_t row = rest % c.plane_height;
        rest /= c.plane_height;
        const int64_t plane = rest % c.planes;
        rest /= c.planes;
        const int64_t block = rest % c.blocks;
        rest /= c.blocks;
        const int64_t group = rest % c.groups, image = rest / c.groups;
        char *to = job->workspace + image * c.image_step + group * c.group_step + block * c.block_step +
                   (plane * c.plane_height + row) * c.plane_width * PIXEL_BYTES;
        const int64_t y = row * c.window.stride_y + c.plane_y[plane] - c.window.padding_top, left = c.plane_x[plane] - c.window.padding_left;
        if (y < 0 || y >= c.window.in_height) {
            __builtin_memset(to, 0, c.plane_width * PIXEL_BYTES);
            continue;
        }
        const int64_t count = lesser(BLOCK, c.channels - block * BLOCK);
        const int64_t at = c.in.block == LANES ? block * 2 * c.in.block_step
                           : c.in.block == BLOCK && c.in.element == 2 ? block * c.in.block_step
                                                                      : block * BLOCK * c.in.element;
        const char *from = (const char *)job->inputs[0] + image * c.in.image_step + group * c.in.group_step + at +
                           y * c.window.in_width * c.in.pixel_step;
        const ColumnsInside inside(left, c.window.stride_x, c.window.in_width, c.plane_width);
        const int64_t first = inside.first, last = inside.last;
        __builtin_memset(to, 0, first * PIXEL_BYTES);
        __builtin_memset(to + last * PIXEL_BYTES, 0, (c.plane_width - last) * PIXEL_BYTES);
        const char *pixel = from + (first * c.window.stride_x + left) * c.in.pixel_step;
        const int64_t step = c.window.stride_x * c.in.pixel_step;
        for (int64_t x = first; x < last; x++, pixel += step) arrange_pixel(pixel, c.in, count, to + x * PIXEL_BYTES);
    }
}

/* 16 pixels of up to 4 planes, of which `count` exist. */
INLINE void interleave(const float *from, int64_t plane, int64_t channels, int count, char *to) {
    const __mmask16 here = (__mmask16)((1u << count) - 1);
    __m512i channel[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        channel[i] = i < channels ? _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(here, from + i * plane)))
                                  : _mm512_setzero_si512();
    const __m512i front = _mm512_or_si512(channel[0], _mm512_slli_epi32(channel[1], 16));
    const __m512i back = _mm512_or_si512(channel[2], _mm512_slli_epi32(channel[3], 16));
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    _mm512_mask_storeu_epi64(to, (__mmask8)here, _mm512_permutex2var_epi32(front, low, back));
    _mm512_mask_storeu_epi64(to + 64, (__mmask8)(here >> 8), _mm512_permutex2var_epi32(front, high, back));
}

static void arrange_few(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_bfloat16 &c = *(const acc_bfloat16 *)job->parameters;
    const int64_t rows = c.planes * c.plane_height, bytes = c.columns * 8, plane = c.window.in_height * c.window.in_width;
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item % rows, image = item / rows;
        const int64_t y = row % c.plane_height * c.window.stride_y + c.plane_y[row / c.plane_height] - c.window.padding_top;
        char *to = job->workspace + image * c.image_step + row * bytes;
        if (row == rows - 1) __builtin_memset(to + bytes, 0, c.image_step - rows * bytes);
        if (y < 0 || y >= c.window.in_height) {
            __builtin_memset(to, 0, bytes);
            continue;
        }
        const int64_t left = lesser(c.window.padding_left, c.columns), inside = lesser(c.window.in_width, c.columns - left);
        __builtin_memset(to, 0, left * 8);
        to += left * 8;
        const float *from = (const float *)job->inputs[0] + image * plane * c.channels + y * c.window.in_width * (c.channels_last ? c.channels : 1);
        if (c.channels_last) {
            const __mmask8 here = (__mmask8)((1u << c.channels) - 1);
            for (int64_t x = 0; x < inside; x++)
                _mm_storel_epi64((__m128i *)(to + x * 8), (__m128i)_mm_cvtneps_pbh(_mm_maskz_loadu_ps(here, from + x * c.channels)));
        } else {
            for (int64_t x = 0; x < inside; x += LANES)
                interleave(from + x, plane, c.channels, (int)lesser<int64_t>(LANES, inside - x), to + x * 8);
        }
        __builtin_memset(to + inside * 8, 0, bytes - (left + inside) * 8);
    }
}

/* --- sums
 * -------------------------------------------------------------------------------------------------
 * */

/* What a tile sums up: up to two runs of `rows` pixels, with one or two vectors of filters. */
struct Product {
    const char *in[2];
    const uint16_t *weights[2];
    int64_t rows;
    const char *next;               /* weights that are wanted after these: so many lines of them are asked for with each block */
    int64_t lines;
};

struct MatrixUnit {
    static constexpr const char *NAME = "amx";

    static void begin(int64_t rows) { begin_tiles(rows); }
    static void end() { _tile_release(); }

    /* sums[vector][run][row][filter] */
    template <int runs, int vectors> static void multiply(const acc_bfloat16 &c, const Product &p, float (*sums)[2][TILE_ROWS][LANES]) {
        _tile_zero(0);
        if constexpr (runs > 1) _tile_zero(1);
        if constexpr (vectors > 1) _tile_zero(2);
        if constexpr (runs > 1 && vectors > 1) _tile_zero(3);
        const uint16_t *w = p.weights[0];
        const int64_t other = (p.weights[1] - w) * 2;
        const int64_t below = p.in[1] - p.in[0];
        const char *next = p.next;
        for (int64_t tap = 0; tap < c.taps; tap++) {
            const char *in = p.in[0] + c.tap_offset[tap];
            for (int64_t block = 0; block < c.blocks; block++, in += c.block_step, w += TILE_WEIGHTS) {
                for (int64_t line = 0; line < p.lines; line++, next += 64) __builtin_prefetch(next, 0, 2);
                _tile_loadd(6, w, 64);
                _tile_loadd(4, in, c.pixel_step);
                _tile_dpbf16ps(0, 4, 6);
                if constexpr (runs > 1) {
                    _tile_loadd(5, in + below, c.pixel_step);
                    _tile_dpbf16ps(1, 5, 6);
                }
                if constexpr (vectors > 1) {
                    _tile_loadd(7, (const char *)w + other, 64);
                    _tile_dpbf16ps(2, 4, 7);
                    if constexpr (runs > 1) _tile_dpbf16ps(3, 5, 7);
                }
            }
        }
        _tile_stored(0, sums[0][0], 64);
        if constexpr (runs > 1) _tile_stored(1, sums[0][1], 64);
        if constexpr (vectors > 1) _tile_stored(2, sums[1][0], 64);
        if constexpr (runs > 1 && vectors > 1) _tile_stored(3, sums[1][1], 64);
    }
};

/* Dot products of pairs, in vectors. */
struct DotUnit {
    static constexpr const char *NAME = "avx512_bf16";
    static void begin(int64_t) {}
    static void end() {}

    template <int rows, int vectors>
    static void some(const acc_bfloat16 &c, const char *pixels, const Product &p, float (*sums)[2][TILE_ROWS][LANES], int run, int64_t row) {
        __m512 sum[rows][vectors];
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_setzero_ps();
        const uint16_t *w = p.weights[0];
        const int64_t other = p.weights[1] - w;
        for (int64_t tap = 0; tap < c.taps; tap++) {
            const char *in = pixels + c.tap_offset[tap];
            for (int64_t block = 0; block < c.blocks; block++, in += c.block_step)
                for (int64_t pair = 0; pair < 16; pair++, w += 32) {
                    __m512bh factor[vectors];
#pragma GCC unroll 2
                    for (int v = 0; v < vectors; v++) factor[v] = (__m512bh)_mm512_loadu_si512(w + v * other);
#pragma GCC unroll 12
                    for (int r = 0; r < rows; r++) {
                        const __m512bh x = (__m512bh)_mm512_set1_epi32(*(const int32_t *)(in + r * c.pixel_step + pair * 4));
#pragma GCC unroll 2
                        for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], factor[v], x);
                    }
                }
        }
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < vectors; v++) _mm512_storeu_ps(sums[v][run][row + r], sum[r][v]);
    }

    template <int runs, int vectors> static void multiply(const acc_bfloat16 &c, const Product &p, float (*sums)[2][TILE_ROWS][LANES]) {
        for (int run = 0; run < runs; run++) {
            const char *pixels = p.in[run];
            int64_t row = 0;
            for (; row + 8 <= p.rows; row += 8) some<8, vectors>(c, pixels + row * c.pixel_step, p, sums, run, row);
            for (; row + 2 <= p.rows; row += 2) some<2, vectors>(c, pixels + row * c.pixel_step, p, sums, run, row);
            for (; row < p.rows; row++) some<1, vectors>(c, pixels + row * c.pixel_step, p, sums, run, row);
        }
    }
};

/* --- what follows a sum
 * -------------------------------------------------------------------------------------------------
 * */

/* Where the results of one pair of vectors of filters go. */
struct Results {
    char *out;
    const char *added;              /* or NULL */
    int64_t next, added_next;       /* bytes from the first vector to the second */
    const float *bias;
    int lanes[2];                   /* of each vector that exist, where nothing else may be written */
    __mmask32 channels;             /* of a block of bfloat16 that exist */
};

/* Finish sums of pixels side by side in a row of the result, from `pixel` on. `adds` is 0, or the
 * size of an element. */
template <int vectors, bool half, int adds>
static void finish_row(const acc_bfloat16 &c, const Results &to, int64_t pixel, int64_t count, float *const (&sums)[2]) {
    Vector bias[vectors];
    for (int v = 0; v < vectors; v++) bias[v] = load(to.bias + v * LANES);
    const char *added = adds ? to.added + pixel * c.added.pixel_step : nullptr;
    char *at = to.out + pixel * c.out.pixel_step;
    const __mmask16 mask[2] = {(__mmask16)((1u << to.lanes[0]) - 1), (__mmask16)((1u << to.lanes[1]) - 1)};
    const auto with_added = [&](int64_t i, int v) __attribute__((always_inline)) {
        Vector sum = load(sums[v] + i * LANES) + bias[v];
        if (adds == 2) sum += half_of_block(load_block(added + i * c.added.pixel_step), v);
        if (adds == 4) sum += (Vector)_mm512_maskz_loadu_ps(mask[v], added + i * c.added.pixel_step + v * to.added_next);
        return sum;
    };
    const auto keep = [&](int64_t i, const Vector (&result)[2]) __attribute__((always_inline)) {
        if (half) {
            store_block(at + i * c.out.pixel_step, result[0], result[1], to.channels);
        } else {
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                _mm512_mask_storeu_ps(at + i * c.out.pixel_step + v * to.next, mask[v], (__m512)result[v]);
        }
    };
    if (c.activation.function == ACC_CLAMP || c.activation.function == ACC_IDENTITY) {
        const float infinity = __builtin_inff();
        const Vector low = broadcast(c.activation.function == ACC_CLAMP ? c.activation.a : -infinity);
        const Vector high = broadcast(c.activation.function == ACC_CLAMP ? c.activation.b : infinity);
        for (int64_t i = 0; i < count; i++) {
            Vector result[2] = {zeros(), zeros()};
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) result[v] = clamped(with_added(i, v), low, high);
            keep(i, result);
        }
        return;
    }
    if (half) {
        const Logistic logistic(c.activation);
        for (int64_t i = 0; logistic.known && i < count; i++) {
            Vector result[2] = {zeros(), zeros()};
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) result[v] = logistic(with_added(i, v));
            keep(i, result);
        }
        if (logistic.known) return;
    }
    for (int v = 0; v < vectors; v++) {
        for (int64_t i = 0; i < count; i++) store(sums[v] + i * LANES, with_added(i, v));
        activate(c.activation, (Vector *)sums[v], (int)count);
    }
    for (int64_t i = 0; i < count; i++) {
        Vector result[2] = {zeros(), zeros()};
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) result[v] = load(sums[v] + i * LANES);
        keep(i, result);
    }
}

/* Finish the sums of `count` pixels of the grid from `at` on; those beyond the width of the result
 * are dropped. */
template <int vectors, bool half, int adds>
static void finish(const acc_bfloat16 &c, const Results &to, int64_t at, int64_t count, float *first, float *second) {
    int64_t y = at / c.plane_width, x = at % c.plane_width;
    while (count > 0) {
        const int64_t row = lesser(count, c.plane_width - x), kept = lesser(row, c.window.out_width - x);
        float *const sums[2] = {first, second};
        if (kept > 0) finish_row<vectors, half, adds>(c, to, y * c.window.out_width + x, kept, sums);
        first += row * LANES, second += row * LANES, count -= row;
        x = 0, y++;
    }
}

template <int vectors>
static void finish(const acc_bfloat16 &c, const Results &to, int64_t at, int64_t count, float *first, float *second) {
    const bool half = c.out.element == 2;
    switch (to.added ? c.added.element : 0) {
    case 0: (half ? finish<vectors, true, 0> : finish<vectors, false, 0>)(c, to, at, count, first, second); break;
    case 2: (half ? finish<vectors, true, 2> : finish<vectors, false, 2>)(c, to, at, count, first, second); break;
    case 4: (half ? finish<vectors, true, 4> : finish<vectors, false, 4>)(c, to, at, count, first, second); break;
    }
}

template <typename Unit, int vectors>
static void multiply_chunk(const acc_bfloat16 &c, const char *in, const uint16_t *weights, const uint16_t *next, const Results &to,
                           int64_t first, int64_t last) {
    alignas(64) float sums[2][2][TILE_ROWS][LANES];
    Product p;
    p.rows = c.rows;
    p.weights[0] = weights;
    p.weights[1] = weights + (vectors - 1) * c.taps * c.blocks * TILE_WEIGHTS;
    const int64_t steps = (last - first + 2 * c.rows - 1) / (2 * c.rows);
    p.lines = (2 * TILE_WEIGHTS * 2 / 64 + steps - 1) / steps;
    p.next = (const char *)next;
    for (int64_t at = first; at < last; p.next += c.taps * c.blocks * p.lines * 64) {
        const int runs = at + c.rows < last ? 2 : 1;
        int64_t begin[2];
        /* The last run ends with the grid, and begins among pixels that another run has finished.
         * */
        for (int run = 0; run < runs; run++) {
            begin[run] = lesser(at + run * c.rows, c.grid - c.rows);
            p.in[run] = in + begin[run] * c.pixel_step;
        }
        if (runs == 2)
            Unit::template multiply<2, vectors>(c, p, sums);
        else
            p.in[1] = p.in[0], Unit::template multiply<1, vectors>(c, p, sums);
        for (int run = 0; run < runs; run++, at += c.rows)
            finish<vectors>(c, to, at, lesser(c.rows, last - at), sums[0][run][at - begin[run]], sums[1][run][at - begin[run]]);
    }
}

template <typename Unit> static void multiply(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_bfloat16 &c = *(const acc_bfloat16 *)job->parameters;
    const int64_t pairs = (c.vectors + 1) / 2, runs = (c.grid + c.rows - 1) / c.rows;
    const char *images = c.direct ? (const char *)job->inputs[0] : job->workspace;
    Unit::begin(c.rows);
    for (int64_t item = begin; item < end; item++) {
        const int64_t pair = item % pairs, chunk = item / pairs % c.chunks, group = item / pairs / c.chunks % c.groups;
        const int64_t image = item / pairs / c.chunks / c.groups, vector = pair * 2;
        const int64_t first = runs * chunk / c.chunks * c.rows, last = lesser(runs * (chunk + 1) / c.chunks * c.rows, c.grid);
        const char *in = images + image * c.image_step + group * c.group_step;
        const uint16_t *weights = c.weights + (group * c.vectors + vector) * c.taps * c.blocks * TILE_WEIGHTS;
        Results to;
        const auto place = [&](const acc_bfloat16_image &i, int64_t v) {
            const int64_t channel = v * LANES;
            return image * i.image_step + group * i.group_step + channel / i.block * i.block_step + channel % i.block * i.element;
        };
        to.out = (char *)job->outputs[0] + place(c.out, vector);
        to.next = c.out.element == 4 ? place(c.out, vector + 1) - place(c.out, vector) : 0;
        to.added = c.adds ? (const char *)job->inputs[1] + place(c.added, vector) : nullptr;
        to.added_next = c.adds ? place(c.added, vector + 1) - place(c.added, vector) : 0;
        to.bias = c.bias + (group * c.vectors + vector) * LANES;
        for (int v = 0; v < 2; v++)
            to.lanes[v] = c.out.block == LANES && c.out.element == 4
                              ? LANES
                              : (int)lesser<int64_t>(LANES, greater<int64_t>(c.filters - (vector + v) * LANES, 0));
        to.channels = channels_of_block(c.filters - vector * LANES);
        const uint16_t *next = pair + 1 < pairs ? weights + 2 * c.taps * c.blocks * TILE_WEIGHTS : c.weights + group * c.vectors * c.taps * c.blocks * TILE_WEIGHTS;
        if (vector + 1 < c.vectors)
            multiply_chunk<Unit, 2>(c, in, weights, next, to, first, last);
        else
            multiply_chunk<Unit, 1>(c, in, weights, next, to, first, last);
    }
    Unit::end();
}

static void pack_bfloat16(const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t filters,
                          int64_t taps, int64_t channels, int32_t runs, uint16_t *packed, acc_packing *packing) {
    for (int64_t start = 0; start < filters; start += LANES)
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t pair = 0; pair < (channels + BLOCK - 1) / BLOCK * LANES; pair++, packed += 2 * LANES) {
                if (acc_packing_stops(packing, 2 * LANES)) return;
                alignas(64) float both[2][LANES] = {};
                for (int64_t half = 0; half < 2; half++) {
                    const int64_t channel = runs ? 2 * pair + half : pair / LANES * BLOCK + half * LANES + pair % LANES;
                    for (int64_t f = 0; channel < channels && f < lesser<int64_t>(LANES, filters - start); f++)
                        both[half][f] = weights[(start + f) * filter_step + tap * tap_step + channel * channel_step];
                }
                store_block((char *)packed, load(both[0]), load(both[1]));
            }
}

template <typename Unit>
static const acc_bfloat16_kernels bfloat16_kernels = {arrange, arrange_few, multiply<Unit>, pack_bfloat16};

} // namespace dovetail_acc::ACC_ISA
