/* Copies of parts of images, with what lies outside the image in place: tiles then read without
 * asking. The channels of a pixel lie without gaps, so that the pixels that a row of a window reads
 * are one run of bytes. */
#pragma once

#include "dovetail_neon/quantized/elements.h"

namespace dovetail_acc::ACC_ISA {

/* Pixels of 4 bytes, of which `channels` count, 4 at a time. What is written behind the last pixel
 * is written again by what follows. */
template <int channels> INLINE void close_gaps(const Byte *from, int64_t count, Byte *to) {
    static_assert(channels < 4);
    Bytes16 order = {};
    for (int i = 0; i < 4 * channels; i++) order[i] = (uint8_t)(i / channels * 4 + i % channels);
    for (; count >= 4; count -= 4, from += 16, to += 4 * channels) {
        const Bytes16 x = __builtin_shuffle(load16((const uint8_t *)from), order);
        __builtin_memcpy(to, &x, sizeof(x));
    }
    for (; count > 0; count--, from += 4, to += channels) __builtin_memcpy(to, from, 4);
}

/* `count` pixels, `step` bytes apart; up to 15 bytes behind the last may be written. */
INLINE void copy_pixels(const Byte *from, int64_t step, int64_t channels, int64_t count, Byte *to) {
    if (channels == step)
        __builtin_memcpy(to, from, (size_t)(count * step));
    else if (step == 4 && channels == 1)
        close_gaps<1>(from, count, to);
    else if (step == 4 && channels == 2)
        close_gaps<2>(from, count, to);
    else if (step == 4)
        close_gaps<3>(from, count, to);
    else
        for (; count > 0; count--, from += step, to += channels)
            for (int64_t i = 0; i < channels; i += 16) __builtin_memcpy(to + i, from + i, 16);
}
INLINE void widen_run(const Byte *from, int64_t count, int16_t *to) {
    typedef Byte Block16 __attribute__((vector_size(16)));
    typedef int16_t Shorts16 __attribute__((vector_size(32)));
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const Shorts16 y = __builtin_convertvector(load_as<Block16>(from + i), Shorts16);
        __builtin_memcpy(to + i, &y, sizeof(y));
    }
    for (; i < count; i++) to[i] = from[i];
}
INLINE void copy_pixels(const Byte *from, int64_t step, int64_t channels, int64_t count, int16_t *to) {
    if (channels == step)
        widen_run(from, count * step, to);
    else
        for (; count > 0; count--, from += step, to += channels) widen_run(from, channels, to);
}

INLINE void copy_pixels(const int16_t *from, int64_t step, int64_t channels, int64_t count, int16_t *to) {
    if (channels == step)
        __builtin_memcpy(to, from, (size_t)(count * step) * sizeof(*to));
    else
        for (; count > 0; count--, from += step, to += channels) __builtin_memcpy(to, from, (size_t)channels * sizeof(*to));
}

template <typename Element> INLINE void fill_pixels(int32_t value, int64_t count, Element *to) {
    for (int64_t i = 0; i < count; i++) to[i] = (Element)value;
}

/* Where words of 16 bits become bytes: the lower halves in one frame, the upper ones in another.
 * Each is a byte of this backend: where those are signed, 128 less than the lower half is, and
 * where they are not, 128 more than the upper one. */
