// From sums in 32 bits to results of 8, bit for bit as TensorFlow Lite's reference kernels.
//
// REQUANTIZES(n): of vectors of n; empty for one. REQUANTIZES_OF(N) where N stands for that.

// x times multiplier * 2^(shift - 31): twice the high half of the product, rounded up at ties; then
// divided by a power of two, ties away from zero.
#define REQUANTIZES(n)                                                                             \
    static int##n __attribute__((overloadable, always_inline))                                     \
    requantized(const int##n x, const int##n multiplier, const int##n shift)                       \
    {                                                                                              \
        const uint##n left = as_uint##n(max(shift, (int##n)0)), right = as_uint##n(max(-shift, (int##n)0)); \
        const int##n shifted = as_int##n(as_uint##n(x) << left);                                   \
        const long##n product = convert_long##n(shifted) * convert_long##n(multiplier);            \
        const int##n high = convert_int##n((product + (1 << 30)) >> 31);                           \
        const int##n rounds = as_int##n(min(right, (uint##n)1));                                   \
        const int##n low = high + (high >> 31 & -rounds);   /* so that ties go up */               \
        return (low >> as_int##n(right)) + (low >> (as_int##n(right) - rounds) & rounds);          \
    }
REQUANTIZES()
#define REQUANTIZES_OF(n) REQUANTIZES(n)
