// Functions of elements. NaN comes out where NaN went in, but for functions that only compare.

float bounded(float x, float low, float high) { x = x < low ? low : x; return x > high ? high : x; }
float softplus(float x) { return fmax(x, 0.0f) + log1p(exp(-fabs(x))); }
float largest(float a, float b) { return isnan(a) || a > b ? a : b; }
float smallest(float a, float b) { return isnan(a) || a < b ? a : b; }
float modulo(float a, float b) { const float r = fmod(a, b); return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r; }
float sign_of(float x) { return isnan(x) ? x : x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f; }
float gelu_of(float x) { return 0.5f * x * erfc(-0.70710678118654752f * x); }
// tanh written as a logistic function: 1 + tanh(u) loses all digits where tanh(u) is close to -1.
float gelu_tanh_of(float x) { return x / (1.0f + exp(-1.5957691216057308f * (x + 0.044715f * x * x * x))); }
