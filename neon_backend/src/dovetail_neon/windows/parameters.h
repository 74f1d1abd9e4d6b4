/* Windows over each channel of blocked images: depthwise convolution and pooling. */
#pragma once

#include "dovetail_neon/elementwise/activation.h"
#include "dovetail_neon/geometry/window.h"
#include "dovetail_neon/workload/job.h"

/* Input and output are blocked. Range: the rows of the results of all images if `by_rows`, those
 * side by side are done as one; else images * blocks of channels. */
typedef struct {
    int64_t images, channels, blocks;
    acc_window window;
    int32_t by_rows;
    int32_t polls;                      /* some rows take long: the stop word is read within them */
    const float *weights;               /* depthwise: [blocks, taps, lanes] */
    const float *bias;                  /* depthwise: [blocks, lanes] */
    acc_activation activation;         /* depthwise */
    int64_t chunks;                     /* of rows, of images of bfloat16: range is images * blocks * chunks */
    const float *factors;               /* average: [out_height * out_width], one over the elements that count */
} acc_windows;

typedef struct {
    dovetail_body depthwise;
    dovetail_body maximum;
    dovetail_body average;
    dovetail_body mean;                 /* of a whole image, to a plain [images, channels]; range: images * blocks */
} acc_windows_kernels;
