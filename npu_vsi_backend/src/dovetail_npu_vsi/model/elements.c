/* Sums and products of two tensors, and softmax. */
#include <math.h>

#include "kernels.h"

/* The shader's sum: the zero point joins the first summand, each step is rounded to a float. */
static uint8_t added(const struct vsi_command *c, const float *factors, uint8_t x, uint8_t y) {
    const float first = (float)(x - c->zero[0]) * factors[0] + (float)c->zero[2];
    const float second = (float)(y - c->zero[1]) * factors[1];
    return vsi_rounded(first + second, c);
}

/* The shader's product: what both zero points make is added as a float. */
static uint8_t multiplied(const struct vsi_command *c, const float *factors, uint8_t x, uint8_t y) {
    const float product = (float)(x * y - x * c->zero[1] - y * c->zero[0]) * factors[0];
    return vsi_rounded(product + factors[1], c);
}

static uint8_t summed(const struct vsi_command *c, const struct vsi_filter *filter, uint8_t x, uint8_t y) {
    const int64_t sum = (int64_t)c->kernel[0] * (x - c->zero[0]) + (int64_t)c->kernel[1] * (y - c->zero[1]) + filter->bias;
    return vsi_clamped(vsi_shifted(sum * filter->mantissa, filter->shift) + c->zero[2], c);
}

static uint8_t combined(const struct vsi_command *c, const void *constants, uint8_t x, uint8_t y) {
    if (c->opcode == VSI_SUM) return summed(c, constants, x, y);
    return c->opcode == VSI_ADD ? added(c, constants, x, y) : multiplied(c, constants, x, y);
}

void vsi_combine(const struct vsi_command *c, const struct vsi_memories *m) {
    const void *factors = m->constants + (c->opcode == VSI_SUM ? c->filters : c->reals);
    const struct vsi_block *a = &c->input, *b = &c->second, *out = &c->output;
    const uint8_t *x = vsi_read(m, a), *y = vsi_read(m, b);
    uint8_t *result = vsi_written(m, out);
    for (int64_t i = 0; i < out->size[0]; i++)
        for (int64_t j = 0; j < out->size[1]; j++)
            for (int64_t k = 0; k < out->size[2]; k++) {
                const uint8_t *left = x + i * a->stride[0] + j * a->stride[1] + k * a->stride[2];
                const uint8_t *right = y + i * b->stride[0] + j * b->stride[1] + k * b->stride[2];
                uint8_t *line = result + i * out->stride[0] + j * out->stride[1] + k * out->stride[2];
                for (int64_t l = 0; l < out->size[3]; l++)
                    line[l * out->stride[3]] = combined(c, factors, left[l * a->stride[3]], right[l * b->stride[3]]);
            }
}

/* Blocks have the axes before, along and behind that of the sums; the table has the powers. */
void vsi_softmax(const struct vsi_command *c, const struct vsi_memories *m) {
    const double *powers = (const double *)(m->constants + c->table);
    const double scale = *(const double *)(m->constants + c->reals);
    const struct vsi_block *in = &c->input, *out = &c->output;
    const uint8_t *x = vsi_read(m, in);
    uint8_t *y = vsi_written(m, out);
    for (int64_t i = 0; i < in->size[0]; i++)
        for (int64_t k = 0; k < in->size[2]; k++) {
            const uint8_t *line = x + i * in->stride[0] + k * in->stride[2];
            uint8_t *result = y + i * out->stride[0] + k * out->stride[2];
            uint8_t greatest = 0;
            for (int64_t j = 0; j < in->size[1]; j++)
                greatest = line[j * in->stride[1]] > greatest ? line[j * in->stride[1]] : greatest;
            double sum = 0;
            for (int64_t j = 0; j < in->size[1]; j++) sum += powers[greatest - line[j * in->stride[1]]];
            for (int64_t j = 0; j < in->size[1]; j++) {
                const double share = powers[greatest - line[j * in->stride[1]]] / sum;
                result[j * out->stride[1]] = vsi_rounded(share / scale + c->zero[2], c);
            }
        }
}
