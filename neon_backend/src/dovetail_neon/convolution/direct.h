/* Convolution with packed weights over images in any layout whose channels lie side by side in
 * blocks; a matrix product is the case of one tap. Padding is never copied: what lies outside the
 * image is read from a block of zeros. */
#pragma once

#include "dovetail_neon/convolution/parameters.h"
#include "dovetail_neon/elementwise/functions.h"
#include "dovetail_neon/convolution/filters.h"
#include "dovetail_neon/convolution/item.h"
#include "dovetail_neon/convolution/tile.h"
#include "dovetail_neon/geometry/edges.h"

namespace dovetail_acc::ACC_ISA {

/* What the tiles of one panel of filters in one image share. */
struct Band {
    const acc_convolution *self;
    const acc_job *job;
    const float *in;
    const float *weights;
    const float *bias;
    const float *adds;      /* or NULL */
    float *out;
    int64_t out_vector_step;
    int64_t blocks;         /* of channels that are read */
    int64_t lane;           /* of the first block, where the channels of a group begin that fills no blocks: of points side by side alone */
    bool points;            /* windows are one tap, inside the image */
    bool side_by_side;      /* pixels that are read together follow each other, unless a row ends between them */
    int last_lanes;         /* of the last vector; LANES unless the result ends in the middle of one */
    const float *next;      /* weights that are wanted after these */
    int64_t fetched;        /* bytes of them that a tile asks for per channel: tiles share the work */
};

/* What few layers need, for a tile of any size: functions other than limits, and results that end
 * in the middle of a vector. */
static __attribute__((noinline)) void finish_results(const Band &band, int64_t first, Vector *results, int pixels, int vectors) {
    const acc_convolution &c = *band.self;
    if (c.activation.function != ACC_IDENTITY) activate(c.activation, results, pixels * vectors);
    for (int p = 0; p < pixels; p++)
        for (int v = 0; v < vectors; v++) {
            float *at = band.out + (first + p) * c.out.pixel_step + v * band.out_vector_step;
            if (v == vectors - 1)
                store_part(at, results[p * vectors + v], band.last_lanes);
            else
                store(at, results[p * vectors + v]);
        }
}

/* Add what is added, apply the function, store. All loops are unrolled: a sum whose index is not a
 * constant, or whose address is handed on, would live in memory through the whole tile. */
template <int vectors, int pixels> INLINE void finish_tile(const Band &band, int64_t first, Vector (&sum)[pixels][vectors]) {
    const acc_convolution &c = *band.self;
    const bool whole = band.last_lanes == LANES;
    if (band.adds) {
        const float *adds = band.adds + first * c.out.pixel_step;
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                const float *at = adds + v * band.out_vector_step + p * c.out.pixel_step;
                sum[p][v] += v == vectors - 1 && !whole ? load_part(at, band.last_lanes) : load(at);
            }
    }
    if (!whole || c.activation.function > ACC_CLAMP) {
        Vector results[pixels * vectors];
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) results[p * vectors + v] = sum[p][v];
        finish_results(band, first, results, pixels, vectors);
        return;
    }
    if (c.activation.function == ACC_CLAMP) {
        const Vector low = broadcast(c.activation.a), high = broadcast(c.activation.b);
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sum[p][v] = minimum(high, maximum(low, sum[p][v]));
    }
    float *out = band.out + first * c.out.pixel_step;
#pragma GCC unroll 16
    for (int p = 0; p < pixels; p++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) store(out + v * band.out_vector_step + p * c.out.pixel_step, sum[p][v]);
}

template <int vectors, int pixels> INLINE void begin_tile(const Band &band, Vector (&sum)[pixels][vectors]) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        const Vector bias = load(band.bias + v * LANES);
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++) sum[p][v] = bias;
    }
}

