/* Transpose LANES x LANES elements in registers. */
#pragma once

#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

/* Swap the off-diagonal quarters of each square of 2 * width lanes: after all widths, rows are
 * columns. */
template <int width> INLINE void transpose_step(Vector (&x)[LANES]) {
    Integers low, high;
#pragma GCC unroll 16
    for (int lane = 0; lane < LANES; lane++) {
        low[lane] = lane & width ? LANES + lane - width : lane;
        high[lane] = lane & width ? LANES + lane : lane + width;
    }
#pragma GCC unroll 16
    for (int row = 0; row < LANES; row++)
        if (!(row & width)) {
            const Vector a = x[row], b = x[row + width];
            x[row] = __builtin_shuffle(a, b, low);
            x[row + width] = __builtin_shuffle(a, b, high);
        }
}

INLINE void transpose(Vector (&x)[LANES]) {
#if ACC_IS == 1
    transpose_step<8>(x);
#endif
#if ACC_IS <= 2
    transpose_step<4>(x);
#endif
    transpose_step<2>(x);
    transpose_step<1>(x);
}

} // namespace dovetail_acc::ACC_ISA
