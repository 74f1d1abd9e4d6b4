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
INLINE void copy_pixels(const Byte *from, int64_t step, int64_t channels, int64_t count, int16_t *to) {
    for (; count > 0; count--, from += step, to += channels)
        for (int64_t i = 0; i < channels; i++) to[i] = from[i];
}

template <typename Element> INLINE void fill_pixels(Element value, int64_t count, Element *to) {
    for (int64_t i = 0; i < count; i++) to[i] = value;
}

/* Copy `height` rows of `width` pixels from row `top` and column `left` of an image on, any of which
 * may lie outside of it. */
template <typename Element>
static void copy_framed(const acc_quantized_convolution &c, const Byte *image, int64_t top, int64_t left, int64_t height,
                        int64_t width, Element *to) {
    const int64_t begin = lesser(greater<int64_t>(-left, 0), width), end = greater(begin, lesser(c.window.in_width - left, width));
    const Element outside = (Element)c.outside;
    for (int64_t y = top; y < top + height; y++, to += width * c.channels) {
        if (y < 0 || y >= c.window.in_height) {
            fill_pixels(outside, width * c.channels, to);
            continue;
        }
        fill_pixels(outside, begin * c.channels, to);
        copy_pixels(image + (y * c.window.in_width + left + begin) * c.in_step, c.in_step, c.channels, end - begin, to + begin * c.channels);
        fill_pixels(outside, (width - end) * c.channels, to + end * c.channels);
    }
}

} // namespace dovetail_acc::ACC_ISA
