// y = a b on a CPU, and what an epilogue makes of it: a work item takes rows of a panel of columns,
// tile by tile.
//
// VECTOR: floats of a vector. PANEL: columns of a panel: one vector, or two.
// RANK: axes of the batch. Y: type of the result.
// PACKS: each work item packs its panel, of the type B, into local memory, which stays in a cache.

typedef struct {
    ulong size[RANK];
    ulong step[RANK][3];        // elements: of a, b and y
    ulong b_panel;              // elements between neighbouring panels; if packed here, columns
    uint rows, columns, depth;
    uint each;                  // rows of a work item
    uint a_line, a_depth;       // elements between neighbouring rows, and terms of depth
    uint b_depth;               // elements between terms of depth
    uint a_step;                // as a_depth. Were that known, all rows would be reached by a chain
                                // of additions, which takes longer than the arithmetic
    uint in_place;              // b is not packed: the last panel must not reach past the last column
} product;

#define IS_WIDE (PANEL > VECTOR)

// Of each row of a tile: its number, the row that has a pointer, and how many rows lie between.
#define REPEAT_2(DO) DO(0, 0, 0) DO(1, 0, 1)
#define REPEAT_4(DO) REPEAT_2(DO) DO(2, 0, 2) DO(3, 0, 3)
#define REPEAT_6(DO) REPEAT_4(DO) DO(4, 0, 4) DO(5, 0, 5)
#define REPEAT_8(DO) REPEAT_6(DO) DO(6, 6, 0) DO(7, 6, 1)
#define REPEAT_12(DO) REPEAT_8(DO) DO(8, 6, 2) DO(9, 6, 3) DO(10, 6, 4) DO(11, 6, 5)

