/* No instruction set at all: four lanes that any compiler turns into whatever the machine has,
 * without fused multiply-add. */

constexpr int LANES = 4, REGISTERS = 16;
typedef float Vector __attribute__((vector_size(16)));
typedef int32_t Integers __attribute__((vector_size(16)));

INLINE Vector load(const float *at) { return load_as<Vector>(at); }
INLINE void store(float *at, Vector x) { __builtin_memcpy(at, &x, sizeof(x)); }
INLINE Vector broadcast(float x) { return Vector{x, x, x, x}; }
INLINE Vector fma(Vector a, Vector b, Vector c) { return a * b + c; }
INLINE Vector minimum(Vector a, Vector b) { return a < b ? a : b; }
INLINE Vector maximum(Vector a, Vector b) { return a > b ? a : b; }
INLINE Vector permute(Vector x, Integers from) { return Vector{x[from[0] & 3], x[from[1] & 3], x[from[2] & 3], x[from[3] & 3]}; }
INLINE Vector merge(Vector kept, Vector x, Integers from) { return from < 0 ? kept : permute(x, from); }
INLINE Vector square_root(Vector x) {
    for (int i = 0; i < LANES; i++) x[i] = __builtin_sqrtf(x[i]);
    return x;
}
/* Adding 2^23 leaves no bit for a fraction; from there on every float is whole. Calls of libm would
 * cost ten times as much. */
INLINE Vector round_even(Vector x) {
    const Vector magnitude = (Vector)((Integers)x & 0x7FFFFFFF), most = broadcast(8388608.0f);
    const Vector whole = (magnitude + most) - most;
    return magnitude < most ? (Vector)((Integers)whole | ((Integers)x & INT32_MIN)) : x;
}
INLINE Vector round_down(Vector x) {
    const Vector whole = round_even(x);
    return whole > x ? whole - broadcast(1.0f) : whole;
}
/* Outside the range of int32, and for NaN, the least integer: as x86 answers, and never undefined.
 * */
INLINE Integers to_integers(Vector x) {
    const Vector whole = round_even(x);
    const Integers fits = (whole >= broadcast(-2147483648.0f)) & (whole < broadcast(2147483648.0f));
    const Integers result = __builtin_convertvector((Vector)((Integers)whole & fits), Integers);
    return fits ? result : Integers{INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN};
}
INLINE Vector to_floats(Integers x) { return __builtin_convertvector(x, Vector); }

typedef double HalfDoubles __attribute__((vector_size(16)));
typedef int32_t HalfIntegers __attribute__((vector_size(8)));
INLINE HalfDoubles fma(HalfDoubles a, HalfDoubles b, HalfDoubles c) { return a * b + c; }
/* Within 2^51: adding 3 * 2^51 leaves no bit for a fraction. */
INLINE HalfDoubles round_even(HalfDoubles x) {
    const HalfDoubles whole = {6755399441055744.0, 6755399441055744.0};
    return (x + whole) - whole;
}
INLINE HalfIntegers to_integers(HalfDoubles x) { return __builtin_convertvector(round_even(x), HalfIntegers); }
INLINE Integers joined(HalfIntegers low, HalfIntegers high) { return Integers{low[0], low[1], high[0], high[1]}; }
INLINE HalfDoubles to_doubles(HalfIntegers x) { return __builtin_convertvector(x, HalfDoubles); }

#include "dovetail_neon/vectors/four_lanes.h"
