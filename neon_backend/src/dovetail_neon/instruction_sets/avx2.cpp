#define ACC_ISA avx2
#include "dovetail_neon/instruction_sets/instances.h"
