/* Depthwise convolution of images that lie in bfloat16: each channel by itself, sums in float32. */
#pragma once

#include "dovetail_neon/windows/parameters.h"
#include "dovetail_neon/elementwise/functions.h"
#include "dovetail_neon/vectors/bfloat16.h"

namespace dovetail_acc::ACC_ISA {

/* The rows of one block of channels. */
struct DepthwiseBlock {
    const acc_windows *self;
    const char *in;
    char *out;
    const float *weights, *bias;
    __mmask32 channels;
};

/* `pixels` results of row y from x on; windows that may reach outside find zeros there. `kernel`
 * and `stride` are 0 if they are only known at run time. */
template <int pixels, int kernel, int stride, bool edge> INLINE void depthwise_tile(const DepthwiseBlock &d, int64_t y, int64_t x) {
    const acc_windows &c = *d.self;
    alignas(64) static const char outside[PIXEL_BYTES] = {};
    const int64_t height = kernel ? kernel : c.window.kernel_height, width = kernel ? kernel : c.window.kernel_width;
    const int64_t step = stride ? stride : c.window.stride_x, dilation = kernel ? 1 : c.window.dilation_x;
    const int64_t top = y * c.window.stride_y - c.window.padding_top, left = x * step - c.window.padding_left;
    Vector sum[pixels][2];
#pragma GCC unroll 8
    for (int p = 0; p < pixels; p++) sum[p][0] = load(d.bias), sum[p][1] = load(d.bias + LANES);
    const auto pixel = [&](int64_t line, int64_t column) __attribute__((always_inline)) {
        const char *at = d.in + (line * c.window.in_width + column) * PIXEL_BYTES;
        if (edge) at = (uint64_t)line < (uint64_t)c.window.in_height && (uint64_t)column < (uint64_t)c.window.in_width ? at : outside;
        return load_block(at);
    };
#pragma GCC unroll 5
    for (int64_t ky = 0; ky < height; ky++) {
        const int64_t line = top + ky * c.window.dilation_y;
        const float *weights = d.weights + ky * width * BLOCK;
        if constexpr (kernel != 0) {
            /* Each element of the image is loaded once. */
#pragma GCC unroll 16
            for (int i = 0; i < (pixels - 1) * stride + kernel; i++) {
                const __m512i block = pixel(line, left + i);
                const Vector low = half_of_block(block, 0), high = half_of_block(block, 1);
#pragma GCC unroll 8
                for (int p = 0; p < pixels; p++) {
                    const int kx = i - p * stride;
                    if (kx < 0 || kx >= kernel) continue;
                    sum[p][0] = fma(low, load(weights + kx * BLOCK), sum[p][0]);
                    sum[p][1] = fma(high, load(weights + kx * BLOCK + LANES), sum[p][1]);
                }
            }
        } else {
            for (int64_t kx = 0; kx < width; kx++, weights += BLOCK)
#pragma GCC unroll 8
                for (int p = 0; p < pixels; p++) {
                    const __m512i block = pixel(line, left + p * step + kx * dilation);
                    sum[p][0] = fma(half_of_block(block, 0), load(weights), sum[p][0]);
                    sum[p][1] = fma(half_of_block(block, 1), load(weights + LANES), sum[p][1]);
                }
        }
    }
    if (c.activation.function == ACC_CLAMP) {
        const Vector low = broadcast(c.activation.a), high = broadcast(c.activation.b);
#pragma GCC unroll 8
        for (int p = 0; p < pixels; p++) sum[p][0] = clamped(sum[p][0], low, high), sum[p][1] = clamped(sum[p][1], low, high);
    } else if (c.activation.function != ACC_IDENTITY) {
        /* A copy: sums whose address is handed on would not stay in registers. */
        Vector results[pixels][2];
#pragma GCC unroll 8
        for (int p = 0; p < pixels; p++) results[p][0] = sum[p][0], results[p][1] = sum[p][1];
        activate(c.activation, &results[0][0], pixels * 2);
#pragma GCC unroll 8
        for (int p = 0; p < pixels; p++) sum[p][0] = results[p][0], sum[p][1] = results[p][1];
    }
    char *out = d.out + (y * c.window.out_width + x) * PIXEL_BYTES;
#pragma GCC unroll 8
    for (int p = 0; p < pixels; p++) store_block(out + p * PIXEL_BYTES, sum[p][0], sum[p][1], d.channels);
}

template <int pixels, int kernel, int stride> struct DepthwiseTiles {
    template <bool edge> static void run(const DepthwiseBlock &d, int64_t y, int64_t x, int64_t count) {
        if (count == pixels)
            depthwise_tile<pixels, kernel, stride, edge>(d, y, x);
        else
            DepthwiseTiles<pixels - 1, kernel, stride>::template run<edge>(d, y, x, count);
    }
};
template <int kernel, int stride> struct DepthwiseTiles<0, kernel, stride> {
    template <bool edge> static void run(const DepthwiseBlock &, int64_t, int64_t, int64_t) {}
};

template <int kernel, int stride> static void depthwise_rows(const DepthwiseBlock &d, int64_t first, int64_t last) {
    constexpr int most = 6;
    const acc_windows &c = *d.self;
    const int64_t reach_y = (c.window.kernel_height - 1) * c.window.dilation_y, reach_x = (c.window.kernel_width - 1) * c.window.dilation_x;
    for (int64_t y = first; y < last; y++) {
        const int64_t top = y * c.window.stride_y - c.window.padding_top;
        const bool within = top >= 0 && top + reach_y < c.window.in_height;
        int64_t x = 0;
        for (int64_t tiles = (c.window.out_width + most - 1) / most; tiles; tiles--) {
            const int64_t count = (c.window.out_width - x + tiles - 1) / tiles, left = x * c.window.stride_x - c.window.padding_left;
            if (within && left >= 0 && left + (count - 1) * c.window.stride_x + reach_x < c.window.in_width)
                DepthwiseTiles<most, kernel, stride>::template run<false>(d, y, x, count);
            else
                DepthwiseTiles<most, kernel, stride>::template run<true>(d, y, x, count);
            x += count;
        }
    }
}

static void depthwise_bfloat16(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_windows &c = *(const acc_windows *)job->parameters;
    const bool square = c.window.kernel_height == c.window.kernel_width && c.window.dilation_x == 1;
    for (int64_t item = begin; item < end; item++) {
        const int64_t plane = item / c.chunks, block = plane % c.blocks, chunk = item % c.chunks;
        DepthwiseBlock d;
        d.self = &c;
        d.in = (const char *)job->inputs[0] + plane * c.window.in_height * c.window.in_width * PIXEL_BYTES;
        d.out = (char *)job->outputs[0] + plane * c.window.out_height * c.window.out_width * PIXEL_BYTES;
        d.weights = c.weights + block * c.window.kernel_height * c.window.kernel_width * BLOCK;
        d.bias = c.bias + block * BLOCK;
        d.channels = channels_of_block(c.channels - block * BLOCK);
        const int64_t first = c.window.out_height * chunk / c.chunks, last = c.window.out_height * (chunk + 1) / c.chunks;
        if (square && c.window.kernel_width == 3 && c.window.stride_x == 1)
            depthwise_rows<3, 1>(d, first, last);
        else if (square && c.window.kernel_width == 3 && c.window.stride_x == 2)
            depthwise_rows<3, 2>(d, first, last);
        else if (square && c.window.kernel_width == 5 && c.window.stride_x == 1)
            depthwise_rows<5, 1>(d, first, last);
        else if (square && c.window.kernel_width == 5 && c.window.stride_x == 2)
            depthwise_rows<5, 2>(d, first, last);
        else
            depthwise_rows<0, 0>(d, first, last);
    }
}

} // namespace dovetail_acc::ACC_ISA
