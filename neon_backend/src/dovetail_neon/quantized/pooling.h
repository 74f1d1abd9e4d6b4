/* Pooling of images of bytes, 16 channels at a time. */
#pragma once

#include "dovetail_neon/quantized/elements.h"
#include "dovetail_neon/quantized/requantization.h"

namespace dovetail_acc::ACC_ISA {

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
INLINE TapsInside taps_inside(const acc_quantized_pooling &w, int64_t y, int64_t x) {
    TapsInside t;
    t.y = y * w.window.stride_y - w.window.padding_top, t.x = x * w.window.stride_x - w.window.padding_left;
    t.top = first_inside(t.y, w.window.dilation_y), t.bottom = greater(t.top, last_inside(t.y, w.window.dilation_y, w.window.in_height, w.window.kernel_height));
    t.left = first_inside(t.x, w.window.dilation_x), t.right = greater(t.left, last_inside(t.x, w.window.dilation_x, w.window.in_width, w.window.kernel_width));
    return t;
}

/* Call take(bytes) for 16 channels of each pixel of a window. */
template <typename Take> INLINE void for_each_tap(const acc_quantized_pooling &w, const TapsInside &t, const Byte *image, const Take &take) {
    const int64_t step = w.window.dilation_x * w.step;
    for (int64_t row = t.top; row < t.bottom; row++) {
        const Byte *at = image + ((t.y + row * w.window.dilation_y) * w.window.in_width + t.x + t.left * w.window.dilation_x) * w.step;
        for (int64_t column = t.left; column < t.right; column++, at += step) take(at);
    }
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

/* What becomes of one window. The greatest of a window is sought in so many bytes at once. */
template <int width> struct Largest {
    static constexpr int WIDTH = width;
    INLINE_MEMBER static void window(const acc_quantized_pooling &w, const TapsInside &t, int64_t, const Byte *image, Byte *out, int lanes) {
        typedef Byte Bytes __attribute__((vector_size(width)));
        Bytes x = Bytes{} + (Byte)(SIGNED_BYTES ? -128 : 0);
        for_each_tap(w, t, image, [&](const Byte *at) __attribute__((always_inline)) {
            Bytes y;
            __builtin_memcpy(&y, at, sizeof(y));
            x = y > x ? y : x;
        });
        if (lanes == width)
            __builtin_memcpy(out, &x, sizeof(x));
        else
            __builtin_memcpy(out, &x, (size_t)lanes);
    }
};
struct Mean {
    static constexpr int WIDTH = BLOCK;
    INLINE_MEMBER static void window(const acc_quantized_pooling &w, const TapsInside &t, int64_t place, const Byte *image, Byte *out,
                                     int lanes) {
        Integers x[BLOCK_VECTORS];
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
        store_block(out, x, lanes);
    }
};

/* A row of results: `Pooling` takes whole widths of channels, `Rest` what is left of a pixel. */
template <typename Pooling, typename Rest> void pool_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_pooling &w = *(const acc_quantized_pooling *)job->parameters;
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / w.window.out_height, y = item % w.window.out_height;
        const Byte *in = (const Byte *)job->inputs[0] + image * w.window.in_height * w.window.in_width * w.step;
        Byte *out = (Byte *)job->outputs[0] + item * w.window.out_width * w.step;
        for (int64_t x = 0; x < w.window.out_width; x++, out += w.step) {
            const TapsInside taps = taps_inside(w, y, x);
            const int64_t place = y * w.window.out_width + x;
            int64_t channel = 0;
            for (; channel + Pooling::WIDTH <= w.step; channel += Pooling::WIDTH) {
                if (w.polls && acc_stopped(job)) return;
                Pooling::window(w, taps, place, in + channel, out + channel, Pooling::WIDTH);
            }
            for (; channel < w.step; channel += Rest::WIDTH) {
                if (w.polls && acc_stopped(job)) return;
                Rest::window(w, taps, place, in + channel, out + channel, (int)lesser<int64_t>(Rest::WIDTH, w.step - channel));
            }
        }
    }
}

} // namespace dovetail_acc::ACC_ISA
