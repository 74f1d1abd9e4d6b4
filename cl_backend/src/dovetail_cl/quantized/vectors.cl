// Vectors of 32-bit integers, each of which holds two factors of 16 bits. VECTOR: integers of one.

#define NAMED(a, b) JOINED(a, b)
typedef NAMED(int, VECTOR) vec;
typedef NAMED(float, VECTOR) real;
#define VLOAD NAMED(vload, VECTOR)
#define VSTORE NAMED(vstore, VECTOR)
NEAREST_OF(VECTOR)
// From sums to results, for a geometry that says what they lie between.
#define FINISHED(sums, by, g)                                                                      \
    nearest(NAMED(convert_float, VECTOR)(sums) * (by), (g)->out_zero, (g)->low, (g)->high)

#define TERM int
#define ADD_PRODUCT(v, b, sum) add_products(v, b, sum)
#if VECTOR == 16 && defined(__AVX512VNNI__)
static vec add_products(const vec v, const vec b, const vec sum) { return __builtin_ia32_vpdpwssd512(sum, v, b); }
#elif (VECTOR == 16 && defined(__AVX512BW__)) || (VECTOR == 8 && defined(__AVX2__))
// Compilers do not find this instruction by themselves: they split what is done to the halves.
typedef short shorts __attribute__((ext_vector_type(2 * VECTOR)));
#define AS_SHORTS(v) __builtin_astype(v, shorts)
static vec add_products(const vec v, const vec b, const vec sum)
{
#if VECTOR == 16
    return sum + __builtin_ia32_pmaddwd512(AS_SHORTS(v), AS_SHORTS(b));
#else
    return sum + __builtin_ia32_pmaddwd256(AS_SHORTS(v), AS_SHORTS(b));
#endif
}
#else
static vec add_products(const vec v, const vec b, const vec sum)
{
    return sum + (v << 16 >> 16) * (b << 16 >> 16) + (v >> 16) * (b >> 16);
}
#endif
