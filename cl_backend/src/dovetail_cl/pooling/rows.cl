// Pooling with lanes along the rows of the result, on CPUs; the innermost axis is one.

// LANES elements, STRIDE apart, none of them read from beyond the last one.
V spaced(__global const X *p, const index at)
{
#if STRIDE == 1
    return VECTOR_AS(X, p + at);
#else
    V v;
    v.lo = VECTOR_AS(X, p + at).even;
    v.hi = VECTOR_AS(X, p + at + LANES - 1).odd;
    return v;
#endif
}

__kernel void pool_rows(TENSOR(const X, x), TENSOR(X, y), const windows w, const int low, const int high)
{
    BEGIN(const X, x);
    BEGIN(X, y);
    const index n = w.planes * w.out[0];
    EACH(row, n) {
        const index plane = row / w.out[0];
        const span down = span_at(&w, 0, row - plane * w.out[0]);
        const index first = (plane * w.in[0] + down.origin + down.from * w.dilation[0]) * w.in[1];
        const index step = w.dilation[0] * w.in[1];
        // Windows that reach beyond the image, and rests that are no vector.
        const int vectors = high - low < LANES ? 0 : high - low;
        for (int at = 0; at < w.out[1]; ++at) {
            at += vectors && at == low ? vectors : 0;
            if (at >= w.out[1]) {
                break;
            }
            const span along = span_at(&w, 1, at);
            float total = BEGINNING;
            for (int i = down.from; i < down.to; ++i) {
                const index line = first + (i - down.from) * step + along.origin;
                float part = BEGINNING;
                for (int j = along.from; j < along.to; ++j) {
                    const float v = LOAD_AS(X, x, line + j * w.dilation[1]);
                    part = WITH(part, MAP(v, float));
                }
                total = WITH(total, part);
            }
            STORE_AS(X, y, row * w.out[1] + at, FINISH(total, down.count * along.count, float));
        }
        // The last vector may begin among results that the one before it has written.
        for (int from = 0; from < vectors; from += LANES) {
            const int at = low + min(from, vectors - LANES);
            V total = BEGINNING;
            for (int i = down.from; i < down.to; ++i) {
                const index line = first + (i - down.from) * step + at * STRIDE - w.before[1];
                V part = BEGINNING;
                for (int j = 0; j < w.size[1]; ++j) {
                    const V v = spaced(x, line + j * w.dilation[1]);
                    part = WITH(part, MAP(v, V));
                }
                total = WITH(total, part);
            }
            KEEP_AS(X, y + row * w.out[1] + at, FINISH(total, down.count * w.size[1], V));
        }
    }
}
