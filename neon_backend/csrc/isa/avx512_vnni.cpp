#define DOVETAIL_NEON_ISA avx512_vnni
#include "../kernels/quantized.h"
#include "../kernels/quantized_matrix.h"

using namespace dovetail_neon::avx512_vnni;

extern "C" const neon_quantized_kernels *const neon_quantized_avx512_vnni;
extern "C" const neon_quantized_kernels *const neon_quantized_avx512_vnni = &quantized_kernels;
extern "C" const neon_quantized_matrix_kernels *const neon_quantized_amx;
extern "C" const neon_quantized_matrix_kernels *const neon_quantized_amx = &quantized_matrix_kernels;
