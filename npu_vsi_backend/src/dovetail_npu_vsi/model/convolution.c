/* The convolution engine: products of bytes in 32 bits, finished by a factor for each filter. */
#include <string.h>

#include "kernels.h"

/* Return sum * factor as the shader does: each step is rounded to a float. */
static uint8_t scaled(float sum, const struct vsi_filter *filter, const struct vsi_command *c) {
    const float product = sum * filter->factor;
    return vsi_rounded(product + (float)c->zero[2], c);
}

/* Return (sum + bias) * mantissa * 2^-shift, ties to even, within bounds; sums wrap in 32 bits. */
static uint8_t finished(int32_t sum, const struct vsi_filter *filter, const struct vsi_command *c) {
    if (filter->factor != 0) return scaled((float)(int64_t)((uint64_t)sum + (uint64_t)filter->bias), filter, c);
    const int32_t whole = (int32_t)((uint32_t)sum + (uint32_t)filter->bias);
    const int64_t product = (int64_t)whole * filter->mantissa;
    const int64_t result = vsi_shifted(product, filter->shift) + c->zero[2];
    return (uint8_t)(result < c->low ? c->low : result > c->high ? c->high : result);
}

/* Which outputs along an axis read a tap that lies inside the image: [*begin, *end). */
static void reached(int64_t outputs, int64_t size, int64_t stride, int64_t at, int64_t *begin, int64_t *end) {
    *begin = at >= 0 ? 0 : (-at + stride - 1) / stride;
    *end = at >= size ? 0 : (size - at + stride - 1) / stride;
    if (*end > outputs) *end = outputs;
    if (*begin > *end) *begin = *end;
}

/* One filter for each channel: a row of results at a time, one tap after the other. */
static void depthwise(const struct vsi_command *c, const struct vsi_memories *m, int32_t *sums) {
    const struct vsi_block *in = &c->input, *out = &c->output;
    const uint8_t *image = vsi_read(m, in);
    uint8_t *result = vsi_written(m, out);
    const struct vsi_filter *filters = (const struct vsi_filter *)(m->constants + c->filters) + c->first_filter;
    const uint8_t *weights = m->constants + c->weights + (int64_t)c->first_filter * c->kernel[0] * c->kernel[1];
    const int64_t first_group = c->first_filter / c->group_outputs;
    for (int64_t n = 0; n < out->size[0]; n++)
        for (int64_t o = 0; o < out->size[1]; o++) {
            const int64_t channel = (c->first_filter + o) / c->group_outputs - first_group;
            const uint8_t *plane = image + n * in->stride[0] + channel * in->stride[1];
            const uint8_t *taps = weights + o * c->kernel[0] * c->kernel[1];
            for (int64_t y = 0; y < out->size[2]; y++) {
                memset(sums, 0, (size_t)out->size[3] * sizeof *sums);
                for (int64_t i = 0; i < c->kernel[0]; i++) {
                    const int64_t row = y * c->stride[0] + i * c->dilation[0] - c->padding[0];
                    if (row < 0 || row >= in->size[2]) continue;
                    for (int64_t j = 0; j < c->kernel[1]; j++) {
                        const int32_t weight = vsi_weight(taps[i * c->kernel[1] + j], c) - filters[o].zero;
                        const int64_t at = j * c->dilation[1] - c->padding[1];
                        int64_t begin, end;
                        reached(out->size[3], in->size[3], c->stride[1], at, &begin, &end);
                        const uint8_t *x = plane + row * in->stride[2] + at * in->stride[3];
                        const int64_t step = c->stride[1] * in->stride[3];
                        for (int64_t k = begin; k < end; k++) sums[k] += (x[k * step] - c->zero[0]) * weight;
                    }
                }
                uint8_t *line = result + n * out->stride[0] + o * out->stride[1] + y * out->stride[2];
                for (int64_t k = 0; k < out->size[3]; k++) line[k * out->stride[3]] = finished(sums[k], &filters[o], c);
            }
        }
}

enum { STEP = 8, PIXELS = 32 };     /* products of 16 bits that a register of 128 bits holds; pixels of a patch matrix */

static int64_t rounded_up(int64_t count) { return (count + STEP - 1) / STEP * STEP; }

static int is_plain_depthwise(const struct vsi_command *c) { return c->group_inputs == 1 && !c->chunk; }

