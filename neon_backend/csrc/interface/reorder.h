/* Between plain images and blocked ones. */
#ifndef DOVETAIL_NEON_REORDER_H
#define DOVETAIL_NEON_REORDER_H

#include "job.h"

/* Range: images * blocks of channels * chunks of pixels. */
typedef struct {
    int64_t images, channels, pixels;
    int64_t chunks;
} neon_reorder;

typedef struct {
    dovetail_body blocked_of_nchw;
    dovetail_body nchw_of_blocked;
    dovetail_body blocked_of_nhwc;
    dovetail_body nhwc_of_blocked;
} neon_reorder_kernels;

#endif
