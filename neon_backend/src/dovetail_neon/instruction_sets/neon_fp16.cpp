#define ACC_ISA neon_fp16
#include "dovetail_neon/convolution/float16.h"
#include "dovetail_neon/instruction_sets/precisions.h"

using namespace dovetail_acc::neon_fp16;

extern "C" const acc_precision acc_float16_fp16;
extern "C" const acc_precision acc_float16_fp16 = {
    "float16", "neon_fp16", &half_convolution_kernels, &half_strips_kernels, nullptr, nullptr};
