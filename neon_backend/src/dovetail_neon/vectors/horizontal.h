/* One value of all lanes, without leaving the registers; the order of additions is that of
 * `sum_of`. */
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

} // namespace dovetail_acc::ACC_ISA
