/* What only moves elements, of 1, 2, 4 or 8 bytes, between plain tensors. */
#ifndef DOVETAIL_NEON_MOVEMENT_H
#define DOVETAIL_NEON_MOVEMENT_H

#include "job.h"

enum { NEON_MOVED_AXES = 16 };

/* How the innermost part of a move is walked. */
enum {
    NEON_RUN = 0,                       /* `length` bytes lie in one piece on both sides */
    NEON_STRIDED = 1,                   /* `length` elements, a step apart on either side */
    NEON_TRANSPOSED = 2,                /* a matrix: `length` rows that lie a step apart in the target and side by side in the
                                           source, `columns` that lie side by side in the target */
    NEON_TRANSPOSED_FLOATS = 3          /* the same, of aligned elements of 4 bytes */
};

/* One strided copy. Steps and offsets are bytes. Its items: the positions of the outer axes, times `chunks` of the length. */
typedef struct {
    int32_t input;                      /* negative: the source is the fill */
    int32_t output;
    int32_t method;
    int32_t element;                    /* bytes */
    int32_t rank;                       /* outer axes, the outermost first */
    int32_t reserved;
    int64_t first_item, items;
    int64_t sizes[NEON_MOVED_AXES];
    int64_t source_steps[NEON_MOVED_AXES];
    int64_t target_steps[NEON_MOVED_AXES];
    int64_t source_offset, target_offset;
    int64_t length, stripe, chunks;     /* a chunk is `stripe` long, the last may be shorter */
    int64_t source_step, target_step;
    int64_t columns, column_step;
} neon_move;

/* Several copies that touch different bytes; range: the items of all. */
typedef struct {
    int64_t count;
    const neon_move *moves;             /* in the order of their items */
    char fill[8];                       /* an element, repeated */
} neon_moves;

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
} neon_gather;

typedef struct {
    dovetail_body move;
    dovetail_body gather;
    /* Index of the first position that is out of range, or -1. */
    int64_t (*first_outside)(const neon_gather *self, const void *positions);
} neon_movement_kernels;

#endif
