// Pooling with lanes along the rows of the result, on CPUs; the innermost axis is one.
//
// For some results of a row the columns of their windows are made one row, with what stands for
// nothing beyond the image; of it then the windows of a row.
//
// STRIDE: from one result to the next; 0: any. CHUNK: results that are computed from a row of SPAN
// elements. COUNTED: results are averages over `counts` of elements along a row.

#if STRIDE
#define STRIDE_OF(w) STRIDE
#else
#define STRIDE_OF(w) (w).stride[1]
#endif

STORES(keep, X)
#if COUNTED
FETCHES(fetch_counts, float)
#endif

// LANES elements, `stride` apart.
V spaced(const C *p, const int stride)
{
#if STRIDE == 1
    return *(const loose *)p;
#elif STRIDE == 2
    V v;
    v.lo = (*(const loose *)p).even;
    v.hi = (*(const loose *)(p + LANES - 1)).odd;
    return v;
#else
    C some[LANES];
    for (int k = 0; k < LANES; ++k) {
        some[k] = p[k * stride];
    }
    return WIDE(vload, LANES)(0, some);
#endif
}

// Elements at a position in `rows` rows that lie `step` apart.
V column_of(__global const X *p, const int rows, const int step)
{
    const V first = VECTOR_AS(X, p);
    V total = MAP(first, V);
    for (int i = 1; i < rows; ++i) {
        p += step;
        const V v = VECTOR_AS(X, p);
        total = WITH(total, MAP(v, V));
    }
    return total;
}

C narrow_column_of(__global const X *p, const int rows, const int step)
{
    C total = BEGINNING;
    for (int i = 0; i < rows; ++i) {
        const C v = LOAD_AS(X, p, i * step);
        total = WITH(total, MAP(v, C));
    }
    return total;
}

__kernel void pool_rows(
    TENSOR(const X, x),
#if COUNTED
    CONSTANT(float, counts),
#endif
    TENSOR(X, y), const windows w)
{
#if COUNTED
    BEGIN(const float, counts);
#endif
    BEGIN(const X, x);
    BEGIN(X, y);
    const index n = w.planes * w.out[0];
    const int stride = STRIDE_OF(w), reach = (w.size[1] - 1) * w.dilation[1], step = w.dilation[0] * w.in[1];
    C columns[SPAN];
    EACH(row, n) {
        const index plane = row / w.out[0];
        const span down = span_at(&w, 0, row - plane * w.out[0]);
        const int rows = max(0, down.to - down.from);
        const int top = (plane * w.in[0] + down.origin + down.from * w.dilation[0]) * w.in[1];
        for (int from = 0; from < w.out[1]; from += CHUNK) {
            const int results = min(CHUNK, w.out[1] - from), origin = from * stride - w.before[1];
            const int wanted = (results - 1) * stride + reach + 1;
            const int low = clamp(-origin, 0, wanted), high = rows ? clamp(w.in[1] - origin, low, wanted) : low;
            for (int k = 0; k < low; ++k) {
                columns[k] = BEGINNING;
            }
            for (int k = high; k < wanted; ++k) {
                columns[k] = BEGINNING;
            }
            __global const X *const image = x + (top + origin);
            if (high - low >= LANES) {
                // The last vector begins among what the one before it has made.
                for (int k = low; k < high; k += LANES) {
                    const int at = min(k, high - LANES);
                    *(loose *)(columns + at) = column_of(image + at, rows, step);
                }
            } else {
                for (int k = low; k < high; ++k) {
                    columns[k] = narrow_column_of(image + k, rows, step);
                }
            }
            for (int at = 0; at < results; at += LANES) {
                V total = spaced(columns + at * stride, stride);
                for (int j = 1; j < w.size[1]; ++j) {
                    const V v = spaced(columns + at * stride + j * w.dilation[1], stride);
                    total = WITH(total, v);
                }
                const uint lanes = min(LANES, results - at);
                const index to = row * w.out[1] + from + at;
#if NORM
                if (is_any_beyond(total, 0)) {
                    C norms[LANES];
                    for (uint k = 0; k < lanes; ++k) {
                        const span along = span_at(&w, 1, from + at + k);
                        norms[k] = norm_of_shares(x + plane * w.in[0] * w.in[1], &w, &down, &along);
                    }
                    keep(y, to, lanes, TOGETHER(norms));
                    continue;
                }
#endif
#if COUNTED
                const V number = (float)down.count * fetch_counts(counts, from + at, lanes, (V)0);
                keep(y, to, lanes, number == 0 ? (V)0 : total / number);
#else
                keep(y, to, lanes, FINISH(total, 1, V));
#endif
            }
        }
    }
}
