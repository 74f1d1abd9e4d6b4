#define DOVETAIL_NEON_ISA avx2
#include "table.h"