#define CLEAR(r, at, away) vec low##r = 0, high##r = 0;
#define ADD(r, at, away)                                                                           \
    {                                                                                              \
        const vec v = (vec)(a##at[away * line]);                                                   \
        low##r = fma(v, b0, low##r);                                                               \
        if (IS_WIDE) {                                                                             \
            high##r = fma(v, b1, high##r);                                                         \
        }                                                                                          \
    }
#define KEEP(r, at, away)                                                                          \
    VSTORE(low##r, 0, sums + r * PANEL);                                                           \
    if (IS_WIDE) {                                                                                 \
        VSTORE(high##r, 1, sums + r * PANEL);                                                      \
    }

// Ask for the rows of the next tile, if there is one: with a narrow panel, reading takes longer
// than the arithmetic.
#define CAN_PREFETCH 0
#ifdef __has_builtin
#if __has_builtin(__builtin_prefetch)
#undef CAN_PREFETCH
#define CAN_PREFETCH !IS_WIDE
#endif
#endif
#if CAN_PREFETCH
#define PREFETCH(first, rows)                                                                      \
    if (p->a_depth == 1) {                                                                         \
        for (uint r = 0; r < rows; ++r) {                                                          \
            for (uint k = 0; k < p->depth; k += VECTOR) {                                          \
                __builtin_prefetch(first + r * line + k);                                          \
            }                                                                                      \
        }                                                                                          \
    }
#else
#define PREFETCH(first, rows)
#endif

// Sums of the rows from `row` on.
#define TILE(ROWS)                                                                                 \
    void tile_##ROWS(const __global float *a, const PANELS float *b, const ulong along,            \
                     const product *p, const uint row, float *sums)                                \
    {                                                                                              \
        const ulong line = p->a_line;                                                              \
        const __global float *a0 = a + row * line, *a6 = a0 + 6 * line;                            \
        PREFETCH(a0 + ROWS * line, ROWS)                                                           \
        REPEAT_##ROWS(CLEAR)                                                                       \
        for (uint k = p->depth; k; --k) {                                                          \
            const vec b0 = VLOAD(0, b), b1 = IS_WIDE ? VLOAD(1, b) : b0;                           \
            REPEAT_##ROWS(ADD)                                                                     \
            a0 += p->a_depth;                                                                      \
            a6 += p->a_step;                                                                       \
            b += along;                                                                            \
        }                                                                                          \
        REPEAT_##ROWS(KEEP)                                                                        \
    }

#if VECTOR == 16
#define LARGE 12
#define MEDIUM 8
#define SMALL 4
TILE(12)
TILE(8)
TILE(4)
#else
#define LARGE 6
#define MEDIUM 4
#define SMALL 2
TILE(6)
TILE(4)
TILE(2)
#endif
#define TILE_OF(ROWS) NAMED(tile_, ROWS)

// One row: sums of every fourth term each, as one sum would wait for itself.
void tile_1(const __global float *a, const PANELS float *b, const ulong along, const product *p, const uint row, float *sums)
{
    const ulong step = p->a_depth;
    const uint depth = p->depth;
    a += row * (ulong)p->a_line;
    REPEAT_4(CLEAR)
    uint k = 0;
#define ADD_TERM(r, at, away)                                                                      \
    {                                                                                              \
        const vec v = (vec)(a[r * step]);                                                          \
        low##r = fma(v, VLOAD(0, b + r * along), low##r);                                          \
        if (IS_WIDE) {                                                                             \
            high##r = fma(v, VLOAD(1, b + r * along), high##r);                                    \
        }                                                                                          \
    }
    for (; k + 4 <= depth; k += 4) {
        REPEAT_4(ADD_TERM)
        a += 4 * step;
        b += 4 * along;
    }
    for (; k < depth; ++k) {
        ADD_TERM(0, 0, 0)
        a += step;
        b += along;
    }
    low0 = (low0 + low1) + (low2 + low3);
    high0 = (high0 + high1) + (high2 + high3);
    KEEP(0, 0, 0)
}

#define KEEPS_float(p, v) VSTORE(v, 0, p)
#define KEEPS_half(p, v) NAMED(store_halves, VECTOR)(p, v)
#define KEEPS_bfloat(p, v) NAMED(store_bfloats, VECTOR)(p, v)

// Finish a row of sums, and write its columns `from` to `to`. It lies `at` elements into the
// result.
void write_row(__global Y *y, float *sums, const uint from, const uint to, const ulong at, const uint column
               FINISH_PARAMETERS)
{
#pragma unroll
    for (uint j = 0; j < PANEL; j += VECTOR) {
        const uint first = max(from, j), end = min(to, j + VECTOR), count = end - min(first, end);
        vec v = VLOAD(0, sums + first);
        if (count == VECTOR) {
            FINISH(v, at + j, column + j)
            NAMED(KEEPS_, Y)(y + j, v);
        } else if (count) {
            float some[VECTOR];
            FINISH_SOME(v, at + first, column + first, count)
            VSTORE(v, 0, some);
            for (uint i = 0; i < count; ++i) {
                STORE_AS(Y, y, first + i, some[i]);
            }
        }
    }
}

__kernel void multiply(CONSTANT(float, a), CONSTANT(B, b), TENSOR(Y, y), const product p
#if PACKS
    , __local float *panel
#endif
    FINISH_PARAMETERS)
{
    BEGIN(const float, a);
    BEGIN(const B, b);
    BEGIN(Y, y);
    FINISH_BEGIN
    const __global Y *start = y;
    ulong rest = get_global_id(2);
    for (int axis = RANK - 1; axis >= 0; --axis) {
        const ulong at = rest % p.size[axis];
        rest /= p.size[axis];
        a += at * p.step[axis][0];
        b += at * p.step[axis][1];
        y += at * p.step[axis][2];
    }
    const uint wanted = get_global_id(1) * PANEL;
    const uint column = p.in_place ? min(wanted, p.columns - PANEL) : wanted;
    y += column;
    const uint from = wanted - column, to = min((uint)PANEL, p.columns - column);
#if PACKS
    pack_panel(panel, b + get_global_id(1) * p.b_panel, to, p.b_panel / PANEL, p.b_depth, 0, p.depth);
    const uint along = PANEL;
#else
    const __global float *panel = b + (p.in_place ? column : get_global_id(1) * p.b_panel);
    const uint along = p.b_depth;
#endif
    float sums[LARGE * PANEL + VECTOR];
    const uint end = min(p.rows, (uint)((get_global_id(0) + 1) * p.each));
    for (uint row = get_global_id(0) * p.each; row < end;) {
        // A tile that would reach past the last row begins before `row`: some are computed twice.
        const uint left = end - row;
        uint done = 1, first = row;
        if (left >= LARGE || (left > MEDIUM && end >= LARGE)) {
            done = min(left, (uint)LARGE);
            first = row + done - LARGE;
            TILE_OF(LARGE)(a, panel, along, &p, first, sums);
        } else if (left > SMALL && end >= MEDIUM) {
            done = min(left, (uint)MEDIUM);
            first = row + done - MEDIUM;
            TILE_OF(MEDIUM)(a, panel, along, &p, first, sums);
        } else if (left > 1 && end >= SMALL) {
            done = min(left, (uint)SMALL);
            first = row + done - SMALL;
            TILE_OF(SMALL)(a, panel, along, &p, first, sums);
        } else {
            tile_1(a, panel, along, &p, row, sums);
        }
        for (uint r = 0; r < done; ++r, ++row) {
            __global Y *line = y + (ulong)row * p.columns;
            write_row(line, sums + (row - first) * PANEL, from, to, line - start, column FINISH_NAMES);
        }
    }
}
