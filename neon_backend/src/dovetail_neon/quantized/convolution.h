/* Convolution of images of bytes: `blocks` blocks of 16 filters times `pixels` pixels stay in
 * registers while the channels go by, a panel of 2 or 4 of them at a time. */
#pragma once

#include "dovetail_neon/quantized/requantization.h"

namespace dovetail_acc::ACC_ISA {

constexpr int MAX_FILTER_BLOCKS = REGISTERS / 8 / BLOCK_VECTORS < 1 ? 1 : REGISTERS / 8 / BLOCK_VECTORS;
constexpr int UNIT_BYTES = 4;
constexpr int VECTOR_BYTES = LANES * UNIT_BYTES;

/* Sums fill what weights and one broadcast leave; NEON keeps a piece of each pixel besides. */
constexpr int tile_pixels(int blocks) {
    const int vectors = blocks * BLOCK_VECTORS;
    const int room = ACC_IS == 3 ? (REGISTERS - 1) / (vectors + 1) : (REGISTERS - 1 - vectors) / vectors;
    return room > 14 ? 14 : room < 2 ? 2 : room;
}

/* Where the pixels of a tile lie: anywhere, or `step` bytes apart, so that four of them share a
 * register for their address. */
template <int pixels> struct ScatteredPixels {
    const char *in[pixels];
    int64_t passed;
    INLINE_MEMBER const char *at(int p) const { return in[p] + passed; }
    INLINE_MEMBER void pass(int64_t bytes) { passed += bytes; }
};
template <int pixels> struct EvenPixels {
    static constexpr int BASES = (pixels + 3) / 4;
    const char *base[BASES];
    int64_t step, three;
    INLINE_MEMBER EvenPixels(const char *in, int64_t step) : step(step), three(3 * step) {
        for (int i = 0; i < BASES; i++) base[i] = in + i * 4 * step;
    }
    INLINE_MEMBER const char *at(int p) const { return base[p / 4] + (p % 4 == 3 ? three : p % 4 * step); }
    INLINE_MEMBER void pass(int64_t bytes) {
#pragma GCC unroll 4
        for (int i = 0; i < BASES; i++) base[i] += bytes;
    }
};

template <typename Unit, int i, int vectors, int pixels>
INLINE void add_word(Integers (&sum)[pixels][vectors], const typename Unit::Piece (&x)[pixels], const char *&weights) {
    Integers w[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) w[v] = load_integers(weights + v * VECTOR_BYTES);
    weights += vectors * VECTOR_BYTES;
#pragma GCC unroll 16
    for (int p = 0; p < pixels; p++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sum[p][v] = Unit::template dot<i>(sum[p][v], w[v], x[p]);
}

/* sum[p][v] += pixel p times weights[v], over so many words of channels; moves the weights on. */
template <typename Unit, int vectors, int pixels, typename Pixels>
INLINE void add_words(Integers (&sum)[pixels][vectors], Pixels in, const char *&weights, int64_t count) {
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        typename Unit::Piece x[pixels];
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++) x[p] = Unit::piece(in.at(p));
        add_word<Unit, 0, vectors, pixels>(sum, x, weights);
        add_word<Unit, 1, vectors, pixels>(sum, x, weights);
        add_word<Unit, 2, vectors, pixels>(sum, x, weights);
        add_word<Unit, 3, vectors, pixels>(sum, x, weights);
        in.pass(4 * UNIT_BYTES);
    }
    for (; k < count; k++) {
        Integers w[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) w[v] = load_integers(weights + v * VECTOR_BYTES);
        weights += vectors * VECTOR_BYTES;
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++) {
            const Integers x = Unit::spread(in.at(p));
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sum[p][v] = Unit::dot(sum[p][v], w[v], x);
        }
        in.pass(UNIT_BYTES);
    }
}

/* One panel of filters over one image, or what of it belongs to one group. */
struct ByteBand {
    const acc_quantized_convolution *self;
    const acc_job *job;
    const char *in, *weights;
    const int32_t *bias;
    const float *factors;
    Byte *out;
    bool points, even;          /* windows are single pixels; and those of the image side by side */
    int last_lanes;
};

