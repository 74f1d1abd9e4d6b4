/* A convolution and the depthwise one that reads it, strip by strip: what lies between them never leaves the second cache. */
#ifndef DOVETAIL_NEON_STRIPS_H
#define DOVETAIL_NEON_STRIPS_H

#include "convolution.h"
#include "windows.h"

/* Inputs: those of the convolution, whose result is blocked and has one division; output: that of the windows. A strip holds some
 * rows of a group of filters in scratch memory of the worker. Range: images * groups * bands. */
typedef struct {
    neon_convolution convolution;
    neon_windows windows;
    int64_t bands;          /* of the rows of an image */
    int64_t rows;           /* of the result, computed at a time */
    int64_t strip_rows;     /* that these read */
} neon_strips;

typedef struct {
    dovetail_body depthwise;
} neon_strips_kernels;

#endif