int64_t vsi_convolution_scratch(const struct vsi_command *c) {
    const int64_t depth = rounded_up((int64_t)c->group_inputs * c->kernel[0] * c->kernel[1]);
    const int64_t shorts = depth * (c->output.size[1] + PIXELS);
    const int64_t of_ends = c->chunk ? depth * (int64_t)sizeof(int32_t) : 0;
    const int64_t of_rows = c->output.size[3] * (int64_t)sizeof(int32_t);
    return (is_plain_depthwise(c) ? of_rows : shorts * (int64_t)sizeof(int16_t) + of_ends) + 64;
}

/* Write what a pixel of the result reads, less the zero point; padding is zero. */
static void gather(const struct vsi_command *c, const uint8_t *image, int64_t y, int64_t x, int16_t *patch, int64_t depth) {
    const struct vsi_block *in = &c->input;
    for (int64_t channel = 0; channel < c->group_inputs; channel++)
        for (int64_t i = 0; i < c->kernel[0]; i++) {
            const int64_t row = y * c->stride[0] + i * c->dilation[0] - c->padding[0];
            for (int64_t j = 0; j < c->kernel[1]; j++) {
                const int64_t column = x * c->stride[1] + j * c->dilation[1] - c->padding[1];
                const int inside = row >= 0 && row < in->size[2] && column >= 0 && column < in->size[3];
                const int64_t at = channel * in->stride[1] + row * in->stride[2] + column * in->stride[3];
                *patch++ = (int16_t)(inside ? image[at] - c->zero[0] : 0);
            }
        }
    for (int64_t k = (int64_t)c->group_inputs * c->kernel[0] * c->kernel[1]; k < depth; k++) *patch++ = 0;
}

/* Return the scalar products of a patch with four filters. */
static void products(const int16_t *restrict patch, const int16_t *restrict filters, int64_t depth, int32_t *sums) {
    uint32_t a = 0, b = 0, c = 0, d = 0;
    for (int64_t k = 0; k < depth; k++) {
        a += (uint32_t)(patch[k] * filters[k]);
        b += (uint32_t)(patch[k] * filters[depth + k]);
        c += (uint32_t)(patch[k] * filters[2 * depth + k]);
        d += (uint32_t)(patch[k] * filters[3 * depth + k]);
    }
    sums[0] = (int32_t)a, sums[1] = (int32_t)b, sums[2] = (int32_t)c, sums[3] = (int32_t)d;
}

static int32_t product(const int16_t *restrict patch, const int16_t *restrict filter, int64_t depth) {
    uint32_t sum = 0;
    for (int64_t k = 0; k < depth; k++) sum += (uint32_t)(patch[k] * filter[k]);
    return (int32_t)sum;
}

/* Note behind which products of a filter its chunks end; return how many chunks there are. Zeros
 * that the driver puts between weights for a dilation count, but make no products. */
static int64_t chunks_of(const struct vsi_command *c, int64_t group, int32_t *ends) {
    const uint64_t height = (uint64_t)(c->kernel[0] - 1) * c->dilation[0] + 1;
    const uint64_t width = (uint64_t)(c->kernel[1] - 1) * c->dilation[1] + 1;
    const uint64_t first = c->across ? (uint64_t)group * c->group_inputs : 0;
    int64_t count = 0;
    int32_t product = 0;
    uint64_t last = 0;
    for (int32_t channel = 0; channel < c->group_inputs; channel++)
        for (int32_t i = 0; i < c->kernel[0]; i++)
            for (int32_t j = 0; j < c->kernel[1]; j++, product++) {
                const uint64_t row = c->by_rows ? 0 : (first + channel) * height + (uint64_t)i * c->dilation[0];
                const uint64_t chunk = (row * width + (uint64_t)j * c->dilation[1]) / c->chunk;
                if (product && (chunk != last || (c->by_rows && j == 0))) ends[count++] = product;
                last = chunk;
            }
    ends[count++] = product;
    return count;
}

/* Return the shader's scalar product, which a float sums chunk by chunk. */
static float chunked(const int16_t *patch, const int16_t *filter, const int32_t *ends, int64_t chunks, int32_t lift,
                     float sum) {
    int32_t k = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        uint32_t part = 0;
        for (; k < ends[chunk]; k++) part += ((uint32_t)patch[k] + (uint32_t)lift) * (uint32_t)filter[k];
        sum += (float)(int32_t)part;
    }
    return sum;
}

