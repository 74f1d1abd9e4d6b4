// Functions of FLOATS, a float or a vector of them, whose integers are INTEGERS, and of a NUMBER,
// one of them. NaN comes out where it went in.

#ifndef EXACT_float
#define EXACT_float(x) x##f
#define EXACT_double(x) x
#endif
#define EXACT(x) JOINED(EXACT_, NUMBER)(x)
#define OVERLOADED __attribute__((overloadable, always_inline))
#define CHOOSE(condition, a, b) select((FLOATS)(b), (FLOATS)(a), (INTEGERS)(condition))

static FLOATS OVERLOADED bounded(FLOATS x, NUMBER low, NUMBER high)
{
    x = CHOOSE(x < low, low, x);
    return CHOOSE(x > high, high, x);
}
static FLOATS OVERLOADED relu(FLOATS x) { return CHOOSE(x < 0.0f, 0.0f, x); }
static FLOATS OVERLOADED leaky_relu(FLOATS x, NUMBER slope) { return CHOOSE(x >= 0.0f, x, slope * x); }
static FLOATS OVERLOADED thresholded_relu(FLOATS x, NUMBER limit) { return CHOOSE(x <= limit, 0.0f, x); }
static FLOATS OVERLOADED prelu(FLOATS x, FLOATS slope) { return CHOOSE(x >= 0.0f, x, slope * x); }
static FLOATS OVERLOADED elu(FLOATS x, NUMBER factor) { return CHOOSE(x >= 0.0f, x, factor * expm1_of(x)); }
static FLOATS OVERLOADED selu(FLOATS x, NUMBER factor, NUMBER scale) { return scale * CHOOSE(x > 0.0f, x, factor * expm1_of(x)); }
static FLOATS OVERLOADED celu(FLOATS x, NUMBER factor) { return CHOOSE(x > 0.0f, x, factor * expm1_of(x / factor)); }
static FLOATS OVERLOADED hard_swish(FLOATS x) { return x * bounded(x / 6.0f + 0.5f, 0.0f, 1.0f); }
static FLOATS OVERLOADED swish(FLOATS x, NUMBER factor) { return x * sigmoid_of(factor * x); }
static FLOATS OVERLOADED gelu(FLOATS x) { return x * normal_below(x); }
// (1 + tanh u) / 2 is sigmoid(2 u), where nothing cancels far below zero.
static FLOATS OVERLOADED gelu_tanh(FLOATS x) { return x * sigmoid_of(x * (EXACT(0.071354816272600255) * x * x + EXACT(1.5957691216057308))); }
static FLOATS OVERLOADED softsign(FLOATS x) { return x / (1.0f + fabs(x)); }
// tanh(log(1 + w)) is n / (n + 2) with n = w (w + 2); from 20 on it is 1.
static FLOATS OVERLOADED mish(FLOATS x)
{
    const FLOATS w = exp_of(CHOOSE(x > 20.0f, 20.0f, x)), n = w * (w + 2.0f);
    return x * (n / (n + 2.0f));
}
static FLOATS OVERLOADED shrink(FLOATS x, NUMBER limit, NUMBER step)
{
    return CHOOSE(x < -limit, x + step, CHOOSE(x > limit, x - step, CHOOSE(isnan(x), x, 0.0f)));
}
static FLOATS OVERLOADED largest(FLOATS a, FLOATS b) { return CHOOSE(isnan(a) || a > b, a, b); }
static FLOATS OVERLOADED smallest(FLOATS a, FLOATS b) { return CHOOSE(isnan(a) || a < b, a, b); }
static FLOATS OVERLOADED modulo(FLOATS a, FLOATS b)
{
    const FLOATS r = fmod(a, b);
    return CHOOSE(r != 0.0f && (r < 0.0f) != (b < 0.0f), r + b, r);
}
static FLOATS OVERLOADED sign_of(FLOATS x) { return CHOOSE(x > 0.0f, 1.0f, CHOOSE(x < 0.0f, -1.0f, x)); }

#undef EXACT
#undef OVERLOADED
#undef CHOOSE
