#define DOVETAIL_NEON_ISA neon_fp16
#include "../kernels/float16.h"

extern "C" const neon_float16_kernels *const neon_float16_neon;
extern "C" const neon_float16_kernels *const neon_float16_neon = &dovetail_neon::neon_fp16::float16_kernels;
