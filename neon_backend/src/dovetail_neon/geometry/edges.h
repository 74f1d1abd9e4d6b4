/* What of a window lies inside an image. */
#pragma once

#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

/* Rows or columns of a window. */
struct TapRange {
    int64_t first, last;
};

/* Those of which some window reads one inside an image of so many pixels: windows begin from
 * `lowest` to `highest`. */
INLINE TapRange taps_inside(int64_t lowest, int64_t highest, int64_t dilation, int64_t size, int64_t taps) {
    const int64_t first = highest >= 0 ? 0 : lesser(taps, (-highest + dilation - 1) / dilation);
    return TapRange{first, lowest >= size ? first : greater(first, lesser(taps, (size - 1 - lowest) / dilation + 1))};
}

/* Where a column of a row of a blocked image lies, or what stands for it outside. */
INLINE const float *column_at(const float *line, int64_t column, int64_t width, const float *outside) {
    return (uint64_t)column < (uint64_t)width ? line + column * LANES : outside;
}

} // namespace dovetail_acc::ACC_ISA
