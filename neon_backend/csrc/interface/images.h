/* What moves or scales whole images. */
#ifndef DOVETAIL_NEON_IMAGES_H
#define DOVETAIL_NEON_IMAGES_H

#include "activation.h"
#include "job.h"

/* Blocked images times one factor per image and channel; range: images * blocks * chunks of pixels. */
typedef struct {
    int64_t images, channels, pixels;
    int64_t chunks;
    neon_activation activation;
} neon_scale;

/* Blocked images side by side along their channels; range: images * parts. */
typedef struct {
    int64_t images, channels, pixels;
    int64_t parts;
    const int64_t *part_channels;       /* per part */
    const int64_t *first_channel;       /* per part: where it begins in the result */
} neon_join;

/* Planes of rows with zeros around them; range: planes * rows of the result. An image with channels innermost is one plane, whose
 * elements are pixels. */
typedef struct {
    int64_t planes, height, width;
    int64_t element;                    /* floats */
    int64_t top, left, bottom, right;
} neon_frame;

/* Blocked images that are phases [stride_y, stride_x], pixel by pixel of each phase in turn, from (first_y, first_x) on; range:
 * images * blocks * rows of the result. */
typedef struct {
    int32_t apart;                      /* each phase is an input; else their blocks lie one behind the other */
    int64_t blocks;                     /* of the result */
    int64_t in_height, in_width;
    int64_t out_height, out_width;
    int64_t stride_y, stride_x;
    int64_t first_y, first_x;
} neon_interleave;

/* Every element of some memory by itself; range: elements, in chunks of whole vectors. */
typedef struct {
    neon_activation activation;
} neon_flat;

typedef struct {
    dovetail_body scale;
    dovetail_body join;
    dovetail_body frame;
    dovetail_body interleave;
    dovetail_body apply;
    dovetail_body copy;                 /* range: bytes */
} neon_images_kernels;

#endif
