/* Convolution of images of int16 by weights of 8 bits, or 9: sums are exact.
 *
 * Where products of bytes are to be had, an int16 is two bytes, the upper and the lower half, and
 * each pixel two pixels, whose sums are put together in the end. Else words are multiplied as they
 * are, and sums of 32 bits added up in double after every 256 products. */
#pragma once

#include "dovetail_neon/quantized/convolution.h"
#include "dovetail_neon/quantized/depthwise.h"

namespace dovetail_acc::ACC_ISA {

constexpr int HALF = LANES / 2;

INLINE HalfDoubles doubles_of(const int32_t *at) { return to_doubles(load_as<HalfIntegers>(at)); }

/* HALF sums of the same filters become results, in double; halves go up or away from zero. */
template <bool away> struct ShortRounding {
    HalfDoubles bias, factor, nudge;

    INLINE_MEMBER ShortRounding(const acc_short_results &r, int64_t first)
        : bias(load_as<HalfDoubles>(r.bias + first)), factor(load_as<HalfDoubles>(r.factors + first)), nudge(load_as<HalfDoubles>(r.nudges + first)) {}

    INLINE_MEMBER HalfIntegers operator()(HalfDoubles x) const {
        x += bias;
        return away ? away_from_zero(x * factor) : to_integers(fma(x, factor, nudge));
    }

  private:
    INLINE_MEMBER static HalfIntegers away_from_zero(HalfDoubles x) {
        const HalfDoubles whole = round_even(x), off = x - whole, none = {}, half = none + 0.5;
        return to_integers((off == half) | (off == -half) ? (x < none ? x - half : x + half) : whole);
    }
};

/* From the zero point on, within the bounds. */
INLINE Integers clamped(Integers x, const acc_short_results &r) {
    const Integers low = Integers{} + r.low, high = Integers{} + r.high;
    x += r.zero;
    x = x > low ? x : low;
    return x < high ? x : high;
}

/* x / 2^exponent, rounded to nearest, halves away from zero; of 2^31 * 2^exponent at most. */
INLINE int32_t divided(int32_t x, int exponent) {
    const int64_t mask = ((int64_t)1 << exponent) - 1;
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0));
}

/* One sum, in whatever way: see `acc_short_results`. What TensorFlow Lite leaves undefined
 * saturates; sums wrap. */
static int16_t exactly_rounded(const acc_short_results &r, int64_t filter, double sum) {
    const int64_t wide = (int64_t)((uint64_t)(int64_t)sum + (uint64_t)r.sums[filter]);
    const int32_t multiplier = r.multipliers[filter], shift = r.shifts[filter];
    double result;
    if (r.way == ACC_WIDE_REAL || r.way == ACC_NARROW_REAL)
        result = __builtin_round((r.way == ACC_NARROW_REAL ? (double)(int32_t)wide : (double)wide) * r.factors[filter]);
    else if (r.way == ACC_NARROW) {
        const int64_t up = (int64_t)(int32_t)wide * ((int64_t)1 << greater(shift, 0));
        const int64_t product = greater<int64_t>(lesser<int64_t>(up, INT32_MAX), INT32_MIN) * multiplier;
        const int32_t high = (int32_t)((product + (product >= 0 ? 1 << 30 : 1 - (1 << 30))) / ((int64_t)1 << 31));
        result = divided(high, greater(-shift, 0));
    } else {
        const int64_t short_multiplier = multiplier < 0x7FFF0000 ? (multiplier + (1 << 15)) >> 16 : 0x7FFF;
        const int right = 15 - shift;
        if (right < 1)
            result = lesser(greater(__builtin_ldexp((double)wide * (double)short_multiplier, -right), -2147483648.0), 2147483647.0);
        else {
            const uint64_t product = (uint64_t)wide * (uint64_t)short_multiplier + ((uint64_t)1 << (right - 1));
            result = (double)((int64_t)product >> right);
        }
    }
    return (int16_t)lesser(greater(result + r.zero, (double)r.low), (double)r.high);
}

struct ShortBand : PanelBand {
    int64_t filter;             /* the first of the panel, in tables */
    int16_t *out;
    int64_t out_column;         /* elements */

    ShortBand(const acc_job *job, const acc_short_convolution &s, const PanelPart &part, const char *frame)
        : PanelBand(job, s.convolution, part, frame), filter(part.block * BLOCK), out((int16_t *)job->outputs[0] + part.first_out),
          out_column(s.convolution.out_step) {}

    /* Whose first member `self` is. */
    INLINE_MEMBER const acc_short_convolution &layer() const { return *(const acc_short_convolution *)self; }
};

