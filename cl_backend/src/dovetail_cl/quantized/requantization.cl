// From real numbers to the integers of 8 bits that stand for them: the nearest ones, ties to even.
//
// NEAREST(n): of vectors of n; empty for one. NEAREST_OF(N) where N stands for that.

// Products and sums are rounded one by one, so that results are the same on all devices.
#pragma OPENCL FP_CONTRACT OFF

// To this a float adds a whole number of 22 bits, rounded to even: its last bits are that number's.
#define WHOLE 12582912.0f

// `zero` stands for 0; results are within `low` and `high`.
#define NEAREST(n)                                                                                 \
    static int##n __attribute__((overloadable, always_inline))                                     \
    nearest(const float##n real, const int zero, const int low, const int high)                    \
    {                                                                                              \
        const float##n inside = min(max(real, (float##n)(low - zero)), (float##n)(high - zero));   \
        return as_int##n(inside + WHOLE) + (zero - as_int(WHOLE));                                 \
    }
NEAREST()
#define NEAREST_OF(n) NEAREST(n)
