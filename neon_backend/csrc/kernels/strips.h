/* Chains of convolutions and depthwise ones, strip by strip: each row in between is computed once, is read while it lies in the
 * second cache, and is never written to memory. */
#ifndef DOVETAIL_NEON_KERNELS_STRIPS_H
#define DOVETAIL_NEON_KERNELS_STRIPS_H

#include "../interface/strips.h"
#include "convolution.h"
#include "windows.h"

namespace dovetail_neon {
namespace DOVETAIL_NEON_ISA {

/* Rows [top, filled) of the result of a stage are kept; `strip` is where row `top` of its first block lies. */
struct Kept {
    float *strip;
    int64_t top, filled;
};

/* Rows [from, to) of a stage whose row 0, if all rows were there, would lie at `in` and `out`; `in` is NULL for the input of the
 * layer. */
template <ConvolvePixels *convolve_some>
void convolve_stage(const neon_job *job, const neon_stage &stage, int64_t image, const float *in, float *out, int64_t from,
                    int64_t to) {
    const neon_convolution &c = stage.convolution;
    for (int64_t group = 0; group < c.groups; group++) {
        const int64_t vector = c.group_vector[group];
        Band band = band_of(job, c, image, 0, group);
        if (in) band.in = in;
        band.out = out + vector * stage.block_step;
        band.out_vector_step = stage.block_step;
        if (group + 1 < c.groups) band.next = c.weights + c.group_weights[group + 1];
        convolve_some(band, (int)(c.group_vector[group + 1] - vector), from * c.out_width, to * c.out_width);
    }
}

static void windows_stage(const neon_job *job, const neon_stage &stage, const float *in, int64_t in_step, float *out, int64_t from, int64_t to) {
    const neon_windows &s = stage.windows;
    const Inside inside(s);
    for (int64_t block = 0; block < s.blocks; block++) {
        WindowRows windows = rows_of<Depthwise>(job, s, block, in + block * in_step);
        window_rows<Depthwise>(windows, inside, out + block * stage.block_step, from, to);
    }
}

/* Keep rows from `top` on. */
INLINE void move_up(const neon_stage &stage, Kept &kept, int64_t top) {
    if (top < kept.filled && top > kept.top) {
        const int64_t blocks = stage.is_windows ? stage.windows.blocks : stage.convolution.group_vector[stage.convolution.groups];
        for (int64_t block = 0; block < blocks; block++) {
            float *to = kept.strip + block * stage.block_step;
            __builtin_memmove(to, to + (top - kept.top) * stage.row, (size_t)((kept.filled - top) * stage.row) * sizeof(float));
        }
    }
    kept.filled = greater(kept.filled, top);
    kept.top = top;
}

/* Rows [first, last) of the last result of one image. */
template <ConvolvePixels *convolve_some>
void strips_of_image(const neon_job *job, const neon_strips &p, char *memory, int64_t image, int64_t first, int64_t last) {
    const neon_stage &begin = p.stage[0], &end = p.stage[p.stages - 1];
    const int64_t first_step = begin.is_windows ? begin.windows.in_height * begin.windows.in_width * LANES : 0;
    const float *source = begin.is_windows ? (const float *)job->inputs[0] + image * begin.windows.blocks * first_step : nullptr;
    const int64_t blocks = end.is_windows ? end.windows.blocks : end.convolution.group_vector[end.convolution.groups];
    float *const target = (float *)job->outputs[0] + image * blocks * end.block_step;
    Kept kept[NEON_LONGEST_CHAIN];
    for (int64_t k = 0; k < p.stages; k++) kept[k] = Kept{(float *)memory + p.stage[k].strip, 0, 0};
    const int64_t steps = (last - first + p.rows - 1) / p.rows, rows = (last - first + steps - 1) / steps;
    for (int64_t y = first; y < last; y += rows) {
        /* The rows [done, to) that each stage has to add, and the first that it has to keep: the last stage first. */
        int64_t done[NEON_LONGEST_CHAIN], to[NEON_LONGEST_CHAIN];
        done[p.stages - 1] = y, to[p.stages - 1] = lesser(y + rows, last);
        for (int64_t k = p.stages - 1; k > 0; k--) {
            const neon_stage &s = p.stage[k];
            const int64_t top = lesser(s.in_height, greater<int64_t>(0, done[k] * s.stride - s.padding));
            move_up(p.stage[k - 1], kept[k - 1], top);
            done[k - 1] = kept[k - 1].filled;
            to[k - 1] = greater(done[k - 1], lesser(s.in_height, (to[k] - 1) * s.stride - s.padding + s.reach));
            kept[k - 1].filled = to[k - 1];
        }
        if (p.polls && neon_stopped(job)) return;
        const float *in = source;
        int64_t in_step = first_step;
        for (int64_t k = 0; k < p.stages; k++) {
            const neon_stage &s = p.stage[k];
            float *const out = k == p.stages - 1 ? target : kept[k].strip - kept[k].top * s.row;
            if (done[k] < to[k] && s.is_windows)
                windows_stage(job, s, in, in_step, out, done[k], to[k]);
            else if (done[k] < to[k])
                convolve_stage<convolve_some>(job, s, image, in, out, done[k], to[k]);
            in = out, in_step = s.block_step;
        }
    }
}

template <ConvolvePixels *convolve_some> void run_strips(int64_t begin, int64_t end, int32_t worker, void *arg) {
    const neon_job *job = (const neon_job *)arg;
    const neon_strips &p = *(const neon_strips *)job->parameters;
    char *const memory = job->worker_workspace + (size_t)worker * job->worker_stride;
    for (int64_t item = begin; item < end;) {
        const int64_t image = item / p.out_height, first = item % p.out_height, last = lesser(p.out_height, first + end - item);
        strips_of_image<convolve_some>(job, p, memory, image, first, last);
        item += last - first;
    }
}

static const neon_strips_kernels strips_kernels = {run_strips<convolve_pixels>};

} // namespace DOVETAIL_NEON_ISA
} // namespace dovetail_neon

#endif