/* The sums of a tile: [planes][columns][width]; `wide` is what has been added up before. */
template <int planes, int columns, int width> struct ShortSums {
    static constexpr int ALL = columns * width;
    int32_t now[planes * ALL];
    double wide[ALL];
    bool added = false;

    INLINE_MEMBER HalfDoubles at(int i) const {
        HalfDoubles x = doubles_of(now + i);
        if (planes == 2) x = fma(doubles_of(now + (planes - 1) * ALL + i), HalfDoubles{} + 256.0, x);
        return added ? x + load_as<HalfDoubles>(wide + i) : x;
    }
    /* Not inlined, so that sums stay in registers. */
    __attribute__((noinline)) void add() {
        for (int i = 0; i < ALL; i += HALF) {
            const HalfDoubles x = at(i);
            __builtin_memcpy(wide + i, &x, sizeof(x));
        }
        added = true;
    }
};

/* Whole vectors are written where they belong: what was stored in parts and is loaded as a whole is
 * waited for. */
template <bool away, int planes, int columns, int width>
static void finish_in_doubles(const ShortBand &band, int16_t *out, const ShortSums<planes, columns, width> &sums) {
    typedef int16_t Shorts __attribute__((vector_size(2 * LANES)));
    const acc_short_results &r = band.layer().result;
    for (int i = 0; i < width; i += LANES) {
        const int lanes = i < width - BLOCK ? LANES : lesser(LANES, band.last_lanes - i % BLOCK);
        if (lanes <= 0) break;
        const ShortRounding<away> low(r, band.filter + i), high(r, band.filter + i + HALF);
        for (int p = 0; p < columns; p++) {
            const Integers x = joined(low(sums.at(p * width + i)), high(sums.at(p * width + i + HALF)));
            const Shorts results = __builtin_convertvector(clamped(x, r), Shorts);
            if (lanes == LANES)
                __builtin_memcpy(out + p * band.out_column + i, &results, sizeof(results));
            else
                __builtin_memcpy(out + p * band.out_column + i, &results, (size_t)lanes * sizeof(*out));
        }
    }
}

template <int planes, int columns, int width>
static void finish_shorts(const ShortBand &band, int16_t *out, const ShortSums<planes, columns, width> &sums) {
    const acc_short_results &r = band.layer().result;
    if (r.way == ACC_TIES_UP) return finish_in_doubles<false>(band, out, sums);
    if (r.way == ACC_TIES_AWAY) return finish_in_doubles<true>(band, out, sums);
    for (int p = 0; p < columns; p++)
        for (int i = 0; i < width - BLOCK + band.last_lanes; i += HALF) {
            double each[HALF];
            const HalfDoubles x = sums.at(p * width + i);
            __builtin_memcpy(each, &x, sizeof(x));
            for (int k = 0; k < lesser(HALF, width - BLOCK + band.last_lanes - i); k++)
                out[p * band.out_column + i + k] = exactly_rounded(r, band.filter + i + k, each[k]);
        }
}

/* Windows side by side from `in` on. */
template <typename Unit, int blocks, int columns> void short_tile(const ShortBand &band, const char *in, int16_t *out) {
    constexpr int planes = Unit::DEPTH == 4 ? 2 : 1, vectors = blocks * BLOCK_VECTORS, pixels = planes * columns;
    const acc_quantized_convolution &c = *band.self;
    ShortSums<planes, columns, vectors * LANES> sums;
    Integers sum[pixels][vectors] = {};
    const char *weights = band.weights;
    NextPanel next = band.next;
    int64_t room = band.layer().most;
    for (int64_t row = 0; row < c.window.kernel_height; row++, in += band.window_row)
        for (int64_t run = 0; run < c.runs; run++) {
            TilePixels<planes, columns> at(in + run * band.run_step, band.layer().plane, band.in_column);
            for (int64_t left = c.units; left > 0;) {
                if (room == 0) {
                    __builtin_memcpy(sums.now, sum, sizeof(sum));
                    sums.add();
                    __builtin_memset(sum, 0, sizeof(sum));
                    room = band.layer().most;
                }
                const int64_t count = lesser(left, room);
                add_words<Unit, vectors, pixels>(sum, at, weights, count, next);
                at.pass(count * UNIT_BYTES);
                left -= count, room -= count;
            }
        }
    band.next = next;
    __builtin_memcpy(sums.now, sum, sizeof(sum));
    finish_shorts(band, out, sums);
}

template <typename Unit, int blocks, int columns> struct ShortTiles {
    static void run(const ShortBand &band, const char *in, int16_t *out, int count) {
        if (count == columns)
            short_tile<Unit, blocks, columns>(band, in, out);
        else
            ShortTiles<Unit, blocks, columns - 1>::run(band, in, out, count);
    }
};
template <typename Unit, int blocks> struct ShortTiles<Unit, blocks, 0> {
    static void run(const ShortBand &, const char *, int16_t *, int) {}
};

