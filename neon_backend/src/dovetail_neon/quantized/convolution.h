/* Convolution of images of bytes: `blocks` blocks of 16 filters times `pixels` pixels stay in
 * registers while the channels go by, a panel of 2 or 4 of them at a time. */
#pragma once

#include "dovetail_neon/convolution/item.h"
#include "dovetail_neon/quantized/frame.h"
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

/* The pixels of a tile: so many rows of `columns`, which are `step` bytes apart, so that four of
 * them share a register for their address. */
template <int rows, int columns> struct TilePixels {
    static constexpr int BASES = (columns + 3) / 4;
    const char *base[rows * BASES];
    int64_t step, three;
    INLINE_MEMBER TilePixels(const char *in, int64_t row, int64_t step) : step(step), three(3 * step) {
        for (int i = 0; i < rows * BASES; i++) base[i] = in + i / BASES * row + i % BASES * 4 * step;
    }
    INLINE_MEMBER const char *at(int p) const {
        const int x = p % columns;
        return base[p / columns * BASES + x / 4] + (x % 4 == 3 ? three : x % 4 * step);
    }
    INLINE_MEMBER void pass(int64_t bytes) {
#pragma GCC unroll 4
        for (int i = 0; i < rows * BASES; i++) base[i] += bytes;
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

/* The weights of the panel after this one. They come from memory into the L2 cache while tiles are
 * computed, a little with every 4 words that these multiply: some tiles fetch all. Without that,
 * panels of large networks wait for memory half as long as they compute. */
struct NextPanel {
    const char *at, *end;
    INLINE_MEMBER void fetch() {
        constexpr int LINE_BYTES = 64;
        if (at >= end) return;
        __builtin_prefetch(at, 0, 2);
        __builtin_prefetch(at + LINE_BYTES, 0, 2);
        at += 2 * LINE_BYTES;
    }
};

/* sum[p][v] += pixel p times weights[v], over so many words of channels; moves the weights on. */
template <typename Unit, int vectors, int pixels, typename Pixels>
INLINE void add_words(Integers (&sum)[pixels][vectors], Pixels in, const char *&weights, int64_t count, NextPanel &next) {
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        next.fetch();
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

/* What an item is of results, and what of the image they come from. */
struct PanelPart : PanelItem {
    Rectangle rectangle;
    Reach reach;
    int64_t framed;             /* tells apart what frames hold: panels of a group share one */
    int64_t block, blocks;      /* of filters: the first one, of those of all groups */
    int64_t first_in, first_out;    /* elements: the first channel of the image, and the first result */

    PanelPart(const acc_quantized_convolution &c, int64_t number)
        : PanelItem(number, c.groups, c.panels, c.row_bands * c.column_bands, c.chunks_first),
          rectangle(c.window, c.row_bands, c.column_bands, chunk), reach(c.window, rectangle) {
        const int64_t first = c.blocks * panel / c.panels;
        framed = (image * c.groups + group) * c.row_bands * c.column_bands + chunk;
        block = group * c.blocks + first, blocks = c.blocks * (panel + 1) / c.panels - first;
        first_in = image * c.window.in_height * c.window.in_width * c.in_step + group * c.channels;
        const int64_t pixel = (image * c.window.out_height + rectangle.top) * c.window.out_width + rectangle.left;
        first_out = pixel * c.out_step + group * c.filters + first * BLOCK;
    }
};

/* What a panel of filters makes of a rectangle of an image: where its tiles read and write. */
struct PanelBand {
    const acc_quantized_convolution *self;
    const acc_job *job;
    const char *in, *weights;   /* the first window; the weights of the panel */
    mutable NextPanel next;
    int64_t in_row, in_column;  /* bytes, from window to window */
    int64_t window_row, run_step;   /* bytes, from row to row of a window, and from run to run */
    int64_t rows, columns, out_row;
    int last_lanes;

    /* The image of the part, or its frame, lies at `at`. */
    PanelBand(const acc_job *job, const acc_quantized_convolution &c, const PanelPart &part, const char *at) : self(&c), job(job) {
        const acc_window &w = c.window;
        const Reach &reach = part.reach;
        const int64_t block_weights = w.kernel_height * c.runs * c.units * BLOCK * UNIT_BYTES, panel_weights = part.blocks * block_weights;
        weights = c.weights + part.block * block_weights;
        next = {weights + panel_weights, lesser(weights + 2 * panel_weights, c.weights + c.groups * c.blocks * block_weights)};
        last_lanes = part.panel == c.panels - 1 ? c.last_lanes : BLOCK;
        const int64_t width = c.framed ? reach.width : w.in_width;
        in = c.framed ? at : at + (reach.top * width + reach.left) * c.pixel_step;
        in_row = w.stride_y * width * c.pixel_step, in_column = w.stride_x * c.pixel_step;
        window_row = (c.framed ? reach.tap_y : w.dilation_y) * width * c.pixel_step;
        run_step = (c.framed ? reach.tap_x : w.dilation_x) * c.pixel_step;
        rows = part.rectangle.rows, columns = part.rectangle.columns, out_row = w.out_width * c.out_step;
        if (columns == 1 && w.out_width == 1)   /* one under the other is as even as side by side */
            in_column = in_row, columns = rows, rows = 1;
    }
};

struct ByteBand : PanelBand {
    const int32_t *bias;
    const float *factors;
    Byte *out;

    ByteBand(const acc_job *job, const acc_quantized_convolution &c, const PanelPart &part, const char *at)
        : PanelBand(job, c, part, at), bias(c.result.bias + part.block * BLOCK), factors(c.result.factors + part.block * BLOCK),
          out((Byte *)job->outputs[0] + part.first_out) {}
};

template <int blocks, int rows, int columns>
INLINE void finish_bytes(const ByteBand &band, Byte *out, Integers (&sum)[rows * columns][blocks * BLOCK_VECTORS]) {
    const acc_quantized_convolution &c = *band.self;
    const Rounding rounding(c.result.zero, c.result.low, c.result.high);
#pragma GCC unroll 4
    for (int block = 0; block < blocks; block++) {
        const int lanes = block == blocks - 1 ? band.last_lanes : BLOCK;
        Vector factor[BLOCK_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) factor[v] = load(band.factors + block * BLOCK + v * LANES);
#pragma GCC unroll 16
        for (int p = 0; p < rows * columns; p++) {
            Integers x[BLOCK_VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = rounding(to_floats(sum[p][block * BLOCK_VECTORS + v]), factor[v]);
            store_block(out + p / columns * band.out_row + p % columns * c.out_step + block * BLOCK, x, lanes);
        }
    }
}

/* The same of whole blocks, and of results that are clamped as bytes: vectors become bytes four at
 * a time, whichever pixels they belong to. */
template <int blocks, int rows, int columns>
INLINE void finish_near(const ByteBand &band, Byte *out, Integers (&sum)[rows * columns][blocks * BLOCK_VECTORS]) {
    constexpr int vectors = blocks * BLOCK_VECTORS, all = rows * columns * vectors;
    constexpr int part = GROUP_VECTORS % vectors ? BLOCK_VECTORS : vectors, parts = GROUP_VECTORS / part;
    const acc_quantized_convolution &c = *band.self;
    const NearRounding rounding(c.result.zero, c.result.low, c.result.high);
    Vector factor[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) factor[v] = load(band.factors + v * LANES);
#pragma GCC unroll 16
    for (int first = 0; first < all; first += GROUP_VECTORS) {
        Integers x[GROUP_VECTORS];
        Byte *at[parts];
#pragma GCC unroll 4
        for (int i = 0; i < GROUP_VECTORS; i++) {
            const int k = first + i < all ? first + i : all - 1, p = k / vectors, v = k % vectors;
            x[i] = rounding(to_floats(sum[p][v]), factor[v]);
            if (i % part == 0) at[i / part] = out + p / columns * band.out_row + p % columns * c.out_step + v / BLOCK_VECTORS * BLOCK;
        }
        const GroupBytes bytes = in_order(rounding.bytes(x));
        if (all - first >= GROUP_VECTORS)
            store_parts<part * LANES, parts>(bytes, at);
        else
            store_parts<part * LANES, all % GROUP_VECTORS / part>(bytes, at);
    }
}

/* Windows side by side, in one row or more, from `in` on. */
template <typename Unit, int blocks, int rows, int columns> void byte_tile(const ByteBand &band, const char *in, Byte *out) {
    constexpr int vectors = blocks * BLOCK_VECTORS, pixels = rows * columns;
    const acc_quantized_convolution &c = *band.self;
    Integers sum[pixels][vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        const Integers bias = load_integers(band.bias + v * LANES);
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++) sum[p][v] = bias;
    }
    const char *weights = band.weights;
    NextPanel next = band.next;
    for (int64_t row = 0; row < c.window.kernel_height; row++, in += band.window_row)
        for (int64_t run = 0; run < c.runs; run++) {
            const TilePixels<rows, columns> at(in + run * band.run_step, band.in_row, band.in_column);
            add_words<Unit, vectors, pixels>(sum, at, weights, c.units, next);
        }
    band.next = next;
    if (c.result.near && band.last_lanes == BLOCK)
        finish_near<blocks, rows, columns>(band, out, sum);
    else
        finish_bytes<blocks, rows, columns>(band, out, sum);
}

template <typename Unit, int blocks, int rows, int columns> struct ByteTiles {
    static void run(const ByteBand &band, const char *in, Byte *out, int count) {
        if (count == columns)
            byte_tile<Unit, blocks, rows, columns>(band, in, out);
        else
            ByteTiles<Unit, blocks, rows, columns - 1>::run(band, in, out, count);
    }
};
template <typename Unit, int blocks, int rows> struct ByteTiles<Unit, blocks, rows, 0> {
    static void run(const ByteBand &, const char *, Byte *, int) {}
};

/* Cut each row, or two short ones, into tiles of as equal a size as possible. */
template <typename Unit, int blocks> void byte_band(const ByteBand &band) {
    constexpr int most = tile_pixels(blocks);
    const int64_t tiles = (band.columns + most - 1) / most, out_step = band.self->out_step;
    const int64_t together = 2 * band.columns <= most ? 2 : 1;
    for (int64_t row = 0; row < band.rows; row += together) {
        const char *in = band.in + row * band.in_row;
        Byte *out = band.out + row * band.out_row;
        for (int64_t left = band.columns, tile = 0; tile < tiles; tile++) {
            if (band.self->polls && acc_stopped(band.job)) return;
            const int count = (int)((left + tiles - tile - 1) / (tiles - tile));
            if (together == 2 && row + 1 < band.rows)
                ByteTiles<Unit, blocks, 2, most / 2>::run(band, in, out, count);
            else
                ByteTiles<Unit, blocks, 1, most>::run(band, in, out, count);
            in += count * band.in_column, out += count * out_step, left -= count;
        }
    }
}

template <typename Unit> void convolve_bytes(int64_t begin, int64_t end, int32_t worker, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_convolution &c = *(const acc_quantized_convolution *)job->parameters;
    char *frame = job->worker_workspace + worker * job->worker_stride;
    int64_t framed = -1;
    for (int64_t number = begin; number < end; number++) {
        const PanelPart part(c, number);
        const Byte *image = (const Byte *)job->inputs[0] + part.first_in;
        if (c.framed == 2 && part.framed != framed)
            copy_framed(c.window, image, c.in_step, c.channels, c.outside, part.reach, (int16_t *)frame);
        else if (c.framed && part.framed != framed)
            copy_framed(c.window, image, c.in_step, c.channels, c.outside, part.reach, (Byte *)frame);
        framed = part.framed;
        const ByteBand band(job, c, part, c.framed ? frame : (const char *)image);
        switch (part.blocks) {
        case 1: byte_band<Unit, 1>(band); break;
#if ACC_IS == 1
        case 2: byte_band<Unit, 2>(band); break;
        case 3: byte_band<Unit, 3>(band); break;
        case 4: byte_band<Unit, 4>(band); break;
#endif
        }
        if (c.polls && __atomic_load_n(job->stopped, __ATOMIC_RELAXED)) return;
    }
}

/* Pack the factors of one unit and up to LANES filters; whole ones, side by side, are words. */
template <typename Unit, typename Weight>
INLINE void pack_vector(const Weight *from, int64_t filter_step, int64_t channel_step, int64_t filters, int64_t channels, char *packed) {
    constexpr int depth = Unit::DEPTH;
    typename Unit::Factor *to = (typename Unit::Factor *)packed;
    if (sizeof(Weight) == sizeof(*to) && Unit::place(1, 0) == depth && channel_step == 1 && filters >= LANES && channels >= depth) {
        for (int lane = 0; lane < LANES; lane++) __builtin_memcpy(to + Unit::place(lane, 0), from + lane * filter_step, depth * sizeof(*to));
        return;
    }
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < depth; i++)
            to[Unit::place(lane, i)] =
                lane < filters && i < channels ? (typename Unit::Factor)from[lane * filter_step + i * channel_step] : 0;
}

template <typename Unit, typename Weight>
INLINE void pack_panel(const Weight *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first,
                       int64_t filters, int64_t blocks, int64_t taps, int64_t channels, char *packed, acc_packing *packing) {
    constexpr int depth = Unit::DEPTH;
    const int64_t units = (channels + depth - 1) / depth, vectors = blocks * BLOCK_VECTORS;
    for (int64_t tap = 0; tap < taps; tap++)
        for (int64_t unit = 0; unit < units; unit++)
            for (int64_t v = 0; v < vectors; v++, packed += VECTOR_BYTES) {
                if (acc_packing_stops(packing, LANES * depth)) return;
                const int64_t filter = first + v * LANES, channel = unit * depth;
                pack_vector<Unit>(weights + filter * filter_step + tap * tap_step + channel * channel_step, filter_step,
                                  channel_step, filters - filter, channels - channel, packed);
            }
}

template <typename Unit>
void pack_shorts(const int16_t *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first, int64_t filters,
                 int64_t blocks, int64_t taps, int64_t channels, char *packed, acc_packing *packing) {
    pack_panel<Unit>(weights, filter_step, tap_step, channel_step, first, filters, blocks, taps, channels, packed, packing);
}

template <typename Unit>
void pack_bytes(const int8_t *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first, int64_t filters,
                int64_t blocks, int64_t taps, int64_t channels, char *packed, acc_packing *packing) {
    pack_panel<Unit>(weights, filter_step, tap_step, channel_step, first, filters, blocks, taps, channels, packed, packing);
}

} // namespace dovetail_acc::ACC_ISA
