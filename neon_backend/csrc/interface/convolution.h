/* Convolution and matrix products: what the register tile of kernels/tile.h serves. */
#ifndef DOVETAIL_NEON_CONVOLUTION_H
#define DOVETAIL_NEON_CONVOLUTION_H

#include "activation.h"
#include "job.h"
#include "packing.h"

/* How the rows of a product, the pixels of an image, lie in memory; all steps in elements. A row-major matrix [M, K] is one image
 * of M pixels with one block of K channels. */
typedef struct {
    int64_t image_step;     /* from image to image */
    int64_t division_step;  /* from the channels of one convolution group to those of the next */
    int64_t block_step;     /* from one block of channels to the next */
    int64_t pixel_step;     /* from one pixel to the next: the channels of a block of a pixel lie side by side */
    int64_t block;          /* channels in a block */
} neon_pixels;

/* Inputs: 0 the images; 1 what is added before the activation, laid out as the output, if `adds`. Output: 0. A group is a group of
 * filters that a tile computes together; a division is what is elsewhere called a group of a convolution.
 * Weights are packed: for each group of `vectors` vectors of filters, for each block of channels, for each tap, for each channel of
 * the block, the filters of the group. */
typedef struct {
    int64_t images;
    int64_t in_height, in_width;
    int64_t out_height, out_width;
    int64_t kernel_height, kernel_width;
    int64_t stride_y, stride_x;
    int64_t dilation_y, dilation_x;
    int64_t padding_top, padding_left;
    int64_t divisions;              /* convolution groups: each has its own channels and filters */
    int64_t channels, filters;      /* of one division */
    neon_pixels in, out;
    const float *weights;           /* of kernels of float16: pairs of them */
    const float *bias;              /* of each division as many as there are filters, rounded up to whole vectors */
    const float *zeros;             /* as long as a block: what lies outside the image */
    const int64_t *group_weights;   /* per group: where its weights begin, in elements */
    const int32_t *group_vector;    /* per group, and one more: its first vector of filters */
    int64_t groups;
    int64_t chunks;                 /* of the pixels of an image: range is images * divisions * groups * chunks */
    int64_t division_weights;       /* elements of the packed weights of one division */
    neon_activation activation;
    int32_t adds;
    int32_t reaches_out;            /* some window reaches outside the image */
    int32_t rows;                   /* a row of the window is one run of elements of each block: the window is one tap wide */
    int32_t chunks_first;           /* items go by images, chunks, divisions and groups; else by images, divisions, groups and chunks */
    int32_t polls;                  /* a tile takes long: the stop word is read before each */
    int32_t reserved;
} neon_convolution;

typedef struct {
    dovetail_body run;
    /* Largest number of vectors in a group. */
    int32_t vectors;
    /* Vectors that are computed as one: all groups but the last have a multiple of them. */
    int32_t together;
    /* Pixels that a tile with so many vectors holds. */
    int32_t pixels[9];
    /* Elements of float32 that the packed weights of a group take. */
    int64_t (*packed)(int64_t vectors, int64_t taps, int64_t channels, int64_t block);
    /* Packs one group: weights [filters, taps, channels] of any strides, into the order above; `packed` holds zeros. */
    void (*pack)(const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first_filter,
                 int64_t filters, int64_t vectors, int64_t taps, int64_t channels, int64_t block, float *packed, neon_packing *packing);
} neon_convolution_kernels;

#endif
