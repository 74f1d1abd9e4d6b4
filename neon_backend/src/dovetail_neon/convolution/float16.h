/* Convolution whose factors are float16: images stay as they are, of float32, and a tile rounds
 * what it reads.
 *
 * The steps of a window are its taps and, of each tap, the channels in fours. A tile rounds RUN of
 * them for all its pixels, multiplies them by weights that were rounded when they were packed, with
 * sums of float16 in registers, and adds those to sums of float32, so that errors do not grow with
 * the depth. 4 vectors of 8 filters times 6 pixels, a vector of each pixel and one of weights are
 * 31 registers; a pixel's vector has to be one of the first 16, of which an instruction can take
 * one lane.
 *
 * Steps are never left out, not even those of a tap that no pixel has inside the image: else the
 * bits of a pixel would depend on the tile that it is in.
 */
#pragma once

#include "dovetail_neon/strips/parameters.h"
#include "dovetail_neon/convolution/direct.h"
#include "dovetail_neon/strips/strips.h"

namespace dovetail_acc::ACC_ISA {

constexpr int RUN = 32;         /* steps whose sums are float16: a multiple of HALF_LANES */
constexpr int HALF_LANES = 8;
constexpr int MAX_HALVES = 4;

/* Pixels of a tile with so many vectors of float16. */
constexpr int half_pixels_of(int halves) { return halves == 1 ? 8 : halves == 2 ? 9 : halves == 3 ? 7 : 6; }

/* The channels of a tap, in fours: `segments` of a block each, or all blocks as one segment where a
 * block is four channels. */
struct Fours {
    int64_t segments, in_segment;   /* fours in a whole one */
    int64_t segment_step, step;     /* elements, from segment to segment and from four to four */
    int64_t of_tap;                 /* fours of all segments */
    int64_t last;                   /* fours in the last segment */
    int rest, last_rest;            /* channels in the last four of a whole segment, and of the last one */