template <int vectors, int pixels> INLINE Ahead ahead_of(const Band &band, int64_t tile) {
    const acc_convolution &c = *band.self;
    return Ahead{(const char *)band.next + tile * c.window.kernel_height * c.window.kernel_width * c.channels * band.fetched, band.fetched};
}

/* Windows of one tap that lie inside the image. */
template <int vectors, int pixels> void convolve_points(const Band &band, int64_t first, int64_t tile) {
    const acc_convolution &c = *band.self;
    Vector sum[pixels][vectors];
    begin_tile<vectors, pixels>(band, sum);
    const float *weights = band.weights;
    Ahead ahead = ahead_of<vectors, pixels>(band, tile);
    if (band.side_by_side) {
        const float *in = band.in + first * LANES;
        for (int64_t lane = band.lane, channel = 0, count; channel < c.channels; channel += count, lane = 0, in += c.in.block_step) {
            count = lesser<int64_t>(LANES - lane, c.channels - channel);
            multiply_add(sum, SideBySide<LANES>{in + lane}, weights, count, ahead);
        }
    } else {
        Scattered<pixels> in;
        int64_t y = first / c.window.out_width, x = first % c.window.out_width;
        for (int p = 0; p < pixels; p++) {
            in.in[p] = band.in + (y * c.window.stride_y * c.window.in_width + x * c.window.stride_x) * c.in.pixel_step;
            if (++x == c.window.out_width) x = 0, y++;
        }
        for (int64_t block = 0; block < band.blocks; block++) {
            multiply_add(sum, in, weights, lesser(c.in.block, c.channels - block * c.in.block), ahead);
#pragma GCC unroll 16
            for (int p = 0; p < pixels; p++) in.in[p] += c.in.block_step;
        }
    }
    finish_tile<vectors, pixels>(band, first, sum);
}

/* Windows inside the image whose results lie side by side in a row, of pixels `step` elements
 * apart; `corner` is what the first window's first tap reads. */
template <int vectors, int pixels, int step>
INLINE void convolve_inside(const Band &band, Vector (&sum)[pixels][vectors], const float *corner, Ahead &ahead) {
    const acc_convolution &c = *band.self;
    const float *weights = band.weights;
    /* Taps side by side whose channels lie side by side too are one run of elements. */
    const bool runs = c.window.dilation_x == 1 && c.in.pixel_step == c.in.block;
    for (int64_t block = 0; block < band.blocks; block++) {
        const int64_t count = lesser(c.in.block, c.channels - block * c.in.block);
        const int64_t run = runs && count == c.in.pixel_step ? c.window.kernel_width : 1;
        for (int64_t ky = 0; ky < c.window.kernel_height; ky++) {
            const float *in = corner + block * c.in.block_step + ky * c.window.dilation_y * c.window.in_width * c.in.pixel_step;
            for (int64_t kx = 0; kx < c.window.kernel_width; kx += run, in += c.window.dilation_x * c.in.pixel_step)
                multiply_add(sum, SideBySide<step>{in}, weights, count * run, ahead);
        }
    }
}

/* Rows or columns of the windows that begin at `begins`. */
INLINE TapRange taps_inside(const int64_t *begins, int pixels, int64_t dilation, int64_t size, int64_t taps) {
    int64_t lowest = begins[0], highest = begins[0];
    for (int p = 1; p < pixels; p++) lowest = lesser(lowest, begins[p]), highest = greater(highest, begins[p]);
    return taps_inside(lowest, highest, dilation, size, taps);
}

