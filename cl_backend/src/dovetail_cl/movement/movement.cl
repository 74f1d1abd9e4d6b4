// Elements of one type T that stand where the result's position alone says: padding, triangles,
// fills.

enum { AXES = 12 };
enum { FILL, EDGE, REFLECT, SYMMETRIC, WRAP };

typedef struct {
    uint size[AXES];        // of the input; the innermost axis is axis 0
    uint count[AXES];       // of the result
    int first[AXES];        // position in the input of the first element of the result; may lie outside
    uint axes;              // how many there are, at least 1
    uint how;
} padding;

// The position in the input of an index of the result; -1: the fill.
static int padded_from(const padding *w, uint axis, uint index)
{
    const int at = w->first[axis] + (int)index, size = (int)w->size[axis];
    if (at >= 0 && at < size) {
        return at;
    }
    if (w->how == FILL) {
        return -1;
    }
    if (w->how == EDGE || size == 1) {
        return at < 0 ? 0 : size - 1;
    }
    const long period = w->how == WRAP ? size : w->how == SYMMETRIC ? 2L * size : 2L * size - 2;
    long turn = at % period;
    turn += turn < 0 ? period : 0;
    return (int)(turn < size ? turn : (w->how == SYMMETRIC ? 2L * size - 1 : 2L * size - 2) - turn);
}

// Where the row of the result lies in the input that has this number; -1: nowhere.
static int padded_row(const padding *w, uint row)
{
    int offset = 0, stride = (int)w->size[0];
    bool is_outside = false;
    for (uint axis = 1; axis < w->axes; ++axis) {
        const uint next = row / w->count[axis];
        const int at = padded_from(w, axis, row - next * w->count[axis]);
        is_outside |= at < 0;
        offset += at * stride;
        stride *= (int)w->size[axis];
        row = next;
    }
    return is_outside ? -1 : offset;
}

__kernel void pad(TENSOR(const T, x), TENSOR(T, y), const padding w, const ulong fill, const uint n)
{
    BEGIN(const T, x);
    BEGIN(T, y);
    const uint width = w.count[0];
#if ON_CPU
    SHARE(i, end, n);
    // Columns [inside, beyond) are those of the input.
    const uint inside = min((uint)max(-w.first[0], 0), width);
    const uint beyond = clamp((int)w.size[0] - w.first[0], (int)inside, (int)width);
    uint row = i / width, column = i % width;
    while (i < end) {
        const uint stop = min(width, column + end - i);
        const int line = padded_row(&w, row);
        __global T *target = y + i - column;
        i += stop - column;
        if (line < 0) {
            for (; column < stop; ++column) {
                target[column] = (T)fill;
            }
        }
        for (; column < min(stop, inside); ++column) {
            const int at = padded_from(&w, 0, column);
            target[column] = at < 0 ? (T)fill : x[line + at];
        }
        if (column < min(stop, beyond)) {
            const uint run = min(stop, beyond) - column;
            move(target + column, 1, x + line + w.first[0] + (int)column, 1, run);
            column += run;
        }
        for (; column < stop; ++column) {
            const int at = padded_from(&w, 0, column);
            target[column] = at < 0 ? (T)fill : x[line + at];
        }
        column = 0;
        ++row;
    }
#else
    EACH(i, n) {
        const int line = padded_row(&w, i / width), at = padded_from(&w, 0, i % width);
        y[i] = line < 0 || at < 0 ? (T)fill : x[line + at];
    }
#endif
}

// Keep what lies on the diagonal k and above it, or else on it and below; the result may lie in
// place.
__kernel void triangle(TENSOR(const T, x), TENSOR(T, y), const uint rows, const uint columns, const int k, const uint is_upper,
                       const uint n)
{
    BEGIN(const T, x);
    BEGIN(T, y);
    EACH(i, n) {
        const int column = (int)(i % columns), diagonal = (int)(i / columns % rows) + k;
        const T value = x[i];
        y[i] = (is_upper ? column >= diagonal : column <= diagonal) ? value : 0;
    }
}

__kernel void fill(TENSOR(T, y), const ulong value, const uint n)
{
    BEGIN(T, y);
    EACH(i, n) {
        y[i] = (T)value;
    }
}
