// Transcendental functions of doubles, by the names that those of floats have.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define exp_of exp
#define expm1_of expm1
#define tanh_of tanh
#define log_of log
#define erf_of erf
#define sin_of sin
#define cos_of cos
#define tan_of tan
#define OVERLOADED __attribute__((overloadable, always_inline))
static double OVERLOADED sigmoid_of(double x) { return 1.0 / (1.0 + exp(-x)); }
static double OVERLOADED normal_below(double x) { return 0.5 * erfc(x * -0.70710678118654752); }
static double OVERLOADED softplus_of(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }
#undef OVERLOADED
