#if ON_CPU
// PoCL's own vstore of vectors is several instructions.
typedef JOINED(T, 16) loose16 __attribute__((aligned(sizeof(T))));
typedef JOINED(T, 4) loose4 __attribute__((aligned(sizeof(T))));
#define MOVE(count, y, x) (*(__global JOINED(loose, count) *)(y) = *(const __global JOINED(loose, count) *)(x))
#else
#define MOVE(count, y, x) JOINED(vstore, count)(JOINED(vload, count)(0, x), 0, y)
#endif

// Move n elements of the type T, by strides.
static void move(__global T *restrict y, int to, __global const T *restrict x, int from, uint n)
{
    uint i = 0;
    if (from == 1 && to == 1) {
        for (; i + 16 <= n; i += 16) {
            MOVE(16, y + i, x + i);
        }
        for (; i + 4 <= n; i += 4) {
            MOVE(4, y + i, x + i);
        }
        for (; i < n; ++i) {
            y[i] = x[i];
        }
    } else if (from == 0 && to == 1) {
        const T value = n ? x[0] : 0;
        for (; i < n; ++i) {
            y[i] = value;
        }
    } else if (to == 1) {
        for (; i < n; ++i) {
            y[i] = x[(int)i * from];
        }
    } else {
        for (; i < n; ++i) {
            y[(int)i * to] = x[(int)i * from];
        }
    }
}
