/* Two tensors element by element, with NumPy's broadcast. */
#pragma once

#include "dovetail_neon/elementwise/activation.h"
#include "dovetail_neon/workload/job.h"

enum { ACC_MAX_AXES = 8 };

/* Each operation: its code, and its name among the attributes of layers. */
#define ACC_OPERATIONS(each) \
    each(ACC_ADD, "add")                                     \
    each(ACC_SUBTRACT, "sub")                                \
    each(ACC_MULTIPLY, "mul")                                \
    each(ACC_DIVIDE, "div")                                  \
    each(ACC_MAXIMUM, "maximum")  /* NaN wins */             \
    each(ACC_MINIMUM, "minimum")                             \
    each(ACC_SQUARED_DIFFERENCE, "squared_difference")       \
    each(ACC_POWER, "pow")                                   \
    each(ACC_MODULO, "mod")  /* sign of the divisor */       \
    each(ACC_REMAINDER, "fmod")  /* sign of the dividend */  \
    each(ACC_PRELU, "prelu")  /* a if a >= 0, else a * b */

enum acc_operation { ACC_OPERATIONS(ACC_CODE) };

/* The axes were merged as far as both operands allow. Range: rows, which are all axes but the last.
 * */
typedef struct {
    int32_t operation;
    int32_t axes;                           /* but the last */
    int64_t sizes[ACC_MAX_AXES];
    int64_t steps[2][ACC_MAX_AXES];       /* of the operands, in elements; 0 where one is broadcast */
    int64_t row;                            /* size of the last axis */
    int64_t row_step[2];                    /* 1, or 0 where an operand is broadcast along it */
    int64_t chunks;                         /* of a row: range is rows * chunks */
    acc_activation activation;
} acc_elementwise;

/* Blocked images times one factor per image and channel; range: images * blocks * chunks of pixels.
 * */
typedef struct {
    int64_t images, channels, pixels;
    int64_t chunks;
    acc_activation activation;
} acc_scale;

/* Every element of some memory by itself; range: elements, in chunks of whole vectors. */
typedef struct {
    acc_activation activation;
} acc_flat;

typedef struct {
    dovetail_body binary;
    dovetail_body scale;
    dovetail_body apply;
} acc_elementwise_kernels;

/* Element types between which elements are converted. */
enum { ACC_BOOL, ACC_INT8, ACC_UINT8, ACC_INT16, ACC_UINT16, ACC_INT32, ACC_INT64, ACC_FLOAT32, ACC_FLOAT64, ACC_CAST_TYPES };

typedef struct {
    dovetail_body between[ACC_CAST_TYPES][ACC_CAST_TYPES];    /* [from][to]; range: elements */
} acc_cast_kernels;
