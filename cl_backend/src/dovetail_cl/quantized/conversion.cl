// From real numbers to integers that stand for them, and back, as ONNX has it.
//
// X, Y: types in memory. F: float or double, in which is computed. LEAST, MOST: of the integers, as
// F; a number beyond MOST becomes GREATEST. PER_AXIS: `inner` elements in a row have the same
// scale, of `count`; else all have one. LANES: floats that become bytes at once, on one scale; 0:
// one by one.

typedef struct { uint inner, count; } along;
#if PER_AXIS
#define WHICH(i) ((i) / a.inner % a.count)
#else
#define WHICH(i) 0
#endif

#define BEGIN_ALL                                                                                  \
    BEGIN(const X, x);                                                                             \
    BEGIN(const F, scales);                                                                        \
    BEGIN(const long, zeros);                                                                      \
    BEGIN(Y, y);

#if LANES
#define WIDE(T) JOINED(T, LANES)
NEAREST_OF(LANES)

static WIDE(int) quantized(const WIDE(float) real, const float scale, const int zero)
{
    const WIDE(float) quotient = real / scale;
    return nearest(isnan(quotient) ? (WIDE(float))(0.0f) : quotient, zero, (int)LEAST, (int)MOST);
}

__kernel void convert(
    TENSOR(const X, x), CONSTANT(F, scales), CONSTANT(long, zeros), TENSOR(Y, y), const along a, const uint n)
{
    BEGIN_ALL
    const uint whole = n / LANES;
    EACH(i, whole) {
        const WIDE(int) made = quantized(WIDE(vload)(i, x), scales[0], zeros[0]);
        WIDE(store_bytes)(y + i * LANES, WIDE(JOINED(convert_, Y))(made));
    }
    for (uint i = whole * LANES + get_global_id(0); i < n; i += get_global_size(0)) {
        y[i] = quantized((WIDE(float))(x[i]), scales[0], zeros[0]).s0;
    }
}

#elif QUANTIZES
__kernel void convert(
    TENSOR(const X, x), CONSTANT(F, scales), CONSTANT(long, zeros), TENSOR(Y, y), const along a, const uint n)
{
    BEGIN_ALL
    EACH(i, n) {
        const uint at = WHICH(i);
        const F quotient = rint(LOAD_AS(X, x, i) / scales[at]);
        const F made = (isnan(quotient) ? 0 : quotient) + (F)zeros[at];
        y[i] = made >= MOST ? (Y)GREATEST : made <= LEAST ? (Y)LEAST : (Y)made;
    }
}
#else
__kernel void convert(
    TENSOR(const X, x), CONSTANT(F, scales), CONSTANT(long, zeros), TENSOR(Y, y), const along a, const uint n)
{
    BEGIN_ALL
    EACH(i, n) {
        const uint at = WHICH(i);
        STORE_AS(Y, y, i, (F)((long)x[i] - zeros[at]) * scales[at]);
    }
}
#endif
