// Elements of the type T whose places are sums over the axes: by a stride, or from a table.

enum { AXES = 8 };

typedef struct {
    uint size[AXES];        // of the result; the innermost axis is axis 0
    int stride[AXES];       // elements of x, of an axis without a table
    int table[AXES];        // where its table begins; -1: none
    uint axes;
} selection;

static int place_along(const selection *w, __global const int *tables, uint axis, uint at)
{
    return w->table[axis] < 0 ? (int)at * w->stride[axis] : tables[w->table[axis] + (int)at];
}

__kernel void nearest(TENSOR(const T, x), TENSOR(T, y), CONSTANT(int, tables), const selection w, const uint n)
{
    BEGIN(const T, x);
    BEGIN(T, y);
    BEGIN(const int, tables);
#if ON_CPU
    SHARE(i, end, n);
    const uint width = w.size[0];
    uint row = i / width, column = i - row * width;
    while (i < end) {
        const uint stop = min(width, column + end - i);
        uint rest = row++;
        int place = 0;
        for (uint axis = 1; axis < w.axes; ++axis) {
            const uint next = rest / w.size[axis];
            place += place_along(&w, tables, axis, rest - next * w.size[axis]);
            rest = next;
        }
        __global T *target = y + (i - column);
        i += stop - column;
        if (w.table[0] < 0) {
            move(target + column, 1, x + place + (int)column * w.stride[0], w.stride[0], stop - column);
        } else {
            __global const int *table = tables + w.table[0];
            for (; column < stop; ++column) {
                target[column] = x[place + table[column]];
            }
        }
        column = 0;
    }
#else
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
        uint rest = i;
        int place = 0;
        for (uint axis = 0; axis < w.axes; ++axis) {
            const uint next = rest / w.size[axis];
            place += place_along(&w, tables, axis, rest - next * w.size[axis]);
            rest = next;
        }
        y[i] = x[place];
    }
#endif
}
