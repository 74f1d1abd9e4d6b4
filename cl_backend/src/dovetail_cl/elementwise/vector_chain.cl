// The same for a CPU, of floats alone, in vectors of WIDTH: along the last axis, over which each
// operand goes by a STRIDE of 0 or 1, in pieces of PIECE elements.
//
// OPERANDS(X): X(type in memory, name, number, stride along the last axis), for each operand.

#define V JOINED(float, WIDTH)
#define LOAD_V_float(p) JOINED(vload, WIDTH)(0, p)
#define LOAD_V_half(p) JOINED(load_halves, WIDTH)(p)
#define LOAD_V_bfloat(p) JOINED(load_bfloats, WIDTH)(p)
#define STORE_V_float(p, v) JOINED(store_floats, WIDTH)(p, v)
#define STORE_V_half(p, v) JOINED(store_halves, WIDTH)(p, v)
#define STORE_V_bfloat(p, v) JOINED(store_bfloats, WIDTH)(p, v)

typedef struct {
    uint run;                       // elements of the last axis
    uint size[RANK + 1];            // of the axes before it
    int stride[RANK + 1][COUNT];    // elements
} walk;

#define PARAMETER(T, x, number, step) TENSOR(const T, x),
#define FIRST(T, x, number, step) BEGIN(const T, x);
#define PLACE(T, x, number, step) __global const T *from_##x = x + begin * step;
#define STEP(T, x, number, step) from_##x += at * w.stride[axis][number];
#define READ_0(T, x) (V)(LOAD_AS(T, from_##x, 0))
#define READ_1(T, x) JOINED(LOAD_V_, T)(from_##x + k)
#define READ(T, x, number, step) const V value_##x = READ_##step(T, x);
// The last elements, fewer than a vector.
#define PART_0(T, x) (V)(LOAD_AS(T, from_##x, 0))
#define PART_1(T, x) part_##T(from_##x + k, length - k)
#define PART(T, x, number, step) const V value_##x = PART_##step(T, x);

V part_float(__global const float *p, uint count)
{
    float parts[WIDTH];
    for (uint i = 0; i < WIDTH; ++i)
        parts[i] = i < count ? p[i] : 0.0f;
    return JOINED(vload, WIDTH)(0, parts);
}

V part_bfloat(__global const bfloat *p, uint count)
{
    float parts[WIDTH];
    for (uint i = 0; i < WIDTH; ++i)
        parts[i] = i < count ? LOAD_bfloat(p, i) : 0.0f;
    return JOINED(vload, WIDTH)(0, parts);
}

#if HAS_HALVES
V part_half(__global const half *p, uint count)
{
    float parts[WIDTH];
    for (uint i = 0; i < WIDTH; ++i)
        parts[i] = i < count ? vload_half(i, p) : 0.0f;
    return JOINED(vload, WIDTH)(0, parts);
}
#endif

__kernel void chain(OPERANDS(PARAMETER) TENSOR(Y, y), const walk w, const uint n)
{
    OPERANDS(FIRST)
    BEGIN(Y, y);
    const uint pieces = (w.run + PIECE - 1) / PIECE;
    EACH(piece, n) {
        const uint row = piece / pieces, begin = piece % pieces * PIECE, length = min((uint)PIECE, w.run - begin);
        OPERANDS(PLACE)
        uint rest = row;
        for (int axis = RANK - 1; axis >= 0; --axis) {
            const uint next = rest / w.size[axis];
            const int at = (int)(rest - next * w.size[axis]);
            OPERANDS(STEP)
            rest = next;
        }
        __global Y *to = y + row * w.run + begin;
        uint k = 0;
        for (; k + WIDTH <= length; k += WIDTH) {
            OPERANDS(READ)
            STATEMENTS
            JOINED(STORE_V_, Y)(to + k, RESULT);
        }
        if (k < length) {
            OPERANDS(PART)
            STATEMENTS
            float parts[WIDTH];
            JOINED(vstore, WIDTH)(RESULT, 0, parts);
            for (uint i = 0; k + i < length; ++i)
                STORE_AS(Y, to, k + i, parts[i]);
        }
    }
}
