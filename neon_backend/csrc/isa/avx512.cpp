#define DOVETAIL_NEON_ISA avx512
#include "table.h"