    Fours(int64_t channels, int64_t block, int64_t block_step) {
        const bool joined = block == LANES;
        const int64_t length = joined ? channels : block;
        segments = joined ? 1 : (channels + block - 1) / block;
        const int64_t remaining = channels - (segments - 1) * length;
        in_segment = (length + LANES - 1) / LANES, last = (remaining + LANES - 1) / LANES;
        segment_step = block_step, step = joined ? block_step : LANES;
        of_tap = (segments - 1) * in_segment + last;
        rest = (int)(length - (in_segment - 1) * LANES), last_rest = (int)(remaining - (last - 1) * LANES);
    }
};

/* Steps of a window, rounded up to what is multiplied at once. */
INLINE int64_t steps_of(int64_t taps, const Fours &fours) {
    return (taps * fours.of_tap * LANES + HALF_LANES - 1) / HALF_LANES * HALF_LANES;
}

/* Round `count` fours of each pixel to x[pixel][at] and on. */
template <int pixels>
INLINE void round_fours(float16_t (&x)[pixels][RUN], int64_t at, const float *const (&in)[pixels],
                        const int64_t (&step)[pixels], int64_t count) {
    for (int p = 0; p < pixels; p++) {
        const float *from = in[p];
        float16_t *to = &x[p][at];
        const auto two = [&] {
            const float16x4_t low = vcvt_f16_f32(vld1q_f32(from));
            vst1q_f16(to, vcvt_high_f16_f32(low, vld1q_f32(from + step[p])));
            from += 2 * step[p], to += 2 * LANES;
        };
        if (count == RUN / LANES) {
#pragma GCC unroll 4
            for (int i = 0; i < RUN / LANES / 2; i++) two();
            continue;
        }
        int64_t i = 0;
        for (; i + 2 <= count; i += 2) two();
        if (i < count) vst1_f16(to, vcvt_f16_f32(vld1q_f32(from)));
    }
}

/* The same of one four that holds `rest` channels: what lies beyond them is not read. */
template <int pixels, int rest>
INLINE void round_rest(float16_t (&x)[pixels][RUN], int64_t at, const float *const (&in)[pixels]) {
    for (int p = 0; p < pixels; p++) vst1_f16(&x[p][at], vcvt_f16_f32((float32x4_t)load_part(in[p], rest)));
}

/* sum += w * lane of x. As an instruction: of the intrinsic GCC 12 makes one that broadcasts the
 * lane and one that multiplies, and then has too few registers. */
INLINE void multiply_lane(float16x8_t &sum, float16x8_t w, float16x8_t x, int lane) {
    asm("fmla %0.8h, %1.8h, %2.h[%3]" : "+w"(sum) : "w"(w), "x"(x), "i"(lane));
}

/* sum[pixel][vector] += the products of 8 to RUN steps, eight at a time. */
template <int halves, int pixels>
__attribute__((noinline)) void multiply_run(float (&sum)[pixels][2 * halves][LANES], const float16_t (&x)[pixels][RUN],
                                            const float16_t *weights, int64_t steps) {
    float16x8_t part[pixels][halves];
#pragma GCC unroll 16
    for (int p = 0; p < pixels; p++)
#pragma GCC unroll 4
        for (int h = 0; h < halves; h++) part[p][h] = vdupq_n_f16(0);
    const float16_t *rounded = x[0];
    do {
        asm("" : "+r"(rounded)); /* or what the next turn reads is read in this one, for which there is no register */
        float16x8_t of_pixel[pixels];
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++) of_pixel[p] = vld1q_f16(rounded + p * RUN);
#pragma GCC unroll 8
        for (int lane = 0; lane < HALF_LANES; lane++, weights += halves * HALF_LANES) {
#pragma GCC unroll 4
            for (int h = 0; h < halves; h++) {
                const float16x8_t w = vld1q_f16(weights + h * HALF_LANES);
#pragma GCC unroll 16
                for (int p = 0; p < pixels; p++) multiply_lane(part[p][h], w, of_pixel[p], lane);
            }
        }
    } while (steps > (rounded += HALF_LANES) - x[0]);
#pragma GCC unroll 16
    for (int p = 0; p < pixels; p++)
#pragma GCC unroll 4
        for (int h = 0; h < halves; h++) {
            float *low = sum[p][2 * h], *high = sum[p][2 * h + 1];
            vst1q_f32(low, vaddq_f32(vld1q_f32(low), vcvt_f32_f16(vget_low_f16(part[p][h]))));
            vst1q_f32(high, vaddq_f32(vld1q_f32(high), vcvt_high_f32_f16(part[p][h])));
        }
}

/* Add what is added, apply the function, store: `vectors` of each pixel, whose sums lie `step`
 * vectors apart. */
static __attribute__((noinline)) void finish_sums(const Band &band, int64_t first, float (*sums)[LANES], int pixels,
                                                  int vectors, int step) {
    const acc_convolution &c = *band.self;
    const bool whole = band.last_lanes == LANES, simple = whole && c.activation.function <= ACC_CLAMP;
    const bool limited = c.activation.function == ACC_CLAMP;
    const Vector low = broadcast(c.activation.a), high = broadcast(c.activation.b);
    Vector results[48];     /* of 6 pixels and 8 vectors: no tile has more */
    for (int p = 0; p < pixels; p++) {
        const int64_t at = (first + p) * c.out.pixel_step;
        for (int v = 0; v < vectors; v++) {
            Vector sum = load(sums[p * step + v]);
            if (band.adds) {
                const float *added = band.adds + at + v * band.out_vector_step;
                sum += v == vectors - 1 && !whole ? load_part(added, band.last_lanes) : load(added);
            }
            if (simple)
                store(band.out + at + v * band.out_vector_step, limited ? minimum(high, maximum(low, sum)) : sum);
            else
                results[p * vectors + v] = sum;
        }
    }
    if (!simple) finish_results(band, first, results, pixels, vectors);
}

