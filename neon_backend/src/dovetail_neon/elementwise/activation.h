/* Functions of one element: alone, or applied to a result before it leaves the cache. */
#pragma once

#include <stdint.h>

/* Each function: its code, and its name among the attributes of layers. Cython reads this table too
 * (codes.pyx). */
#define ACC_FUNCTIONS(each) \
    each(ACC_IDENTITY, "identity")                                                                 \
    each(ACC_CLAMP, "clamp")  /* a is the lower limit, b the upper one */                          \
    each(ACC_LINEAR, "linear")  /* a * x + b */                                                    \
    each(ACC_LEAKY_RELU, "leaky_relu")  /* a is the slope */                                       \
    each(ACC_THRESHOLDED_RELU, "thresholded_relu")  /* x if x > a, else 0 */                       \
    each(ACC_ELU, "elu")  /* a is alpha */                                                         \
    each(ACC_SELU, "selu")  /* a is alpha, b is gamma */                                           \
    each(ACC_CELU, "celu")  /* a is alpha */                                                       \
    each(ACC_SIGMOID, "sigmoid")                                                                   \
    each(ACC_TANH, "tanh")                                                                         \
    each(ACC_HARD_SIGMOID, "hard_sigmoid")  /* max(0, min(1, a * x + b)) */                        \
    each(ACC_HARD_SWISH, "hard_swish")  /* x * max(0, min(1, x / 6 + 1 / 2)) */                    \
    each(ACC_SWISH, "swish")  /* x * sigmoid(a * x) */                                             \
    each(ACC_GELU, "gelu")  /* x / 2 * (1 + erf(x / sqrt 2)) */                                    \
    each(ACC_GELU_TANH, "gelu_tanh")  /* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) */  \
    each(ACC_SOFT_PLUS, "softplus")  /* log(1 + e^x) */                                            \
    each(ACC_SOFT_SIGN, "softsign")  /* x / (1 + |x|) */                                           \
    each(ACC_MISH, "mish")  /* x * tanh(softplus(x)) */                                            \
    each(ACC_SHRINK, "shrink")  /* x + b if x < -a; x - b if x > a; else 0 */                      \
    each(ACC_ABS, "abs")                                                                           \
    each(ACC_NEGATE, "neg")                                                                        \
    each(ACC_SQUARE_ROOT, "sqrt")                                                                  \
    each(ACC_RECIPROCAL_SQUARE_ROOT, "rsqrt")                                                      \
    each(ACC_RECIPROCAL, "reciprocal")                                                             \
    each(ACC_EXP, "exp")                                                                           \
    each(ACC_LOG, "log")                                                                           \
    each(ACC_ERF, "erf")                                                                           \
    each(ACC_FLOOR, "floor")                                                                       \
    each(ACC_CEIL, "ceil")                                                                         \
    each(ACC_ROUND, "round")                                                                       \
    each(ACC_SIGN, "sign")                                                                         \
    each(ACC_SIN, "sin")  /* from here on: one element at a time */                                \
    each(ACC_COS, "cos")                                                                           \
    each(ACC_TAN, "tan")                                                                           \
    each(ACC_ASIN, "asin")                                                                         \
    each(ACC_ACOS, "acos")                                                                         \
    each(ACC_ATAN, "atan")                                                                         \
    each(ACC_SINH, "sinh")                                                                         \
    each(ACC_COSH, "cosh")                                                                         \
    each(ACC_ASINH, "asinh")                                                                       \
    each(ACC_ACOSH, "acosh")                                                                       \
    each(ACC_ATANH, "atanh")

#define ACC_CODE(code, name) code,
enum acc_function { ACC_FUNCTIONS(ACC_CODE) };

typedef struct {
    int32_t function;       /* enum acc_function */
    float a;
    float b;
} acc_activation;
