/* What moves whole images. */
#pragma once

#include "dovetail_neon/movement/parameters.h"
#include "dovetail_neon/workload/spans.h"

namespace dovetail_acc::ACC_ISA {

static void join(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_join &s = *(const acc_join *)job->parameters;
    const int64_t blocks = (s.channels + LANES - 1) / LANES;
    for (int64_t item = begin; item < end; item++) {
        const int64_t part = item % s.parts, image = item / s.parts, channels = s.part_channels[part], first = s.first_channel[part];
        const int64_t part_blocks = (channels + LANES - 1) / LANES;
        const float *in = (const float *)job->inputs[part] + image * part_blocks * s.pixels * LANES;
        float *out = (float *)job->outputs[0] + image * blocks * s.pixels * LANES;
        const int64_t whole = first % LANES == 0 ? channels / LANES : 0;
        if (whole) {
            float *to = out + first / LANES * s.pixels * LANES;
            if (to != in && !copy_spans(job, to, in, whole * s.pixels * LANES)) return;
        }
        for (int64_t channel = whole * LANES; channel < channels; channel++) {
            const float *from = in + channel / LANES * s.pixels * LANES + channel % LANES;
            float *to = out + (first + channel) / LANES * s.pixels * LANES + (first + channel) % LANES;
            for (int64_t p = 0; p < s.pixels;) {
                const int64_t end = span_end(job, p, s.pixels);
                if (end == p) return;
                for (; p < end; p++) to[p * LANES] = from[p * LANES];
            }
        }
    }
}

static void frame(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_frame &s = *(const acc_frame *)job->parameters;
    const int64_t rows = s.height + s.top + s.bottom, width = (s.left + s.width + s.right) * s.element;
    for (int64_t item = begin; item < end; item++) {
        const int64_t plane = item / rows, y = item % rows - s.top;
        float *out = (float *)job->outputs[0] + item * width;
        if (y < 0 || y >= s.height) {
            if (!copy_spans(job, out, nullptr, width)) return;
            continue;
        }
        const float *in = (const float *)job->inputs[0] + (plane * s.height + y) * s.width * s.element;
        if (!copy_spans(job, out, nullptr, s.left * s.element)) return;
        if (!copy_spans(job, out + s.left * s.element, in, s.width * s.element)) return;
        if (!copy_spans(job, out + (s.left + s.width) * s.element, nullptr, s.right * s.element)) return;
    }
}

static void interleave(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_interleave &s = *(const acc_interleave *)job->parameters;
    const int64_t together = s.apart ? 1 : s.stride_y * s.stride_x;
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item % s.out_height + s.first_y, plane = item / s.out_height;
        const int64_t block = plane % s.blocks, image = plane / s.blocks;
        float *out = (float *)job->outputs[0] + item * s.out_width * LANES;
        for (int64_t column = s.first_x; column < s.first_x + lesser(s.stride_x, s.out_width); column++) {
            const int64_t phase = row % s.stride_y * s.stride_x + column % s.stride_x;
            const float *in = (const float *)job->inputs[s.apart ? phase : 0];
            const int64_t line = ((image * together + (s.apart ? 0 : phase)) * s.blocks + block) * s.in_height + row / s.stride_y;
            const float *from = in + (line * s.in_width + column / s.stride_x) * LANES;
            for (int64_t x = column - s.first_x, first = x; x < s.out_width;) {
                const int64_t end = span_end(job, x - first, s.out_width - first) + first;
                if (end == x) return;
                for (; x < end; x += s.stride_x, from += LANES) store(out + x * LANES, load(from));
            }
        }
    }
}

static void copy(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    if (job->outputs[0] != job->inputs[0] && end > begin)
        __builtin_memmove((char *)job->outputs[0] + begin, (const char *)job->inputs[0] + begin, (size_t)(end - begin));
}

static const acc_images_kernels images_kernels = {join, frame, interleave, copy};

} // namespace dovetail_acc::ACC_ISA
