// Sums, differences, products and Prelu of two quantized tensors, broadcast.
//
// A, B: types of the operands. RANK: axes that are walked over; 0: operands lie as the result does.
// COMBINED(V, v, w): what is made of elements less their zero points, of the type V. LANES: that are
// treated at once where RANK is 0.

typedef struct {
    uint size[RANK + 1];
    uint stride[RANK + 1][2];
    int zero_a, zero_b, zero, low, high;
    int multiplier_a, shift_a, multiplier_b, shift_b, multiplier, shift;
} combination;

#define SCALED_A(V, v) requantized(v, (V)c.multiplier_a, (V)c.shift_a)
#define SCALED_B(V, v) requantized(v, (V)c.multiplier_b, (V)c.shift_b)
#define SCALED(V, v) requantized(v, (V)c.multiplier, (V)c.shift)
#define RESULT(V, v, w) clamp(COMBINED(V, v, w) + c.zero, (V)c.low, (V)c.high)

// TensorFlow Lite's sums have 20 bits of headroom.
#define SUM(V, v, w) SCALED(V, SCALED_A(V, (v) << 20) + SCALED_B(V, (w) << 20))
#define DIFFERENCE(V, v, w) SCALED(V, SCALED_A(V, (v) << 20) - SCALED_B(V, (w) << 20))
#define PRODUCT(V, v, w) SCALED(V, (v) * (w))
#define PRELU(V, v, w) ((v) >= 0 ? SCALED_A(V, v) : SCALED_B(V, (v) * (w)))

#if RANK == 0
#define WIDE(T) JOINED(T, LANES)
REQUANTIZES_OF(LANES)

__kernel void combine(TENSOR(const A, a), TENSOR(const B, b), TENSOR(A, y), const combination c, const uint n)
{
    BEGIN(const A, a);
    BEGIN(const B, b);
    BEGIN(A, y);
    const uint whole = n / LANES;
    EACH(i, whole) {
        const WIDE(int) v = WIDE(convert_int)(WIDE(vload)(i, a)) - c.zero_a;
        const WIDE(int) w = WIDE(convert_int)(WIDE(vload)(i, b)) - c.zero_b;
        WIDE(vstore)(WIDE(JOINED(convert_, A))(RESULT(WIDE(int), v, w)), i, y);
    }
    for (uint i = whole * LANES + get_global_id(0); i < n; i += get_global_size(0)) {
        const int v = a[i] - c.zero_a, w = b[i] - c.zero_b;
        y[i] = RESULT(int, v, w);
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
        const int v = a[at_a] - c.zero_a, w = b[at_b] - c.zero_b;
        y[i] = RESULT(int, v, w);
    }
}
#endif
