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
