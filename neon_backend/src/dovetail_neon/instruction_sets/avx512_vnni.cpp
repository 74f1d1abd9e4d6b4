#define ACC_ISA avx512_vnni
#include "dovetail_neon/quantized/table.h"
#include "dovetail_neon/quantized/matrix_unit.h"

using namespace dovetail_acc::avx512_vnni;

extern "C" const acc_quantized_kernels *const acc_quantized_avx512_vnni;
extern "C" const acc_quantized_kernels *const acc_quantized_avx512_vnni = &quantized_kernels;
extern "C" const acc_quantized_matrix_kernels *const acc_quantized_amx;
extern "C" const acc_quantized_matrix_kernels *const acc_quantized_amx = &quantized_matrix_kernels;