/* The filters of one group, on some pixels, where sums are rounded on the way. */
static void multiply_by_chunks(const struct vsi_command *c, const int16_t *patches, const int16_t *filters, int64_t depth,
                               const int32_t *ends, int64_t chunks, int64_t first, int64_t count, int64_t pixels,
                               uint8_t *result, const struct vsi_filter *finishes) {
    const struct vsi_block *out = &c->output;
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t o = first; o < first + count; o++) {
            const float start = (float)finishes[o].bias;
            const float sum = chunked(patches + p * depth, filters + o * depth, ends, chunks, c->lift, start);
            result[o * out->stride[1] + p * out->stride[3]] = scaled(sum, &finishes[o], c);
        }
}

/* The filters of one group, on some pixels whose patches were gathered. */
static void multiply(const struct vsi_command *c, const int16_t *patches, const int16_t *filters, int64_t depth, int64_t first,
                     int64_t count, int64_t pixels, uint8_t *result, const struct vsi_filter *finishes) {
    const struct vsi_block *out = &c->output;
    for (int64_t p = 0; p < pixels; p++) {
        int64_t o = first;
        for (; o + 4 <= first + count; o += 4) {
            int32_t sums[4];
            products(patches + p * depth, filters + o * depth, depth, sums);
            for (int64_t k = 0; k < 4; k++)
                result[(o + k) * out->stride[1] + p * out->stride[3]] = finished(sums[k], &finishes[o + k], c);
        }
        for (; o < first + count; o++) {
            const int32_t sum = product(patches + p * depth, filters + o * depth, depth);
            result[o * out->stride[1] + p * out->stride[3]] = finished(sum, &finishes[o], c);
        }
    }
}

void vsi_convolve(const struct vsi_command *c, const struct vsi_memories *m, int32_t *scratch) {
    if (is_plain_depthwise(c)) {
        depthwise(c, m, scratch);
        return;
    }
    const struct vsi_block *in = &c->input, *out = &c->output;
    const int64_t taps = (int64_t)c->group_inputs * c->kernel[0] * c->kernel[1], depth = rounded_up(taps);
    const struct vsi_filter *finishes = (const struct vsi_filter *)(m->constants + c->filters) + c->first_filter;
    const uint8_t *weights = m->constants + c->weights + c->first_filter * taps;
    int32_t *ends = scratch;
    int16_t *filters = (int16_t *)(scratch + (c->chunk ? depth : 0)), *patches = filters + depth * out->size[1];
    for (int64_t o = 0; o < out->size[1]; o++)
        for (int64_t k = 0; k < depth; k++)
            filters[o * depth + k] = (int16_t)(k < taps ? vsi_weight(weights[o * taps + k], c) - finishes[o].zero : 0);
    const uint8_t *image = vsi_read(m, in);
    uint8_t *result = vsi_written(m, out);
    const int64_t first_group = c->first_filter / c->group_outputs;
    for (int64_t n = 0; n < out->size[0]; n++)
        for (int64_t begin = 0; begin < out->size[1];) {
            const int64_t group = (c->first_filter + begin) / c->group_outputs;
            int64_t end = (group + 1) * c->group_outputs - c->first_filter;
            if (end > out->size[1]) end = out->size[1];
            const uint8_t *channels = image + n * in->stride[0] + (group - first_group) * c->group_inputs * in->stride[1];
            const int64_t chunks = c->chunk ? chunks_of(c, group, ends) : 0;
            for (int64_t y = 0; y < out->size[2]; y++)
                for (int64_t x = 0; x < out->size[3]; x += PIXELS) {
                    const int64_t pixels = out->size[3] - x < PIXELS ? out->size[3] - x : PIXELS;
                    for (int64_t p = 0; p < pixels; p++) gather(c, channels, y, x + p, patches + p * depth, depth);
                    uint8_t *line = result + n * out->stride[0] + y * out->stride[2] + x * out->stride[3];
                    if (c->chunk)
                        multiply_by_chunks(c, patches, filters, depth, ends, chunks, begin, end - begin, pixels, line,
                                           finishes);
                    else
                        multiply(c, patches, filters, depth, begin, end - begin, pixels, line, finishes);
                }
            begin = end;
        }
}
