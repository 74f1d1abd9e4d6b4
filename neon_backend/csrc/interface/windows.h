/* Windows over each channel of blocked images: depthwise convolution and pooling. */
#ifndef DOVETAIL_NEON_WINDOWS_H
#define DOVETAIL_NEON_WINDOWS_H

#include "activation.h"
#include "job.h"

/* Input and output are blocked. Range: the rows of the results of all images if `by_rows`, those side by side are done as
 * one; else images * blocks of channels. */
typedef struct {
    int64_t images, channels, blocks;
    int64_t in_height, in_width;
    int64_t out_height, out_width;
    int64_t kernel_height, kernel_width;
    int64_t stride_y, stride_x;
    int64_t dilation_y, dilation_x;
    int64_t padding_top, padding_left;
    int32_t by_rows;
    int32_t polls;                      /* some rows take long: the stop word is read within them */
    const float *weights;               /* depthwise: [blocks, taps, lanes] */
    const float *bias;                  /* depthwise: [blocks, lanes] */
    neon_activation activation;         /* depthwise */
    const float *factors;               /* average: [out_height * out_width], one over the elements that count */
} neon_windows;

typedef struct {
    dovetail_body depthwise;
    dovetail_body maximum;
    dovetail_body average;
    dovetail_body mean;                 /* of a whole image, to a plain [images, channels]; range: images * blocks */
} neon_windows_kernels;

#endif
