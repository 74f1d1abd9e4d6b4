/* Convolution with windows of 3 x 3, stride 1, by Winograd's minimal filtering, over blocked images. */
#ifndef DOVETAIL_NEON_WINOGRAD_H
#define DOVETAIL_NEON_WINOGRAD_H

#include "activation.h"
#include "job.h"
#include "packing.h"

/* Inputs: 0 the images; 1 what is added before the activation, laid out as the output, if `adds`. Output: 0.
 *
 * An image is cut into tiles of `tile` x `tile` results; tiles are counted through all images. Each reads a square of tile + 2
 * elements a side, which is transformed to as many *positions*; at each position the tiles are the rows of a matrix product over
 * the channels. A band is a run of tiles whose transformed elements stay in the cache, [positions][tiles][channels]. */
typedef struct {
    int64_t images;
    int64_t in_height, in_width;
    int64_t out_height, out_width;
    int64_t padding_top, padding_left;
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
    const float *weights;           /* per group of filters: [positions][channels][filters of the group] */
    const float *bias;              /* as many as there are filters, rounded up to whole vectors */
    const int32_t *group_vector;    /* per group, and one more: its first vector of filters */
    int64_t groups;
    neon_activation activation;
    int32_t adds;
} neon_winograd;

typedef struct {
    /* All of a band in the scratch of a worker: range is bands. */
    dovetail_body banded;
    /* Or, for few tiles, in two loops: transform a tile and all its channels into shared scratch (range is tiles), then multiply
     * a band by a group of filters (range is groups * bands). */
    dovetail_body transform;
    dovetail_body multiply;
    /* Transforms and packs one group: weights [filters, 9, channels] of any strides. */
    void (*pack)(const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first_filter,
                 int64_t filters, int64_t vectors, int64_t channels, int64_t tile, float *packed, neon_packing *packing);
} neon_winograd_kernels;

#endif
