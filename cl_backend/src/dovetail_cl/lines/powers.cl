// Powers of e of numbers that are no greater than 0; where they would be subnormal, 0 at the latest
// from -88 on.
#if ON_CPU
// The library's function is slow for vectors. By parts of ln 2 and a polynomial of the fifth degree,
// within 2 units (Arm optimized routines, vector expf).
#if LANES == 1
#define BITS_OF(v) as_int(v)
#define FLOAT_OF(v) as_float(v)
#else
#define BITS_OF(v) WIDE(as_int, LANES)(v)
#define FLOAT_OF(v) WIDE(as_float, LANES)(v)
#endif
V power_of_e(const V given)
{
    const V v = given < -88.0f ? (V)-88.0f : given;
    const V shifted = fma(v, (V)1.44269504f, (V)12582912.0f);     // its lowest bits are the exponent
    const V n = shifted - 12582912.0f;
    const V r = fma(n, (V)-0x1.7f7d1cp-20f, fma(n, (V)-0x1.62e4p-1f, v)), square = r * r;
    const V power = FLOAT_OF((BITS_OF(shifted) << 23) + 0x3f800000);
    const V high = fma((V)0x1.0e4020p-7f, r, (V)0x1.573e2ep-5f), low = fma((V)0x1.555e66p-3f, r, (V)0x1.fffdb6p-2f);
    return fma(power, fma(fma(high, square, low), square, 0x1.ffffecp-1f * r), power);
}
#else
V power_of_e(const V v) { return exp(v); }
#endif
