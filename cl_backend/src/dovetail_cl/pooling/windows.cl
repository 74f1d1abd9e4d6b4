// Windows over images, seen as [planes, height, width, inner].
//
// MAP(v, T): what is made of each element, of type T. SUMS: they are added up; else the greatest
// counts. FINISH(v, n, T): what is made of the result of a window with n elements.
// COUNT_PADDING: what n counts. NOTHING: what the greatest is greater than. IS_FLOAT: else elements
// outside of the image that n counts are `pad`.

typedef struct {
    uint planes, inner;
    int in[2], out[2];          // height, width
    int size[2], stride[2], before[2], dilation[2];
    int end[2];                 // of the padding behind the image, in its rows and columns
    int pad;
} windows;

#if SUMS
#define BEGINNING 0
#define WITH(a, b) ((a) + (b))
#else
#define BEGINNING NOTHING
#define WITH(a, b) MAX_OR_NAN(a, b)
#endif

// How many elements of a window that begins at `origin` lie before a row, or column.
int before(const windows *w, const int axis, const int origin, const int end)
{
    return origin < end ? min((end - 1 - origin) / w->dilation[axis] + 1, w->size[axis]) : 0;
}

// What a window covers along an axis: elements from `from` to `to` lie in the image, and `count`
// are counted.
typedef struct { int origin, from, to, count; } span;

span span_at(const windows *w, const int axis, const int position)
{
    span s;
    s.origin = position * w->stride[axis] - w->before[axis];
    s.from = before(w, axis, s.origin, 0);
    s.to = before(w, axis, s.origin, w->in[axis]);
#if COUNT_PADDING
    s.count = before(w, axis, s.origin, w->end[axis]);
#else
    s.count = max(0, s.to - s.from);
#endif
    return s;
}
