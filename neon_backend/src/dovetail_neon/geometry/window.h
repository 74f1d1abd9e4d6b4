/* Windows over images: the sizes that every kernel with a window is told. */
#pragma once

#include <stdint.h>

typedef struct {
    int64_t in_height, in_width;
    int64_t out_height, out_width;
    int64_t kernel_height, kernel_width;
    int64_t stride_y, stride_x;
    int64_t dilation_y, dilation_x;
    int64_t padding_top, padding_left;
} acc_window;

static inline int64_t acc_window_taps(const acc_window *w) { return w->kernel_height * w->kernel_width; }

/* True if some window reaches outside the image. */
static inline int32_t acc_window_reaches_out(const acc_window *w) {
    const int64_t bottom = (w->out_height - 1) * w->stride_y - w->padding_top + (w->kernel_height - 1) * w->dilation_y;
    const int64_t right = (w->out_width - 1) * w->stride_x - w->padding_left + (w->kernel_width - 1) * w->dilation_x;
    return w->padding_top > 0 || w->padding_left > 0 || bottom >= w->in_height || right >= w->in_width;
}

/* Make one row of all pixels, where each result reads one pixel and nothing else: rows then need
 * not end a tile. */
static inline void acc_window_flatten(acc_window *w) {
    w->in_width = w->out_width = w->in_height * w->in_width;
    w->in_height = w->out_height = 1;
}
