// Elements of the type T that indices name.

// Rows of `inner` elements, in the order batch, outer, index: each is a slice of x at what `depth`
// indices name, from the line of its batch and outer index on.
__kernel void gather(TENSOR(const T, x), TENSOR(const I, indices), TENSOR(T, y), __global int *reports, const int step,
                     const named w, const uint outer, const uint count, const uint line, const uint inner, const uint n)
{
    BEGIN(const T, x);
    BEGIN(const I, indices);
    BEGIN(T, y);
#if ON_CPU
    SHARE(i, end, n);
    uint row = i / inner, column = i - row * inner;
    uint lines = row / count, number = row - lines * count;
    while (i < end) {
        const uint run = min(inner - column, end - i);
        const uint named_by = lines / outer * count + number;
        const int place = place_of(&w, indices + (size_t)named_by * w.depth, reports, step);
        if (place >= 0) {
            move(y + i, 1, x + lines * line + (uint)place + column, 1, run);
        }
        i += run;
        column = 0;
        if (++number == count) {
            number = 0;
            ++lines;
        }
    }
#else
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
        const uint row = i / inner, column = i - row * inner, lines = row / count;
        const uint named_by = lines / outer * count + (row - lines * count);
        const int place = place_of(&w, indices + (size_t)named_by * w.depth, reports, step);
        if (place >= 0) {
            y[i] = x[lines * line + (uint)place + column];
        }
    }
#endif
}

enum { AXES = 12 };

typedef struct {
    uint size[AXES];        // of the indices; the innermost axis is axis 0
    int stride[AXES];       // of x in elements; 0 along the axis that the indices name
    uint axes;
    uint named_size;
    int named_stride;
} picks;

__kernel void gather_elements(TENSOR(const T, x), TENSOR(const I, indices), TENSOR(T, y), __global int *reports,
                              const int step, const picks w, const uint n)
{
    BEGIN(const T, x);
    BEGIN(const I, indices);
    BEGIN(T, y);
    EACH(i, n) {
        uint rest = i;
        int place = 0;
        for (uint axis = 0; axis < w.axes; ++axis) {
            const uint next = rest / w.size[axis];
            place += (int)(rest - next * w.size[axis]) * w.stride[axis];
            rest = next;
        }
        const int at = position_of(indices[i], w.named_size, reports, step);
        if (at >= 0) {
            y[i] = x[place + at * w.named_stride];
        }
    }
}

// y[outer, depth, inner]: the second of two values where the index is that of the axis, else the
// first.
__kernel void one_hot(TENSOR(const I, indices), TENSOR(const T, values), TENSOR(T, y), const uint depth, const uint inner,
                      const uint n)
{
    BEGIN(const I, indices);
    BEGIN(const T, values);
    BEGIN(T, y);
    const T off = values[0], on = values[1];
    EACH(i, n) {
        const uint row = i / inner, outer = row / depth;
        const I at = indices[outer * inner + (i - row * inner)], wanted = (I)(row - outer * depth);
        y[i] = at == wanted || at == wanted - (I)depth ? on : off;
    }
}
