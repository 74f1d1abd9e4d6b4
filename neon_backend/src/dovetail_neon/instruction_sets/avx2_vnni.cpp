#define ACC_ISA avx2_vnni
#include "dovetail_neon/quantized/table.h"

extern "C" const acc_quantized_kernels *const acc_quantized_avx2_vnni;
extern "C" const acc_quantized_kernels *const acc_quantized_avx2_vnni = &dovetail_acc::avx2_vnni::quantized_kernels;
