/* The table of one instruction set. */
#ifndef DOVETAIL_NEON_KERNELS_H
#define DOVETAIL_NEON_KERNELS_H

#include "attention.h"
#include "cast.h"
#include "convolution.h"
#include "elementwise.h"
#include "images.h"
#include "movement.h"
#include "matmul.h"
#include "normalization.h"
#include "quantized.h"
#include "reduction.h"
#include "reorder.h"
#include "resize.h"
#include "rows.h"
#include "strips.h"
#include "windows.h"
#include "winograd.h"

typedef struct {
    const char *name;
    int32_t lanes;
    int32_t reserved;
    const neon_convolution_kernels *convolution;
    const neon_reorder_kernels *reorder;
    const neon_windows_kernels *windows;
    const neon_images_kernels *images;
    const neon_movement_kernels *movement;
    const neon_elementwise_kernels *elementwise;
    const neon_rows_kernels *rows;
    const neon_matmul_kernels *matmul;
    const neon_attention_kernels *attention;
    const neon_cast_kernels *cast;
    const neon_resize_kernels *resize;
    const neon_normalization_kernels *normalization;
    const neon_reduction_kernels *reduction;
    const neon_winograd_kernels *winograd;
    const neon_strips_kernels *strips;
    const neon_quantized_kernels *quantized;
} neon_kernels;

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels of an instruction set, by name; NULL if this build does not have it, or this machine. */
const neon_kernels *neon_kernels_of(const char *name);
/* Names of the instruction sets of this build, best first, and whether this machine has them. */
const char *neon_instruction_set(int index, int *here);

#ifdef __cplusplus
}
#endif

#endif
