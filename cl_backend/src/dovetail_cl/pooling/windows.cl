// Windows over images, seen as [planes, height, width, inner].
//
// MAP(v, T): what is made of each element, of type T. SUMS: they are added up; else the greatest
// counts. FINISH(v, n, T): what is made of the result of a window with n elements.
// NORM: MAP is a power, and FINISH its root. COUNT_PADDING: what n counts. NOTHING: what the
// greatest is greater than. IS_FLOAT: else elements outside of the image that n counts are `pad`.

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

#if NORM
// The norm of a window whose powers leave the range: those of shares of its greatest element do
// not.
// `x` is where its image begins, in its channel.
C norm_of_shares(__global const X *x, const windows *w, const span *down, const span *along)
{
    C top = 0, size = 1, total = 0;
    for (int turn = 0; turn < 2; ++turn) {
        for (int i = down->from; i < down->to; ++i) {
            const int row = (down->origin + i * w->dilation[0]) * w->in[1];
            for (int j = along->from; j < along->to; ++j) {
                const index at = (row + along->origin + j * w->dilation[1]) * (int)w->inner;
                const C v = fabs(LOAD_AS(X, x, at)), share = v / size;
                if (turn) total += MAP(share, C);
                else top = MAX_OR_NAN(top, v);
            }
        }
        size = top > 0 && top < INFINITY ? top : (C)1;
    }
    return FINISH(total, 1, C) * size;
}
#if LANES == 1
#define TOGETHER(numbers) numbers[0]
#else
#define TOGETHER(numbers) WIDE(vload, LANES)(0, numbers)
#endif
#endif
