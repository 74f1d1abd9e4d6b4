/* Windows over images. */
#include <math.h>

#include "kernels.h"

/* The rows or columns of a window that lie inside the image. */
struct taps { int64_t begin, end; };

static struct taps taps_of(const struct vsi_command *c, int axis, int64_t position) {
    const int64_t first = position * c->stride[axis] - c->padding[axis], size = c->input.size[axis + 2];
    const int64_t last = first + c->kernel[axis];
    return (struct taps){first < 0 ? 0 : first, last > size ? size : last};
}

static uint8_t maximum(const struct vsi_block *in, const uint8_t *plane, struct taps rows, struct taps columns) {
    uint8_t best = 0;
    for (int64_t y = rows.begin; y < rows.end; y++)
        for (int64_t x = columns.begin; x < columns.end; x++) {
            const uint8_t element = plane[y * in->stride[2] + x * in->stride[3]];
            best = element > best ? element : best;
        }
    return best;
}

/* The mean, rounded to the even stored integer where it lies between two; or downward. */
static uint8_t average(const struct vsi_command *c, const struct vsi_memories *m, const uint8_t *plane, struct taps rows,
                       struct taps columns) {
    const struct vsi_block *in = &c->input;
    const double factor = *(const double *)(m->constants + c->reals);
    int64_t sum = 0, count = (rows.end - rows.begin) * (columns.end - columns.begin);
    for (int64_t y = rows.begin; y < rows.end; y++)
        for (int64_t x = columns.begin; x < columns.end; x++) sum += plane[y * in->stride[2] + x * in->stride[3]] - c->zero[0];
    if (c->count_padding) count = (int64_t)c->kernel[0] * c->kernel[1];
    const double mean = (double)sum * factor / (double)(count > 0 ? count : 1) + c->zero[2];
    return vsi_rounded(c->value ? floor(mean + 1e-9) : mean, c);
}

void vsi_pool(const struct vsi_command *c, const struct vsi_memories *m) {
    const struct vsi_block *in = &c->input, *out = &c->output;
    const uint8_t *image = vsi_read(m, in);
    uint8_t *result = vsi_written(m, out);
    for (int64_t n = 0; n < out->size[0]; n++)
        for (int64_t channel = 0; channel < out->size[1]; channel++) {
            const uint8_t *plane = image + n * in->stride[0] + channel * in->stride[1];
            uint8_t *target = result + n * out->stride[0] + channel * out->stride[1];
            for (int64_t y = 0; y < out->size[2]; y++)
                for (int64_t x = 0; x < out->size[3]; x++) {
                    const struct taps rows = taps_of(c, 0, y), columns = taps_of(c, 1, x);
                    target[y * out->stride[2] + x * out->stride[3]] =
                        c->opcode == VSI_MAX_POOL ? maximum(in, plane, rows, columns) : average(c, m, plane, rows, columns);
                }
        }
}
