// y = matrix vector on a CPU, and what an epilogue makes of it: bound by how fast the matrix can be
// read.
//
// VECTOR: floats of a vector. RANK: axes of the batch. T, Y: types of what is read and of y.

typedef struct {
    ulong size[RANK];
    ulong step[RANK][3];        // elements: of the matrix, the vector and y
    ulong along;                // elements between neighbouring lines, or terms of depth
    uint lines, depth;
    uint each;                  // lines of a work item
} product;

#define NAMED(a, b) JOINED(a, b)
typedef NAMED(float, VECTOR) vec;
#define LOADS_float(i, p) NAMED(vload, VECTOR)(i, p)
#define LOADS_half(i, p) NAMED(load_halves, VECTOR)((p) + (i) * VECTOR)
#define LOADS_bfloat(i, p) NAMED(load_bfloats, VECTOR)((p) + (i) * VECTOR)
#define LOADS(i, p) NAMED(LOADS_, T)(i, p)
#define VLOAD NAMED(vload, VECTOR)
#define VSTORE(v, i, p) NAMED(store_floats, VECTOR)((p) + (i) * VECTOR, v)

#define TOTAL_4(v) (((v).s0 + (v).s1) + ((v).s2 + (v).s3))
#define TOTAL_8(v) TOTAL_4((v).lo + (v).hi)
#define TOTAL_16(v) TOTAL_8((v).lo + (v).hi)
#define TOTAL NAMED(TOTAL_, VECTOR)

#define TO_BATCH                                                                                   \
    BEGIN(const T, matrix);                                                                        \
    BEGIN(const T, vector);                                                                        \
    BEGIN(Y, y);                                                                                   \
    FINISH_BEGIN                                                                                   \
    const __global Y *start = y;                                                                   \
    ulong rest = get_global_id(1);                                                                 \
    for (int axis = RANK - 1; axis >= 0; --axis) {                                                 \
        const ulong at = rest % p.size[axis];                                                      \
        rest /= p.size[axis];                                                                      \
        matrix += at * p.step[axis][0];                                                            \
        vector += at * p.step[axis][1];                                                            \
        y += at * p.step[axis][2];                                                                 \
    }                                                                                              \
    const uint from = get_global_id(0) * p.each, to = min(p.lines, from + p.each);

// Lines follow one another; the terms of each are neighbours.
__kernel void lines(CONSTANT(T, matrix), CONSTANT(T, vector), TENSOR(Y, y), const product p FINISH_PARAMETERS)
{
    TO_BATCH
    const uint whole = p.depth / VECTOR * VECTOR;
    for (uint first = from; first < to; first += 4) {
        // Fewer than four lines at the end: the last of them several times, which costs no memory.
        const __global T *line[4];
        float totals[4];
        for (uint r = 0; r < 4; ++r) {
            line[r] = matrix + (ulong)min(first + r, to - 1) * p.along;
        }
        vec sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
        for (uint k = 0; k < whole; k += VECTOR) {
            const vec v = LOADS(0, vector + k);
            sum0 = fma(LOADS(0, line[0] + k), v, sum0);
            sum1 = fma(LOADS(0, line[1] + k), v, sum1);
            sum2 = fma(LOADS(0, line[2] + k), v, sum2);
            sum3 = fma(LOADS(0, line[3] + k), v, sum3);
        }
        totals[0] = TOTAL(sum0);
        totals[1] = TOTAL(sum1);
        totals[2] = TOTAL(sum2);
        totals[3] = TOTAL(sum3);
        for (uint r = 0; r < min(4u, to - first); ++r) {
            float total = totals[r];
            for (uint k = whole; k < p.depth; ++k) {
                total = fma(LOAD_AS(T, line[r], k), LOAD_AS(T, vector, k), total);
            }
            FINISH(total, y - start + first + r, first + r)
            STORE_AS(Y, y, first + r, total);
        }
    }
}

// Lines are neighbours; their terms follow one another. Sums of MAX_LINES stay in the first cache.
#define MAX_LINES 1024
__kernel void terms(CONSTANT(T, matrix), CONSTANT(T, vector), TENSOR(Y, y), const product p FINISH_PARAMETERS)
{
    TO_BATCH
    float sums[MAX_LINES];
    const uint count = to - from, whole = count / VECTOR * VECTOR;
    for (uint j = 0; j < count; ++j) {
        sums[j] = 0;
    }
    for (uint k = 0; k < p.depth; k += 4) {
        const __global T *term[4];
        float factor[4];
        const uint n = min(4u, p.depth - k);
        for (uint r = 0; r < 4; ++r) {
            term[r] = matrix + from + (ulong)(k + min(r, n - 1)) * p.along;
            factor[r] = LOAD_AS(T, vector, k + min(r, n - 1));
        }
        if (n == 4) {
            for (uint j = 0; j < whole; j += VECTOR) {
                const vec sum = fma((vec)(factor[0]), LOADS(0, term[0] + j), VLOAD(0, sums + j));
                const vec other = fma((vec)(factor[2]), LOADS(0, term[2] + j), factor[3] * LOADS(0, term[3] + j));
                VSTORE(fma((vec)(factor[1]), LOADS(0, term[1] + j), sum) + other, 0, sums + j);
            }
        }
        for (uint r = 0; r < n; ++r) {
            for (uint j = n == 4 ? whole : 0; j < count; ++j) {
                sums[j] = fma(factor[r], LOAD_AS(T, term[r], j), sums[j]);
            }
        }
    }
    for (uint j = 0; j < count; ++j) {
        float value = sums[j];
        FINISH(value, y - start + from + j, from + j)
        STORE_AS(Y, y, from + j, value);
    }
}