/* Windows anywhere. */
template <int vectors, int pixels> void convolve_tile(const Band &band, int64_t first, int64_t tile) {
    const acc_convolution &c = *band.self;
    Vector sum[pixels][vectors];
    begin_tile<vectors, pixels>(band, sum);
    const float *weights = band.weights;
    Ahead ahead = ahead_of<vectors, pixels>(band, tile);
    /* Where the window of each pixel begins, and whether all of it lies inside the image. */
    const float *start[pixels];
    int64_t top[pixels], left[pixels];
    int64_t y = first / c.window.out_width, x = first % c.window.out_width;
    bool inside = true;
    const bool one_row = x + pixels <= c.window.out_width;
    const int64_t reach_y = (c.window.kernel_height - 1) * c.window.dilation_y, reach_x = (c.window.kernel_width - 1) * c.window.dilation_x;
    for (int p = 0; p < pixels; p++) {
        top[p] = y * c.window.stride_y - c.window.padding_top, left[p] = x * c.window.stride_x - c.window.padding_left;
        start[p] = band.in + (top[p] * c.window.in_width + left[p]) * c.in.pixel_step;
        inside = inside && top[p] >= 0 && left[p] >= 0 && top[p] + reach_y < c.window.in_height && left[p] + reach_x < c.window.in_width;
        if (++x == c.window.out_width) x = 0, y++;
    }
    inside = inside || !c.reaches_out;
    if (inside && one_row && band.side_by_side) {
        convolve_inside<vectors, pixels, LANES>(band, sum, start[0], ahead);
    } else if (inside && one_row && c.in.pixel_step == LANES && c.window.stride_x == 2) {
        convolve_inside<vectors, pixels, 2 * LANES>(band, sum, start[0], ahead);
    } else {
        Scattered<pixels> in;
        const bool runs = inside && c.window.dilation_x == 1 && c.in.pixel_step == c.in.block;
        TapRange rows{0, c.window.kernel_height}, columns{0, c.window.kernel_width};
        if (!inside) {
            rows = taps_inside(top, pixels, c.window.dilation_y, c.window.in_height, c.window.kernel_height);
            columns = taps_inside(left, pixels, c.window.dilation_x, c.window.in_width, c.window.kernel_width);
        }
        for (int64_t block = 0; block < band.blocks; block++) {
            const int64_t count = lesser(c.in.block, c.channels - block * c.in.block), base = block * c.in.block_step;
            const int64_t run = runs && count == c.in.pixel_step ? c.window.kernel_width : 1;
            const float *const of_block = band.weights + block * c.in.block * c.window.kernel_height * c.window.kernel_width * vectors * LANES;
            for (int64_t ky = rows.first; ky < rows.last; ky++) {
                weights = of_block + (ky * c.window.kernel_width + columns.first) * count * vectors * LANES;
                for (int64_t kx = columns.first; kx < columns.last; kx += run) {
                    const int64_t tap = base + (ky * c.window.dilation_y * c.window.in_width + kx * c.window.dilation_x) * c.in.pixel_step;
                    bool any = false;
                    for (int p = 0; p < pixels; p++) {
                        const bool here = inside || ((uint64_t)(top[p] + ky * c.window.dilation_y) < (uint64_t)c.window.in_height &&
                                                     (uint64_t)(left[p] + kx * c.window.dilation_x) < (uint64_t)c.window.in_width);
                        in.in[p] = here ? start[p] + tap : c.zeros;
                        any = any || here;
                    }
                    if (any)
                        multiply_add(sum, in, weights, count * run, ahead);
                    else
                        weights += count * vectors * LANES;
                }
            }
        }
    }
    finish_tile<vectors, pixels>(band, first, sum);
}

template <int vectors, int pixels> struct Tiles {
    static void run(const Band &band, int64_t first, int count, int64_t tile) {
        if (count != pixels)
            Tiles<vectors, pixels - 1>::run(band, first, count, tile);
        else if (band.points)
            convolve_points<vectors, pixels>(band, first, tile);
        else
            convolve_tile<vectors, pixels>(band, first, tile);
    }
};
template <int vectors> struct Tiles<vectors, 0> {
    static void run(const Band &, int64_t, int, int64_t) {}
};

/* Cut pixels [begin, end) into tiles of as equal a size as possible: 49 into 5 of 6 and 4 of 5
 * minus one, never into 8 of 6 and 1. */
