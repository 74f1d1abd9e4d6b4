// y = matrix vector on a GPU, and what an epilogue makes of it: a group shares out the terms of a
// few lines.
//
// LANES: items that share the terms of a line. LINES: lines of a group.
// RANK: axes of the batch. T, Y: types of what is read and of y.

typedef struct {
    ulong size[RANK];
    ulong step[RANK][3];        // elements: of the matrix, the vector and y
    ulong along;                // elements between neighbouring lines, or terms of depth
    uint lines, depth, matrices;
} product;

// LINE, LANE: of an item. TERM: where a term of its line is. Neighbouring items read neighbours.
#define SHARE(NAME, LINE, LANE, TERM)                                                              \
    __kernel __attribute__((reqd_work_group_size(LANES * LINES, 1, 1)))                            \
    void NAME(CONSTANT(T, matrix), CONSTANT(T, vector), TENSOR(Y, y), const product p FINISH_PARAMETERS) \
    {                                                                                              \
        __local float parts[LANES * LINES];                                                        \
        BEGIN(const T, matrix);                                                                    \
        BEGIN(const T, vector);                                                                    \
        BEGIN(Y, y);                                                                               \
        FINISH_BEGIN                                                                               \
        const uint item = get_local_id(0), lane = LANE;                                            \
        const uint line = get_group_id(0) * LINES + LINE, count = line < p.lines ? p.depth : 0;    \
        for (uint which = get_group_id(1); which < p.matrices; which += get_num_groups(1)) {       \
            const __global T *terms = matrix, *factors = vector;                                   \
            __global Y *result = y;                                                                \
            ulong rest = which;                                                                    \
            for (int axis = RANK - 1; axis >= 0; --axis) {                                         \
                const ulong at = rest % p.size[axis];                                              \
                rest /= p.size[axis];                                                              \
                terms += at * p.step[axis][0];                                                     \
                factors += at * p.step[axis][1];                                                   \
                result += at * p.step[axis][2];                                                    \
            }                                                                                      \
            float sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;                                          \
            uint k = lane;                                                                         \
            for (; k + 3 * LANES < count; k += 4 * LANES) {                                        \
                sum0 += LOAD_AS(T, terms, TERM(k)) * LOAD_AS(T, factors, k);                       \
                sum1 += LOAD_AS(T, terms, TERM(k + LANES)) * LOAD_AS(T, factors, k + LANES);       \
                sum2 += LOAD_AS(T, terms, TERM(k + 2 * LANES)) * LOAD_AS(T, factors, k + 2 * LANES); \
                sum3 += LOAD_AS(T, terms, TERM(k + 3 * LANES)) * LOAD_AS(T, factors, k + 3 * LANES); \
            }                                                                                      \
            for (; k < count; k += LANES) {                                                        \
                sum0 += LOAD_AS(T, terms, TERM(k)) * LOAD_AS(T, factors, k);                       \
            }                                                                                      \
            barrier(CLK_LOCAL_MEM_FENCE);                                                          \
            parts[LINE * LANES + lane] = (sum0 + sum1) + (sum2 + sum3);                              \
            for (uint step = LANES / 2; step; step /= 2) {                                         \
                barrier(CLK_LOCAL_MEM_FENCE);                                                      \
                if (lane < step) {                                                                 \
                    parts[LINE * LANES + lane] += parts[LINE * LANES + lane + step];               \
                }                                                                                  \
            }                                                                                      \
            if (lane == 0 && line < p.lines) {                                                     \
                float value = parts[LINE * LANES];                                                 \
                FINISH(value, result - y + line, line)                                             \
                STORE_AS(Y, result, line, value);                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define OF_LINE(k) ((ulong)line * p.along + (k))
#define OF_DEPTH(k) ((k) * p.along + line)
// The terms of a line are neighbours.
SHARE(lines, (item / LANES), (item % LANES), OF_LINE)
// Lines are neighbours.
SHARE(terms, (item % LINES), (item / LINES), OF_DEPTH)
