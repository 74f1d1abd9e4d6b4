#define ACC_ISA avx512
#include "dovetail_neon/instruction_sets/instances.h"
