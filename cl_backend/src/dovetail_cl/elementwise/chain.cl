// Several functions of elements in one pass: y = the last of some statements.
//
// RANK: axes that are walked over; 0: all operands lie as the result does.
// OPERANDS(X): X(type in memory, type in which it is computed with, name, number), for each
// operand.
// COUNT: how many there are. STATEMENTS: what is computed of them. RESULT: of type Y, what is
// written.

typedef struct {
    uint size[RANK + 1];
    int stride[RANK + 1][COUNT];    // elements
} walk;

#define PARAMETER(T, C, x, number) TENSOR(const T, x),
#define FIRST(T, C, x, number) BEGIN(const T, x);
#define PLACE(T, C, x, number) index at_##x = 0;
#define STEP(T, C, x, number) at_##x += at * w.stride[axis][number];
#define FLAT(T, C, x, number) const index at_##x = i;
#define READ(T, C, x, number) const C value_##x = LOAD_AS(T, x, at_##x);

__kernel void chain(OPERANDS(PARAMETER) TENSOR(Y, y), const walk w, const uint n)
{
    OPERANDS(FIRST)
    BEGIN(Y, y);
    EACH(i, n) {
#if RANK == 0
        OPERANDS(FLAT)
#else
        OPERANDS(PLACE)
        uint rest = i;
        for (int axis = RANK - 1; axis >= 0; --axis) {
            const uint next = rest / w.size[axis];
            const int at = (int)(rest - next * w.size[axis]);
            OPERANDS(STEP)
            rest = next;
        }
#endif
        OPERANDS(READ)
        STATEMENTS
        STORE_AS(Y, y, i, RESULT);
    }
}
