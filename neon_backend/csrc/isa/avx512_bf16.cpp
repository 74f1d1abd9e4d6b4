#define DOVETAIL_NEON_ISA avx512_bf16
#include "../kernels/bfloat16.h"

using namespace dovetail_neon::avx512_bf16;

extern "C" const neon_bfloat16_kernels *const neon_bfloat16_amx;
extern "C" const neon_bfloat16_kernels *const neon_bfloat16_amx = &bfloat16_kernels<MatrixUnit>;
extern "C" const neon_bfloat16_kernels *const neon_bfloat16_avx512;
extern "C" const neon_bfloat16_kernels *const neon_bfloat16_avx512 = &bfloat16_kernels<DotUnit>;
