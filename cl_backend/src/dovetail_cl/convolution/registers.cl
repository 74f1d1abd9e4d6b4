// Sums that registers hold: of some rows of a matrix, and of a panel of two vectors of columns.
//
// BY_LINES: whether rows lie by lines; else LARGE of them take turns. Of a panel of which at most
// one vector is wanted, that one is summed up alone.
// TERM: type of what is multiplied, SUM: of the sums; floats by default. ADD_PRODUCT(v, b, sum): a
// sum with another product.

#ifndef TERM
#define TERM float
#define SUM float
#define ADD_PRODUCT(v, b, sum) fma(v, b, sum)
#endif

#define PANEL (2 * VECTOR)
#define REPEAT_2(DO) DO(0) DO(1)
#define REPEAT_4(DO) REPEAT_2(DO) DO(2) DO(3)
#define REPEAT_6(DO) REPEAT_4(DO) DO(4) DO(5)
#define REPEAT_8(DO) REPEAT_6(DO) DO(6) DO(7)
#define REPEAT_12(DO) REPEAT_8(DO) DO(8) DO(9) DO(10) DO(11)

#if VECTOR == 16
#define LARGE 12
#define MEDIUM 8
#define SMALL 4
#else
#define LARGE 6
#define MEDIUM 4
#define SMALL 2
#endif

#if BY_LINES
#define ROW(r) a[r * line]
#define NEXT 1
#else
#define ROW(r) a[r]
#define NEXT LARGE
#endif
#define CLEAR(r) vec low##r = 0, high##r = 0;
#define ADD(r) { const vec v = (vec)(ROW(r)); low##r = ADD_PRODUCT(v, b0, low##r); high##r = ADD_PRODUCT(v, b1, high##r); }
#define KEEP(r) sums[2 * r] = low##r; sums[2 * r + 1] = high##r;
#define CLEAR_ONE(r) vec low##r = 0;
#define ADD_ONE(r) low##r = ADD_PRODUCT((vec)(ROW(r)), b0, low##r);
#define KEEP_ONE(r) sums[2 * r] = low##r;

#define TILE(ROWS)                                                                                 \
    void tile_##ROWS(const __global TERM *a, const ulong line, const __global SUM *b,             \
                     const uint depth, vec *sums)                                                  \
    {                                                                                              \
        REPEAT_##ROWS(CLEAR)                                                                       \
        for (uint k = depth; k; --k) {                                                             \
            const vec b0 = VLOAD(0, b), b1 = VLOAD(1, b);                                          \
            REPEAT_##ROWS(ADD)                                                                     \
            a += NEXT;                                                                             \
            b += PANEL;                                                                            \
        }                                                                                          \
        REPEAT_##ROWS(KEEP)                                                                        \
    }                                                                                              \
    void narrow_##ROWS(const __global TERM *a, const ulong line, const __global SUM *b,           \
                       const uint depth, vec *sums)                                                \
    {                                                                                              \
        REPEAT_##ROWS(CLEAR_ONE)                                                                   \
        for (uint k = depth; k; --k) {                                                             \
            const vec b0 = VLOAD(0, b);                                                            \
            REPEAT_##ROWS(ADD_ONE)                                                                 \
            a += NEXT;                                                                             \
            b += PANEL;                                                                            \
        }                                                                                          \
        REPEAT_##ROWS(KEEP_ONE)                                                                    \
    }
#define DEFINE_TILE(ROWS) TILE(ROWS)
DEFINE_TILE(LARGE)
DEFINE_TILE(MEDIUM)
DEFINE_TILE(SMALL)

// Sums of at most LARGE rows, and of `columns` of a panel: two vectors for each row.
void tile(const uint rows, const uint columns, const __global TERM *a, const ulong line, const __global SUM *b,
          const uint depth, vec *sums)
{
    if (columns > VECTOR) {
        if (rows > MEDIUM) NAMED(tile_, LARGE)(a, line, b, depth, sums);
        else if (rows > SMALL) NAMED(tile_, MEDIUM)(a, line, b, depth, sums);
        else NAMED(tile_, SMALL)(a, line, b, depth, sums);
    } else {
        if (rows > MEDIUM) NAMED(narrow_, LARGE)(a, line, b, depth, sums);
        else if (rows > SMALL) NAMED(narrow_, MEDIUM)(a, line, b, depth, sums);
        else NAMED(narrow_, SMALL)(a, line, b, depth, sums);
    }
}
