#define DOVETAIL_NEON_ISA neon
#include "table.h"