template <int vectors> void convolve_band(Band &band, int64_t begin, int64_t end) {
    constexpr int most = pixels_of(vectors);
    const int64_t tiles = (end - begin + most - 1) / most;
    band.fetched = vectors * LANES * (int64_t)sizeof(float) / greater<int64_t>(tiles, 1);
    for (int64_t at = begin, tile = 0; tile < tiles; tile++) {
        if (band.self->polls && acc_stopped(band.job)) return;
        const int count = (int)((end - at + tiles - tile - 1) / (tiles - tile));
        Tiles<vectors, most>::run(band, at, count, tile);
        at += count;
    }
}

/* Results side by side in one row, over images in which a row of the window is one run of elements
 * and nothing lies outside. */
template <int vectors, int pixels, int step> void convolve_row_tile(const Band &band, int64_t y, int64_t x) {
    const acc_convolution &c = *band.self;
    Vector sum[pixels][vectors];
    begin_tile<vectors, pixels>(band, sum);
    Ahead ahead{(const char *)band.weights, 0};
    convolve_inside<vectors, pixels, step>(
        band, sum, band.in + (y * c.window.stride_y * c.window.in_width + x * c.window.stride_x) * c.in.pixel_step, ahead);
    finish_tile<vectors, pixels>(band, y * c.window.out_width + x, sum);
}

template <int vectors, int pixels, int step> struct RowTiles {
    static void run(const Band &band, int64_t y, int64_t x, int count) {
        if (count == pixels)
            convolve_row_tile<vectors, pixels, step>(band, y, x);
        else
            RowTiles<vectors, pixels - 1, step>::run(band, y, x, count);
    }
};
template <int vectors, int step> struct RowTiles<vectors, 0, step> {
    static void run(const Band &, int64_t, int64_t, int) {}
};

/* Results [begin, end), cut at the ends of rows. */
template <int vectors, int step> void convolve_rows(const Band &band, int64_t begin, int64_t end) {
    constexpr int most = pixels_of(vectors);
    const int64_t width = band.self->window.out_width;
    for (int64_t y = begin / width; y * width < end; y++) {
        int64_t x = greater<int64_t>(begin - y * width, 0);
        const int64_t last = lesser(end - y * width, width);
        for (int64_t tiles = (last - x + most - 1) / most; tiles; tiles--) {
            if (band.self->polls && acc_stopped(band.job)) return;
            const int count = (int)((last - x + tiles - 1) / tiles);
            RowTiles<vectors, most, step>::run(band, y, x, count);
            x += count;
        }
    }
}

template <int vectors> void convolve_panel(Band &band, int64_t begin, int64_t end) {
    const acc_convolution &c = *band.self;
    if (c.rows && c.window.stride_x * c.in.pixel_step == 1)
        convolve_rows<vectors, 1>(band, begin, end);
    else if (c.rows && c.window.stride_x * c.in.pixel_step == 2)
        convolve_rows<vectors, 2>(band, begin, end);
    else if (c.rows && c.window.stride_x * c.in.pixel_step == 3)
        convolve_rows<vectors, 3>(band, begin, end);
    else if (c.rows && c.window.stride_x * c.in.pixel_step == 6)
        convolve_rows<vectors, 6>(band, begin, end);
    else
        convolve_band<vectors>(band, begin, end);
}

