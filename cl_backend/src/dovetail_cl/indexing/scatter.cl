// Updates that meet the elements that indices name, those of one element in row-major order.
//
// T: the type of the elements. IN(T, p, i), FUNCTION(v, w), OUT(T, p, i, v): how elements are read,
// become of what is there and of an update, and are written.
#define MEET(i, j) OUT(T, y, i, FUNCTION(IN(T, y, i), IN(T, updates, j)))

enum { AXES = 10 };

typedef struct {
    uint size[AXES];        // of the indices without the named axis; the innermost axis is axis 0
    int from[AXES];         // strides in elements: of indices and updates,
    int to[AXES];           // and of y
    uint axes;
    uint count;             // of the indices along the named axis
    int count_stride;       // of indices and updates
    uint named_size;
    int named_stride;
} lines;

// Only elements of one line along the axis may meet the same element: a work item takes a line.
__kernel void scatter_elements(TENSOR(const I, indices), TENSOR(const T, updates), TENSOR(T, y), __global int *reports,
                               const int step, const lines w, const uint n)
{
    BEGIN(const I, indices);
    BEGIN(const T, updates);
    BEGIN(T, y);
    EACH(line, n) {
        uint rest = line;
        int from = 0, to = 0;
        for (uint axis = 0; axis < w.axes; ++axis) {
            const uint next = rest / w.size[axis];
            const int at = (int)(rest - next * w.size[axis]);
            from += at * w.from[axis];
            to += at * w.to[axis];
            rest = next;
        }
        for (uint i = 0; i < w.count; ++i, from += w.count_stride) {
            const int at = position_of(indices[from], w.named_size, reports, step);
            if (at >= 0) {
                MEET(to + at * w.named_stride, from);
            }
        }
    }
}

// Work items share the columns of slices, then the slices of y; each goes through all indices.
__kernel void scatter_slices(TENSOR(const I, indices), TENSOR(const T, updates), TENSOR(T, y), __global int *reports,
                             const int step, const named w, const uint count, const uint inner, const uint slices)
{
    BEGIN(const I, indices);
    BEGIN(const T, updates);
    BEGIN(T, y);
    const uint items = get_global_size(0), owners = get_global_size(1);
    const uint columns = (inner + items - 1) / items, own = (slices + owners - 1) / owners;
    const uint column = min(inner, columns * (uint)get_global_id(0)), stop = min(inner, column + columns);
    const uint first = min(slices, own * (uint)get_global_id(1)), last = min(slices, first + own);
    for (uint i = 0; i < count; ++i) {
        const int place = place_of(&w, indices + (size_t)i * w.depth, reports, step);
        if (place >= 0 && (uint)place >= first && (uint)place < last) {
            for (uint j = column; j < stop; ++j) {
                MEET((uint)place * inner + j, i * inner + j);
            }
        }
    }
}
