// Lines [outer, size, inner] along the middle axis, and the order in which their elements are
// wanted: equal elements come in order of position; NaN is larger than every number.
//
// X: type of the elements. C: in which they are compared. RAW: in which they are moved.
// LARGEST: the largest come first.

typedef struct { uint outer, size, inner; } lines;

#if IS_FLOAT
#define IS_NAN(v) isnan(v)
#else
#define IS_NAN(v) 0
#endif

// Whether an element comes before another one.
static bool comes_before(const C a, const uint at_a, const C b, const uint at_b)
{
    if (IS_NAN(a) || IS_NAN(b)) {
        if (IS_NAN(a) && IS_NAN(b)) return at_a < at_b;
        return LARGEST ? IS_NAN(a) : IS_NAN(b);
    }
    if (a == b) return at_a < at_b;
    return LARGEST ? a > b : a < b;
}

// Where the first element of a line is, in a tensor with so many of them.
static index begin_of(const lines *s, const uint line, const uint size)
{
    const uint outer = line / s->inner;
    return outer * size * s->inner + (line - outer * s->inner);
}
