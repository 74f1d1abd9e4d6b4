/* A chain of layers, strip by strip: what lies between them never leaves the L2 cache. */
#pragma once

#include "dovetail_neon/convolution/parameters.h"
#include "dovetail_neon/windows/parameters.h"

#define ACC_LONGEST_CHAIN 8

/* A convolution of one group, whose result is blocked, or a depthwise one. */
typedef struct {
    int32_t is_windows, reserved;
    acc_convolution convolution;
    acc_windows windows;
    int64_t in_height, stride, padding, reach;  /* of rows; a window reaches over so many */
    int64_t strip;              /* where its result lies in the worker's memory, in elements; of the last one: nowhere */
    int64_t block_step;         /* from a block of channels of the result to the next, in elements */
    int64_t row;                /* elements of a row of a block of the result */
} acc_stage;

/* Inputs: those of the first layer, or what the last one adds; output: that of the last. A strip
 * holds some rows of all channels of what lies between two layers. Range: the rows of the results
 * of all images; those side by side are done as one. */
typedef struct {
    int64_t stages;
    int64_t out_height;
    int64_t rows;               /* of the last result, computed at a time */
    int64_t polls;              /* a strip takes long: the stop word is read before each */
    acc_stage stage[ACC_LONGEST_CHAIN];
} acc_strips;

typedef struct {
    dovetail_body run;
} acc_strips_kernels;
