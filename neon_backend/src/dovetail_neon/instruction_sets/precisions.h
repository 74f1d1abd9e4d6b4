/* Products whose factors are rounded: what multiplies them, by instruction set and precision. */
#pragma once

#include "dovetail_neon/convolution/parameters.h"
#include "dovetail_neon/strips/parameters.h"

/* The kernels of one precision. Images may stay float32, whose kernels are told the same as those
 * of float32, but for the packed weights; or they are arranged, and may be kept, in the precision
 * of the factors. */
typedef struct {
    const char *precision;                              /* "bfloat16", "float16" */
    const char *unit;                                   /* what multiplies */
    const acc_convolution_kernels *convolution;        /* of images of float32, or NULL */
    const acc_strips_kernels *strips;                  /* chains of them, or NULL */
    const acc_bfloat16_kernels *arranged;              /* of images that are arranged, or NULL */
    dovetail_body depthwise;                            /* of images that are kept, or NULL */
} acc_precision;

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels of a precision for an instruction set: those of the unit of this name, or of the best one
 * if it is NULL. NULL if this build or this machine has none. */
const acc_precision *acc_precision_of(const char *instruction_set, const char *precision, const char *unit);

#ifdef __cplusplus
}
#endif