template <int blocks, int pixels>
INLINE void finish_bytes(const ByteBand &band, int64_t first, Integers (&sum)[pixels][blocks * BLOCK_VECTORS]) {
    const acc_quantized_convolution &c = *band.self;
    const Rounding rounding(c.result.zero, c.result.low, c.result.high);
    Byte *out = band.out + first * c.out_step;
#pragma GCC unroll 4
    for (int block = 0; block < blocks; block++) {
        const int lanes = block == blocks - 1 ? band.last_lanes : BLOCK;
        Vector factor[BLOCK_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) factor[v] = load(band.factors + block * BLOCK + v * LANES);
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++) {
            Integers x[BLOCK_VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = rounding(to_floats(sum[p][block * BLOCK_VECTORS + v]), factor[v]);
            store_block(out + p * c.out_step + block * BLOCK, x, lanes);
        }
    }
}

/* Windows anywhere. */
template <typename Unit, int blocks, int pixels> void byte_tile(const ByteBand &band, int64_t first) {
    constexpr int vectors = blocks * BLOCK_VECTORS;
    const acc_quantized_convolution &c = *band.self;
    Integers sum[pixels][vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        const Integers bias = load_integers(band.bias + v * LANES);
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++) sum[p][v] = bias;
    }
    const char *weights = band.weights;
    if (band.points && band.even) {
        add_words<Unit, vectors, pixels>(sum, EvenPixels<pixels>(band.in + first * c.tile_step, c.tile_step), weights, c.units);
        finish_bytes<blocks, pixels>(band, first, sum);
        return;
    }
    int64_t top[pixels], left[pixels];
    const char *start[pixels];
    int64_t y = first / c.window.out_width, x = first % c.window.out_width;
    const bool one_row = x + pixels <= c.window.out_width;
    const int64_t reach_y = (c.window.kernel_height - 1) * c.window.dilation_y, reach_x = (c.window.kernel_width - 1) * c.window.dilation_x;
    bool inside = true;
    for (int p = 0; p < pixels; p++) {
        top[p] = y * c.window.stride_y - c.window.padding_top, left[p] = x * c.window.stride_x - c.window.padding_left;
        start[p] = band.in + (top[p] * c.window.in_width + left[p]) * c.tile_step;
        inside = inside && top[p] >= 0 && left[p] >= 0 && top[p] + reach_y < c.window.in_height && left[p] + reach_x < c.window.in_width;
        if (++x == c.window.out_width) x = 0, y++;
    }
    inside = inside || !c.reaches_out;
    /* Taps side by side whose channels lie side by side too are one run of bytes. */
    const int64_t run = inside && c.window.dilation_x == 1 && c.units * UNIT_BYTES == c.tile_step ? c.window.kernel_width : 1;
    for (int64_t ky = 0; ky < c.window.kernel_height; ky++)
        for (int64_t kx = 0; kx < c.window.kernel_width; kx += run) {
            const int64_t tap = (ky * c.window.dilation_y * c.window.in_width + kx * c.window.dilation_x) * c.tile_step;
            if (inside && one_row) {
                add_words<Unit, vectors, pixels>(sum, EvenPixels<pixels>(start[0] + tap, c.window.stride_x * c.tile_step), weights,
                                                  c.units * run);
                continue;
            }
            ScatteredPixels<pixels> in;
            in.passed = 0;
            for (int p = 0; p < pixels; p++) {
                const bool here = inside || ((uint64_t)(top[p] + ky * c.window.dilation_y) < (uint64_t)c.window.in_height &&
                                             (uint64_t)(left[p] + kx * c.window.dilation_x) < (uint64_t)c.window.in_width);
                in.in[p] = here ? start[p] + tap : c.outside;
            }
            add_words<Unit, vectors, pixels>(sum, in, weights, c.units * run);
        }
    finish_bytes<blocks, pixels>(band, first, sum);
}

template <typename Unit, int blocks, int pixels> struct ByteTiles {
    static void run(const ByteBand &band, int64_t first, int count) {
        if (count == pixels)
            byte_tile<Unit, blocks, pixels>(band, first);
        else
            ByteTiles<Unit, blocks, pixels - 1>::run(band, first, count);
    }
};
template <typename Unit, int blocks> struct ByteTiles<Unit, blocks, 0> {
    static void run(const ByteBand &, int64_t, int) {}
};

