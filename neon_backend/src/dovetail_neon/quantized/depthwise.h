/* Depthwise convolution of images of bytes, a group, which is a register of bytes, at a time; or of
 * as many elements of 16 bits. */
#pragma once

#include "dovetail_neon/quantized/frame.h"
#include "dovetail_neon/quantized/requantization.h"

namespace dovetail_acc::ACC_ISA {

/* Results of a row that are summed at once, where windows of so many rows share their stacks. */
constexpr int side_by_side(int rows) { return (REGISTERS == 32 ? 4 : 2) / rows; }

/* The rows of one stack of a window, from `at` on, which are `tap_step` elements apart. */
template <typename Groups>
INLINE void point_at_rows(const acc_quantized_depthwise &w, const typename Groups::Element *at, int64_t tap_step, int64_t stack,
                          const typename Groups::Element *(&row)[Groups::DEPTH]) {
    const int64_t rows = w.window.kernel_height + w.together - 1;
#pragma GCC unroll 4
    for (int i = 0; i < Groups::DEPTH; i++) {
        const int64_t tap = stack * Groups::DEPTH + i;
        row[i] = at + (tap < rows ? tap : 0) * tap_step;
    }
}

/* For every pixel of a row from `at` on, and every stack of rows of the window: a group of each of
 * the rows. */
template <typename Groups>
static void stack_rows(const acc_quantized_depthwise &w, const typename Groups::Element *at, int64_t tap_step, int64_t pixels, Integers *stacked) {
    for (int64_t stack = 0; stack < w.stacks; stack++) {
        const typename Groups::Element *row[Groups::DEPTH];
        point_at_rows<Groups>(w, at, tap_step, stack, row);
        Integers *to = stacked + stack * GROUP_VECTORS;
        for (int64_t pixel = 0; pixel < pixels; pixel++, to += w.stacks * GROUP_VECTORS) {
            Integers x[GROUP_VECTORS];
            Groups::stack(row, x);
#pragma GCC unroll 4
            for (int v = 0; v < GROUP_VECTORS; v++) to[v] = x[v];
#pragma GCC unroll 4
            for (int i = 0; i < Groups::DEPTH; i++) row[i] += w.step;
        }
    }
}

/* Where the groups of one phase are made in a row, or in two rows of the same stacks. */
template <typename Element> struct GroupRow {
    const acc_quantized_depthwise *self;
    const acc_job *job;
    const Integers *stacked;
    int64_t apart, tap_apart;   /* vectors, from the stack of one group to that of the next, and from tap to tap */
    const char *weights;
    int64_t row_weights;        /* bytes, from the weights of a row to those of the row below */
    int64_t from;               /* where the filters of the phase begin in tables */
    Element *out;
    int64_t out_apart, out_row; /* elements */
};

/* How `make_rectangles` reads and finishes groups of bytes. */
template <typename Unit, typename Rounds> struct ByteGroups : Unit {
    typedef Byte Element;
    typedef acc_quantized_depthwise Layer;
    typedef GroupBytes Results;
    static INLINE_MEMBER const acc_quantized_depthwise &shape(const Layer &layer) { return layer; }
    static INLINE_MEMBER void store_first(Byte *at, GroupBytes x, int64_t count) { ACC_ISA::store_first(at, x, count); }

    /* From the sums of a group to its results; `first`: where its filters begin in tables. */
    struct Finish {
        const Rounds rounding;
        const int32_t *const bias;
        const float *const factors;

        explicit Finish(const Layer &w)
            : rounding(w.result.zero, w.result.low, w.result.high), bias(w.result.bias), factors(w.result.factors) {}

        INLINE_MEMBER Integers start(int64_t first) const { return load_integers(bias + first); }
        INLINE_MEMBER GroupBytes operator()(int64_t first, const Integers (&sum)[GROUP_VECTORS]) const {
            Integers x[GROUP_VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < GROUP_VECTORS; v++) x[v] = rounding(to_floats(sum[v]), load(factors + first + v * LANES));
            return rounding.bytes(x);
        }
    };
};

/* Write what `count` groups side by side came to. */
template <typename Groups, int count, bool whole>
INLINE void finish_groups(const GroupRow<typename Groups::Element> &g, const typename Groups::Finish &finish, typename Groups::Element *out,
                          const Integers (&sum)[count][GROUP_VECTORS], int64_t each, int64_t last_count) {
#pragma GCC unroll 4
    for (int p = 0; p < count; p++, out += g.out_apart) {
        const typename Groups::Results results = finish(g.from, sum[p]);
        if (whole || (p < count - 1 ? each : last_count) == GROUP)
            __builtin_memcpy(out, &results, sizeof(results));
        else
            Groups::store_first(out, results, p < count - 1 ? each : last_count);
    }
}

/* `count` groups of each row, from group `first` on. Unless all are `whole`, `each` are results of
 * a group, of the last one `last_count`. */
template <typename Groups, int rows, int count, bool whole>
static void make_groups(
    const GroupRow<typename Groups::Element> &g, const typename Groups::Finish &finish, int64_t first, int64_t each, int64_t last_count) {
    const acc_quantized_depthwise &w = *g.self;
    const Integers *at = g.stacked + first * g.apart;
    Integers sum[rows][count][GROUP_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < GROUP_VECTORS; v++) {
        const Integers start = finish.start(g.from + v * LANES);
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int p = 0; p < count; p++) sum[r][p][v] = start;
    }
    const char *weights = g.weights;
    for (int64_t stack = 0; stack < w.stacks; stack++) {
        const Integers *pixel = at + stack * GROUP_VECTORS;
        for (int64_t tap = 0; tap < w.window.kernel_width; tap++, pixel += g.tap_apart, weights += GROUP * 4)
#pragma GCC unroll 4
            for (int v = 0; v < GROUP_VECTORS; v++)
#pragma GCC unroll 2
                for (int r = 0; r < rows; r++) {
                    const Integers factor = load_integers(weights + r * g.row_weights + v * LANES * 4);
#pragma GCC unroll 4
                    for (int p = 0; p < count; p++) sum[r][p][v] = Groups::dot(sum[r][p][v], factor, pixel[p * g.apart + v]);
                }
    }
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
        finish_groups<Groups, count, whole>(g, finish, g.out + r * g.out_row + first * g.out_apart, sum[r], each, last_count);
}

