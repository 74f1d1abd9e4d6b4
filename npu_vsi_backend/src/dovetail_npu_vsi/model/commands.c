/* The loop over commands. */
#define _POSIX_C_SOURCE 199309L
#include <string.h>
#include <time.h>

#include "kernels.h"

enum { SLICE = 3000000 };   /* nanoseconds until whoever waits may ask whether the run is cancelled */

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* One row of a copy. */
static void copy_row(const uint8_t *x, int64_t step, uint8_t *y, int64_t written, int64_t count, const uint8_t *table) {
    if (!table && step == 1 && written == 1) {
        memcpy(y, x, (size_t)count);
    } else if (!table) {
        for (int64_t i = 0; i < count; i++) y[i * written] = x[i * step];
    } else {
        for (int64_t i = 0; i < count; i++) y[i * written] = table[x[i * step]];
    }
}

static void copy(const struct vsi_command *c, const struct vsi_memories *m) {
    const uint8_t *table = c->table < 0 ? NULL : m->constants + c->table;
    const struct vsi_block *in = &c->input, *out = &c->output;
    const uint8_t *x = vsi_read(m, in);
    uint8_t *y = vsi_written(m, out);
    for (int64_t i = 0; i < out->size[0]; i++)
        for (int64_t j = 0; j < out->size[1]; j++)
            for (int64_t k = 0; k < out->size[2]; k++)
                copy_row(x + i * in->stride[0] + j * in->stride[1] + k * in->stride[2], in->stride[3],
                         y + i * out->stride[0] + j * out->stride[1] + k * out->stride[2], out->stride[3], out->size[3], table);
}

static void fill(const struct vsi_command *c, const struct vsi_memories *m) {
    const struct vsi_block *out = &c->output;
    uint8_t *y = vsi_written(m, out);
    for (int64_t i = 0; i < out->size[0]; i++)
        for (int64_t j = 0; j < out->size[1]; j++)
            for (int64_t k = 0; k < out->size[2]; k++)
                for (int64_t l = 0; l < out->size[3]; l++)
                    y[i * out->stride[0] + j * out->stride[1] + k * out->stride[2] + l * out->stride[3]] = (uint8_t)c->value;
}

static void carry_out(const struct vsi_command *c, const struct vsi_memories *m, int32_t *scratch) {
    for (int axis = 0; axis < VSI_AXES; axis++)
        if (c->output.size[axis] == 0) return;
    switch (c->opcode) {
    case VSI_COPY: copy(c, m); break;
    case VSI_FILL: fill(c, m); break;
    case VSI_CONVOLVE: vsi_convolve(c, m, scratch); break;
    case VSI_MAX_POOL: case VSI_AVERAGE_POOL: vsi_pool(c, m); break;
    case VSI_ADD: case VSI_MULTIPLY: case VSI_SUM: vsi_combine(c, m); break;
    case VSI_SOFTMAX: vsi_softmax(c, m); break;
    case VSI_PICK: vsi_pick(c, m); break;
    case VSI_BLEND: vsi_blend(c, m); break;
    default: break;
    }
}

int64_t vsi_execute(const struct vsi_command *commands, int64_t count, const struct vsi_memories *memories,
                    int32_t *scratch) {
    const int64_t end = now() + SLICE;
    for (int64_t i = 0; i < count; i++) {
        carry_out(&commands[i], memories, scratch);
        if (now() > end) return i + 1;
    }
    return count;
}

int64_t vsi_scratch_bytes(const struct vsi_command *commands, int64_t count) {
    int64_t most = 0;
    for (int64_t i = 0; i < count; i++)
        if (commands[i].opcode == VSI_CONVOLVE) {
            const int64_t bytes = vsi_convolution_scratch(&commands[i]);
            most = bytes > most ? bytes : most;
        }
    return most;
}
