// Vectors of floats on a CPU, read from and written to elements of the type T. VECTOR: floats of
// one.

#define NAMED(a, b) JOINED(a, b)
typedef NAMED(float, VECTOR) vec;
#define VLOAD NAMED(vload, VECTOR)
#define VSTORE NAMED(vstore, VECTOR)

// PoCL's functions for vectors of halves want them aligned, so they get copies.
#define OF_HALVES(N)                                                                               \
    typedef ushort##N halves_##N;                                                                  \
    typedef halves_##N loose_halves_##N __attribute__((aligned(2)));                               \
    NAMED(float, N) read_halves_##N(const __global half *p)                                        \
    {                                                                                              \
        const halves_##N bits = *(const __global loose_halves_##N *)p;                             \
        return vload_half##N(0, (const half *)&bits);                                              \
    }                                                                                              \
    void write_halves_##N(__global half *p, const NAMED(float, N) v)                               \
    {                                                                                              \
        halves_##N bits;                                                                           \
        vstore_half##N##_rte(v, 0, (half *)&bits);                                                 \
        *(__global loose_halves_##N *)p = bits;                                                    \
    }
#define DEFINE_HALVES(N) OF_HALVES(N)
DEFINE_HALVES(VECTOR)
#if VECTOR != 4
DEFINE_HALVES(4)
#endif

#define READ_float(p, i) VLOAD(0, (p) + (i))
#define READ_half(p, i) NAMED(read_halves_, VECTOR)((p) + (i))
#define READ(p, i) NAMED(READ_, T)(p, i)
#define WRITE_float(p, i, v) VSTORE(v, 0, (p) + (i))
#define WRITE_half(p, i, v) NAMED(write_halves_, VECTOR)((p) + (i), v)
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

#define WRITE_4_float(p, i, v) vstore4(v, 0, (p) + (i))
#define WRITE_4_half(p, i, v) write_halves_4((p) + (i), v)
#define WRITE_4(p, i, v) NAMED(WRITE_4_, T)(p, i, v)
