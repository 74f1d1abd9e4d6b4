// Sums, differences, products and Prelu of two quantized tensors, broadcast.
//
// A, B: types of the operands. RANK: axes that are walked over; 0: operands lie as the result does.
// COMBINED(v, w): what is made of elements less their zero points, as floats. LANES: that are
// treated at once where RANK is 0.

typedef struct {
    uint size[RANK + 1];
    uint stride[RANK + 1][2];
    int zero_a, zero_b, zero, low, high;
    float factor_a, factor_b;
} combination;

#define SUM(v, w) ((v) * c.factor_a + (w) * c.factor_b)
#define DIFFERENCE(v, w) ((v) * c.factor_a - (w) * c.factor_b)
#define PRODUCT(v, w) ((v) * (w) * c.factor_a)
#define PRELU(v, w) ((v) >= 0 ? (v) * c.factor_a : (v) * (w) * c.factor_b)
#define RESULT(v, w) nearest(COMBINED(v, w), c.zero, c.low, c.high)

#if RANK == 0
#define WIDE(T) JOINED(T, LANES)
NEAREST_OF(LANES)

__kernel void combine(TENSOR(const A, a), TENSOR(const B, b), TENSOR(A, y), const combination c, const uint n)
{
    BEGIN(const A, a);
    BEGIN(const B, b);
    BEGIN(A, y);
    const uint whole = n / LANES;
    EACH(i, whole) {
        const WIDE(float) v = WIDE(convert_float)(WIDE(convert_int)(WIDE(vload)(i, a)) - c.zero_a);
        const WIDE(float) w = WIDE(convert_float)(WIDE(convert_int)(WIDE(vload)(i, b)) - c.zero_b);
        WIDE(store_bytes)(y + i * LANES, WIDE(JOINED(convert_, A))(RESULT(v, w)));
    }
    for (uint i = whole * LANES + get_global_id(0); i < n; i += get_global_size(0)) {
        const float v = a[i] - c.zero_a, w = b[i] - c.zero_b;
        y[i] = RESULT(v, w);
    }
}
#else
__kernel void combine(TENSOR(const A, a), TENSOR(const B, b), TENSOR(A, y), const combination c, const uint n)
{
    BEGIN(const A, a);
    BEGIN(const B, b);
    BEGIN(A, y);
    EACH(i, n) {
        index rest = i, at_a = 0, at_b = 0;
        for (int axis = RANK - 1; axis >= 0; --axis) {
            const uint next = rest / c.size[axis], at = rest - next * c.size[axis];
            at_a += at * c.stride[axis][0];
            at_b += at * c.stride[axis][1];
            rest = next;
        }
        const float v = a[at_a] - c.zero_a, w = b[at_b] - c.zero_b;
        y[i] = RESULT(v, w);
    }
}
#endif