/* Pixels of a tile of so many blocks. */
template <typename Unit> constexpr int short_pixels(int blocks) { return tile_pixels(blocks) / (Unit::DEPTH == 4 ? 2 : 1); }

template <typename Unit, int blocks> void short_band(const ShortBand &band) {
    constexpr int most = short_pixels<Unit>(blocks);
    const int64_t tiles = (band.columns + most - 1) / most;
    for (int64_t row = 0; row < band.rows; row++) {
        const char *in = band.in + row * band.in_row;
        int16_t *out = band.out + row * band.out_row;
        for (int64_t left = band.columns, tile = 0; tile < tiles; tile++) {
            if (band.self->polls && acc_stopped(band.job)) return;
            const int count = (int)((left + tiles - tile - 1) / (tiles - tile));
            ShortTiles<Unit, blocks, most>::run(band, in, out, count);
            in += count * band.in_column, out += count * band.out_column, left -= count;
        }
    }
}

template <typename Unit> void convolve_shorts(int64_t begin, int64_t end, int32_t worker, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_short_convolution &self = *(const acc_short_convolution *)job->parameters;
    const acc_quantized_convolution &c = self.convolution;
    char *frame = job->worker_workspace + worker * job->worker_stride;
    int64_t framed = -1;
    for (int64_t number = begin; number < end; number++) {
        const PanelPart part(c, number);
        const int16_t *image = (const int16_t *)job->inputs[0] + part.first_in;
        if (Unit::DEPTH == 4 && part.framed != framed)
            copy_framed(c.window, image, c.in_step, c.channels, c.outside, part.reach, HalvedFrame{(Byte *)frame, self.plane});
        else if (part.framed != framed)
            copy_framed(c.window, image, c.in_step, c.channels, c.outside, part.reach, (int16_t *)frame);
        framed = part.framed;
        const ShortBand band(job, self, part, frame);
        switch (part.blocks) {
        case 1: short_band<Unit, 1>(band); break;
#if ACC_IS == 1
        case 2: short_band<Unit, 2>(band); break;
        case 3: short_band<Unit, 3>(band); break;
        case 4: short_band<Unit, 4>(band); break;
#endif
        }
        if (c.polls && __atomic_load_n(job->stopped, __ATOMIC_RELAXED)) return;
    }
}

/* How `make_rectangles` reads and finishes groups of int16. */
struct ShortGroups : Halves {
    typedef int16_t Element;
    typedef acc_short_depthwise Layer;
    struct Results {
        int16_t elements[GROUP];
    };
    static INLINE_MEMBER const acc_quantized_depthwise &shape(const Layer &layer) { return layer.depthwise; }
    static INLINE_MEMBER void store_first(int16_t *at, const Results &x, int64_t count) {
        __builtin_memcpy(at, &x, (size_t)count * sizeof(*at));
    }
    static INLINE_MEMBER void stack(const int16_t *const (&rows)[DEPTH], Integers (&x)[GROUP_VECTORS]) { stack_shorts(rows, x); }

    /* From the sums of a group to its results; `first`: where its filters begin in tables. */
    struct Finish {
        const acc_short_results &r;
        explicit Finish(const Layer &layer) : r(layer.result) {}
        INLINE_MEMBER Integers start(int64_t) const { return Integers{}; }
        INLINE_MEMBER Results operator()(int64_t first, const Integers (&sum)[GROUP_VECTORS]) const {
            int32_t sums[GROUP];
            __builtin_memcpy(sums, sum, sizeof(sums));
            Integers x[GROUP_VECTORS];
            if (r.way <= ACC_TIES_AWAY)
#pragma GCC unroll 4
                for (int v = 0; v < GROUP_VECTORS; v++)
                    x[v] = r.way == ACC_TIES_UP ? rounded<false>(first, sums, v) : rounded<true>(first, sums, v);
            else {
                for (int i = 0; i < GROUP; i++) sums[i] = exactly_rounded(r, first + i, sums[i]);
                __builtin_memcpy(x, sums, sizeof(x));
            }
            Results results;
            unstack_shorts(x, results.elements);
            return results;
        }

      private:
        template <bool away> INLINE_MEMBER Integers rounded(int64_t first, const int32_t *sums, int v) const {
            const ShortRounding<away> low(r, first + v * LANES), high(r, first + v * LANES + HALF);
            return clamped(joined(low(doubles_of(sums + v * LANES)), high(doubles_of(sums + v * LANES + HALF))), r);
        }
    };
};

static void depthwise_shorts(int64_t begin, int64_t end, int32_t worker, void *arg) {
    make_rectangles<ShortGroups>(begin, end, worker, (const acc_job *)arg);
}

} // namespace dovetail_acc::ACC_ISA
