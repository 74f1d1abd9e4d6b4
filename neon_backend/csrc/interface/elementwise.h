/* Two tensors element by element, with NumPy's broadcast. */
#ifndef DOVETAIL_NEON_ELEMENTWISE_H
#define DOVETAIL_NEON_ELEMENTWISE_H

#include "activation.h"
#include "job.h"

enum { NEON_MOST_AXES = 8 };

enum neon_operation {
    NEON_ADD = 0,
    NEON_SUBTRACT,
    NEON_MULTIPLY,
    NEON_DIVIDE,
    NEON_MAXIMUM,               /* NaN wins */
    NEON_MINIMUM,
    NEON_SQUARED_DIFFERENCE,
    NEON_POWER,
    NEON_MODULO,                /* sign of the divisor */
    NEON_REMAINDER,             /* sign of the dividend */
    NEON_PRELU                  /* a if a >= 0, else a * b */
};

/* The axes were merged as far as both operands allow. Range: rows, which are all axes but the last. */
typedef struct {
    int32_t operation;
    int32_t axes;                           /* but the last */
    int64_t sizes[NEON_MOST_AXES];
    int64_t steps[2][NEON_MOST_AXES];       /* of the operands, in elements; 0 where one is broadcast */
    int64_t row;                            /* size of the last axis */
    int64_t row_step[2];                    /* 1, or 0 where an operand is broadcast along it */
    int64_t chunks;                         /* of a row: range is rows * chunks */
    neon_activation activation;
} neon_elementwise;

typedef struct {
    dovetail_body binary;
} neon_elementwise_kernels;

#endif
