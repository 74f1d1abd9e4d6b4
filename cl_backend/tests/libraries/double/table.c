#include "double.h"

/* All that the backend asks of a library is here: else this one cannot be loaded. */
#define ENTRY(type, name, parameters) .name = name,
extern const opencl double_table;
const opencl double_table = {OPENCL_FUNCTIONS(ENTRY)};
