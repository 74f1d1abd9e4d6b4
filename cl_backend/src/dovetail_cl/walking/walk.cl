// y[walk of y] = FUNCTION of the elements of up to three operands, each by strides of its own.
//
// RANK: axes that are walked over; 0: all operands lie as the result does.
// OPERANDS: 1 to 3, of the types A, B and C; the result has type Y.
// IN(T, p, i), FUNCTION(...), OUT(T, p, i, v): how elements are read, combined and written.

typedef struct {
    uint size[RANK + 1];
    int stride[RANK + 1][4];    // elements: of the operands, then of y
    int start[4];
} walk;

__kernel void walk_over(
    TENSOR(const A, a),
#if OPERANDS > 1
    TENSOR(const B, b),
#endif
#if OPERANDS > 2
    TENSOR(const C, c),
#endif
    TENSOR(Y, y), const walk w, const uint n)
{
    BEGIN(const A, a);
#if OPERANDS > 1
    BEGIN(const B, b);
#endif
#if OPERANDS > 2
    BEGIN(const C, c);
#endif
    BEGIN(Y, y);
    EACH(i, n) {
#if RANK == 0
        const index at_a = i, at_b = i, at_c = i, at_y = i;
#else
        uint rest = i;
        int at_a = w.start[0], at_b = w.start[1], at_c = w.start[2], at_y = w.start[3];
        for (int axis = RANK - 1; axis >= 0; --axis) {
            const uint next = rest / w.size[axis];
            const int at = (int)(rest - next * w.size[axis]);
            at_a += at * w.stride[axis][0];
            at_b += at * w.stride[axis][1];
            at_c += at * w.stride[axis][2];
            at_y += at * w.stride[axis][3];
            rest = next;
        }
#endif
#if OPERANDS == 1
        OUT(Y, y, at_y, FUNCTION(IN(A, a, at_a)));
#elif OPERANDS == 2
        OUT(Y, y, at_y, FUNCTION(IN(A, a, at_a), IN(B, b, at_b)));
#else
        OUT(Y, y, at_y, FUNCTION(IN(A, a, at_a), IN(B, b, at_b), IN(C, c, at_c)));
#endif
    }
}
