#define ACC_ISA scalar
#include "dovetail_neon/instruction_sets/instances.h"
