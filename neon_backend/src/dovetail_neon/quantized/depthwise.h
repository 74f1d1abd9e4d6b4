/* Depthwise convolution of images of bytes, a group, which is a register of bytes, at a time. */
#pragma once

#include "dovetail_neon/quantized/frame.h"
#include "dovetail_neon/quantized/requantization.h"

namespace dovetail_acc::ACC_ISA {

/* Results of a row that are summed at once, where windows of so many rows share their stacks. */
constexpr int side_by_side(int rows) { return (REGISTERS == 32 ? 4 : 2) / rows; }

/* For every pixel of a row from `at` on, and every stack of rows of the window: a group of each of
 * the rows. */
template <typename Unit>
static void stack_rows(const acc_quantized_depthwise &w, const Byte *at, int64_t tap_step, int64_t pixels, Integers *stacked) {
    const int64_t rows = w.window.kernel_height + w.together - 1;
    for (int64_t stack = 0; stack < w.stacks; stack++) {
        const Byte *row[Unit::DEPTH];
        for (int i = 0; i < Unit::DEPTH; i++) {
            const int64_t tap = stack * Unit::DEPTH + i;
            row[i] = at + (tap < rows ? tap : 0) * tap_step;
        }
        Integers *to = stacked + stack * GROUP_VECTORS;
        for (int64_t pixel = 0; pixel < pixels; pixel++, to += w.stacks * GROUP_VECTORS) {
            Integers x[GROUP_VECTORS];
            Unit::stack(row, x);
#pragma GCC unroll 4
            for (int v = 0; v < GROUP_VECTORS; v++) to[v] = x[v];
#pragma GCC unroll 4
            for (int i = 0; i < Unit::DEPTH; i++) row[i] += w.step;
        }
    }
}

/* Where the groups of one phase are made in a row, or in two rows of the same stacks. */
struct GroupRow {
    const acc_quantized_depthwise *self;
    const acc_job *job;
    const Integers *stacked;
    int64_t apart, tap_apart;   /* vectors, from the stack of one group to that of the next, and from tap to tap */
    const char *weights;
    int64_t row_weights;        /* bytes, from the weights of a row to those of the row below */
    const int32_t *bias;
    const float *factors;
    Byte *out;
    int64_t out_apart, out_row; /* bytes */
};

/* From the sums of a group to its results. */
template <typename Rounds> struct Finish {
    const Rounds rounding;

    explicit Finish(const acc_requantization &r) : rounding(r.zero, r.low, r.high) {}

    INLINE_MEMBER GroupBytes operator()(const float *factors, const Integers (&sum)[GROUP_VECTORS]) const {
        Integers x[GROUP_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < GROUP_VECTORS; v++) x[v] = rounding(to_floats(sum[v]), load(factors + v * LANES));
        return rounding.bytes(x);
    }
};

/* `count` groups of each row, from group `first` on; of the last, `last_bytes` are results. */
template <typename Unit, int rows, int count, typename Rounds>
static void make_groups(const GroupRow &g, const Finish<Rounds> &finish, int64_t first, int64_t last_bytes) {
    const acc_quantized_depthwise &w = *g.self;
    const Integers *at = g.stacked + first * g.apart;
    Integers sum[rows][count][GROUP_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < GROUP_VECTORS; v++) {
        const Integers start = load_integers(g.bias + v * LANES);
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
                    for (int p = 0; p < count; p++) sum[r][p][v] = Unit::dot(sum[r][p][v], factor, pixel[p * g.apart + v]);
                }
    }
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int p = 0; p < count; p++) {
            const GroupBytes bytes = finish(g.factors, sum[r][p]);
            Byte *out = g.out + r * g.out_row + (first + p) * g.out_apart;
            if (p < count - 1 || last_bytes == GROUP)
                __builtin_memcpy(out, &bytes, sizeof(bytes));
            else
                __builtin_memcpy(out, &bytes, (size_t)last_bytes);
        }
}

/* Groups of which each, or only the last one of the row, is cut short. */
template <typename Unit, int rows, typename Rounds>
static void make_row(const GroupRow &g, const Finish<Rounds> &finish, int64_t groups, int64_t bytes, int64_t last_bytes) {
    constexpr int most = side_by_side(rows);
    int64_t first = 0;
    if (bytes == GROUP)
        for (; first + most < groups && !g.self->polls; first += most) make_groups<Unit, rows, most>(g, finish, first, GROUP);
    for (; first < groups; first++) {
        if (g.self->polls && acc_stopped(g.job)) return;
        make_groups<Unit, rows, 1>(g, finish, first, first == groups - 1 ? last_bytes : bytes);
    }
}

template <typename Unit, typename Rounds> void make_rectangles(int64_t begin, int64_t end, int32_t worker, const acc_job *job) {
    const acc_quantized_depthwise &w = *(const acc_quantized_depthwise *)job->parameters;
    Integers *stacked = (Integers *)(job->worker_workspace + worker * job->worker_stride);
    Byte *frame = (Byte *)stacked + w.stacked_bytes;
    const Finish<Rounds> finish(w.result);
    const int64_t chunks = w.row_bands * w.column_bands, period = w.period * w.step;
    GroupRow g;
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
        copy_framed(w.window, (const Byte *)job->inputs[0] + image * w.window.in_height * w.window.in_width * w.step, w.step, w.step,
                    w.outside, reach, frame);
        Byte *out = (Byte *)job->outputs[0] + ((image * w.window.out_height + part.top) * w.window.out_width + part.left) * w.step;
        for (int64_t y = 0; y < part.rows; y += w.together)
            for (int64_t phase = 0; phase < w.phases; phase++) {
                if (w.polls && acc_stopped(job)) return;
                const int64_t from = phase * GROUP, run = part.columns * w.step - from;
                if (run <= 0) break;
                const bool flat = w.period > 1;
                const int64_t groups = flat ? (run + period - 1) / period : part.columns, bytes = flat ? GROUP : lesser<int64_t>(GROUP, w.step - from);
                const int64_t last_bytes = flat ? lesser<int64_t>(GROUP, run - (groups - 1) * period) : bytes;
                const int64_t pixels = (groups - 1) * w.period * w.window.stride_x + (w.window.kernel_width - 1) * reach.tap_x + 1;
                stack_rows<Unit>(w, frame + y * w.window.stride_y * pitch + from, reach.tap_y * pitch, pixels, stacked);
                g.weights = w.weights + phase * w.together * g.row_weights;
                g.bias = w.result.bias + from, g.factors = w.result.factors + from;
                g.out = out + y * g.out_row + from;
                if (w.together == 2 && y + 1 < part.rows)
                    make_row<Unit, 2>(g, finish, groups, bytes, last_bytes);
                else
                    make_row<Unit, 1>(g, finish, groups, bytes, last_bytes);
            }
    }
}

template <typename Unit> void depthwise_bytes(int64_t begin, int64_t end, int32_t worker, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    if (((const acc_quantized_depthwise *)job->parameters)->result.near)
        make_rectangles<Unit, NearRounding>(begin, end, worker, job);
    else
        make_rectangles<Unit, Rounding>(begin, end, worker, job);
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
