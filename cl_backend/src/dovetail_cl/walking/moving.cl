// Move n elements of the type T, by strides.
static void move(__global T *restrict y, int to, __global const T *restrict x, int from, uint n)
{
    uint i = 0;
    if (from == 1 && to == 1) {
        for (; i + 16 <= n; i += 16) {
            vstore16(vload16(0, x + i), 0, y + i);
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
