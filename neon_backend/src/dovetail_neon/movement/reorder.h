/* Between plain images and blocked ones. */
#pragma once

#include "dovetail_neon/movement/parameters.h"
#include "dovetail_neon/vectors/transpose.h"

namespace dovetail_acc::ACC_ISA {

/* One chunk of the pixels of one block of channels. */
struct ReorderItem {
    const acc_reorder *self;
    int64_t image, block, first, last, channels;

    ReorderItem(const acc_job *job, int64_t item) {
        self = (const acc_reorder *)job->parameters;
        const int64_t blocks = (self->channels + LANES - 1) / LANES, chunk = item % self->chunks;
        block = item / self->chunks % blocks, image = item / self->chunks / blocks;
        first = self->pixels * chunk / self->chunks, last = self->pixels * (chunk + 1) / self->chunks;
        channels = lesser<int64_t>(LANES, self->channels - block * LANES);
    }
    int64_t blocked() const {
        return (image * ((self->channels + LANES - 1) / LANES) + block) * self->pixels * LANES;
    }
    int64_t nchw() const { return (image * self->channels + block * LANES) * self->pixels; }
    int64_t nhwc() const { return image * self->pixels * self->channels + block * LANES; }
};

static void blocked_of_nchw(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    for (int64_t i = begin; i < end; i++) {
        const ReorderItem item(job, i);
        const float *in = (const float *)job->inputs[0] + item.nchw();
        float *out = (float *)job->outputs[0] + item.blocked();
        const int64_t pixels = item.self->pixels;
        for (int64_t p = item.first; p < item.last; p += LANES) {
            const int count = (int)lesser<int64_t>(LANES, item.last - p);
            Vector x[LANES];
            for (int c = 0; c < LANES; c++)
                x[c] = c < item.channels ? (count == LANES ? load(in + c * pixels + p) : load_part(in + c * pixels + p, count)) : zeros();
            transpose(x);
            for (int k = 0; k < count; k++) store(out + (p + k) * LANES, x[k]);
        }
    }
}

static void nchw_of_blocked(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    for (int64_t i = begin; i < end; i++) {
        const ReorderItem item(job, i);
        const float *in = (const float *)job->inputs[0] + item.blocked();
        float *out = (float *)job->outputs[0] + item.nchw();
        const int64_t pixels = item.self->pixels;
        for (int64_t p = item.first; p < item.last; p += LANES) {
            const int count = (int)lesser<int64_t>(LANES, item.last - p);
            Vector x[LANES];
            for (int k = 0; k < LANES; k++) x[k] = k < count ? load(in + (p + k) * LANES) : zeros();
            transpose(x);
            for (int c = 0; c < item.channels; c++)
                if (count == LANES)
                    store(out + c * pixels + p, x[c]);
                else
                    store_part(out + c * pixels + p, x[c], count);
        }
    }
}

static void blocked_of_nhwc(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    for (int64_t i = begin; i < end; i++) {
        const ReorderItem item(job, i);
        const float *in = (const float *)job->inputs[0] + item.nhwc();
        float *out = (float *)job->outputs[0] + item.blocked();
        for (int64_t p = item.first; p < item.last; p++)
            store(out + p * LANES, item.channels == LANES ? load(in + p * item.self->channels)
                                                          : load_part(in + p * item.self->channels, (int)item.channels));
    }
}

static void nhwc_of_blocked(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    for (int64_t i = begin; i < end; i++) {
        const ReorderItem item(job, i);
        const float *in = (const float *)job->inputs[0] + item.blocked();
        float *out = (float *)job->outputs[0] + item.nhwc();
        for (int64_t p = item.first; p < item.last; p++)
            if (item.channels == LANES)
                store(out + p * item.self->channels, load(in + p * LANES));
            else
                store_part(out + p * item.self->channels, load(in + p * LANES), (int)item.channels);
    }
}

static const acc_reorder_kernels reorder_kernels = {blocked_of_nchw, nchw_of_blocked, blocked_of_nhwc, nhwc_of_blocked};

} // namespace dovetail_acc::ACC_ISA
