/* A convolution and the depthwise one that reads it, strip by strip: each row in between is computed once per band, is read while
 * it lies in the second cache, and is never written to memory. */
#ifndef DOVETAIL_NEON_KERNELS_STRIPS_H
#define DOVETAIL_NEON_KERNELS_STRIPS_H

#include "../interface/strips.h"
#include "convolution.h"
#include "windows.h"

namespace dovetail_neon {
namespace DOVETAIL_NEON_ISA {

/* Move rows [from, to) of each plane to its beginning. */
INLINE void move_rows_up(float *strip, int64_t planes, int64_t plane, int64_t row, int64_t from, int64_t to) {
    for (int64_t v = 0; v < planes; v++)
        __builtin_memmove(strip + v * plane, strip + v * plane + from * row, (size_t)((to - from) * row) * sizeof(float));
}

/* Rows [first, last) of the results of one group of filters in one image. */
static void convolve_strips(const neon_job *job, const Inside &inside, float *strip, int64_t image, int64_t group, int64_t first,
                            int64_t last) {
    const neon_strips &p = *(const neon_strips *)job->parameters;
    const neon_convolution &c = p.convolution;
    const neon_windows &s = p.windows;
    const int64_t row = s.in_width * LANES, plane = p.strip_rows * row, out_plane = s.out_height * s.out_width * LANES;
    const int64_t first_vector = c.group_vector[group];
    const int vectors = c.group_vector[group + 1] - (int)first_vector;
    Band band = band_of(job, c, image, 0, group);
    band.out_vector_step = plane;
    float *const out = (float *)job->outputs[0] + (image * s.blocks + first_vector) * out_plane;
    /* Rows [top, filled) of what lies between are in the strip. */
    int64_t top = 0, filled = 0;
    for (int64_t y = first; y < last; y += p.rows) {
        const int64_t until = lesser(y + p.rows, last);
        const int64_t from = lesser(s.in_height, greater<int64_t>(0, y * s.stride_y - s.padding_top));
        const int64_t to = lesser(s.in_height, (until - 1) * s.stride_y - s.padding_top + (s.kernel_height - 1) * s.dilation_y + 1);
        if (from < filled)
            move_rows_up(strip, vectors, plane, row, from - top, filled - top);
        else
            filled = from;
        top = from;
        if (filled < to) {
            band.out = strip - top * row;
            convolve_pixels(band, vectors, filled * s.in_width, to * s.in_width);
            filled = to;
        }
        for (int v = 0; v < vectors; v++) {
            WindowRows windows = rows_of<Depthwise>(s, first_vector + v, strip + v * plane - top * row);
            window_rows<Depthwise>(windows, inside, out + v * out_plane, y, until);
        }
    }
}

static void convolve_depthwise(int64_t begin, int64_t end, int32_t worker, void *arg) {
    const neon_job *job = (const neon_job *)arg;
    const neon_strips &p = *(const neon_strips *)job->parameters;
    const Inside inside(p.windows);
    float *const strip = (float *)(job->worker_workspace + (size_t)worker * job->worker_stride);
    for (int64_t item = begin; item < end;) {
        const int64_t image = item / p.bands, first = item % p.bands, last = lesser(p.bands, first + end - item);
        for (int64_t group = 0; group < p.convolution.groups; group++)
            convolve_strips(job, inside, strip, image, group, p.windows.out_height * first / p.bands,
                            p.windows.out_height * last / p.bands);
        item += last - first;
    }
}

static const neon_strips_kernels strips_kernels = {convolve_depthwise};

} // namespace DOVETAIL_NEON_ISA
} // namespace dovetail_neon

#endif
