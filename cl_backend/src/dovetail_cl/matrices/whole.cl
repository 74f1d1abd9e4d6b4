// Products of matrices of integers, modulo what they hold, or of doubles: one result at a time.
//
// T: type of the elements. SUM: that in which they are summed up. RANK: axes of the batch.
// W: type of the right side; ADD_PRODUCT(v, w, column, sum): a sum with another product; FINISH and
// what belongs to it: what becomes of a sum. By default, nothing.

#ifndef ADD_PRODUCT
#define W T
#define ADD_PRODUCT(v, w, column, sum) ((sum) + (SUM)(v) * (SUM)(w))
#define FINISH_PARAMETERS
#define FINISH_BEGIN
#define FINISH(v, at, line)
#endif

typedef struct {
    uint size[RANK + 1];
    uint step[RANK + 1][2];         // elements between matrices of both sides
    uint rows, columns, depth;
    uint a_line, a_depth, b_line, b_depth;
} product;

__kernel void multiply(
    TENSOR(const T, a), TENSOR(const W, b), TENSOR(T, y), const product p, const uint n FINISH_PARAMETERS)
{
    BEGIN(const T, a);
    BEGIN(const W, b);
    BEGIN(T, y);
    FINISH_BEGIN
    EACH(i, n) {
        const uint column = i % p.columns, line = i / p.columns, row = line % p.rows;
        uint rest = line / p.rows, at_a = row * p.a_line, at_b = column * p.b_line;
        for (int axis = RANK - 1; axis >= 0; --axis) {
            const uint next = rest / p.size[axis], at = rest - next * p.size[axis];
            at_a += at * p.step[axis][0];
            at_b += at * p.step[axis][1];
            rest = next;
        }
        SUM sum = 0;
        for (uint k = 0; k < p.depth; ++k) {
            sum = ADD_PRODUCT(a[at_a + k * p.a_depth], b[at_b + k * p.b_depth], column, sum);
        }
        FINISH(sum, i, column)
        y[i] = (T)sum;
    }
}
