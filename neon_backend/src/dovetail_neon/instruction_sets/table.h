/* The table of one instruction set. */
#pragma once

#include "dovetail_neon/attention/parameters.h"
#include "dovetail_neon/elementwise/parameters.h"
#include "dovetail_neon/convolution/parameters.h"
#include "dovetail_neon/elementwise/parameters.h"
#include "dovetail_neon/movement/parameters.h"
#include "dovetail_neon/movement/parameters.h"
#include "dovetail_neon/matrices/parameters.h"
#include "dovetail_neon/rows/parameters.h"
#include "dovetail_neon/quantized/parameters.h"
#include "dovetail_neon/recurrent/parameters.h"
#include "dovetail_neon/rows/parameters.h"
#include "dovetail_neon/movement/parameters.h"
#include "dovetail_neon/resizing/parameters.h"
#include "dovetail_neon/rows/parameters.h"
#include "dovetail_neon/strips/parameters.h"
#include "dovetail_neon/windows/parameters.h"
#include "dovetail_neon/convolution/parameters.h"

typedef struct {
    const char *name;
    int32_t lanes;
    int32_t reserved;
    const acc_convolution_kernels *convolution;
    const acc_reorder_kernels *reorder;
    const acc_windows_kernels *windows;
    const acc_images_kernels *images;
    const acc_movement_kernels *movement;
    const acc_elementwise_kernels *elementwise;
    const acc_rows_kernels *rows;
    const acc_matmul_kernels *matmul;
    const acc_attention_kernels *attention;
    const acc_cast_kernels *cast;
    const acc_resize_kernels *resize;
    const acc_normalization_kernels *normalization;
    const acc_reduction_kernels *reduction;
    const acc_winograd_kernels *winograd;
    const acc_grouped_kernels *grouped;
    const acc_strips_kernels *strips;
    const acc_quantized_kernels *quantized;
    const acc_recurrent_kernels *recurrent;
} acc_kernels;

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels of an instruction set, by name; NULL if this build does not have it, or this machine. */
const acc_kernels *acc_kernels_of(const char *name);
/* Names of the instruction sets of this build, best first, and whether this machine has them. */
const char *acc_instruction_set(int index, int *here);

#ifdef __cplusplus
}
#endif
