/* All that is compiled once per instruction set; instruction_sets/<name>.cpp names the set and
 * includes this. */
#include "dovetail_neon/instruction_sets/table.h"
#include "dovetail_neon/attention/attention.h"
#include "dovetail_neon/elementwise/cast.h"
#include "dovetail_neon/convolution/direct.h"
#include "dovetail_neon/convolution/group_lanes.h"
#include "dovetail_neon/elementwise/binary.h"
#include "dovetail_neon/movement/images.h"
#include "dovetail_neon/movement/copies.h"
#include "dovetail_neon/matrices/matmul.h"
#include "dovetail_neon/rows/normalization.h"
#include "dovetail_neon/quantized/table.h"
#include "dovetail_neon/recurrent/float_cells.h"
#include "dovetail_neon/rows/reduction.h"
#include "dovetail_neon/movement/reorder.h"
#include "dovetail_neon/resizing/resample.h"
#include "dovetail_neon/rows/softmax.h"
#include "dovetail_neon/strips/strips.h"
#include "dovetail_neon/windows/windows.h"
#include "dovetail_neon/convolution/winograd.h"

extern "C" const acc_kernels ACC_JOIN(acc_kernels_, ACC_ISA);
extern "C" const acc_kernels ACC_JOIN(acc_kernels_, ACC_ISA) = {
    ACC_TEXT(ACC_ISA),
    dovetail_acc::ACC_ISA::LANES,
    0,
    &dovetail_acc::ACC_ISA::convolution_kernels,
    &dovetail_acc::ACC_ISA::reorder_kernels,
    &dovetail_acc::ACC_ISA::windows_kernels,
    &dovetail_acc::ACC_ISA::images_kernels,
    &dovetail_acc::ACC_ISA::movement_kernels,
    &dovetail_acc::ACC_ISA::elementwise_kernels,
    &dovetail_acc::ACC_ISA::rows_kernels,
    &dovetail_acc::ACC_ISA::matmul_kernels,
    &dovetail_acc::ACC_ISA::attention_kernels,
    &dovetail_acc::ACC_ISA::cast_kernels,
    &dovetail_acc::ACC_ISA::resize_kernels,
    &dovetail_acc::ACC_ISA::normalization_kernels,
    &dovetail_acc::ACC_ISA::reduction_kernels,
    &dovetail_acc::ACC_ISA::winograd_kernels,
    &dovetail_acc::ACC_ISA::grouped_kernels,
    &dovetail_acc::ACC_ISA::strips_kernels,
    &dovetail_acc::ACC_ISA::quantized_kernels,
    &dovetail_acc::ACC_ISA::recurrent_kernels,
};
