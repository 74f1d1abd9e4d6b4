#define ACC_ISA avx512_bf16
#include "dovetail_neon/convolution/bfloat16.h"
#include "dovetail_neon/instruction_sets/precisions.h"
#include "dovetail_neon/windows/bfloat16.h"

using namespace dovetail_acc::avx512_bf16;

extern "C" const acc_precision acc_bfloat16_amx, acc_bfloat16_avx512;
extern "C" const acc_precision acc_bfloat16_amx = {
    "bfloat16", MatrixUnit::NAME, nullptr, nullptr, &bfloat16_kernels<MatrixUnit>, depthwise_bfloat16};
extern "C" const acc_precision acc_bfloat16_avx512 = {
    "bfloat16", DotUnit::NAME, nullptr, nullptr, &bfloat16_kernels<DotUnit>, depthwise_bfloat16};
