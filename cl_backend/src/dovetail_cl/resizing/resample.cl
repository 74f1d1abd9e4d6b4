// One axis becomes one of another size: each of its results is a weighted sum of elements.
//
// A, Y: types of the elements that are read and written; sums are made in floats.

#define LOAD16_float(p) vload16(0, p)
#define LOAD16_half(p) load_halves16(p)
#define LOAD16_bfloat(p) load_bfloats16(p)
#define STORE16_float(p, v) store_floats16(p, v)
#define STORE16_half(p, v) store_halves16(p, v)
#define STORE16_bfloat(p, v) store_bfloats16(p, v)
#define LOAD16(T, p) JOINED(LOAD16_, T)(p)
#define STORE16(T, p, v) JOINED(STORE16_, T)(p, v)

// The taps of a result: all have TAPS, one behind the other; 0: each has those from first[j] to
// first[j + 1].
#if TAPS
#define SUM(sum, value)                                                                            \
    for (uint k = 0; k < TAPS; ++k) {                                                              \
        const uint at = (uint)positions[k * wanted + j];                                           \
        sum += weights[k * wanted + j] * value;                                                    \
    }
#else
#define SUM(sum, value)                                                                            \
    for (int k = first[j]; k < first[j + 1]; ++k) {                                                \
        const uint at = (uint)positions[k];                                                        \
        sum += weights[k] * value;                                                                 \
    }
#endif

// Some results of LINES lines, which use the same taps.
enum { LINES = 4 };

static void sum_lines(__global Y *restrict y, __global const A *restrict x, __global const int *restrict first,
                      __global const int *restrict positions, __global const float *restrict weights, uint size, uint wanted,
                      uint begin, uint stop, uint lines)
{
    if (lines == LINES) {
        for (uint j = begin; j < stop; ++j) {
            float4 sum = 0;
            SUM(sum, (float4)(LOAD_AS(A, x, at), LOAD_AS(A, x, size + at), LOAD_AS(A, x, 2 * size + at),
                              LOAD_AS(A, x, 3 * size + at)))
            STORE_AS(Y, y, j, sum.x);
            STORE_AS(Y, y, wanted + j, sum.y);
            STORE_AS(Y, y, 2 * wanted + j, sum.z);
            STORE_AS(Y, y, 3 * wanted + j, sum.w);
        }
        return;
    }
    for (uint j = begin; j < stop; ++j) {
        float sum = 0;
        SUM(sum, LOAD_AS(A, x, at))
        STORE_AS(Y, y, j, sum);
    }
}

// x is [outer, size, inner] and y [outer, wanted, inner].
__kernel void resample(TENSOR(const A, x), TENSOR(Y, y), CONSTANT(int, first), CONSTANT(int, positions),
                       CONSTANT(float, weights), const uint size, const uint wanted, const uint inner, const uint n)
{
    BEGIN(const A, x);
    BEGIN(Y, y);
    BEGIN(const int, first);
    BEGIN(const int, positions);
    BEGIN(const float, weights);
#if ON_CPU
    SHARE(i, end, n);
    uint row = i / inner, column = i - row * inner;
    uint outer = row / wanted, j = row - outer * wanted;
    while (i < end) {
        __global const A *source = x + outer * size * inner;
        if (inner == 1) {   // the results of a line lie side by side
            const uint stop = min(wanted, j + end - i), lines = j == 0 && end - i >= LINES * wanted ? LINES : 1;
            sum_lines(y + (i - j), source, first, positions, weights, size, wanted, j, stop, lines);
            i += (lines - 1) * wanted + stop - j;
            outer += lines - 1;
            j = stop;
        } else {
            const uint stop = min(inner, column + end - i);
            __global Y *target = y + (i - column);
            i += stop - column;
            for (; column + 16 <= stop; column += 16) {
                float16 sum = 0;
                SUM(sum, LOAD16(A, source + at * inner + column))
                STORE16(Y, target + column, sum);
            }
            for (; column < stop; ++column) {
                float sum = 0;
                SUM(sum, LOAD_AS(A, source, at * inner + column))
                STORE_AS(Y, target, column, sum);
            }
            column = 0;
            ++j;
        }
        if (j == wanted) {
            j = 0;
            ++outer;
        }
    }
#else
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
        const uint row = i / inner, column = i - row * inner, outer = row / wanted, j = row - outer * wanted;
        float sum = 0;
        SUM(sum, LOAD_AS(A, x, (outer * size + at) * inner + column))
        STORE_AS(Y, y, i, sum);
    }
#endif
}