/* One panel of filters over one image, or what of it belongs to one group. */
static Band band_of(const acc_job *job, const acc_convolution &c, int64_t image, int64_t group, int64_t panel) {
    const int64_t filter = (int64_t)c.panel_vector[panel] * LANES, step = c.out.block == LANES ? c.out.block_step : LANES;
    const int64_t offset = image * c.out.image_step + group * c.out.group_step + c.panel_vector[panel] * step;
    const int vectors = c.panel_vector[panel + 1] - c.panel_vector[panel];
    Band band;
    band.self = &c;
    band.job = job;
    band.in = (const float *)job->inputs[0] + image * c.in.image_step + group * c.in.group_step;
    band.weights = c.weights + group * c.group_weights + c.panel_weights[panel];
    band.next = band.weights;
    band.bias = c.bias + group * c.panel_vector[c.panels] * LANES + filter;
    band.adds = c.adds ? (const float *)job->inputs[1] + offset : nullptr;
    band.out = (float *)job->outputs[0] + offset;
    band.out_vector_step = step;
    band.blocks = (c.channels + c.in.block - 1) / c.in.block;
    band.lane = 0;
    band.points = c.window.kernel_height * c.window.kernel_width == 1 && !c.reaches_out;
    band.side_by_side = c.in.pixel_step == LANES && c.in.block == LANES && c.window.stride_x == 1;
    if (band.points) band.side_by_side = band.side_by_side && c.window.stride_y == 1 && c.window.in_width == c.window.out_width;
    band.last_lanes = c.out.block == LANES ? LANES : (int)lesser<int64_t>(LANES, c.filters - filter - (vectors - 1) * LANES);
    return band;
}

/* Results [begin, end) of the pixels of an image, for a panel of so many vectors. */
static void convolve_pixels(Band &band, int vectors, int64_t begin, int64_t end) {
    switch (vectors) {
    case 1: convolve_panel<1>(band, begin, end); break;
    case 2: convolve_panel<2>(band, begin, end); break;
#if ACC_IS == 1 || ACC_IS == 3
    case 3: convolve_panel<3>(band, begin, end); break;
    case 4: convolve_panel<4>(band, begin, end); break;
#endif
    }
}

typedef void ConvolvePixels(Band &band, int vectors, int64_t begin, int64_t end);

template <ConvolvePixels *convolve_some> void convolve(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_convolution &c = *(const acc_convolution *)job->parameters;
    const int64_t pixels = c.window.out_height * c.window.out_width;
    for (int64_t number = begin; number < end; number++) {
        const PanelItem item(number, c.groups, c.panels, c.chunks, c.chunks_first);
        Band band = band_of(job, c, item.image, item.group, item.panel);
        if ((c.chunks_first || item.chunk == c.chunks - 1) && item.panel + 1 < c.panels)
            band.next = c.weights + item.group * c.group_weights + c.panel_weights[item.panel + 1];
        convolve_some(band, c.panel_vector[item.panel + 1] - c.panel_vector[item.panel], pixels * item.chunk / c.chunks,
                      pixels * (item.chunk + 1) / c.chunks);
    }
}

static int64_t packed_convolution(int64_t vectors, int64_t taps, int64_t channels, int64_t) {
    return vectors * LANES * taps * channels;
}

static void pack_convolution(const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step,
                             int64_t first_filter, int64_t filters, int64_t vectors, int64_t taps, int64_t channels, int64_t block,
                             float *packed, acc_packing *packing) {
    const int64_t width = vectors * LANES;
    for (int64_t v = 0; v < vectors; v++) {
        const int64_t first = first_filter + v * LANES;
        const int rows = (int)lesser<int64_t>(LANES, filters - first);
        take_filters(weights + first * filter_step, filter_step, tap_step, channel_step, rows, taps, channels, packing,
                     [=](int64_t channel, int64_t tap, Vector x) {
                         const int64_t start = block < channels ? (uint32_t)channel / (uint32_t)block * block : 0;
                         const int64_t beside = lesser(block, channels - start);
                         store(packed + (start * taps + tap * beside + channel - start) * width + v * LANES, x);
                     });
    }
}

static const acc_convolution_kernels convolution_kernels = {
    convolve<convolve_pixels>, MAX_VECTORS, 1, {0, pixels_of(1), pixels_of(2), pixels_of(3), pixels_of(4)},
    packed_convolution, pack_convolution};

} // namespace dovetail_acc::ACC_ISA