struct HalvedFrame {
    Byte *low;
    int64_t apart;
    static constexpr int LOW_SIGN = SIGNED_BYTES ? 0x80 : 0, HIGH_SIGN = SIGNED_BYTES ? 0 : 0x80;
    INLINE_MEMBER HalvedFrame operator+(int64_t count) const { return {low + count, apart}; }
    INLINE_MEMBER void operator+=(int64_t count) { low += count; }
};
INLINE void fill_pixels(int32_t value, int64_t count, HalvedFrame to) {
    fill_pixels((value & 0xFF) ^ HalvedFrame::LOW_SIGN, count, to.low);
    fill_pixels((value >> 8 & 0xFF) ^ HalvedFrame::HIGH_SIGN, count, to.low + to.apart);
}
INLINE void halve_run(const int16_t *from, int64_t count, HalvedFrame to) {
    constexpr int MANY = 2 * LANES;
    typedef uint16_t Words __attribute__((vector_size(2 * MANY)));
    typedef uint8_t Bytes __attribute__((vector_size(MANY)));
    int64_t i = 0;
    for (; i + MANY <= count; i += MANY) {
        const Words x = load_as<Words>(from + i);
        const Bytes low = __builtin_convertvector((x & 0xFF) ^ HalvedFrame::LOW_SIGN, Bytes);
        const Bytes high = __builtin_convertvector((x >> 8) ^ HalvedFrame::HIGH_SIGN, Bytes);
        __builtin_memcpy(to.low + i, &low, sizeof(low));
        __builtin_memcpy(to.low + to.apart + i, &high, sizeof(high));
    }
    for (; i < count; i++) {
        const uint16_t x = (uint16_t)from[i];
        to.low[i] = (Byte)((x & 0xFF) ^ HalvedFrame::LOW_SIGN), to.low[to.apart + i] = (Byte)(x >> 8 ^ HalvedFrame::HIGH_SIGN);
    }
}
INLINE void copy_pixels(const int16_t *from, int64_t step, int64_t channels, int64_t count, HalvedFrame to) {
    if (channels == step)
        halve_run(from, count * step, to);
    else
        for (; count > 0; count--, from += step, to += channels) halve_run(from, channels, to);
}

/* A rectangle of the results of a window, of which there are row_bands * column_bands; its rows are
 * cut in multiples of `together`. */
struct Rectangle {
    int64_t top, left, rows, columns;

    Rectangle(const acc_window &w, int64_t row_bands, int64_t column_bands, int64_t number, int64_t together = 1) {
        const int64_t y = number / column_bands, x = number % column_bands, all = (w.out_height + together - 1) / together;
        top = all * y / row_bands * together, left = w.out_width * x / column_bands;
        rows = lesser(all * (y + 1) / row_bands * together, w.out_height) - top;
        columns = w.out_width * (x + 1) / column_bands - left;
    }
};

/* What the windows of a rectangle read, which may lie outside the image: of each axis what lies
 * between the first and the last pixel; or, where taps are so far apart that no two windows read
 * the same, what each tap reads, one after the other. */
struct Reach {
    int64_t top, left;
    int64_t tap_y, tap_x;       /* from tap to tap, in the frame: the dilation, or what a tap reads */
    int64_t height, width;

    Reach(const acc_window &w, const Rectangle &r)
        : top(r.top * w.stride_y - w.padding_top), left(r.left * w.stride_x - w.padding_left),
          tap_y(lesser(w.dilation_y, (r.rows - 1) * w.stride_y + 1)), tap_x(lesser(w.dilation_x, (r.columns - 1) * w.stride_x + 1)),
          height((r.rows - 1) * w.stride_y + (w.kernel_height - 1) * tap_y + 1),
          width((r.columns - 1) * w.stride_x + (w.kernel_width - 1) * tap_x + 1) {}
};

/* Copy `count` pixels from column `left` of a row on, which is none where it lies outside. */
template <typename Element, typename Frame>
INLINE void copy_run(const acc_window &w, const Element *row, int64_t step, int64_t channels, int32_t outside, int64_t left, int64_t count,
                     Frame to) {
    const int64_t begin = row ? lesser(greater<int64_t>(-left, 0), count) : count, end = greater(begin, lesser(w.in_width - left, count));
    fill_pixels(outside, begin * channels, to);
    if (begin < end) copy_pixels(row + (left + begin) * step, step, channels, end - begin, to + begin * channels);
    fill_pixels(outside, (count - end) * channels, to + end * channels);
}

/* Copy so many channels of what is reached of an image, whose pixels are `step` elements apart. */
template <typename Element, typename Frame>
static void copy_framed(const acc_window &w, const Element *image, int64_t step, int64_t channels, int32_t outside, const Reach &r, Frame to) {
    const int64_t runs = r.tap_x < w.dilation_x ? w.kernel_width : 1;
    for (int64_t y = 0; y < r.height; y++) {
        const int64_t tap = r.tap_y < w.dilation_y ? y / r.tap_y : 0, at = r.top + tap * w.dilation_y + y - tap * r.tap_y;
        const Element *row = at >= 0 && at < w.in_height ? image + at * w.in_width * step : nullptr;
        const int64_t count = r.width / runs;
        for (int64_t run = 0; run < runs; run++, to += count * channels)
            copy_run(w, row, step, channels, outside, r.left + run * w.dilation_x, count, to);
    }
}

} // namespace dovetail_acc::ACC_ISA
