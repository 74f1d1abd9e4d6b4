/* Windows over each channel of images of bytes: depthwise convolution and pooling, 16 channels at a
 * time. */
#pragma once

#include "dovetail_neon/quantized/requantization.h"

namespace dovetail_acc::ACC_ISA {

constexpr int SIDE_BY_SIDE = LANES == 16 ? 8 : 4;      /* results that are summed at once */

/* For every column that a row of results reads, and every stack of rows of the window: the bytes of
 * the rows, by channel. */
template <typename Unit>
static void stack_rows(const acc_quantized_windows &w, const Byte *image, int64_t y, int64_t channel, Integers *stacked) {
    const Byte *outside = (const Byte *)w.outside + channel;
    for (int64_t stack = 0; stack < w.stacks; stack++) {
        const Byte *row[Unit::DEPTH];
        bool here[Unit::DEPTH];
        for (int i = 0; i < Unit::DEPTH; i++) {
            const int64_t tap = stack * Unit::DEPTH + i, at = y * w.window.stride_y - w.window.padding_top + tap * w.window.dilation_y;
            here[i] = tap < w.window.kernel_height + w.together - 1 && at >= 0 && at < w.window.in_height;
            row[i] = here[i] ? image + (at * w.window.in_width - w.window.padding_left) * w.step + channel : outside;
        }
        Integers *to = stacked + stack * BLOCK_VECTORS;
        const int64_t left = lesser(w.window.padding_left, w.columns), right = greater(left, lesser(w.window.in_width + w.window.padding_left, w.columns));
        int64_t step[Unit::DEPTH];
        for (int i = 0; i < Unit::DEPTH; i++) row[i] += here[i] ? left * w.step : 0, step[i] = here[i] ? w.step : 0;
        const Byte *nothing[Unit::DEPTH];
        for (int i = 0; i < Unit::DEPTH; i++) nothing[i] = outside;
        const auto put = [&](const Byte *const(&at)[Unit::DEPTH]) __attribute__((always_inline)) {
            Integers x[BLOCK_VECTORS];
            Unit::stack(at, x);
#pragma GCC unroll 4
            for (int v = 0; v < BLOCK_VECTORS; v++) to[v] = x[v];
            to += w.stacks * BLOCK_VECTORS;
        };
        for (int64_t column = 0; column < left; column++) put(nothing);
        for (int64_t column = left; column < right; column++) {
            put(row);
#pragma GCC unroll 4
            for (int i = 0; i < Unit::DEPTH; i++) row[i] += step[i];
        }
        for (int64_t column = right; column < w.columns; column++) put(nothing);
    }
}

/* `count` results side by side, of 16 channels; their windows are `known` stacks apart, or some
 * other number if that is 0. */
template <typename Unit, int count, int known>
INLINE void sum_stacks(const acc_quantized_windows &w, const Integers *at, const char *weights, const int32_t *bias,
                       Integers (&sum)[count][BLOCK_VECTORS]) {
    const int64_t next = w.stacks * BLOCK_VECTORS, apart = known ? known * BLOCK_VECTORS : w.window.stride_x * next;
#pragma GCC unroll 4
    for (int v = 0; v < BLOCK_VECTORS; v++) {
        const Integers start = load_integers(bias + v * LANES);
#pragma GCC unroll 8
        for (int p = 0; p < count; p++) sum[p][v] = start;
    }
    for (int64_t stack = 0; stack < w.stacks; stack++) {
        const Integers *column = at + stack * BLOCK_VECTORS;
        for (int64_t tap = 0; tap < w.window.kernel_width; tap++, column += w.window.dilation_x * next)
#pragma GCC unroll 4
            for (int v = 0; v < BLOCK_VECTORS; v++, weights += LANES * 4) {
                const Integers factor = load_integers(weights);
#pragma GCC unroll 8
                for (int p = 0; p < count; p++) sum[p][v] = Unit::dot(sum[p][v], factor, column[p * apart + v]);
            }
    }
}

template <int count>
INLINE void finish_windows(const acc_quantized_windows &w, const Rounding &rounding, const float *factors, Byte *out, int lanes,
                           Integers (&sum)[count][BLOCK_VECTORS]) {
#pragma GCC unroll 8
    for (int p = 0; p < count; p++) {
        Integers x[BLOCK_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = rounding(to_floats(sum[p][v]), load(factors + v * LANES));
        store_block(out + p * w.step, x, lanes);
    }
}

/* A row of results, of 16 channels. */
template <typename Unit, int known>
static void sum_row(const acc_quantized_windows &w, const Rounding &rounding, const Integers *stacked, const char *weights,
                    int64_t channel, Byte *row) {
    const int32_t *bias = w.result.bias + channel;
    const float *factors = w.result.factors + channel;
    const int64_t apart = w.window.stride_x * w.stacks * BLOCK_VECTORS;
    const int lanes = (int)lesser<int64_t>(BLOCK, w.step - channel);
    int64_t x = 0;
    for (; x + SIDE_BY_SIDE <= w.window.out_width; x += SIDE_BY_SIDE) {
        Integers sum[SIDE_BY_SIDE][BLOCK_VECTORS];
        sum_stacks<Unit, SIDE_BY_SIDE, known>(w, stacked + x * apart, weights, bias, sum);
        finish_windows<SIDE_BY_SIDE>(w, rounding, factors, row + x * w.step, lanes, sum);
    }
    for (; x < w.window.out_width; x++) {
        Integers sum[1][BLOCK_VECTORS];
        sum_stacks<Unit, 1, known>(w, stacked + x * apart, weights, bias, sum);
        finish_windows<1>(w, rounding, factors, row + x * w.step, lanes, sum);
    }
}

template <typename Unit> void depthwise_bytes(int64_t begin, int64_t end, int32_t worker, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_windows &w = *(const acc_quantized_windows *)job->parameters;
    Integers *stacked = (Integers *)(job->worker_workspace + worker * job->worker_stride);
    const Rounding rounding(w.result.zero, w.result.low, w.result.high);
    const int64_t row_weights = w.stacks * w.window.kernel_width * BLOCK * 4, apart = w.window.stride_x * w.stacks;
    const int64_t rows = (w.window.out_height + w.together - 1) / w.together;
    const auto sum = apart == 1 ? sum_row<Unit, 1> : apart == 2 ? sum_row<Unit, 2> : sum_row<Unit, 0>;
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / rows, first = item % rows * w.together;
        const Byte *in = (const Byte *)job->inputs[0] + image * w.window.in_height * w.window.in_width * w.step;
        for (int64_t channel = 0; channel < w.channels; channel += BLOCK) {
            if (w.polls && acc_stopped(job)) return;
            stack_rows<Unit>(w, in, first, channel, stacked);
            const char *weights = w.weights + channel / BLOCK * w.together * row_weights;
            for (int64_t y = first; y < lesser(first + w.together, w.window.out_height); y++, weights += row_weights)
                sum(w, rounding, stacked, weights, channel,
                    (Byte *)job->outputs[0] + (image * w.window.out_height + y) * w.window.out_width * w.step + channel);
        }
    }
}

template <typename Unit>
void pack_byte_windows(const int16_t *weights, int64_t channel_step, int64_t row_step, int64_t column_step, int64_t channels,
                       int64_t kernel_height, int64_t kernel_width, int64_t together, char *packed) {
    constexpr int depth = Unit::DEPTH;
    for (int64_t block = 0; block < channels; block += BLOCK)
        for (int64_t shift = 0; shift < together; shift++)
            for (int64_t top = 0; top < kernel_height; top += depth)
                for (int64_t column = 0; column < kernel_width; column++)
                    for (int v = 0; v < BLOCK_VECTORS; v++, packed += LANES * 4) {
                        typename Unit::Factor *to = (typename Unit::Factor *)packed;
                        for (int lane = 0; lane < LANES; lane++)
                            for (int i = 0; i < depth; i++) {
                                const int64_t channel = block + v * LANES + lane, row = top + i - shift;
                                const int64_t at = channel * channel_step + row * row_step + column * column_step;
                                const bool here = channel < channels && row >= 0 && row < kernel_height;
                                to[Unit::place(lane, i)] = here ? (typename Unit::Factor)weights[at] : 0;
                            }
                    }
}

/* The part of a window that lies inside the image: rows [top, bottom) and columns [left, right) of
 * it, in taps. */
struct TapsInside {
    int64_t y, x;       /* of the first tap, in the image */
    int64_t top, bottom, left, right;
};
INLINE int64_t first_inside(int64_t at, int64_t dilation) { return at < 0 ? (-at + dilation - 1) / dilation : 0; }
INLINE int64_t last_inside(int64_t at, int64_t dilation, int64_t size, int64_t taps) {
    return at >= size ? 0 : lesser(taps, (size - at + dilation - 1) / dilation);
}
INLINE TapsInside taps_inside(const acc_quantized_windows &w, int64_t y, int64_t x) {
    TapsInside t;
    t.y = y * w.window.stride_y - w.window.padding_top, t.x = x * w.window.stride_x - w.window.padding_left;
    t.top = first_inside(t.y, w.window.dilation_y), t.bottom = greater(t.top, last_inside(t.y, w.window.dilation_y, w.window.in_height, w.window.kernel_height));
    t.left = first_inside(t.x, w.window.dilation_x), t.right = greater(t.left, last_inside(t.x, w.window.dilation_x, w.window.in_width, w.window.kernel_width));
    return t;
}

/* Call take(bytes) for 16 channels of each pixel of a window. */
template <typename Take> INLINE void for_each_tap(const acc_quantized_windows &w, const TapsInside &t, const Byte *image, const Take &take) {
    for (int64_t row = t.top; row < t.bottom; row++)
        for (int64_t column = t.left; column < t.right; column++)
            take(image + ((t.y + row * w.window.dilation_y) * w.window.in_width + t.x + column * w.window.dilation_x) * w.step);
}

/* Halves away from zero, as TensorFlow Lite divides: reference/integer_ops/pooling.h. The quotients
 * have at most 9 bits, so that one in float32 is at most 1 from them. */
INLINE Integers divided(Integers sum, int32_t count) {
    const Integers zero = {}, magnitude = (sum < zero ? -sum : sum) + count / 2;
    Integers quotient = to_integers(to_floats(magnitude) * broadcast(1.0f / (float)count));
    const Integers rest = magnitude - quotient * count;
    quotient += (rest < zero) - (rest >= count);                    /* a comparison is -1 where it holds */
    return sum < zero ? -quotient : quotient;
}

/* What becomes of one window. */
struct Largest {
    INLINE_MEMBER static void window(const acc_quantized_windows &w, const TapsInside &t, int64_t, const Byte *image,
                                     Integers (&x)[BLOCK_VECTORS]) {
        const Integers least = Integers{} + (SIGNED_BYTES ? -128 : 0);
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = least;
        for_each_tap(w, t, image, [&](const Byte *at) __attribute__((always_inline)) {
#pragma GCC unroll 4
            for (int v = 0; v < BLOCK_VECTORS; v++) {
                const Integers y = load_bytes(at + v * LANES);
                x[v] = y > x[v] ? y : x[v];
            }
        });
    }
};
struct Mean {
    INLINE_MEMBER static void window(const acc_quantized_windows &w, const TapsInside &t, int64_t place, const Byte *image,
                                     Integers (&x)[BLOCK_VECTORS]) {
        const int32_t inside = (int32_t)((t.bottom - t.top) * (t.right - t.left)), count = w.counts[place];
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = Integers{};
        for_each_tap(w, t, image, [&](const Byte *at) __attribute__((always_inline)) {
#pragma GCC unroll 4
            for (int v = 0; v < BLOCK_VECTORS; v++) x[v] += load_bytes(at + v * LANES);
        });
        const int32_t besides = (count - inside) * w.pad - inside * w.offset;
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = (count ? divided(x[v] + besides, count) : Integers{}) + w.offset;
    }
};

template <typename Pooling> void pool_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_windows &w = *(const acc_quantized_windows *)job->parameters;
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / w.window.out_height, y = item % w.window.out_height;
        const Byte *in = (const Byte *)job->inputs[0] + image * w.window.in_height * w.window.in_width * w.step;
        Byte *row = (Byte *)job->outputs[0] + item * w.window.out_width * w.step;
        for (int64_t x = 0; x < w.window.out_width; x++) {
            const TapsInside taps = taps_inside(w, y, x);
            for (int64_t channel = 0; channel < w.channels; channel += BLOCK) {
                if (w.polls && acc_stopped(job)) return;
                Integers result[BLOCK_VECTORS];
                Pooling::window(w, taps, y * w.window.out_width + x, in + channel, result);
                store_block(row + x * w.step + channel, result, (int)lesser<int64_t>(BLOCK, w.step - channel));
            }
        }
    }
}

} // namespace dovetail_acc::ACC_ISA
