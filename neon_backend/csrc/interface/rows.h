/* What is worked out along one axis: softmax and layer normalization. */
#ifndef DOVETAIL_NEON_ROWS_H
#define DOVETAIL_NEON_ROWS_H

#include "job.h"

/* A tensor [outer, size, inner]. Range: outer where inner is 1, else outer * chunks of inner. */
typedef struct {
    int64_t outer, size, inner;
    int64_t chunks;
    float beta;             /* softmax of beta * x */
    int32_t logarithm;      /* of the result */
} neon_softmax;

/* Rows of `size` elements; range: rows. */
typedef struct {
    int64_t size;
    float epsilon;
    int32_t center;         /* subtract the mean */
    const float *scale;     /* [size] */
    const float *offset;    /* [size] */
} neon_layer_normalization;

typedef struct {
    dovetail_body softmax;
    dovetail_body softmax_across;       /* inner is not 1 */
    dovetail_body layer_normalization;
} neon_rows_kernels;

#endif
