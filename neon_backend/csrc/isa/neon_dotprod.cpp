#define DOVETAIL_NEON_ISA neon_dotprod
#include "../kernels/quantized.h"

extern "C" const neon_quantized_kernels *const neon_quantized_neon_dotprod;
extern "C" const neon_quantized_kernels *const neon_quantized_neon_dotprod = &dovetail_neon::neon_dotprod::quantized_kernels;
