// y = softmax(scores of q and k) v on a CPU: a work item takes some rows of q, and all keys, a
// block at a time. What it has of a softmax goes on from block to block (Dao et al.,
// FlashAttention, 2022).
//
// A score is the product of a row of q and one of k, finished by an epilogue.
//
// VECTOR: floats of a vector; PANEL: two of them. T: type of q, k, v and y.
// ONCE: there is one block.
// OPERANDS_OF(row): arguments for the operands of the epilogue, at a row of a batch and a head.

#define REPEAT_4(DO) DO(0, 0, 0) DO(1, 0, 1) DO(2, 0, 2) DO(3, 0, 3)
#define REPEAT_8(DO) REPEAT_4(DO) DO(4, 0, 4) DO(5, 0, 5) DO(6, 6, 0) DO(7, 6, 1)
#define REPEAT_12(DO) REPEAT_8(DO) DO(8, 6, 2) DO(9, 6, 3) DO(10, 6, 4) DO(11, 6, 5)
#define MAX_ROWS 12

#define CLEAR(r, at, away) vec low##r = 0, high##r = 0;
#define ADD(r, at, away)                                                                           \
    {                                                                                              \
        const vec value = (vec)(a##at[away * line]);                                               \
        low##r = fma(value, b0, low##r);                                                           \
        high##r = fma(value, b1, high##r);                                                         \
    }
#define MORE(r, at, away)                                                                          \
    low##r += VLOAD(0, c + r * across);                                                            \
    high##r += VLOAD(1, c + r * across);
#define KEEP(r, at, away)                                                                          \
    VSTORE(low##r, 0, c + r * across);                                                             \
    VSTORE(high##r, 1, c + r * across);

// c = a b of some rows and one panel, or that is added to it.
#define TILE(ROWS)                                                                                 \
    void tile_##ROWS(const __local float *a, const uint line, const uint step, const __local float *b, \
                     uint depth, __local float *c, const uint across, const uint adds)             \
    {                                                                                              \
        const __local float *a0 = a, *a6 = a + 6 * line;                                           \
        REPEAT_##ROWS(CLEAR)                                                                       \
        for (uint k = depth; k; --k) {                                                             \
            const vec b0 = VLOAD(0, b), b1 = VLOAD(1, b);                                          \
            REPEAT_##ROWS(ADD)                                                                     \
            a0 += step;                                                                            \
            a6 += step;                                                                            \
            b += PANEL;                                                                            \
        }                                                                                          \
        if (adds) {                                                                                \
            REPEAT_##ROWS(MORE)                                                                    \
        }                                                                                          \
        REPEAT_##ROWS(KEEP)                                                                        \
    }
TILE(12)
TILE(8)
TILE(4)

void tile(const uint rows, const __local float *a, const uint line, const uint step, const __local float *b,
          uint depth, __local float *c, const uint across, const uint adds)
{
    if (rows == 12) {
        tile_12(a, line, step, b, depth, c, across, adds);
    } else if (rows == 8) {
        tile_8(a, line, step, b, depth, c, across, adds);
    } else {
        tile_4(a, line, step, b, depth, c, across, adds);
    }
}

#define KEEPS_float(p, v) VSTORE(v, 0, p)
#define KEEPS_half(p, v) NAMED(store_halves, VECTOR)(p, v)
#define KEEPS_bfloat(p, v) NAMED(store_bfloats, VECTOR)(p, v)

__kernel void attend(ATTENTION, __local float *room FINISH_PARAMETERS)
{
    ATTENTION_BEGIN
    const uint batch = get_global_id(1) / p.heads, head = get_global_id(1) % p.heads;
    q += OF_MATRIX(q);
    k += OF_MATRIX(k);
    v += OF_MATRIX(v);
    y += OF_MATRIX(y);
    const uint begin = get_global_id(0) * p.each, rows = min(p.each, p.rows - begin), padded = (rows + 3) / 4 * 4;
    const uint across = (p.width + PANEL - 1) / PANEL * PANEL;
    // What of `room` is whose; all begin at whole vectors.
    __local float *keys = room, *values = keys + p.block * p.depth, *sums = values + p.block * across;
    __local float *scores = sums + padded * across, *tops = scores + MAX_ROWS * p.block, *totals = tops + padded;
    __local float *queries = totals + padded;
    for (uint row = 0; row < padded; ++row) {
        __local float *to = queries + row * p.depth;
        const __global T *from = q + (begin + min(row, rows - 1)) * p.q[2];
        uint i = 0;
        for (; p.q[3] == 1 && i + VECTOR <= p.depth; i += VECTOR) {
            VSTORE(LOADS(from + i), 0, to + i);
        }
        for (; i < p.depth; ++i) {
            to[i] = LOAD_AS(T, from, i * p.q[3]);
        }
    }
    for (uint row = 0; row < padded; ++row) {
        tops[row] = -INFINITY;
        totals[row] = 0;
    }
    for (uint key = 0; key < p.keys; key += p.block) {
        const uint count = min(p.block, p.keys - key), whole = (count + PANEL - 1) / PANEL * PANEL;
        for (uint j = 0; j < count; j += PANEL) {
            pack_panel(keys + j * p.depth, k + (key + j) * p.k[2], min((uint)PANEL, count - j), p.k[2], p.k[3], 0, p.depth);
        }
        for (uint j = 0; j < p.width; j += PANEL) {
            pack_panel(values + j * p.block, v + key * p.v[2] + j * p.v[3], min((uint)PANEL, p.width - j), p.v[3], p.v[2], 0, count);
        }
        for (uint row = 0, some; row < padded; row += some) {
            some = padded - row >= 12 ? 12 : padded - row >= 8 ? 8 : 4;
            for (uint j = 0; j < count; j += PANEL) {
                tile(some, queries + row * p.depth, p.depth, p.step, keys + j * p.depth, p.depth, scores + j, p.block, 0);
            }
            for (uint r = row; r < min(row + some, rows); ++r) {
                __local float *own = scores + (r - row) * p.block;
                const float highest = finish_scores(own, count, key OPERANDS_OF(begin + r));
                const float before = tops[r], top = MAX_BUT_NAN(before, highest);
                const float base = base_of(top);
                const float total = weigh(own, whole, base);
#if ONCE
                totals[r] = total;
#else
                const float factor = power_of_e((vec)(before - base)).s0;
                totals[r] = totals[r] * factor + total;
                tops[r] = top;
                if (key && factor != 1) {
                    for (uint i = 0; i < across; i += VECTOR) {
                        VSTORE(VLOAD(0, sums + r * across + i) * factor, 0, sums + r * across + i);
                    }
                }
#endif
            }
            for (uint j = 0; j < p.width; j += PANEL) {
                tile(some, scores, p.block, p.step, values + j * p.block, count, sums + row * across + j, across, key);
            }
        }
    }
    for (uint row = 0; row < rows; ++row) {
        const float factor = 1 / totals[row];
        __local float *from = sums + row * across;
        __global T *to = y + (begin + row) * p.y[2];
        uint i = 0;
        for (; p.y[3] == 1 && i + VECTOR <= p.width; i += VECTOR) {
            NAMED(KEEPS_, T)(to + i, VLOAD(0, from + i) * factor);
        }
        for (; i < p.width; ++i) {
            STORE_AS(T, to, i * p.y[3], from[i] * factor);
        }
    }
}