/* The same of one row, of windows two pixels apart: most pixels are in one window alone, so that
 * their stacks are made in registers. `at`: what the first window begins with, in rows that are
 * `tap_step` elements apart. */
template <typename Groups, int taps, int count, bool whole>
static void make_apart(const GroupRow<typename Groups::Element> &g, const typename Groups::Finish &finish, const typename Groups::Element *at,
                       int64_t tap_step, int64_t first, int64_t each, int64_t last_count) {
    const acc_quantized_depthwise &w = *g.self;
    Integers sum[count][GROUP_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < GROUP_VECTORS; v++) {
        const Integers start = finish.start(g.from + v * LANES);
#pragma GCC unroll 4
        for (int p = 0; p < count; p++) sum[p][v] = start;
    }
    const char *weights = g.weights;
    for (int64_t stack = 0; stack < w.stacks; stack++, weights += taps * GROUP * 4) {
        const typename Groups::Element *row[Groups::DEPTH];
        point_at_rows<Groups>(w, at + 2 * first * w.step, tap_step, stack, row);
#pragma GCC unroll 16
        for (int column = 0; column < 2 * (count - 1) + taps; column++) {
            Integers x[GROUP_VECTORS];
            Groups::stack(row, x);
#pragma GCC unroll 4
            for (int p = 0; p < count; p++) {
                const int tap = column - 2 * p;
                if (tap < 0 || tap >= taps) continue;
#pragma GCC unroll 4
                for (int v = 0; v < GROUP_VECTORS; v++)
                    sum[p][v] = Groups::dot(sum[p][v], load_integers(weights + (tap * GROUP_VECTORS + v) * LANES * 4), x[v]);
            }
#pragma GCC unroll 4
            for (int i = 0; i < Groups::DEPTH; i++) row[i] += w.step;
        }
    }
    finish_groups<Groups, count, whole>(g, finish, g.out + first * g.out_apart, sum, each, last_count);
}

/* Groups of which each, or only the last one of the row, is cut short. */
template <typename Groups, int rows>
static void make_row(const GroupRow<typename Groups::Element> &g, const typename Groups::Finish &finish, int64_t groups, int64_t each, int64_t last_count) {
    constexpr int most = side_by_side(rows);
    int64_t first = 0;
    for (; first + most <= groups && !g.self->polls; first += most)
        if (each == GROUP && (first + most < groups || last_count == GROUP))
            make_groups<Groups, rows, most, true>(g, finish, first, GROUP, GROUP);
        else
            make_groups<Groups, rows, most, false>(g, finish, first, each, first + most == groups ? last_count : each);
    for (; first < groups; first++) {
        if (g.self->polls && acc_stopped(g.job)) return;
        make_groups<Groups, rows, 1, false>(g, finish, first, each, first == groups - 1 ? last_count : each);
    }
}

/* A row of `make_apart`. */
template <typename Groups, int taps>
static void make_row_apart(const GroupRow<typename Groups::Element> &g, const typename Groups::Finish &finish, const typename Groups::Element *at,
                           int64_t tap_step, int64_t groups, int64_t each) {
    constexpr int most = side_by_side(1);
    int64_t first = 0;
    for (; first + most <= groups && !g.self->polls; first += most)
        if (each == GROUP)
            make_apart<Groups, taps, most, true>(g, finish, at, tap_step, first, each, each);
        else
            make_apart<Groups, taps, most, false>(g, finish, at, tap_step, first, each, each);
    for (; first < groups; first++) {
        if (g.self->polls && acc_stopped(g.job)) return;
        make_apart<Groups, taps, 1, false>(g, finish, at, tap_step, first, each, each);
    }
}

