#define DOVETAIL_NEON_ISA scalar
#include "table.h"
