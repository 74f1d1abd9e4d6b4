// Products of quantized matrices, one result at a time.
//
// T, W: types of the left and of the right side. RANK: axes of the batch.

typedef struct {
    uint size[RANK + 1];
    uint step[RANK + 1][2];         // elements between matrices of both sides
    uint rows, columns, depth;
    uint a_line, a_depth, b_line, b_depth;
    int b_zero;
} product;

__kernel void multiply(
    TENSOR(const T, a), TENSOR(const W, b), const float factor, const scaling s, TENSOR(T, y),
    const product p, const uint n)
{
    BEGIN(const T, a);
    BEGIN(const W, b);
    BEGIN(T, y);
    EACH(i, n) {
        const uint column = i % p.columns, line = i / p.columns, row = line % p.rows;
        uint rest = line / p.rows, at_a = row * p.a_line, at_b = column * p.b_line;
        for (int axis = RANK - 1; axis >= 0; --axis) {
            const uint next = rest / p.size[axis], at = rest - next * p.size[axis];
            at_a += at * p.step[axis][0];
            at_b += at * p.step[axis][1];
            rest = next;
        }
        int sum = 0;
        for (uint k = 0; k < p.depth; ++k) sum += (a[at_a + k * p.a_depth] - s.zero) * (b[at_b + k * p.b_depth] - p.b_zero);
        const scaling copied = s;
        y[i] = finished(sum, factor, &copied);
    }
}
