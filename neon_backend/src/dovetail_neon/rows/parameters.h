/* What is worked out along one axis: softmax and layer normalization. */
#pragma once

#include "dovetail_neon/workload/job.h"

/* A tensor [outer, size, inner]. Range: outer where inner is 1, else outer * chunks of inner. */
typedef struct {
    int64_t outer, size, inner;
    int64_t chunks;
    float beta;             /* softmax of beta * x */
    int32_t logarithm;      /* of the result */
} acc_softmax;

/* Rows of `size` elements; range: rows. */
typedef struct {
    int64_t size;
    float epsilon;
    int32_t center;         /* subtract the mean */
    const float *scale;     /* [size] */
    const float *offset;    /* [size] */
} acc_layer_normalization;

typedef struct {
    dovetail_body softmax;
    dovetail_body softmax_across;       /* inner is not 1 */
    dovetail_body layer_normalization;
} acc_rows_kernels;

/* Channels scaled and shifted: by what was learned, or after their mean and variance were made 0
 * and 1. */

/* A tensor [outer, channels, inner] times a factor, plus an offset, per channel. Range: outer *
 * channels, or outer if inner is 1. */
typedef struct {
    int64_t channels, inner;
    const float *factor;        /* [channels] */
    const float *offset;        /* [channels] */
} acc_affine;

/* A tensor [outer, groups, channels, inner]: each group of each outer has its own mean and
 * variance. Range: outer * groups. */
typedef struct {
    int64_t groups;
    int64_t channels;           /* of a group */
    int64_t inner;
    float epsilon;
    const float *scale;         /* [groups * channels] */
    const float *offset;        /* [groups * channels] */
} acc_group_normalization;

/* A tensor [outer, pixels, channels]: each channel of each outer has its own mean and variance.
 * Range: outer * vectors of channels. */
typedef struct {
    int64_t pixels, channels;
    float epsilon;
    const float *scale;         /* [channels] */
    const float *offset;        /* [channels] */
} acc_column_normalization;

typedef struct {
    dovetail_body affine;
    dovetail_body groups;
    dovetail_body columns;
} acc_normalization_kernels;

/* Many elements become one, along axes. */

/* How elements are combined. */
enum {
    ACC_REDUCE_SUM = 0,
    ACC_REDUCE_PRODUCT,
    ACC_REDUCE_MAXIMUM,            /* NaN wins */
    ACC_REDUCE_MINIMUM,
    ACC_REDUCE_LOG_SUM_EXP
};
/* What is done to each before, and to the result after. */
enum { ACC_BEFORE_NOTHING = 0, ACC_BEFORE_ABSOLUTE, ACC_BEFORE_SQUARE };
enum { ACC_AFTER_NOTHING = 0, ACC_AFTER_FACTOR, ACC_AFTER_ROOT, ACC_AFTER_LOGARITHM };

enum { ACC_MAX_STAGES = 4 };

/* From [outer, size, inner] to [outer, inner]. */
typedef struct {
    int64_t outer, size, inner;
    int64_t chunks;                 /* of inner; range: outer * chunks, or outer where inner is 1 */
    int64_t source, target;         /* where in the workspace, in floats; negative: the input, the output */
    int32_t combine, before, after;
    float factor;
} acc_reduction_stage;

typedef struct {
    acc_reduction_stage stages[ACC_MAX_STAGES];
} acc_reduction;

typedef struct {
    dovetail_body stages[ACC_MAX_STAGES];
} acc_reduction_kernels;
