/* Convolution and products of matrices whose factors are rounded to bfloat16 and whose sums are float32. */
#ifndef DOVETAIL_NEON_BFLOAT16_H
#define DOVETAIL_NEON_BFLOAT16_H

#include "activation.h"
#include "job.h"
#include "packing.h"

/* How an image lies in memory: steps in bytes. The channels of a block of a pixel lie side by side; elements have `element` bytes,
 * 4 of float32 or 2 of bfloat16. */
typedef struct {
    int64_t image_step, division_step, block_step, pixel_step;
    int64_t block;
    int64_t element;
} neon_bfloat16_image;

/* Inputs: 0 the images; 1 what is added before the activation, if `adds`. Output: 0.
 *
 * What tiles read lies as [images, divisions, blocks, planes, plane_height, plane_width, 32] of bfloat16: blocks of 32 channels, the
 * padding in place; with a stride, the pixels that one tap sees are a plane of their own, so that pixels side by side in the result
 * lie side by side here too. Images of that kind without padding and stride are read as they lie (`direct`); all others are arranged
 * in the workspace first. A tile is a run of pixels of the *grid*, rows of plane_width pixels: those beyond the width of the result
 * are computed and dropped.
 *
 * Of `few` channels, at most 4, plain images are arranged as [images, planes, plane_height, columns, 4] with planes by rows alone: the
 * channels of a row of the window are one run of elements, which blocks are cut from. What a block holds beyond it are other pixels,
 * whose weights are zero: where an image holds an infinity or a NaN, results nearby in its row may be NaN too.
 *
 * Channels i and 16 + i of a block lie side by side: either half becomes a vector of float32 by one shift or mask.
 *
 * Weights are packed: for each vector of 16 filters, for each tap, for each block, 16 pairs of channels of 16 filters. */
typedef struct {
    int64_t images;
    int64_t in_height, in_width;
    int64_t out_height, out_width;
    int64_t stride_y, stride_x;
    int64_t padding_top, padding_left;
    int64_t divisions;
    int64_t channels, filters;      /* of one division */
    int64_t blocks;                 /* of one division */
    neon_bfloat16_image in, out, added;
    int64_t planes, plane_height, plane_width;
    const int64_t *plane_y;         /* per plane: where it begins in the padded image */
    const int64_t *plane_x;
    int64_t taps;
    const int64_t *tap_offset;      /* per tap: bytes from the corner of the window */
    int64_t image_step, division_step, block_step;  /* bytes, of what tiles read */
    int64_t pixel_step;             /* bytes, from pixel to pixel of the grid */
    int64_t columns;                /* pixels in a row of an image of few channels */
    int64_t grid;                   /* pixels, up to the last one of the result */
    int64_t rows;                   /* pixels of a tile: 16, or all of a smaller grid */
    const uint16_t *weights;
    const float *bias;              /* per division: whole vectors */
    int64_t vectors;                /* of the filters of a division */
    int64_t chunks;                 /* of the grid */
    neon_activation activation;
    int32_t adds;
    int32_t direct;
    int32_t few;
    int32_t channels_last;          /* of an image of few channels */
} neon_bfloat16;

/* Depthwise convolution of images [images, blocks, H, W, 32] of bfloat16, in float32. Range: images * blocks * chunks of rows. */
typedef struct {
    int64_t images, channels, blocks;
    int64_t in_height, in_width;
    int64_t out_height, out_width;
    int64_t kernel_height, kernel_width;
    int64_t stride_y, stride_x;
    int64_t dilation_y, dilation_x;
    int64_t padding_top, padding_left;
    int64_t chunks;
    const float *weights;           /* [blocks, taps, 32] */
    const float *bias;              /* [blocks, 32] */
    neon_activation activation;
} neon_bfloat16_windows;

typedef struct {
    const char *name;
    /* Range: images * divisions * blocks * planes * plane_height. */
    dovetail_body arrange;
    /* Range: images * planes * plane_height. */
    dovetail_body arrange_few;
    /* Range: images * divisions * chunks * pairs of vectors. */
    dovetail_body multiply;
    dovetail_body depthwise;
    /* Packs the vectors of one division: weights [filters, taps, channels] of any strides; `runs` for images of few channels. */
    void (*pack)(const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t filters, int64_t taps,
                 int64_t channels, int32_t runs, uint16_t *packed, neon_packing *packing);
} neon_bfloat16_kernels;

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels for an instruction set: those of the unit of this name, or of the best one if it is NULL. NULL if this build or this
 * machine has none. */
const neon_bfloat16_kernels *neon_bfloat16_kernels_of(const char *instruction_set, const char *unit);

#ifdef __cplusplus
}
#endif

#endif
