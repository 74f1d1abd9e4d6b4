/* What convolutions and products with constant matrices are told. */
#pragma once

#include "dovetail_neon/elementwise/activation.h"
#include "dovetail_neon/geometry/window.h"
#include "dovetail_neon/workload/job.h"
#include "dovetail_neon/workload/packing.h"

/* How the rows of a product, the pixels of an image, lie in memory; all steps in elements. A
 * row-major matrix [M, K] is one image of M pixels with one block of K channels. */
typedef struct {
    int64_t image_step;     /* from image to image */
    int64_t group_step;     /* from the channels of one convolution group to those of the next */
    int64_t block_step;     /* from one block of channels to the next */
    int64_t pixel_step;     /* from one pixel to the next: the channels of a block of a pixel lie side by side */
    int64_t block;          /* channels in a block */
} acc_pixels;

/* Inputs: 0 the images; 1 what is added before the activation, laid out as the output, if `adds`.
 * Output: 0. A panel are the filters that a tile computes together. Weights are packed: for each
 * panel of `vectors` vectors of filters, for each block of channels, for each tap, for each channel
 * of the block, the filters of the panel. */
typedef struct {
    int64_t images;
    acc_window window;
    int64_t groups;                 /* convolution groups: each has its own channels and filters */
    int64_t channels, filters;      /* of one group */
    acc_pixels in, out;
    const float *weights;           /* of kernels of float16: pairs of them */
    const float *bias;              /* of each group as many as there are filters, rounded up to whole vectors */
    const float *zeros;             /* as long as a block: what lies outside the image */
    const int64_t *panel_weights;   /* per panel: where its weights begin, in elements */
    const int32_t *panel_vector;    /* per panel, and one more: its first vector of filters */
    int64_t panels;
    int64_t chunks;                 /* of the pixels of an image: range is images * groups * panels * chunks */
    int64_t group_weights;          /* elements of the packed weights of one group */
    acc_activation activation;
    int32_t adds;
    int32_t reaches_out;            /* some window reaches outside the image */
    int32_t rows;                   /* a row of the window is one run of elements of each block: the window is one tap wide */
    int32_t chunks_first;           /* items go by images, chunks, groups and panels; else by images, groups, panels and chunks */
    int32_t polls;                  /* a tile takes long: the stop word is read before each */
    int32_t reserved;
} acc_convolution;

typedef struct {
    dovetail_body run;
    /* Largest number of vectors in a panel. */
    int32_t vectors;
    /* Vectors that are computed as one: all panels but the last have a multiple of them. */
    int32_t together;
    /* Pixels that a tile with so many vectors holds. */
    int32_t pixels[9];
    /* Elements of float32 that the packed weights of a panel take. */
    int64_t (*packed)(int64_t vectors, int64_t taps, int64_t channels, int64_t block);
    /* Packs one panel: weights [filters, taps, channels] of any strides, into the order above;
     * `packed` holds zeros. */
    void (*pack)(const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first_filter,
                 int64_t filters, int64_t vectors, int64_t taps, int64_t channels, int64_t block, float *packed, acc_packing *packing);
} acc_convolution_kernels;

/* What the lanes of a block of filters read in a step. */
enum acc_spread {
    ACC_LANES_OF_ONE_GROUP,     /* one element */
    ACC_LANES_OF_TWO_GROUPS,    /* an element for the first lanes, and one for the others */
    ACC_LANES_OF_ONE_VECTOR,
    ACC_LANES_OF_TWO_VECTORS,
    ACC_LANES_OF_THREE_VECTORS
};

/* Convolution of blocked images in groups that need not fill blocks. A block of filters takes as
 * many steps as a group has channels: in each, every lane reads the next channel of its own group.
 *
 * Of the convolution: `channels` of one group; for each panel weights [channels, taps, blocks of
 * the panel, lanes]; range is images * chunks * panels. A panel is one block, or with windows of
 * one pixel several of the same group. */
typedef struct {
    acc_convolution convolution;
    int64_t most;                   /* vectors that some block reads from in a step, at least 2 */
    const int32_t *spread;          /* per block: enum acc_spread */
    const int64_t *sources;         /* [blocks, steps, most]: elements from a pixel to each element or vector */
    const int32_t *lanes;           /* [blocks, steps, most, lanes]: which lane of the vector a lane reads; -1 if none of its */
} acc_grouped;

typedef struct {
    dovetail_body run;
} acc_grouped_kernels;

/* Winograd convolution of blocked images, with windows of 3 x 3 and stride 1.
 *
 * Inputs: 0 the images; 1 what is added before the activation, laid out as the output, if `adds`.
 * Output: 0.
 *
 * An image is cut into tiles of `tile` x `tile` results; tiles are counted through all images. Each
 * reads a square of tile + 2 elements a side, which is transformed to as many *positions*; at each
 * position the tiles are the rows of a matrix product over the channels. A band is a run of tiles
 * whose transformed elements stay in the cache, [positions][tiles][channels]. */
