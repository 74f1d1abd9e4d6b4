// Functions of integers; what overflows wraps. Casts of what other types do not hold.

#define OVERLOADED __attribute__((overloadable, always_inline))

// By zero all quotients and remainders are 0.
#define SIGNED(T)                                                                                  \
    static T OVERLOADED divided(T a, T b) { return b == 0 ? 0 : b == -1 ? 0 - a : a / b; }         \
    static T OVERLOADED remainder_of(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }           \
    static T OVERLOADED modulo_of(T a, T b)                                                        \
    {                                                                                              \
        const T r = remainder_of(a, b);                                                            \
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                           \
    }
#define UNSIGNED(T)                                                                                \
    static T OVERLOADED divided(T a, T b) { return b == 0 ? 0 : a / b; }                           \
    static T OVERLOADED remainder_of(T a, T b) { return b == 0 ? 0 : a % b; }                      \
    static T OVERLOADED modulo_of(T a, T b) { return remainder_of(a, b); }
SIGNED(int)
SIGNED(long)
UNSIGNED(uint)
UNSIGNED(ulong)

static ulong OVERLOADED power_of(ulong a, ulong b)
{
    ulong result = 1;
    for (; b; b >>= 1) {
        if (b & 1) result *= a;
        a *= a;
    }
    return result;
}
// 1 / a^|b| is truncated; that of 0 is 0.
static long OVERLOADED power_of(long a, long b)
{
    if (b >= 0) return (long)power_of((ulong)a, (ulong)b);
    return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
}

#define bounded_whole(v, low, high) min(max(v, low), high)

static ulong shifted_left(ulong a, ulong b) { return b < 64 ? a << b : 0; }
static ulong OVERLOADED shifted_right(ulong a, ulong b) { return b < 64 ? a >> b : 0; }
static long OVERLOADED shifted_right(long a, long b) { return a >> (b >= 0 && b < 64 ? b : 63); }

// The integer that a number is, truncated toward zero, modulo 2^64; of NaN and infinities 0.
static long OVERLOADED whole_of(float x)
{
    if (fabs(x) < 0x1p63f) return (long)x;
    const uint bits = as_uint(x);
    const int places = (int)(bits >> 23 & 255) - 150;
    const ulong size = places < 64 ? (ulong)(bits & 0x7FFFFF | 0x800000) << places : 0;
    return (long)(bits >> 31 ? 0 - size : size);
}

// A float that is rounded to an odd last bit where it is not exact: what is rounded once more, to
// fewer bits, is rounded as if once.
static float OVERLOADED odd_float(long x)
{
    const float near = convert_float_rtz(x);
    return (long)near == x ? near : as_float(as_int(near) | 1);
}
static float OVERLOADED odd_float(ulong x)
{
    const float near = convert_float_rtz(x);
    return (ulong)near == x ? near : as_float(as_int(near) | 1);
}

#if DOUBLES
static long OVERLOADED whole_of(double x)
{
    if (fabs(x) < 0x1p63) return (long)x;
    const ulong bits = as_ulong(x);
    const int places = (int)(bits >> 52 & 2047) - 1075;
    const ulong size = places < 64 ? (bits & 0xFFFFFFFFFFFFFUL | 0x10000000000000UL) << places : 0;
    return (long)(bits >> 63 ? 0 - size : size);
}
static float OVERLOADED odd_float(double x)
{
    const float near = convert_float_rtz(x);
    return (double)near == x || isnan(x) ? near : as_float(as_int(near) | 1);
}
#endif

#undef SIGNED
#undef UNSIGNED
#undef OVERLOADED