/* The run of steps that a tile is at. */
template <int halves, int pixels> struct HalfRun {
    float sum[pixels][2 * halves][LANES];
    alignas(16) float16_t x[pixels][RUN];
    int64_t filled;
    const float16_t *weights;

    INLINE_MEMBER void multiply() {
        multiply_run<halves, pixels>(sum, x, weights, filled);
        weights += filled * halves * HALF_LANES;
        filled = 0;
    }
    INLINE_MEMBER void take(const float *(&in)[pixels], const int64_t (&step)[pixels], int64_t count, int rest) {
        int64_t whole = rest == LANES ? count : count - 1;
        while (whole > 0) {
            const int64_t now = lesser(whole, (RUN - filled) / LANES);
            round_fours(x, filled, in, step, now);
            for (int p = 0; p < pixels; p++) in[p] += now * step[p];
            whole -= now;
            if ((filled += now * LANES) == RUN) multiply();
        }
        switch (rest) {
        case 1: round_rest<pixels, 1>(x, filled, in); break;
        case 2: round_rest<pixels, 2>(x, filled, in); break;
        case 3: round_rest<pixels, 3>(x, filled, in); break;
        default: return;
        }
        if ((filled += LANES) == RUN) multiply();
    }
    /* What is left, rounded up to eight steps with zeros. */
    INLINE_MEMBER void finish() {
        if (filled % HALF_LANES) {
            for (int p = 0; p < pixels; p++) vst1_f16(&x[p][filled], vdup_n_f16(0));
            filled += LANES;
        }
        if (filled) multiply();
    }
};

template <int halves, int pixels> void convolve_half_tile(const Band &band, const Fours &fours, int vectors, int64_t first) {
    const acc_convolution &c = *band.self;
    HalfRun<halves, pixels> run;
    run.filled = 0, run.weights = (const float16_t *)band.weights;
    for (int v = 0; v < 2 * halves; v++) {
        const Vector bias = v < vectors ? load(band.bias + v * LANES) : zeros();
        for (int p = 0; p < pixels; p++) store(run.sum[p][v], bias);
    }
    /* Where the window of each pixel begins, and whether all of it lies inside the image. */
    const float *start[pixels];
    int64_t top[pixels], left[pixels];
    int64_t y = first / c.window.out_width, x = first % c.window.out_width;
    bool inside = true;
    const int64_t reach_y = (c.window.kernel_height - 1) * c.window.dilation_y, reach_x = (c.window.kernel_width - 1) * c.window.dilation_x;
    for (int p = 0; p < pixels; p++) {
        top[p] = y * c.window.stride_y - c.window.padding_top, left[p] = x * c.window.stride_x - c.window.padding_left;
        start[p] = band.in + (top[p] * c.window.in_width + left[p]) * c.in.pixel_step;
        inside = inside && top[p] >= 0 && left[p] >= 0 && top[p] + reach_y < c.window.in_height && left[p] + reach_x < c.window.in_width;
        if (++x == c.window.out_width) x = 0, y++;
    }
    inside = inside || !c.reaches_out;
    for (int64_t ky = 0; ky < c.window.kernel_height; ky++)
        for (int64_t kx = 0; kx < c.window.kernel_width; kx++) {
            const int64_t tap = (ky * c.window.dilation_y * c.window.in_width + kx * c.window.dilation_x) * c.in.pixel_step;
            const float *base[pixels];
            int64_t step[pixels], segment_step[pixels];
            for (int p = 0; p < pixels; p++) {
                const bool here = inside || ((uint64_t)(top[p] + ky * c.window.dilation_y) < (uint64_t)c.window.in_height &&
                                             (uint64_t)(left[p] + kx * c.window.dilation_x) < (uint64_t)c.window.in_width);
                base[p] = here ? start[p] + tap : c.zeros;
                step[p] = here ? fours.step : 0, segment_step[p] = here ? fours.segment_step : 0;
            }
            for (int64_t segment = 0; segment < fours.segments; segment++) {
                const bool last = segment == fours.segments - 1;
                const float *in[pixels];
                for (int p = 0; p < pixels; p++) in[p] = base[p] + segment * segment_step[p];
                run.take(in, step, last ? fours.last : fours.in_segment, last ? fours.last_rest : fours.rest);
            }
        }
    run.finish();
    finish_sums(band, first, run.sum[0], pixels, vectors, 2 * halves);
}

