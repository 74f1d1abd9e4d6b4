/* What only moves elements, of 1, 2, 4 or 8 bytes, between plain tensors. */
#pragma once

#include "dovetail_neon/workload/job.h"

enum { ACC_MOVED_AXES = 16 };

/* How the innermost part of a move is walked. */
enum {
    ACC_RUN = 0,                       /* `length` bytes lie in one piece on both sides */
    ACC_STRIDED = 1,                   /* `length` elements, a step apart on either side */
    ACC_TRANSPOSED = 2,                /* a matrix: `length` rows that lie a step apart in the target and side by side in the
                                           source, `columns` that lie side by side in the target */
    ACC_TRANSPOSED_FLOATS = 3          /* the same, of aligned elements of 4 bytes */
};

/* One strided copy. Steps and offsets are bytes. Its items: the positions of the outer axes, times
 * `chunks` of the length. */
typedef struct {
    int32_t input;                      /* negative: the source is the fill */
    int32_t output;
    int32_t method;
    int32_t element;                    /* bytes */
    int32_t rank;                       /* outer axes, the outermost first */
    int32_t reserved;
    int64_t first_item, items;
    int64_t sizes[ACC_MOVED_AXES];
    int64_t source_steps[ACC_MOVED_AXES];
    int64_t target_steps[ACC_MOVED_AXES];
    int64_t source_offset, target_offset;
    int64_t length, stripe, chunks;     /* a chunk is `stripe` long, the last may be shorter */
    int64_t source_step, target_step;
    int64_t columns, column_step;
} acc_move;

/* Several copies that touch different bytes; range: the items of all. */
typedef struct {
    int64_t count;
    const acc_move *moves;             /* in the order of their items */
    char fill[8];                       /* an element, repeated */
} acc_moves;

/* Slices along an axis, by position; range: batches * outer * count * chunks. */
typedef struct {
    int64_t outer;                      /* per batch */
    int64_t size;                       /* of the axis */
    int64_t count;                      /* positions per batch */
    int64_t total;                      /* positions in all */
    int64_t inner;                      /* bytes of a slice */
    int64_t chunks;                     /* of a slice */
    int32_t wide;                       /* positions are int64, else int32 */
    int32_t axis;                       /* for the message */
} acc_gather;

typedef struct {
    dovetail_body move;
    dovetail_body gather;
    /* Index of the first position that is out of range, or -1. */
    int64_t (*first_outside)(const acc_gather *self, const void *positions);
} acc_movement_kernels;

/* Between plain images and blocked ones. */

/* Range: images * blocks of channels * chunks of pixels. */
typedef struct {
    int64_t images, channels, pixels;
    int64_t chunks;
} acc_reorder;

typedef struct {
    dovetail_body blocked_of_nchw;
    dovetail_body nchw_of_blocked;
    dovetail_body blocked_of_nhwc;
    dovetail_body nhwc_of_blocked;
} acc_reorder_kernels;

/* Blocked images side by side along their channels; range: images * parts. */
typedef struct {
    int64_t images, channels, pixels;
    int64_t parts;
    const int64_t *part_channels;       /* per part */
    const int64_t *first_channel;       /* per part: where it begins in the result */
} acc_join;

/* Planes of rows with zeros around them; range: planes * rows of the result. An image with channels
 * innermost is one plane, whose elements are pixels. */
typedef struct {
    int64_t planes, height, width;
    int64_t element;                    /* floats */
    int64_t top, left, bottom, right;
} acc_frame;

/* Blocked images that are phases [stride_y, stride_x], pixel by pixel of each phase in turn, from
 * (first_y, first_x) on; range: images * blocks * rows of the result. */
typedef struct {
    int32_t apart;                      /* each phase is an input; else their blocks lie one behind the other */
    int64_t blocks;                     /* of the result */
    int64_t in_height, in_width;
    int64_t out_height, out_width;
    int64_t stride_y, stride_x;
    int64_t first_y, first_x;
} acc_interleave;

typedef struct {
    dovetail_body join;
    dovetail_body frame;
    dovetail_body interleave;
    dovetail_body copy;                 /* range: bytes */
} acc_images_kernels;
