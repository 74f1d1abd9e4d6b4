// y = a b on a GPU, and what an epilogue makes of it: a group of 16 x 16 work items makes a tile of
// the result from strips of both sides in local memory; an item makes PER x PER of it in registers.
//
// PER: 2, 4 or 8. RANK: axes of the batch. A, B: types of the sides; Y: of the result.
// A_ALONG, B_ALONG: whether terms of depth are neighbours; else lines are.
//
// Where the depth is split, the third dimension counts its parts, and their sums go to
// [part][element of the result], for `join`.

#define NAMED(a, b) JOINED(a, b)
#define TILE (16 * PER)
#define STRIP (PER == 2 ? 32 : 16)      // terms of depth at once
#define ITEMS 256
#define QUADS (TILE * STRIP / 4 / ITEMS)
#define LINE (TILE + 4)                 // of a strip: fours stay aligned, and fall on other banks
#define BAND 8                          // rows of tiles whose columns are taken together, for the cache
#define WIDTH (PER == 2 ? 2 : 4)        // neighbouring rows and columns of an item

// HALVES: sides are halves, whose products are summed in halves, BLOCK pairs of neighbours in the
// depth at a time; then a strip has such pairs in the place of terms.
#if HALVES
#define BLOCK 8
#define STEPS (STRIP / 2)
#define FACTOR(bits) as_half2(bits)
#define ADD_PRODUCT(a, b, i, j) parts[i][j] = fma(a, b, parts[i][j])
typedef half2 factor;
typedef uint2 local_two;
typedef uint4 local_four;
#else
#define BLOCK STRIP
#define STEPS STRIP
#define FACTOR(bits) (bits)
#define ADD_PRODUCT(a, b, i, j) sums[i][j] += (a) * (b)
typedef float factor;
typedef float2 local_two;
typedef float4 local_four;
#endif

typedef struct {
    ulong size[RANK];
    ulong step[RANK][3];        // elements: of a, b and y
    ulong elements;             // of the result
    uint rows, columns, depth, matrices;
    uint part;                  // terms of depth of each part, in whole strips
    uint a_line, b_line;        // elements between neighbouring lines, or terms where lines are neighbours
} product;

// Four neighbours, aligned or not. Tensors begin at any element, so that is seen at run time.
#define IS_ALIGNED_float(p, stride) ((((ulong)(p)) & 15) == 0 && (stride) % 4 == 0)
#define IS_ALIGNED_half(p, stride) 0
#define IS_ALIGNED_bfloat(p, stride) 0
#define FOUR_float(p, aligned) ((aligned) ? *(const __global float4 *)(p) : vload4(0, p))
#define FOUR_half(p, aligned) load_halves4(p)
#define FOUR_bfloat(p, aligned) load_bfloats4(p)

// The part of a side that this item brings: quad `i` of a strip from term `k`, zeros past the ends.
// `where` and `term` are the line and the term of depth of its first element.
#define DEFINE_BRING(NAME, T, ALONG)                                                               \
    float4 NAME(const __global T *x, uint lines, uint until, ulong stride, int aligned, uint where, uint term) \
    {                                                                                              \
        float4 four = 0;                                                                           \
        const __global T *p = ALONG ? x + where * stride + term : x + term * stride + where;       \
        const uint across = ALONG ? where : term, end = ALONG ? lines : until;                     \
        const uint first = ALONG ? term : where, last = ALONG ? until : lines;                     \
        if (across >= end || first >= last) {                                                      \
            return four;                                                                           \
        }                                                                                          \
        if (first + 4 <= last) {                                                                   \
            return JOINED(FOUR_, T)(p, aligned);                                                   \
        }                                                                                          \
        four.s0 = LOAD_AS(T, p, 0);                                                                \
        four.s1 = first + 1 < last ? LOAD_AS(T, p, 1) : 0;                                         \
        four.s2 = first + 2 < last ? LOAD_AS(T, p, 2) : 0;                                         \
        return four;                                                                               \
    }
