/* Many elements become one, along axes. */
#ifndef DOVETAIL_NEON_REDUCTION_H
#define DOVETAIL_NEON_REDUCTION_H

#include "job.h"

/* How elements are combined. */
enum {
    NEON_REDUCE_SUM = 0,
    NEON_REDUCE_PRODUCT,
    NEON_REDUCE_MAXIMUM,            /* NaN wins */
    NEON_REDUCE_MINIMUM,
    NEON_REDUCE_LOG_SUM_EXP
};
/* What is done to each before, and to the result after. */
enum { NEON_BEFORE_NOTHING = 0, NEON_BEFORE_ABSOLUTE, NEON_BEFORE_SQUARE };
enum { NEON_AFTER_NOTHING = 0, NEON_AFTER_FACTOR, NEON_AFTER_ROOT, NEON_AFTER_LOGARITHM };

enum { NEON_MOST_STAGES = 4 };

/* From [outer, size, inner] to [outer, inner]. */
typedef struct {
    int64_t outer, size, inner;
    int64_t chunks;                 /* of inner; range: outer * chunks, or outer where inner is 1 */
    int64_t source, target;         /* where in the workspace, in floats; negative: the input, the output */
    int32_t combine, before, after;
    float factor;
} neon_reduction_stage;

typedef struct {
    neon_reduction_stage stages[NEON_MOST_STAGES];
} neon_reduction;

typedef struct {
    dovetail_body stages[NEON_MOST_STAGES];
} neon_reduction_kernels;

#endif
