#define ACC_ISA neon_dotprod
#include "dovetail_neon/quantized/table.h"

extern "C" const acc_quantized_kernels *const acc_quantized_neon_dotprod;
extern "C" const acc_quantized_kernels *const acc_quantized_neon_dotprod = &dovetail_acc::neon_dotprod::quantized_kernels;
