// Powers of e of numbers that are no greater than 0; 0 for what would be subnormal.
#if ON_CPU
// The library's function for vectors is slow, as it is for all numbers. By parts of ln 2 and a
// polynomial, within 2 units (Cephes, expf).
#if LANES == 1
#define BITS_OF(v) as_int(v)
#define FLOAT_OF(v) as_float(v)
#else
#define BITS_OF(v) WIDE(as_int, LANES)(v)
#define FLOAT_OF(v) WIDE(as_float, LANES)(v)
#endif
V power_of_e(const V given)
{
    const V v = given < -87.3f ? (V)-87.3f : given;
    const V shifted = fma(v, (V)1.44269504f, (V)12582912.0f);     // its lowest bits are the exponent
    const V n = shifted - 12582912.0f;
    const V r = fma(n, (V)2.12194440e-4f, fma(n, (V)-0.693359375f, v));
    V p = fma((V)1.9875691500e-4f, r, (V)1.3981999507e-3f);
    p = fma(p, r, (V)8.3334519073e-3f);
    p = fma(p, r, (V)4.1665795894e-2f);
    p = fma(p, r, (V)1.6666665459e-1f);
    p = fma(p, r, (V)5.0000001201e-1f);
    p = fma(p, r * r, r) + 1.0f;
    return given < -87.3f ? (V)0 : p * FLOAT_OF((BITS_OF(shifted) << 23) + 0x3f800000);
}
#else
V power_of_e(const V v) { return exp(v); }
#endif
