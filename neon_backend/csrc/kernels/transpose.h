/* Transpose LANES x LANES elements in registers. */
#ifndef DOVETAIL_NEON_KERNELS_TRANSPOSE_H
#define DOVETAIL_NEON_KERNELS_TRANSPOSE_H

#include "../vector.h"

namespace dovetail_neon {
namespace DOVETAIL_NEON_ISA {

/* Swap the off-diagonal quarters of each square of 2 * width lanes: after all widths, rows are columns. */
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
#if DOVETAIL_NEON_IS == 1
    transpose_step<8>(x);
#endif
#if DOVETAIL_NEON_IS <= 2
    transpose_step<4>(x);
#endif
    transpose_step<2>(x);
    transpose_step<1>(x);
}

} // namespace DOVETAIL_NEON_ISA
} // namespace dovetail_neon

#endif
