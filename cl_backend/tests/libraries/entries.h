/* The functions that the backend asks of a library, with the types that it calls them by. */
#ifndef DOVETAIL_CL_ENTRIES_H
#define DOVETAIL_CL_ENTRIES_H

#include "opencl.h"

#define DECLARE(type, name, parameters) type name parameters;
OPENCL_FUNCTIONS(DECLARE)
#undef DECLARE

#endif
