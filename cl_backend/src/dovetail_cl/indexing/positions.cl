// Positions along an axis: negative ones count from the end; I is the type of an index.

// The position that an index stands for; -1, and a report, if there is none.
static int position_of(const I index, uint size, __global int *reports, const int step)
{
    const I at = index < 0 ? index + (I)size : index;
    if (at >= 0 && at < (I)size) {
        return (int)at;
    }
    if (atomic_cmpxchg(reports, 0, step) == 0) {
        reports[1] = (int)clamp((long)index, (long)INT_MIN, (long)INT_MAX);
    }
    return -1;
}

enum { DEPTH = 8 };

// Axes that the last axis of a tensor of indices names.
typedef struct {
    uint size[DEPTH];
    int stride[DEPTH];      // elements
    uint depth;
} named;

// The elements before the one that some indices name; -1 if one is out of range.
static int place_of(const named *w, __global const I *indices, __global int *reports, const int step)
{
    int place = 0;
    for (uint axis = 0; axis < w->depth; ++axis) {
        const int at = position_of(indices[axis], w->size[axis], reports, step);
        if (at < 0) {
            return -1;
        }
        place += at * w->stride[axis];
    }
    return place;
}
