/* Convolution over blocked images in groups that do not fill whole blocks: a vector holds filters
 * of several groups.
 *
 * Each lane multiplies the channels of its own group, one a step, and what it reads is brought to
 * it once for all columns of the window that read the pixel. No weight is a zero that stands for
 * another group: no multiply-add is wasted, and an infinity stays in its group.
 */
#pragma once

#include "dovetail_neon/convolution/direct.h"
#include "dovetail_neon/geometry/edges.h"

namespace dovetail_acc::ACC_ISA {

/* Results of one block of filters in one image. */
struct GroupedBand {
    Band band;
    const int64_t *sources;     /* per step: where what it reads lies */
    const int32_t *lanes;       /* per step and vector: which lanes it fills, and from where */
    int64_t most;               /* vectors of a step */
    TapRange rows;              /* of the window, that lie inside the image; */
    const float *line;          /* the first of them, at the first column of the image */
};

/* What the lanes of a step read of a pixel, by where it lies (ACC_LANES_OF_...). */
template <int spread> struct Spread;

/* All lanes the same element. */
template <> struct Spread<ACC_LANES_OF_ONE_GROUP> {
    static constexpr int SOURCES = 1;
    int64_t offset[SOURCES];

    INLINE_MEMBER Spread(const GroupedBand &grouped, int64_t step) : offset{grouped.sources[step * grouped.most]} {}
    INLINE_MEMBER Vector taken(const float *const (&at)[SOURCES]) const { return broadcast(*at[0]); }
};

/* The first lanes one element, the others another. */
template <> struct Spread<ACC_LANES_OF_TWO_GROUPS> {
    static constexpr int SOURCES = 2;
    int64_t offset[SOURCES];
    Integers second;

    INLINE_MEMBER Spread(const GroupedBand &grouped, int64_t step)
        : offset{grouped.sources[step * grouped.most], grouped.sources[step * grouped.most + 1]} {
        __builtin_memcpy(&second, grouped.lanes + (step * grouped.most + 1) * LANES, sizeof(second));
    }
    INLINE_MEMBER Vector taken(const float *const (&at)[SOURCES]) const {
        return select(second >= 0, broadcast(*at[1]), broadcast(*at[0]));
    }
};

/* Any lanes of several vectors. */
template <int vectors> struct SpreadOfVectors {
    static constexpr int SOURCES = vectors;
    int64_t offset[SOURCES];
    Integers from[SOURCES];

    INLINE_MEMBER SpreadOfVectors(const GroupedBand &grouped, int64_t step) {
#pragma GCC unroll 3
        for (int v = 0; v < SOURCES; v++) {
            offset[v] = grouped.sources[step * grouped.most + v];
            __builtin_memcpy(&from[v], grouped.lanes + (step * grouped.most + v) * LANES, sizeof(Integers));
        }
    }
    INLINE_MEMBER Vector taken(const float *const (&at)[SOURCES]) const {
        Vector x = permute(load(at[0]), from[0]);
#pragma GCC unroll 3
        for (int v = 1; v < SOURCES; v++) x = merge(x, load(at[v]), from[v]);
        return x;
    }
};
template <> struct Spread<ACC_LANES_OF_ONE_VECTOR> : SpreadOfVectors<1> {
    using SpreadOfVectors<1>::SpreadOfVectors;
};
template <> struct Spread<ACC_LANES_OF_TWO_VECTORS> : SpreadOfVectors<2> {
    using SpreadOfVectors<2>::SpreadOfVectors;
};
template <> struct Spread<ACC_LANES_OF_THREE_VECTORS> : SpreadOfVectors<3> {
    using SpreadOfVectors<3>::SpreadOfVectors;
};

/* Pixels of a line of the image, as a step reads them. */
template <int spread, bool edge> struct Line {
    static constexpr int SOURCES = Spread<spread>::SOURCES;
    const Spread<spread> &lanes;
    const float *begin[SOURCES];
    const float *outside;       /* what stands for a pixel outside the image */

    INLINE_MEMBER Line(const Spread<spread> &lanes, const float *first, const float *outside) : lanes(lanes), outside(outside) {
#pragma GCC unroll 3
        for (int v = 0; v < SOURCES; v++) begin[v] = first + lanes.offset[v];
        advance(0);
    }
    INLINE_MEMBER void advance(int64_t elements) {
#pragma GCC unroll 3
        for (int v = 0; v < SOURCES; v++) {
            begin[v] += elements;
            /* One address for all pixels: GCC would carry one along for each, in memory. */
            asm("" : "+r"(begin[v]));
        }
    }
    /* The pixel so many elements from the first. */
    INLINE_MEMBER Vector read(int64_t distance, bool inside) const {
        const float *at[SOURCES];
#pragma GCC unroll 3
        for (int v = 0; v < SOURCES; v++) at[v] = !edge || inside ? begin[v] + distance : outside;
        return lanes.taken(at);
    }
};

/* Results to which a tap is added before the next tap is: so many additions need not wait for each
 * other, and what they read stays in registers. */
constexpr int BESIDE = REGISTERS < 32 ? 4 : 7;

/* Results side by side in row y from column x on. Where `kernel` is 0, the width of the window, the
 * stride and the dilation are only known at run time. */
template <int spread, int kernel, int stride, int pixels, bool edge>
static void grouped_tile(const GroupedBand &grouped, int64_t y, int64_t x) {
    const acc_convolution &c = *grouped.band.self;
    const acc_window &w = c.window;
    const int64_t kernel_width = kernel ? kernel : w.kernel_width, step_x = stride ? stride : w.stride_x, dilation = kernel ? 1 : w.dilation_x;
    const int64_t line_step = w.dilation_y * w.in_width * LANES, weights_step = w.kernel_height * kernel_width * LANES;
    const int64_t left = x * step_x - w.padding_left, width = w.in_width;
    const TapRange rows = grouped.rows;
    const TapRange columns = edge && !kernel ? taps_inside(left, left + (pixels - 1) * step_x, dilation, width, kernel_width)
                                             : TapRange{0, kernel_width};
    const float *of_step = grouped.band.weights + rows.first * kernel_width * LANES;
    Vector sum[pixels][1];
    begin_tile<1, pixels>(grouped.band, sum);
    for (int64_t step = 0; step < c.channels; step++, of_step += weights_step) {
        const Spread<spread> lanes(grouped, step);
        const float *first = grouped.line + left * LANES, *weights = of_step;
        for (int64_t ky = rows.first; ky < rows.last; ky++, first += line_step, weights += kernel_width * LANES) {
            if constexpr (kernel != 0) {
                const Line<spread, edge> line(lanes, first, c.zeros);
                Vector read[(pixels - 1) * stride + kernel];
#pragma GCC unroll 16
                for (int begin = 0; begin < pixels; begin += BESIDE) {
                    const int end = lesser(begin + BESIDE, pixels);
#pragma GCC unroll 32
                    for (int i = begin ? (begin - 1) * stride + kernel : 0; i < (end - 1) * stride + kernel; i++)
                        read[i] = line.read(i * LANES, (uint64_t)(left + i) < (uint64_t)width);
#pragma GCC unroll 4
                    for (int kx = 0; kx < kernel; kx++) {
                        const Vector tap = load(weights + kx * LANES);
#pragma GCC unroll 16
                        for (int p = begin; p < end; p++) sum[p][0] = fma(read[p * stride + kx], tap, sum[p][0]);
                    }
                }
            } else {
                for (int64_t kx = columns.first; kx < columns.last; kx++) {
                    Line<spread, edge> line(lanes, first + kx * dilation * LANES, c.zeros);
                    const Vector tap = load(weights + kx * LANES);
                    int64_t column = left + kx * dilation;
#pragma GCC unroll 16
                    for (int p = 0; p < pixels; p++, column += step_x, line.advance(step_x * LANES))
                        sum[p][0] = fma(line.read(0, (uint64_t)column < (uint64_t)width), tap, sum[p][0]);
                }
            }
        }
    }
    finish_tile<1, pixels>(grouped.band, y * w.out_width + x, sum);
}

/* Tiles of so many results there are; a row is cut into tiles of one size, of which the last may
 * compute some results again. */
constexpr int most_pixels(int spread) { return REGISTERS < 32 || spread > ACC_LANES_OF_ONE_VECTOR ? 8 : 14; }
constexpr int fewer_pixels(int pixels) { return pixels > 8 ? pixels - 2 : pixels == 8 ? 7 : pixels == 7 ? 4 : pixels / 2; }

/* A tile costs as much as so many results, besides those that it holds: columns that it reads for
 * the window's width, and latencies that are not hidden. */
constexpr int64_t OF_A_TILE = 2;

INLINE int grouped_pixels(int64_t results, int most) {
    int best = 1;
    int64_t least = INT64_MAX;
    for (int pixels = most; pixels; pixels = fewer_pixels(pixels)) {
        const int64_t cost = (results + pixels - 1) / pixels * (pixels + OF_A_TILE);
        if (pixels <= results && cost < least) least = cost, best = pixels;
    }
    return best;
}

struct GroupedTiles {
    int pixels;
    void (*inside)(const GroupedBand &grouped, int64_t y, int64_t x);
    void (*edge)(const GroupedBand &grouped, int64_t y, int64_t x);
};

template <int spread, int kernel, int stride, int pixels> struct TilesOf {
    static GroupedTiles find(int wanted) {
        if (wanted != pixels) return TilesOf<spread, kernel, stride, fewer_pixels(pixels)>::find(wanted);
        return GroupedTiles{pixels, grouped_tile<spread, kernel, stride, pixels, false>, grouped_tile<spread, kernel, stride, pixels, true>};
    }
};
template <int spread, int kernel, int stride> struct TilesOf<spread, kernel, stride, 0> {
    static GroupedTiles find(int) { return GroupedTiles{}; }
};

/* The tiles that a row of so many results is cut into. */
template <int spread, int kernel, int stride> static GroupedTiles tiles_of(int64_t results) {
    constexpr int most = most_pixels(spread);
    return TilesOf<spread, kernel, stride, most>::find(grouped_pixels(results, most));
}
template <int spread> static GroupedTiles tiles_of(const acc_window &w, int64_t results) {
    if (w.dilation_x == 1 && w.kernel_width == 3 && w.stride_x == 1) return tiles_of<spread, 3, 1>(results);
    if (w.dilation_x == 1 && w.kernel_width == 3 && w.stride_x == 2) return tiles_of<spread, 3, 2>(results);
    return tiles_of<spread, 0, 0>(results);
}
static GroupedTiles tiles_of(const acc_window &w, int spread, int64_t results) {
    switch (spread) {
    case ACC_LANES_OF_ONE_GROUP: return tiles_of<ACC_LANES_OF_ONE_GROUP>(w, results);
    case ACC_LANES_OF_TWO_GROUPS: return tiles_of<ACC_LANES_OF_TWO_GROUPS>(w, results);
    case ACC_LANES_OF_ONE_VECTOR: return tiles_of<ACC_LANES_OF_ONE_VECTOR>(w, results);
    case ACC_LANES_OF_TWO_VECTORS: return tiles_of<ACC_LANES_OF_TWO_VECTORS, 0, 0>(results);
    default: return tiles_of<ACC_LANES_OF_THREE_VECTORS, 0, 0>(results);
    }
}

/* Results [begin, end) of the pixels of an image, cut at the ends of rows. */
static void convolve_grouped_pixels(GroupedBand &grouped, int spread, int64_t begin, int64_t end) {
    const acc_convolution &c = *grouped.band.self;
    const acc_window &w = c.window;
    const int64_t reach = (w.kernel_width - 1) * w.dilation_x;
    int64_t results = 0;
    GroupedTiles tiles{};
    for (int64_t y = begin / w.out_width; y * w.out_width < end; y++) {
        const int64_t first = greater<int64_t>(begin - y * w.out_width, 0), last = lesser(end - y * w.out_width, w.out_width);
        if (last - first != results) {
            results = last - first;
            tiles = tiles_of(w, spread, results);
        }
        const int64_t top = y * w.stride_y - w.padding_top;
        grouped.rows = taps_inside(top, top, w.dilation_y, w.in_height, w.kernel_height);
        grouped.line = grouped.band.in + (top + grouped.rows.first * w.dilation_y) * w.in_width * LANES;
        for (int64_t x = first; x < last; x += tiles.pixels) {
            if (c.polls && acc_stopped(grouped.band.job)) return;
            const int64_t at = lesser(x, last - tiles.pixels), left = at * w.stride_x - w.padding_left;
            const bool inside = left >= 0 && left + (tiles.pixels - 1) * w.stride_x + reach < w.in_width;
            (inside ? tiles.inside : tiles.edge)(grouped, y, at);
        }
    }
}

static void convolve_grouped(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_grouped &g = *(const acc_grouped *)job->parameters;
    const acc_convolution &c = g.convolution;
    /* Rows are shared out, or of one row its pixels. */
    const int64_t unit = c.window.out_height == 1 ? 1 : c.window.out_width, units = c.window.out_height * c.window.out_width / unit;
    const int64_t steps = c.channels, taps = acc_window_taps(&c.window);
    const bool points = taps == 1 && c.window.out_height == 1 && !c.reaches_out && c.window.stride_x == 1;
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / (c.chunks * c.panels), chunk = item / c.panels % c.chunks, panel = item % c.panels;
        const int64_t block = c.panel_vector[panel], first = units * chunk / c.chunks * unit, last = units * (chunk + 1) / c.chunks * unit;
        const int64_t offset = image * c.out.image_step + block * c.out.block_step;
        GroupedBand grouped;
        Band &band = grouped.band;
        band.self = &c;
        band.job = job;
        band.in = (const float *)job->inputs[0] + image * c.in.image_step;
        band.weights = band.next = c.weights + block * steps * taps * LANES;
        band.bias = c.bias + block * LANES;
        band.adds = c.adds ? (const float *)job->inputs[1] + offset : nullptr;
        band.out = (float *)job->outputs[0] + offset;
        band.out_vector_step = c.out.block_step;
        band.last_lanes = LANES;
        grouped.most = g.most;
        grouped.sources = g.sources + block * steps * g.most;
        grouped.lanes = g.lanes + block * steps * g.most * LANES;
        if (points && g.spread[block] == ACC_LANES_OF_ONE_GROUP) { /* nothing is read twice: as in one group */
            band.lane = grouped.sources[0] % c.in.block_step;
            band.in += grouped.sources[0] - band.lane;
            band.points = band.side_by_side = true;
            convolve_pixels(band, c.panel_vector[panel + 1] - (int)block, first, last);
        } else {
            convolve_grouped_pixels(grouped, g.spread[block], first, last);
        }
    }
}

static const acc_grouped_kernels grouped_kernels = {convolve_grouped};

} // namespace dovetail_acc::ACC_ISA
