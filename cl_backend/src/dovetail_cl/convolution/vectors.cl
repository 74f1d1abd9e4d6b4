// Vectors of floats on a CPU, read from and written to elements of the type T. VECTOR: floats of
// one.

// What is packed, so many at once, and what lies outside of an image; see `tiles.cl`.
#define PACKED float
#define CHUNK VECTOR
#define FACTORS 1
#define PACK(p, v) VSTORE(v, 0, p)
#define OUTSIDE_OF(g) ((vec)(0.0f))

#define NAMED(a, b) JOINED(a, b)
typedef NAMED(float, VECTOR) vec;
#define VLOAD NAMED(vload, VECTOR)
#define VSTORE(v, i, p) NAMED(store_floats, VECTOR)((p) + (i) * VECTOR, v)

#define READ_float(p, i) VLOAD(0, (p) + (i))
#define READ_half(p, i) NAMED(load_halves, VECTOR)((p) + (i))
#define READ_bfloat(p, i) NAMED(load_bfloats, VECTOR)((p) + (i))
#define READ(p, i) NAMED(READ_, T)(p, i)
#define WRITE_float(p, i, v) VSTORE(v, 0, (p) + (i))
#define WRITE_half(p, i, v) NAMED(store_halves, VECTOR)((p) + (i), v)
#define WRITE_bfloat(p, i, v) NAMED(store_bfloats, VECTOR)((p) + (i), v)
#define WRITE(p, i, v) NAMED(WRITE_, T)(p, i, v)

// Elements of a line, so many apart. Whole vectors are written: what is too much is overwritten by
// what comes behind. Nothing is read from `end` on.
void copy_line(__global float *to, const __global T *x, const uint from, const uint n, const int stride, const uint end)
{
    uint i = 0;
    if (stride == 1) {
        for (; i < n && from + i + VECTOR <= end; i += VECTOR) VSTORE(READ(x, from + i), 0, to + i);
    } else if (stride == 2) {
        for (; i < n && from + 2 * i + 2 * VECTOR <= end; i += VECTOR) {
            const vec low = READ(x, from + 2 * i), high = READ(x, from + 2 * i + VECTOR);
            VSTORE((vec)(low.even, high.even), 0, to + i);
        }
    }
    for (; i < n; ++i) to[i] = LOAD_AS(T, x, from + i * stride);
}

#define WRITE_4_float(p, i, v) store_floats4((p) + (i), v)
#define WRITE_4_half(p, i, v) store_halves4((p) + (i), v)
#define WRITE_4_bfloat(p, i, v) store_bfloats4((p) + (i), v)
#define WRITE_4(p, i, v) NAMED(WRITE_4_, T)(p, i, v)
