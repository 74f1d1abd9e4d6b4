/* Images that are resampled: nearest pixels, or sums of pixels with weights. */
#pragma once

#include "dovetail_neon/workload/job.h"

/* Along an axis: result i is the sum over k in [first[i], first[i + 1]) of weight[k] times what
 * lies at position[k]. */
typedef struct {
    const int64_t *first;
    const int64_t *position;
    const float *weight;
} acc_taps;

/* Input and output are blocked. Range: images * blocks of channels * rows of the result. */
typedef struct {
    int64_t in_height, in_width;
    int64_t out_height, out_width;
    acc_taps rows, columns;
    int64_t polls;                      /* the stop word is read within a row of results, */
    int64_t polls_mask;                 /* before each whose number has none of these bits, */
    int64_t long_rows;                  /* and before each row of taps */
} acc_resize;

typedef struct {
    dovetail_body nearest;              /* one tap of each result, whose weight plays no part */
    dovetail_body interpolate;
} acc_resize_kernels;
