#define DOVETAIL_NEON_ISA avx2_vnni
#include "../kernels/quantized.h"

extern "C" const neon_quantized_kernels *const neon_quantized_avx2_vnni;
extern "C" const neon_quantized_kernels *const neon_quantized_avx2_vnni = &dovetail_neon::avx2_vnni::quantized_kernels;
