/* Everything that is compiled once per instruction set; isa/<name>.cpp names it and includes this. */
#include "../interface/kernels.h"
#include "../kernels/attention.h"
#include "../kernels/cast.h"
#include "../kernels/convolution.h"
#include "../kernels/elementwise.h"
#include "../kernels/images.h"
#include "../kernels/movement.h"
#include "../kernels/matmul.h"
#include "../kernels/normalization.h"
#include "../kernels/quantized.h"
#include "../kernels/reduction.h"
#include "../kernels/reorder.h"
#include "../kernels/resize.h"
#include "../kernels/rows.h"
#include "../kernels/strips.h"
#include "../kernels/windows.h"
#include "../kernels/winograd.h"

extern "C" const neon_kernels DOVETAIL_NEON_JOIN(neon_kernels_, DOVETAIL_NEON_ISA);
extern "C" const neon_kernels DOVETAIL_NEON_JOIN(neon_kernels_, DOVETAIL_NEON_ISA) = {
    DOVETAIL_NEON_TEXT(DOVETAIL_NEON_ISA),
    dovetail_neon::DOVETAIL_NEON_ISA::LANES,
    0,
    &dovetail_neon::DOVETAIL_NEON_ISA::convolution_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::reorder_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::windows_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::images_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::movement_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::elementwise_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::rows_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::matmul_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::attention_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::cast_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::resize_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::normalization_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::reduction_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::winograd_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::strips_kernels,
    &dovetail_neon::DOVETAIL_NEON_ISA::quantized_kernels,
};