/* Cut pixels [begin, end) into tiles of as equal a size as possible. */
template <typename Unit, int blocks> void byte_band(const ByteBand &band, int64_t begin, int64_t end) {
    constexpr int most = tile_pixels(blocks);
    const int64_t tiles = (end - begin + most - 1) / most;
    for (int64_t at = begin, tile = 0; tile < tiles; tile++) {
        if (band.self->polls && acc_stopped(band.job)) return;
        const int count = (int)((end - at + tiles - tile - 1) / (tiles - tile));
        ByteTiles<Unit, blocks, most>::run(band, at, count);
        at += count;
    }
}

template <typename Unit> void convolve_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_convolution &c = *(const acc_quantized_convolution *)job->parameters;
    const int64_t pixels = c.window.out_height * c.window.out_width, in_pixels = c.window.in_height * c.window.in_width, filters = c.groups * c.panels;
    const int64_t block_weights = c.window.kernel_height * c.window.kernel_width * c.units * BLOCK * UNIT_BYTES;
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / (c.chunks * filters);
        const int64_t chunk = c.chunks_first ? item / filters % c.chunks : item % c.chunks;
        const int64_t either = c.chunks_first ? item % filters : item / c.chunks % filters;
        const int64_t group = either / c.panels, panel = either % c.panels;
        const int64_t first = c.blocks * panel / c.panels, blocks = c.blocks * (panel + 1) / c.panels - first;
        const int64_t block = group * c.blocks + first;
        ByteBand band;
        band.self = &c;
        band.job = job;
        band.in = (c.widened ? (const char *)job->workspace : (const char *)job->inputs[0]) + image * in_pixels * c.tile_step +
                  group * c.channels * (c.widened ? 2 : 1);
        band.weights = c.weights + block * block_weights;
        band.bias = c.result.bias + block * BLOCK, band.factors = c.result.factors + block * BLOCK;
        band.out = (Byte *)job->outputs[0] + image * pixels * c.out_step + group * c.filters + first * BLOCK;
        band.points = c.window.kernel_height * c.window.kernel_width == 1 && !c.reaches_out;
        band.even = c.window.stride_x == 1 && c.window.stride_y == 1 && c.window.in_width == c.window.out_width;
        band.last_lanes = panel == c.panels - 1 ? c.last_lanes : BLOCK;
        const int64_t from = pixels * chunk / c.chunks, to = pixels * (chunk + 1) / c.chunks;
        switch (blocks) {
        case 1: byte_band<Unit, 1>(band, from, to); break;
#if ACC_IS == 1
        case 2: byte_band<Unit, 2>(band, from, to); break;
        case 3: byte_band<Unit, 3>(band, from, to); break;
        case 4: byte_band<Unit, 4>(band, from, to); break;
#endif
        }
    }
}

static void widen_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_convolution &c = *(const acc_quantized_convolution *)job->parameters;
    const Byte *in = (const Byte *)job->inputs[0];
    int16_t *out = (int16_t *)job->workspace;
    for (int64_t i = begin * c.in_step; i < end * c.in_step; i++) out[i] = in[i];
}

template <typename Unit>
void pack_bytes(const int16_t *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first, int64_t filters,
                int64_t blocks, int64_t taps, int64_t channels, char *packed, acc_packing *packing) {
    constexpr int depth = Unit::DEPTH;
    const int64_t units = (channels + depth - 1) / depth, vectors = blocks * BLOCK_VECTORS;
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t unit = 0; unit < units; unit++)
            for (int64_t v = 0; v < vectors; v++) {
                if (acc_packing_stops(packing, LANES * depth)) return;
                typename Unit::Factor *to = (typename Unit::Factor *)(packed + ((tap * units + unit) * vectors + v) * VECTOR_BYTES);
                for (int lane = 0; lane < LANES; lane++)
                    for (int i = 0; i < depth; i++) {
                        const int64_t filter = first + v * LANES + lane, channel = unit * depth + i;
                        to[Unit::place(lane, i)] =
                            filter < filters && channel < channels
                                ? (typename Unit::Factor)weights[filter * filter_step + tap * tap_step + channel * channel_step]
                                : 0;
                    }
            }
}

} // namespace dovetail_acc::ACC_ISA