template <int halves, int pixels> struct HalfTiles {
    static void run(const Band &band, const Fours &fours, int vectors, int64_t first, int count) {
        if (count == pixels)
            convolve_half_tile<halves, pixels>(band, fours, vectors, first);
        else
            HalfTiles<halves, pixels - 1>::run(band, fours, vectors, first, count);
    }
};
template <int halves> struct HalfTiles<halves, 0> {
    static void run(const Band &, const Fours &, int, int64_t, int) {}
};

/* Pixels [begin, end), in tiles of as equal a size as possible. */
template <int halves> void convolve_half_band(const Band &band, int vectors, int64_t begin, int64_t end) {
    constexpr int most = half_pixels_of(halves);
    const acc_convolution &c = *band.self;
    const Fours fours(c.channels, c.in.block, c.in.block_step);
    for (int64_t at = begin, tiles = (end - begin + most - 1) / most; tiles > 0; tiles--) {
        const int count = (int)((end - at + tiles - 1) / tiles);
        HalfTiles<halves, most>::run(band, fours, vectors, at, count);
        at += count;
    }
}

static void convolve_halves(Band &band, int vectors, int64_t begin, int64_t end) {
    switch ((vectors + 1) / 2) {
    case 1: convolve_half_band<1>(band, vectors, begin, end); break;
    case 2: convolve_half_band<2>(band, vectors, begin, end); break;
    case 3: convolve_half_band<3>(band, vectors, begin, end); break;
    case 4: convolve_half_band<4>(band, vectors, begin, end); break;
    }
}

static int64_t packed_halves(int64_t vectors, int64_t taps, int64_t channels, int64_t block) {
    return (vectors + 1) / 2 * LANES * steps_of(taps, Fours(channels, block, 0));
}

/* For each step, the filters of the panel: to the nearest float16, ties to even. */
static void pack_halves(const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first_filter,
                        int64_t filters, int64_t vectors, int64_t taps, int64_t channels, int64_t block, float *packed, acc_packing *packing) {
    const Fours fours(channels, block, 0);
    const int64_t length = block == LANES ? channels : block, width = (vectors + 1) / 2 * HALF_LANES;
    for (int64_t v = 0; v < vectors; v++) {
        const int64_t first = first_filter + v * LANES;
        const int rows = (int)lesser<int64_t>(LANES, filters - first);
        float16_t *const to = (float16_t *)packed + v * LANES;
        take_filters(weights + first * filter_step, filter_step, tap_step, channel_step, rows, taps, channels, packing,
                     [=](int64_t channel, int64_t tap, Vector x) {
                         const int64_t four = channel / length * fours.in_segment + channel % length / LANES;
                         const int64_t step = (tap * fours.of_tap + four) * LANES + channel % length % LANES;
                         vst1_f16(to + step * width, vcvt_f16_f32((float32x4_t)x));
                     });
    }
}

static const acc_convolution_kernels half_convolution_kernels = {
    convolve<convolve_halves>,
    2 * MAX_HALVES,
    2,
    {0, half_pixels_of(1), half_pixels_of(1), half_pixels_of(2), half_pixels_of(2), half_pixels_of(3), half_pixels_of(3),
     half_pixels_of(4), half_pixels_of(4)},
    packed_halves,
    pack_halves,
};
static const acc_strips_kernels half_strips_kernels = {run_strips<convolve_halves>};

} // namespace dovetail_acc::ACC_ISA
