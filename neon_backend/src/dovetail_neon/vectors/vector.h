/* Vectors of float32, as wide as the instruction set that this file is compiled for.
 *
 * The instruction set is ACC_ISA, one of vectors/.
 *
 * Arithmetic is written with the operators of GCC's vector types, so that one source serves every
 * instruction set; what the operators cannot say are the functions of vectors/:
 *
 *   load, store                 LANES elements at any address of a float
 *   load_part, store_part       the first n of them, 0 <= n <= LANES; nothing else is touched,
 *                               missing lanes are 0
 *   gather                      LANES elements, `stride` elements apart
 *   permute(x, from)            lane i is x[from[i]]
 *   merge(kept, x, from)        the same where from[i] >= 0, else kept[i]
 *   fma(a, b, c)                a * b + c, rounded once where the machine can
 *   minimum(a, b), maximum      if either is NaN: b or NaN. With the limit in a, NaN in b survives
 *   round_even, round_down      to a whole float
 *   to_integers, to_floats      to_integers rounds to nearest even
 *   quotient(a, b)              a / b within an ulp, where 1 / b is a normal number
 *   scale(x, n)                 x * 2^n, rounded once, for a whole n
 *   HalfDoubles, HalfIntegers   LANES / 2 doubles, and as many integers: fma, round_even of what is
 *                               within 2^51, to_integers of what fits, to_doubles; joined:
 *                               two halves
 *
 * Everything lies in a namespace per instruction set. No template of the standard library is used
 * in it: its instances would be merged across instruction sets by the linker, and a machine without
 * AVX-512 would run code that has it.
 */
#pragma once

#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
#define INLINE_MEMBER inline __attribute__((always_inline))
#define ACC_TEXT_(x) #x
#define ACC_TEXT(x) ACC_TEXT_(x)

namespace dovetail_acc::ACC_ISA {

#define ACC_IS_avx512 1
#define ACC_IS_avx512_bf16 1 /* the same vectors, and instructions of their own */
#define ACC_IS_avx512_vnni 1
#define ACC_IS_avx2 2
#define ACC_IS_avx2_vnni 2
#define ACC_IS_neon 3
#define ACC_IS_neon_fp16 3
#define ACC_IS_neon_dotprod 3
#define ACC_IS_scalar 4
#define ACC_JOIN_(a, b) a##b
#define ACC_JOIN(a, b) ACC_JOIN_(a, b)
#define ACC_IS ACC_JOIN(ACC_IS_, ACC_ISA)

} // namespace dovetail_acc::ACC_ISA

#if ACC_IS == 1 || ACC_IS == 2
#include <immintrin.h>
#elif ACC_IS == 3
#include <arm_neon.h>
#endif

namespace dovetail_acc::ACC_ISA {

/* What lies at any address. */
template <typename T> INLINE T load_as(const void *at) {
    T x;
    __builtin_memcpy(&x, at, sizeof(x));
    return x;
}

#if ACC_IS == 1
#include "dovetail_neon/vectors/avx512.h"
#elif ACC_IS == 2
#include "dovetail_neon/vectors/avx2.h"
#elif ACC_IS == 3
#include "dovetail_neon/vectors/neon.h"
#else
#include "dovetail_neon/vectors/scalar.h"
#endif

INLINE Vector select(Integers condition, Vector yes, Vector no) { return condition ? yes : no; }
INLINE Integers bits_of(Vector x) { return (Integers)x; }
INLINE Vector floats_of(Integers x) { return (Vector)x; }
INLINE Vector absolute(Vector x) { return floats_of(bits_of(x) & 0x7FFFFFFF); }
INLINE Vector zeros() { return Vector{}; }

template <typename T> INLINE T lesser(T a, T b) { return b < a ? b : a; }
template <typename T> INLINE T greater(T a, T b) { return a < b ? b : a; }

/* The order of additions is fixed, and the same on every machine with as many lanes. */
INLINE float sum_of(Vector x) {
    float lanes[LANES];
    store(lanes, x);
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++) lanes[i] += lanes[i + width];
    return lanes[0];
}

} // namespace dovetail_acc::ACC_ISA
