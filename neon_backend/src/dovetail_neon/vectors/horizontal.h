/* One value of all lanes, without leaving the registers; the order of additions is that of
 * `sum_of`. And the sums of the lanes of several vectors of integers. */
#pragma once

#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

/* Lane i takes lane i + width, around the end. */
template <int width> INLINE Vector rotated(Vector x) {
    Integers from;
#pragma GCC unroll 16
    for (int lane = 0; lane < LANES; lane++) from[lane] = (lane + width) % LANES;
    return __builtin_shuffle(x, from);
}

template <typename Combine> INLINE float reduce(Vector x, Combine combine) {
#if ACC_IS == 1
    x = combine(x, rotated<8>(x));
#endif
#if ACC_IS <= 2
    x = combine(x, rotated<4>(x));
#endif
    x = combine(x, rotated<2>(x));
    x = combine(x, rotated<1>(x));
    return x[0];
}

INLINE float total(Vector x) {
    return reduce(x, [](Vector a, Vector b) { return a + b; });
}
INLINE float largest(Vector x) {
    return reduce(x, [](Vector a, Vector b) { return maximum(a, b); });
}

/* Sums of pairs of lanes that lie `width` apart: those of a where this bit of a lane's number is 0,
 * those of b where it is 1. */
template <int width> INLINE Integers folded(Integers a, Integers b) {
    Integers low, high;
#pragma GCC unroll 16
    for (int lane = 0; lane < LANES; lane++) {
        low[lane] = lane & width ? LANES + lane - width : lane;
        high[lane] = lane & width ? LANES + lane : lane + width;
    }
    return __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, high);
}
template <int width> INLINE void fold_vectors(Integers (&x)[LANES]) {
#pragma GCC unroll 8
    for (int i = 0; i < width; i++) x[i] = folded<width>(x[i], x[i + width]);
}

/* Lane i: the sum of the lanes of vector i. */
INLINE Integers totals(Integers (&x)[LANES]) {
#if ACC_IS == 1
    fold_vectors<8>(x);
#endif
#if ACC_IS <= 2
    fold_vectors<4>(x);
#endif
    fold_vectors<2>(x);
    fold_vectors<1>(x);
    return x[0];
}

} // namespace dovetail_acc::ACC_ISA
