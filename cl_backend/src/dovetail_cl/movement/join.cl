// Tensors become parts of the rows of one, on a CPU: y[row] = x0[row], x1[row], ... of elements of
// one type T.
//
// COUNT: how many there are. PARTS(X): X(name, number) for each of them.

typedef struct { uint run[COUNT], whole; } sizes;   // elements of a row

#define PARAMETER(x, number) TENSOR(const T, x),
#define FIRST(x, number) BEGIN(const T, x);
#define COPY(x, number)                                                                            \
    move(to, 1, x + row * s.run[number], 1, s.run[number]);                                        \
    to += s.run[number];

__kernel void join(PARTS(PARAMETER) TENSOR(T, y), const sizes s, const uint rows)
{
    PARTS(FIRST)
    BEGIN(T, y);
    EACH(row, rows) {
        __global T *to = y + row * s.whole;
        PARTS(COPY)
    }
}
