/* The activation functions, of one element. What they compute:
 * dovetail.layers.activation.ActivationFunction, dovetail.layers.recurrent.RecurrentFunction.
 *
 * All are evaluated in double and rounded once. NaN gives NaN. The forms are chosen so that nothing
 * overflows on the way.
 */
#pragma once

#include <math.h>
#include <string.h>

enum activation {
    ACTIVATION_NONE,
    ACTIVATION_LINEAR,
    ACTIVATION_RELU,
    ACTIVATION_BOUNDED_RELU,
    ACTIVATION_LEAKY_RELU,
    ACTIVATION_THRESHOLDED_RELU,
    ACTIVATION_ELU,
    ACTIVATION_SELU,
    ACTIVATION_CELU,
    ACTIVATION_SIGMOID,
    ACTIVATION_TANH,
    ACTIVATION_HARD_SIGMOID,
    ACTIVATION_HARD_SWISH,
    ACTIVATION_SWISH,
    ACTIVATION_GELU,
    ACTIVATION_GELU_TANH,
    ACTIVATION_SOFTPLUS,
    ACTIVATION_SOFTSIGN,
    ACTIVATION_MISH,
    ACTIVATION_SHRINK,
    ACTIVATION_SCALED_TANH,
    ACTIVATION_COUNT
};

/* Code of a function's name, or -1. */
static inline int activation_by_name(const char *name)
{
    static const char *const names[ACTIVATION_COUNT] = {
        "none",    "linear",       "relu",       "bounded_relu", "leaky_relu", "thresholded_relu", "elu",
        "selu",    "celu",         "sigmoid",    "tanh",         "hard_sigmoid", "hard_swish",     "swish",
        "gelu",    "gelu_tanh",    "softplus",   "softsign",     "mish",       "shrink",           "scaled_tanh",
    };
    for (int i = 0; i < ACTIVATION_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static inline double activation_clamp(double x, double low, double high)
{
    const double raised = x < low ? low : x;
    return raised > high ? high : raised; /* NaN stays; of bounds that cross, the upper one wins */
}

static inline double activation_sigmoid(double x)
{
    if (x >= 0.0)
        return 1.0 / (1.0 + exp(-x));
    double e = exp(x); /* no overflow, and no cancellation far below zero; NaN comes here */
    return e / (1.0 + e);
}

static inline double activation_softplus(double x)
{
    return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x)));
}

static inline double activate(int function, double x, double alpha, double beta)
{
    switch (function) {
    case ACTIVATION_LINEAR:
        return alpha * x + beta;
    case ACTIVATION_RELU:
        return x < 0.0 ? 0.0 : x;
    case ACTIVATION_BOUNDED_RELU:
        return activation_clamp(x, beta, alpha);
    case ACTIVATION_LEAKY_RELU:
        return x < 0.0 ? alpha * x : x;
    case ACTIVATION_THRESHOLDED_RELU:
        return x <= alpha ? 0.0 : x;
    case ACTIVATION_ELU:
        return x < 0.0 ? alpha * expm1(x) : x;
    case ACTIVATION_SELU:
        return beta * (x > 0.0 ? x : alpha * expm1(x));
    case ACTIVATION_CELU:
        return x < 0.0 ? alpha * expm1(x / alpha) : x;
    case ACTIVATION_SIGMOID:
        return activation_sigmoid(x);
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_HARD_SIGMOID:
        return activation_clamp(alpha * x + beta, 0.0, 1.0);
    case ACTIVATION_HARD_SWISH:
        return x * activation_clamp(x / 6.0 + 0.5, 0.0, 1.0);
    case ACTIVATION_SWISH:
        return x * activation_sigmoid(alpha * x);
    case ACTIVATION_GELU:
        return 0.5 * x * erfc(-x * 0.70710678118654752440); /* erfc: 1 + erf cancels far below zero */
    case ACTIVATION_GELU_TANH:
        /* x / 2 * (1 + tanh(u)) as x * sigmoid(2 u): the sum would cancel far below zero. */
        return x / (1.0 + exp(-1.59576912160573071176 * (x + 0.044715 * x * x * x)));
    case ACTIVATION_SOFTPLUS:
        return activation_softplus(x);
    case ACTIVATION_SOFTSIGN:
        return x / (1.0 + fabs(x));
    case ACTIVATION_MISH:
        return x * tanh(activation_softplus(x));
    case ACTIVATION_SHRINK:
        return x < -alpha ? x + beta : x > alpha ? x - beta : x == x ? 0.0 : x;
    case ACTIVATION_SCALED_TANH:
        return alpha * tanh(beta * x);
    default:
        return x;
    }
}