DEFINE_BRING(bring_a, A, A_ALONG)
DEFINE_BRING(bring_b, B, B_ALONG)

#define WHERE(ALONG, quad) (ALONG ? (quad) / (STRIP / 4) : (quad) % (TILE / 4) * 4)
#define TERM(ALONG, quad) (ALONG ? (quad) % (STRIP / 4) * 4 : (quad) / (TILE / 4))

// Put a quad into a strip, [term][line].
#if HALVES
#define PLACE(strip, ALONG, quad, four)                                                            \
    {                                                                                              \
        const ushort4 bits = as_ushort4(convert_half4(four));                                      \
        const uint at = TERM(ALONG, quad) / 2 * LINE + WHERE(ALONG, quad);                         \
        if (ALONG) {                                                                               \
            ((__local ushort2 *)strip)[at] = bits.lo;                                              \
            ((__local ushort2 *)strip)[at + LINE] = bits.hi;                                       \
        } else {                                                                                   \
            __local ushort *to = (__local ushort *)strip + 2 * at + TERM(0, quad) % 2;             \
            to[0] = bits.s0;                                                                       \
            to[2] = bits.s1;                                                                       \
            to[4] = bits.s2;                                                                       \
            to[6] = bits.s3;                                                                       \
        }                                                                                          \
    }
#else
#define PLACE(strip, ALONG, quad, four)                                                            \
    if (ALONG) {                                                                                   \
        __local float *to = (__local float *)strip + TERM(1, quad) * LINE + WHERE(1, quad);        \
        to[0] = (four).s0;                                                                         \
        to[LINE] = (four).s1;                                                                      \
        to[2 * LINE] = (four).s2;                                                                  \
        to[3 * LINE] = (four).s3;                                                                  \
    } else {                                                                                       \
        strip[(TERM(0, quad) * LINE + WHERE(0, quad)) / 4] = (four);                               \
    }
#endif

// Line i of an item's own, in its tile.
#define OWN(item, i) ((i) / WIDTH * (16 * WIDTH) + (item) * WIDTH + (i) % WIDTH)

