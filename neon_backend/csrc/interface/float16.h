/* Convolution and products of matrices whose factors are rounded to float16. */
#ifndef DOVETAIL_NEON_FLOAT16_H
#define DOVETAIL_NEON_FLOAT16_H

#include "convolution.h"
#include "strips.h"

/* What stands in for the kernels of float32: parameters, images and what is added are the same, but for the packed weights. */
typedef struct {
    const char *name;
    const neon_convolution_kernels *convolution;
    const neon_strips_kernels *strips;
} neon_float16_kernels;

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels for an instruction set: those of the unit of this name, or of any if it is NULL. NULL if this build or this machine
 * has none. */
const neon_float16_kernels *neon_float16_kernels_of(const char *instruction_set, const char *unit);

#ifdef __cplusplus
}
#endif

#endif
