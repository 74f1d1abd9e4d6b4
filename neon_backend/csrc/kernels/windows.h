/* Windows over each channel of blocked images: one vector holds a pixel's channels of a block, so that nothing is ever shuffled.
 *
 * A row is cut into its left border, where windows reach outside, its inside, and its right border. Inside, `pixels` results are
 * computed together, with the weights of a tap loaded once; for the common windows everything is unrolled, and the compiler loads
 * each element of the image once per row of the window.
 */
#ifndef DOVETAIL_NEON_KERNELS_WINDOWS_H
#define DOVETAIL_NEON_KERNELS_WINDOWS_H

#include "../interface/windows.h"
#include "activation.h"

namespace dovetail_neon {
namespace DOVETAIL_NEON_ISA {

struct WindowRow {
    const neon_windows *self;
    const float *in;        /* pixel (0, 0) of the block of channels */
    int64_t in_width;       /* pixels from one row to the next */
    const float *weights;
    Vector bias;
    float *out;             /* of the row */
    int64_t y;
    int64_t first_tap, last_tap;    /* rows of the window that lie inside the image */
};

struct Depthwise {
    static constexpr bool weighted = true;
    static Vector outside() { return zeros(); }
    INLINE Vector start(const WindowRow &row) { return row.bias; }
    INLINE Vector add(Vector sum, Vector x, Vector w) { return fma(x, w, sum); }
    INLINE Vector finish(const WindowRow &row, Vector sum, int64_t) {
        const neon_activation &with = row.self->activation;
        if (with.function == NEON_CLAMP) return minimum(broadcast(with.b), maximum(broadcast(with.a), sum));
        if (with.function != NEON_IDENTITY) activate(with, &sum, 1);
        return sum;
    }
};

struct Maximum {
    static constexpr bool weighted = false;
    static Vector outside() { return broadcast(-__builtin_inff()); }
    INLINE Vector start(const WindowRow &) { return broadcast(-__builtin_inff()); }
    /* NaN wins, and stays. */
    INLINE Vector add(Vector best, Vector x, Vector) { return select(x > best || x != x, x, best); }
    INLINE Vector finish(const WindowRow &, Vector best, int64_t) { return best; }
};

struct Average {
    static constexpr bool weighted = false;
    static Vector outside() { return zeros(); }
    INLINE Vector start(const WindowRow &) { return zeros(); }
    INLINE Vector add(Vector sum, Vector x, Vector) { return sum + x; }
    INLINE Vector finish(const WindowRow &row, Vector sum, int64_t x) {
        return sum * broadcast(row.self->factors[row.y * row.self->out_width + x]);
    }
};

/* Results x .. x + pixels of a row whose windows lie inside the image from left to right. */
template <typename Kind, int pixels, int kernel, int stride>
INLINE void window_tile(const WindowRow &row, int64_t x) {
    const neon_windows &s = *row.self;
    const int64_t width = kernel ? kernel : s.kernel_width, step = stride ? stride : s.stride_x;
    const int64_t dilation = kernel ? 1 : s.dilation_x;
    Vector sum[pixels];
#pragma GCC unroll 16
    for (int p = 0; p < pixels; p++) sum[p] = Kind::start(row);
    for (int64_t ky = row.first_tap; ky < row.last_tap; ky++) {
        const float *in = row.in + ((row.y * s.stride_y - s.padding_top + ky * s.dilation_y) * row.in_width + x * step - s.padding_left) * LANES;
        const float *weights = row.weights + ky * width * LANES;
#pragma GCC unroll 7
        for (int64_t kx = 0; kx < width; kx++) {
            const Vector w = Kind::weighted ? load(weights + kx * LANES) : zeros();
#pragma GCC unroll 16
            for (int p = 0; p < pixels; p++) sum[p] = Kind::add(sum[p], load(in + (p * step + kx * dilation) * LANES), w);
        }
    }
#pragma GCC unroll 16
    for (int p = 0; p < pixels; p++) store(row.out + (x + p) * LANES, Kind::finish(row, sum[p], x + p));
}

/* One result whose window may reach outside. */
template <typename Kind> static void window_border(const WindowRow &row, int64_t x) {
    const neon_windows &s = *row.self;
    Vector sum = Kind::start(row);
    for (int64_t ky = row.first_tap; ky < row.last_tap; ky++)
        for (int64_t kx = 0; kx < s.kernel_width; kx++) {
            const int64_t column = x * s.stride_x - s.padding_left + kx * s.dilation_x;
            if (column < 0 || column >= s.in_width) continue;
            const int64_t line = row.y * s.stride_y - s.padding_top + ky * s.dilation_y;
            const Vector w = Kind::weighted ? load(row.weights + (ky * s.kernel_width + kx) * LANES) : zeros();
            sum = Kind::add(sum, load(row.in + (line * row.in_width + column) * LANES), w);
        }
    store(row.out + x * LANES, Kind::finish(row, sum, x));
}

template <typename Kind, int pixels, int kernel, int stride> struct WindowTiles {
    static void run(const WindowRow &row, int64_t x, int64_t count) {
        if (count == pixels)
            window_tile<Kind, pixels, kernel, stride>(row, x);
        else
            WindowTiles<Kind, pixels - 1, kernel, stride>::run(row, x, count);
    }
};
template <typename Kind, int kernel, int stride> struct WindowTiles<Kind, 0, kernel, stride> {
    static void run(const WindowRow &, int64_t, int64_t) {}
};

/* Tiles of as equal a size as possible: a lone result would wait for each of its additions. */
template <typename Kind, int kernel, int stride> void window_row(const WindowRow &row, int64_t left, int64_t right) {
    constexpr int most = REGISTERS >= 32 ? 8 : 4;
    int64_t x = 0;
    for (; x < left; x++) window_border<Kind>(row, x);
    for (int64_t tiles = (right - x + most - 1) / most; tiles > 0; tiles--) {
        const int64_t count = (right - x + tiles - 1) / tiles;
        WindowTiles<Kind, most, kernel, stride>::run(row, x, count);
        x += count;
    }
    for (; x < row.self->out_width; x++) window_border<Kind>(row, x);
}

/* Copy the rows that results [first, last) read into scratch memory, with the padding of its columns in place. */
template <typename Kind> static void frame_rows(WindowRow &row, float *scratch, int64_t first, int64_t last) {
    const neon_windows &s = *row.self;
    const int64_t width = s.framed_width;
    const int64_t top = greater<int64_t>(first * s.stride_y - s.padding_top, 0);
    const int64_t bottom = lesser(s.in_height, (last - 1) * s.stride_y - s.padding_top + (s.kernel_height - 1) * s.dilation_y + 1);
    const Vector outside = Kind::outside();
    for (int64_t y = top; y < bottom; y++) {
        float *to = scratch + (y - top) * width * LANES;
        const float *from = row.in + y * s.in_width * LANES;
        int64_t x = 0;
        for (; x < s.padding_left; x++) store(to + x * LANES, outside);
        const int64_t inside = lesser(s.in_width, width - s.padding_left);
        for (int64_t i = 0; i < inside; i++, x++) store(to + x * LANES, load(from + i * LANES));
        for (; x < width; x++) store(to + x * LANES, outside);
    }
    row.in = scratch + (s.padding_left - top * width) * LANES;
    row.in_width = width;
}

template <typename Kind> static void windows(int64_t begin, int64_t end, int32_t worker, void *arg) {
    const neon_job *job = (const neon_job *)arg;
    const neon_windows &s = *(const neon_windows *)job->parameters;
    /* Columns [left, right) have windows that lie inside the image from left to right. */
    const int64_t reach = (s.kernel_width - 1) * s.dilation_x;
    const int64_t room = s.in_width - 1 - reach + s.padding_left;
    int64_t left = lesser(s.out_width, (s.padding_left + s.stride_x - 1) / s.stride_x);
    int64_t right = room < 0 ? left : greater(left, lesser(s.out_width, room / s.stride_x + 1));
    if (s.framed_width) left = 0, right = s.out_width;
    const bool plain = s.dilation_x == 1;
    for (int64_t item = begin; item < end; item++) {
        const int64_t plane = item / s.chunks, block = plane % s.blocks, chunk = item % s.chunks;
        const int64_t first = s.out_height * chunk / s.chunks, last = s.out_height * (chunk + 1) / s.chunks;
        WindowRow row;
        row.self = &s;
        row.in = (const float *)job->inputs[0] + plane * s.in_height * s.in_width * LANES;
        row.in_width = s.in_width;
        row.weights = Kind::weighted ? s.weights + block * s.kernel_height * s.kernel_width * LANES : nullptr;
        row.bias = Kind::weighted ? load(s.bias + block * LANES) : zeros();
        if (s.framed_width) frame_rows<Kind>(row, (float *)(job->worker_workspace + (size_t)worker * job->worker_stride), first, last);
        for (row.y = first; row.y < last; row.y++) {
            const int64_t top = row.y * s.stride_y - s.padding_top;
            row.out = (float *)job->outputs[0] + (plane * s.out_height + row.y) * s.out_width * LANES;
            row.first_tap = top >= 0 ? 0 : lesser(s.kernel_height, (-top + s.dilation_y - 1) / s.dilation_y);
            row.last_tap = top >= s.in_height ? row.first_tap
                                              : greater(row.first_tap, lesser(s.kernel_height, (s.in_height - 1 - top) / s.dilation_y + 1));
            if (plain && s.kernel_width == 3 && s.stride_x == 1)
                window_row<Kind, 3, 1>(row, left, right);
            else if (plain && s.kernel_width == 3 && s.stride_x == 2)
                window_row<Kind, 3, 2>(row, left, right);
            else if (plain && s.kernel_width == 5 && s.stride_x == 1)
                window_row<Kind, 5, 1>(row, left, right);
            else
                window_row<Kind, 0, 0>(row, left, right);
        }
    }
}

/* The mean of each channel: four sums, so that additions overlap and rounding errors grow more slowly. */
static void mean_of_image(int64_t begin, int64_t end, int32_t, void *arg) {
    const neon_job *job = (const neon_job *)arg;
    const neon_windows &s = *(const neon_windows *)job->parameters;
    const int64_t pixels = s.in_height * s.in_width;
    for (int64_t plane = begin; plane < end; plane++) {
        const float *in = (const float *)job->inputs[0] + plane * pixels * LANES;
        Vector sum[4] = {};
        int64_t p = 0;
        for (; p + 4 <= pixels; p += 4)
            for (int i = 0; i < 4; i++) sum[i] += load(in + (p + i) * LANES);
        for (; p < pixels; p++) sum[0] += load(in + p * LANES);
        const int64_t block = plane % s.blocks;
        store_part((float *)job->outputs[0] + plane / s.blocks * s.channels + block * LANES,
                   ((sum[0] + sum[1]) + (sum[2] + sum[3])) * broadcast(1.0f / (float)pixels),
                   (int)lesser<int64_t>(LANES, s.channels - block * LANES));
    }
}

static const neon_windows_kernels windows_kernels = {windows<Depthwise>, windows<Maximum>, windows<Average>, mean_of_image};

} // namespace DOVETAIL_NEON_ISA
} // namespace dovetail_neon

#endif
