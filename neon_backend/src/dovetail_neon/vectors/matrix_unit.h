/* Intel's matrix unit (AMX): eight tile registers of up to 16 rows of 64 bytes. Tiles 0 to 3 are
 * sums, 4 and 5 pixels, 6 and 7 weights. */
#pragma once

#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

constexpr int64_t TILE_ROWS = 16, ROW_BYTES = 64, TILE_BYTES = TILE_ROWS * ROW_BYTES;

struct __attribute__((packed)) TileShape {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Tiles of `rows` pixels. */
INLINE void begin_tiles(int64_t rows) {
    TileShape shape = {};
    shape.palette = 1;
    for (int i = 0; i < 8; i++) shape.row_bytes[i] = ROW_BYTES, shape.rows[i] = i == 6 || i == 7 ? TILE_ROWS : (uint8_t)rows;
    /* The instruction reads memory that its declaration does not name. */
    __asm__ volatile("ldtilecfg %0" ::"m"(shape) : "memory");
}

/* Of the columns of a plane, which lie `stride` apart in an image and begin at its column `left`:
 * those that lie inside. */
struct ColumnsInside {
    int64_t first, last;
    INLINE_MEMBER ColumnsInside(int64_t left, int64_t stride, int64_t width, int64_t columns) {
        first = lesser(left < 0 ? (-left + stride - 1) / stride : 0, columns);
        last = greater(first, lesser(left >= width ? 0 : (width - left + stride - 1) / stride, columns));
    }
};

} // namespace dovetail_acc::ACC_ISA