__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void multiply(CONSTANT(A, a), CONSTANT(B, b), TENSOR(Y, y), const product p FINISH_PARAMETERS)
{
    __local local_four a_strip[STEPS * LINE / 4], b_strip[STEPS * LINE / 4];
    BEGIN(const A, a);
    BEGIN(const B, b);
    BEGIN(Y, y);
    FINISH_BEGIN
    const uint item = get_local_id(0), across = item % 16, down = item / 16;
    const uint row_tiles = (p.rows + TILE - 1) / TILE, column_tiles = (p.columns + TILE - 1) / TILE;
    const uint band = get_group_id(0) / (BAND * column_tiles), within = get_group_id(0) % (BAND * column_tiles);
    const uint banded = min((uint)BAND, row_tiles - band * BAND);
    const uint row = (band * BAND + within % banded) * TILE, column = within / banded * TILE;
    const uint from = get_group_id(2) * p.part, until = min(p.depth, from + p.part);
    y += get_group_id(2) * p.elements;
    for (uint matrix = get_group_id(1); matrix < p.matrices; matrix += get_num_groups(1)) {
        const __global A *left = a + row * (ulong)(A_ALONG ? p.a_line : 1);
        const __global B *right = b + column * (ulong)(B_ALONG ? p.b_line : 1);
        __global Y *result = y;
        ulong rest = matrix;
        for (int axis = RANK - 1; axis >= 0; --axis) {
            const ulong at = rest % p.size[axis];
            rest /= p.size[axis];
            left += at * p.step[axis][0];
            right += at * p.step[axis][1];
            result += at * p.step[axis][2];
        }
        const int a_aligned = NAMED(IS_ALIGNED_, A)(left, p.a_line);
        const int b_aligned = NAMED(IS_ALIGNED_, B)(right, p.b_line);
        const uint rows = p.rows - row, columns = p.columns - column;
        float4 next_a[QUADS], next_b[QUADS];
        float sums[PER][PER];
#pragma unroll
        for (uint i = 0; i < PER; ++i) {
#pragma unroll
            for (uint j = 0; j < PER; ++j) {
                sums[i][j] = 0;
            }
        }
#define BRING(k)                                                                                   \
    _Pragma("unroll")                                                                              \
    for (uint q = 0; q < QUADS; ++q) {                                                             \
        const uint quad = item + q * ITEMS;                                                        \
        next_a[q] = bring_a(left, rows, until, p.a_line, a_aligned, WHERE(A_ALONG, quad), (k) + TERM(A_ALONG, quad)); \
        next_b[q] = bring_b(right, columns, until, p.b_line, b_aligned, WHERE(B_ALONG, quad), (k) + TERM(B_ALONG, quad)); \
    }
        BRING(from)
        for (uint k = from; k < until; k += STRIP) {
            barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
            for (uint q = 0; q < QUADS; ++q) {
                const uint quad = item + q * ITEMS;
                PLACE(a_strip, A_ALONG, quad, next_a[q])
                PLACE(b_strip, B_ALONG, quad, next_b[q])
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            BRING(k + STRIP)    // while this strip is computed with
#pragma unroll
            for (uint block = 0; block < STEPS; block += BLOCK) {
#if HALVES
                half2 parts[PER][PER];
#pragma unroll
                for (uint i = 0; i < PER; ++i) {
#pragma unroll
                    for (uint j = 0; j < PER; ++j) {
                        parts[i][j] = 0;
                    }
                }
#endif
#pragma unroll
                for (uint t = block; t < block + BLOCK; ++t) {
                    factor of_a[PER], of_b[PER];
#pragma unroll
                    for (uint i = 0; i < PER; i += WIDTH) {
#if PER == 2
                        const local_two x = ((const __local local_two *)a_strip)[(t * LINE + OWN(down, i)) / 2];
                        const local_two z = ((const __local local_two *)b_strip)[(t * LINE + OWN(across, i)) / 2];
#else
                        const local_four x = a_strip[(t * LINE + OWN(down, i)) / 4];
                        const local_four z = b_strip[(t * LINE + OWN(across, i)) / 4];
                        of_a[i + 2] = FACTOR(x.s2);
                        of_a[i + 3] = FACTOR(x.s3);
                        of_b[i + 2] = FACTOR(z.s2);
                        of_b[i + 3] = FACTOR(z.s3);
#endif
                        of_a[i] = FACTOR(x.s0);
                        of_a[i + 1] = FACTOR(x.s1);
                        of_b[i] = FACTOR(z.s0);
                        of_b[i + 1] = FACTOR(z.s1);
                    }
#pragma unroll
                    for (uint i = 0; i < PER; ++i) {
#pragma unroll
                        for (uint j = 0; j < PER; ++j) {
                            ADD_PRODUCT(of_a[i], of_b[j], i, j);
                        }
                    }
                }
#if HALVES
#pragma unroll
                for (uint i = 0; i < PER; ++i) {
#pragma unroll
                    for (uint j = 0; j < PER; ++j) {
                        sums[i][j] += TOTAL_OF(
                            parts[i][j], (const __local int *)a_strip + block * LINE + OWN(down, i), LINE,
                            (const __local int *)b_strip + block * LINE + OWN(across, j), LINE, BLOCK);
                    }
                }
#endif
            }
        }
#pragma unroll
        for (uint i = 0; i < PER; ++i) {
            const uint to = OWN(down, i);
#pragma unroll
            for (uint j = 0; j < PER; ++j) {
                const uint at = OWN(across, j);
                if (to < rows && at < columns) {
                    const ulong place = (ulong)(row + to) * p.columns + column + at;
                    FINISH(sums[i][j], result - y + place, column + at)
                    STORE_AS(Y, result, place, sums[i][j]);
                }
            }
        }
    }
}
