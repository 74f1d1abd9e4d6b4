/* Resampling of images. */
#include "kernels.h"

/* Each result is an element of the input: the table has its row and its column. */
void vsi_pick(const struct vsi_command *c, const struct vsi_memories *m) {
    const struct vsi_block *in = &c->input, *out = &c->output;
    const int32_t *rows = (const int32_t *)(m->constants + c->table), *columns = rows + out->size[2];
    const uint8_t *x = vsi_read(m, in);
    uint8_t *y = vsi_written(m, out);
    for (int64_t n = 0; n < out->size[0]; n++)
        for (int64_t channel = 0; channel < out->size[1]; channel++)
            for (int64_t i = 0; i < out->size[2]; i++) {
                const uint8_t *row = x + n * in->stride[0] + channel * in->stride[1] + rows[i] * in->stride[2];
                uint8_t *result = y + n * out->stride[0] + channel * out->stride[1] + i * out->stride[2];
                for (int64_t j = 0; j < out->size[3]; j++) result[j * out->stride[3]] = row[columns[j] * in->stride[3]];
            }
}

/* Return sum / whole, rounded to nearest, ties to even. */
static uint8_t divided(int32_t sum, int32_t whole) {
    const int32_t result = sum / whole, rest = 2 * (sum - result * whole);
    return (uint8_t)(result + (rest > whole || (rest == whole && (result & 1))));
}

/* Each result is a mixture of two rows and two columns, whose weights are whole numbers. */
void vsi_blend(const struct vsi_command *c, const struct vsi_memories *m) {
    const struct vsi_block *in = &c->input, *out = &c->output;
    const int64_t height = out->size[2], width = out->size[3];
    const int32_t *rows = (const int32_t *)(m->constants + c->table), *columns = rows + 3 * height;
    const int32_t tall = c->kernel[0], wide = c->kernel[1];
    const uint8_t *x = vsi_read(m, in);
    uint8_t *y = vsi_written(m, out);
    for (int64_t n = 0; n < out->size[0]; n++)
        for (int64_t channel = 0; channel < out->size[1]; channel++) {
            const uint8_t *image = x + n * in->stride[0] + channel * in->stride[1];
            for (int64_t i = 0; i < height; i++) {
                const uint8_t *upper = image + rows[i] * in->stride[2], *lower = image + rows[height + i] * in->stride[2];
                uint8_t *result = y + n * out->stride[0] + channel * out->stride[1] + i * out->stride[2];
                const int32_t below = rows[2 * height + i], above = tall - below;
                for (int64_t j = 0; j < width; j++) {
                    const int64_t left = columns[j] * in->stride[3], right = columns[width + j] * in->stride[3];
                    const int32_t behind = columns[2 * width + j], before = wide - behind;
                    const int32_t sum = above * (before * upper[left] + behind * upper[right])
                                      + below * (before * lower[left] + behind * lower[right]);
                    result[j * out->stride[3]] = divided(sum, tall * wide);
                }
            }
        }
}
