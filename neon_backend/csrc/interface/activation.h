/* Functions of one element: alone, or applied to a result before it leaves the cache. */
#ifndef DOVETAIL_NEON_ACTIVATION_H
#define DOVETAIL_NEON_ACTIVATION_H

#include <stdint.h>

/* src/dovetail_neon/functions.py names them in this order. */
enum neon_function {
    NEON_IDENTITY = 0,
    NEON_CLAMP,             /* a is the lower limit, b the upper one */
    NEON_LINEAR,            /* a * x + b */
    NEON_LEAKY_RELU,        /* a is the slope */
    NEON_THRESHOLDED_RELU,  /* x if x > a, else 0 */
    NEON_ELU,               /* a is alpha */
    NEON_SELU,              /* a is alpha, b is gamma */
    NEON_CELU,              /* a is alpha */
    NEON_SIGMOID,
    NEON_TANH,
    NEON_HARD_SIGMOID,      /* max(0, min(1, a * x + b)) */
    NEON_HARD_SWISH,        /* x * max(0, min(1, x / 6 + 1 / 2)) */
    NEON_SWISH,             /* x * sigmoid(a * x) */
    NEON_GELU,              /* x / 2 * (1 + erf(x / sqrt 2)) */
    NEON_GELU_TANH,         /* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) */
    NEON_SOFT_PLUS,         /* log(1 + e^x) */
    NEON_SOFT_SIGN,         /* x / (1 + |x|) */
    NEON_MISH,              /* x * tanh(softplus(x)) */
    NEON_SHRINK,            /* x + b if x < -a; x - b if x > a; else 0 */
    NEON_ABS,
    NEON_NEGATE,
    NEON_SQUARE_ROOT,
    NEON_RECIPROCAL_SQUARE_ROOT,
    NEON_RECIPROCAL,
    NEON_EXP,
    NEON_LOG,
    NEON_ERF,
    NEON_FLOOR,
    NEON_CEIL,
    NEON_ROUND,
    NEON_SIGN,
    NEON_SIN,               /* from here on: one element at a time */
    NEON_COS,
    NEON_TAN,
    NEON_ASIN,
    NEON_ACOS,
    NEON_ATAN,
    NEON_SINH,
    NEON_COSH,
    NEON_ASINH,
    NEON_ACOSH,
    NEON_ATANH
};

typedef struct {
    int32_t function;       /* enum neon_function */
    float a;
    float b;
} neon_activation;

#endif
