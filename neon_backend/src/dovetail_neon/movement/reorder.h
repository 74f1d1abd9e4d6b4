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

INLINE void blocked_of_nchw(const ReorderItem &item, const float *in, float *out) {
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

INLINE void nchw_of_blocked(const ReorderItem &item, const float *in, float *out) {
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

INLINE void blocked_of_nhwc(const ReorderItem &item, const float *in, float *out) {
    for (int64_t p = item.first; p < item.last; p++)
        store(out + p * LANES, item.channels == LANES ? load(in + p * item.self->channels)
                                                      : load_part(in + p * item.self->channels, (int)item.channels));
}

INLINE void nhwc_of_blocked(const ReorderItem &item, const float *in, float *out) {
    for (int64_t p = item.first; p < item.last; p++)
        if (item.channels == LANES)
            store(out + p * item.self->channels, load(in + p * LANES));
        else
            store_part(out + p * item.self->channels, load(in + p * LANES), (int)item.channels);
}

template <bool channels_last, bool to_blocks> static void reorder(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    for (int64_t i = begin; i < end; i++) {
        const ReorderItem item(job, i);
        const int64_t plain = channels_last ? item.nhwc() : item.nchw();
        const float *in = (const float *)job->inputs[0] + (to_blocks ? plain : item.blocked());
        float *out = (float *)job->outputs[0] + (to_blocks ? item.blocked() : plain);
        if constexpr (to_blocks)
            channels_last ? blocked_of_nhwc(item, in, out) : blocked_of_nchw(item, in, out);
        else
            channels_last ? nhwc_of_blocked(item, in, out) : nchw_of_blocked(item, in, out);
    }
}

static const acc_reorder_kernels reorder_kernels = {
    reorder<false, true>, reorder<false, false>, reorder<true, true>, reorder<true, false>,
};

} // namespace dovetail_acc::ACC_ISA