typedef struct {
    int64_t images;
    acc_window window;
    int64_t channels, filters;
    int64_t tile;                   /* 2 or 4 */
    int64_t tile_columns;           /* tiles side by side in an image */
    int64_t image_tiles;
    int64_t tiles;                  /* of all images */
    int64_t bands;                  /* as equal as can be */
    int64_t row_step;               /* elements from tile to tile among transformed ones */
    int64_t position_step;          /* and from position to position */
    int64_t product_step;           /* elements from tile to tile among products */
    int64_t products_at;            /* bytes of a worker's scratch before the products */
    const float *weights;           /* per panel of filters: [positions][channels][filters of the panel] */
    const float *bias;              /* as many as there are filters, rounded up to whole vectors */
    const int32_t *panel_vector;    /* per panel, and one more: its first vector of filters */
    int64_t panels;
    acc_activation activation;
    int32_t adds;
} acc_winograd;

typedef struct {
    /* All of a band in the scratch of a worker: range is bands. */
    dovetail_body banded;
    /* Or, for few tiles, in two loops: transform a tile and all its channels into shared scratch
     * (range is tiles), then multiply a band by a panel of filters (range is panels * bands). */
    dovetail_body transform;
    dovetail_body multiply;
    /* Transforms and packs one panel: weights [filters, 9, channels] of any strides. */
    void (*pack)(const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first_filter,
                 int64_t filters, int64_t vectors, int64_t channels, int64_t tile, float *packed, acc_packing *packing);
} acc_winograd_kernels;

/* Convolution and products of matrices whose factors are rounded to bfloat16 and whose sums are
 * float32. */

/* How an image lies in memory: steps in bytes. The channels of a block of a pixel lie side by side;
 * elements have `element` bytes, 4 of float32 or 2 of bfloat16. */
typedef struct {
    int64_t image_step, group_step, block_step, pixel_step;
    int64_t block;
    int64_t element;
} acc_bfloat16_image;

/* Inputs: 0 the images; 1 what is added before the activation, if `adds`. Output: 0.
 *
 * What tiles read lies as [images, groups, blocks, planes, plane_height, plane_width, 32] of
 * bfloat16: blocks of 32 channels, the padding in place; with a stride, the pixels that one tap
 * sees are a plane of their own, so that pixels side by side in the result lie side by side here
 * too. Images of that kind without padding and stride are read as they lie (`direct`); all others
 * are arranged in the workspace first. A tile is a run of pixels of the *grid*, rows of plane_width
 * pixels: those beyond the width of the result are computed and dropped.
 *
 * Of `few` channels, at most 4, plain images are arranged as [images, planes, plane_height,
 * columns, 4] with planes by rows alone: the channels of a row of the window are one run of
 * elements, which blocks are cut from. What a block holds beyond it are other pixels, whose weights
 * are zero: where an image holds an infinity or a NaN, results nearby in its row may be NaN too.
 *
 * Channels i and 16 + i of a block lie side by side: either half becomes a vector of float32 by one
 * shift or mask.
 *
 * Weights are packed: for each vector of 16 filters, for each tap, for each block, 16 pairs of
 * channels of 16 filters. */
typedef struct {
    int64_t images;
    acc_window window;
    int64_t groups;
    int64_t channels, filters;      /* of one group */
    int64_t blocks;                 /* of one group */
    acc_bfloat16_image in, out, added;
    int64_t planes, plane_height, plane_width;
    const int64_t *plane_y;         /* per plane: where it begins in the padded image */
    const int64_t *plane_x;
    int64_t taps;
    const int64_t *tap_offset;      /* per tap: bytes from the corner of the window */
    int64_t image_step, group_step, block_step;  /* bytes, of what tiles read */
    int64_t pixel_step;             /* bytes, from pixel to pixel of the grid */
    int64_t columns;                /* pixels in a row of an image of few channels */
    int64_t grid;                   /* pixels, up to the last one of the result */
    int64_t rows;                   /* pixels of a tile: 16, or all of a smaller grid */
    const uint16_t *weights;
    const float *bias;              /* per group: whole vectors */
    int64_t vectors;                /* of the filters of a group */
    int64_t chunks;                 /* of the grid */
    acc_activation activation;
    int32_t adds;
    int32_t direct;
    int32_t few;
    int32_t channels_last;          /* of an image of few channels */
} acc_bfloat16;

typedef struct {
    /* Range: images * groups * blocks * planes * plane_height. */
    dovetail_body arrange;
    /* Range: images * planes * plane_height. */
    dovetail_body arrange_few;
    /* Range: images * groups * chunks * pairs of vectors. */
    dovetail_body multiply;
    /* Packs the vectors of one group: weights [filters, taps, channels] of any strides; `runs` for
     * images of few channels. */
    void (*pack)(const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t filters, int64_t taps,
                 int64_t channels, int32_t runs, uint16_t *packed, acc_packing *packing);
} acc_bfloat16_kernels;