template <typename Groups> void make_rectangles(int64_t begin, int64_t end, int32_t worker, const acc_job *job) {
    typedef typename Groups::Element Element;
    const typename Groups::Layer &layer = *(const typename Groups::Layer *)job->parameters;
    const acc_quantized_depthwise &w = Groups::shape(layer);
    Integers *stacked = (Integers *)(job->worker_workspace + worker * job->worker_stride);
    Element *frame = (Element *)((char *)stacked + w.stacked_bytes);
    const typename Groups::Finish finish(layer);
    const int64_t chunks = w.row_bands * w.column_bands, period = w.period * w.step;
    const bool apart = w.window.stride_x == 2 && w.window.dilation_x == 1 && w.together == 1
                       && (w.window.kernel_width == 3 || w.window.kernel_width == 5);
    GroupRow<Element> g;
    g.self = &w, g.job = job, g.stacked = stacked;
    g.row_weights = w.stacks * w.window.kernel_width * GROUP * 4;
    g.apart = w.period * w.window.stride_x * w.stacks * GROUP_VECTORS;
    g.out_apart = period, g.out_row = w.window.out_width * w.step;
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / chunks;
        const Rectangle part(w.window, w.row_bands, w.column_bands, item % chunks, w.together);
        const Reach reach(w.window, part);
        const int64_t pitch = reach.width * w.step;
        g.tap_apart = reach.tap_x * w.stacks * GROUP_VECTORS;
        copy_framed(w.window, (const Element *)job->inputs[0] + image * w.window.in_height * w.window.in_width * w.step, w.step, w.step,
                    w.outside, reach, frame);
        Element *out = (Element *)job->outputs[0] + ((image * w.window.out_height + part.top) * w.window.out_width + part.left) * w.step;
        for (int64_t y = 0; y < part.rows; y += w.together)
            for (int64_t phase = 0; phase < w.phases; phase++) {
                if (w.polls && acc_stopped(job)) return;
                const int64_t from = phase * GROUP, run = part.columns * w.step - from;
                if (run <= 0) break;
                const bool flat = w.period > 1;
                const int64_t groups = flat ? (run + period - 1) / period : part.columns, each = flat ? GROUP : lesser<int64_t>(GROUP, w.step - from);
                const int64_t last_count = flat ? lesser<int64_t>(GROUP, run - (groups - 1) * period) : each;
                const int64_t pixels = (groups - 1) * w.period * w.window.stride_x + (w.window.kernel_width - 1) * reach.tap_x + 1;
                const Element *at = frame + y * w.window.stride_y * pitch + from;
                g.weights = w.weights + phase * w.together * g.row_weights;
                g.from = from;
                g.out = out + y * g.out_row + from;
                if (apart) {
                    if (w.window.kernel_width == 3)
                        make_row_apart<Groups, 3>(g, finish, at, reach.tap_y * pitch, groups, each);
                    else
                        make_row_apart<Groups, 5>(g, finish, at, reach.tap_y * pitch, groups, each);
                    continue;
                }
                stack_rows<Groups>(w, at, reach.tap_y * pitch, pixels, stacked);
                if (w.together == 2 && y + 1 < part.rows)
                    make_row<Groups, 2>(g, finish, groups, each, last_count);
                else
                    make_row<Groups, 1>(g, finish, groups, each, last_count);
            }
    }
}

template <typename Unit> void depthwise_bytes(int64_t begin, int64_t end, int32_t worker, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    if (((const acc_quantized_depthwise *)job->parameters)->result.near)
        make_rectangles<ByteGroups<Unit, NearRounding>>(begin, end, worker, job);
    else
        make_rectangles<ByteGroups<Unit, Rounding>>(begin, end, worker, job);
}

template <typename Unit>
void pack_depthwise(const int16_t *weights, int64_t channel_step, int64_t row_step, int64_t column_step, const int64_t *channel_of,
                    int64_t phases, int64_t kernel_height, int64_t kernel_width, int64_t together, char *packed) {
    constexpr int depth = Unit::DEPTH;
    for (int64_t phase = 0; phase < phases; phase++, channel_of += GROUP)
        for (int64_t shift = 0; shift < together; shift++)
            for (int64_t top = 0; top < kernel_height + together - 1; top += depth)
                for (int64_t column = 0; column < kernel_width; column++)
                    for (int v = 0; v < GROUP_VECTORS; v++, packed += LANES * 4) {
                        typename Unit::Factor *to = (typename Unit::Factor *)packed;
                        for (int lane = 0; lane < LANES; lane++)
                            for (int i = 0; i < depth; i++) {
                                const int64_t channel = channel_of[v * LANES + lane], row = top + i - shift;
                                const bool here = channel >= 0 && row >= 0 && row < kernel_height;
                                to[Unit::place(lane, i)] =
                                    here ? (typename Unit::Factor)weights[channel * channel_step + row * row_step + column * column_step] : 0;
                            }
                    }
}

} // namespace dovetail_acc::ACC_ISA
