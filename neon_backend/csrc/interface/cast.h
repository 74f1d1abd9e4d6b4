/* From one element type to another. */
#ifndef DOVETAIL_NEON_CAST_H
#define DOVETAIL_NEON_CAST_H

#include "job.h"

enum { NEON_BOOL, NEON_INT8, NEON_UINT8, NEON_INT32, NEON_INT64, NEON_FLOAT32, NEON_FLOAT64, NEON_CAST_TYPES };

typedef struct {
    dovetail_body between[NEON_CAST_TYPES][NEON_CAST_TYPES];    /* [from][to]; range: elements */
} neon_cast_kernels;

#endif
