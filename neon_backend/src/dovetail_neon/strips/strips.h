/* Chains of convolutions and depthwise ones, strip by strip: each row in between is computed once,
 * is read while it lies in the L2 cache, and is never written to memory. */
#pragma once

#include "dovetail_neon/strips/parameters.h"
#include "dovetail_neon/convolution/direct.h"
#include "dovetail_neon/windows/windows.h"

namespace dovetail_acc::ACC_ISA {

/* Rows [top, filled) of the result of a stage are kept; `strip` is where row `top` of its first
 * block lies. */
struct Kept {
    float *strip;
    int64_t top, filled;
};

/* Rows [from, to) of a stage whose row 0, if all rows were there, would lie at `in` and `out`; `in`
 * is NULL for the input of the layer. */
template <ConvolvePixels *convolve_some>
void convolve_stage(const acc_job *job, const acc_stage &stage, int64_t image, const float *in, float *out, int64_t from,
                    int64_t to) {
    const acc_convolution &c = stage.convolution;
    for (int64_t panel = 0; panel < c.panels; panel++) {
        const int64_t vector = c.panel_vector[panel];
        Band band = band_of(job, c, image, 0, panel);
        if (in) band.in = in;
        band.out = out + vector * stage.block_step;
        band.out_vector_step = stage.block_step;
        if (panel + 1 < c.panels) band.next = c.weights + c.panel_weights[panel + 1];
        convolve_some(band, (int)(c.panel_vector[panel + 1] - vector), from * c.window.out_width, to * c.window.out_width);
    }
}

static void windows_stage(const acc_job *job, const acc_stage &stage, const float *in, int64_t in_step, float *out, int64_t from, int64_t to) {
    const acc_windows &s = stage.windows;
    const Inside inside(s);
    for (int64_t block = 0; block < s.blocks; block++) {
        WindowRows windows = rows_of<Depthwise>(job, s, block, in + block * in_step);
        window_rows<Depthwise>(windows, inside, out + block * stage.block_step, from, to);
    }
}

/* Keep rows from `top` on. */
INLINE void move_up(const acc_stage &stage, Kept &kept, int64_t top) {
    if (top < kept.filled && top > kept.top) {
        const int64_t blocks = stage.is_windows ? stage.windows.blocks : stage.convolution.panel_vector[stage.convolution.panels];
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
void strips_of_image(const acc_job *job, const acc_strips &p, char *memory, int64_t image, int64_t first, int64_t last) {
    const acc_stage &begin = p.stage[0], &end = p.stage[p.stages - 1];
    const int64_t first_step = begin.is_windows ? begin.windows.window.in_height * begin.windows.window.in_width * LANES : 0;
    const float *source = begin.is_windows ? (const float *)job->inputs[0] + image * begin.windows.blocks * first_step : nullptr;
    const int64_t blocks = end.is_windows ? end.windows.blocks : end.convolution.panel_vector[end.convolution.panels];
    float *const target = (float *)job->outputs[0] + image * blocks * end.block_step;
    Kept kept[ACC_LONGEST_CHAIN];
    for (int64_t k = 0; k < p.stages; k++) kept[k] = Kept{(float *)memory + p.stage[k].strip, 0, 0};
    const int64_t steps = (last - first + p.rows - 1) / p.rows, rows = (last - first + steps - 1) / steps;
    for (int64_t y = first; y < last; y += rows) {
        /* The rows [done, to) that each stage has to add, and the first that it has to keep: the
         * last stage first. */
        int64_t done[ACC_LONGEST_CHAIN], to[ACC_LONGEST_CHAIN];
        done[p.stages - 1] = y, to[p.stages - 1] = lesser(y + rows, last);
        for (int64_t k = p.stages - 1; k > 0; k--) {
            const acc_stage &s = p.stage[k];
            const int64_t top = lesser(s.in_height, greater<int64_t>(0, done[k] * s.stride - s.padding));
            move_up(p.stage[k - 1], kept[k - 1], top);
            done[k - 1] = kept[k - 1].filled;
            to[k - 1] = greater(done[k - 1], lesser(s.in_height, (to[k] - 1) * s.stride - s.padding + s.reach));
            kept[k - 1].filled = to[k - 1];
        }
        if (p.polls && acc_stopped(job)) return;
        const float *in = source;
        int64_t in_step = first_step;
        for (int64_t k = 0; k < p.stages; k++) {
            const acc_stage &s = p.stage[k];
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
    const acc_job *job = (const acc_job *)arg;
    const acc_strips &p = *(const acc_strips *)job->parameters;
    char *const memory = job->worker_workspace + (size_t)worker * job->worker_stride;
    for (int64_t item = begin; item < end;) {
        const int64_t image = item / p.out_height, first = item % p.out_height, last = lesser(p.out_height, first + end - item);
        strips_of_image<convolve_some>(job, p, memory, image, first, last);
        item += last - first;
    }
}

static const acc_strips_kernels strips_kernels = {run_strips<convolve_pixels>};

} // namespace dovetail_acc::ACC_ISA
