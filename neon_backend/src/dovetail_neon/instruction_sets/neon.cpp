#define ACC_ISA neon
#include "dovetail_neon/instruction_sets/instances.h"
