// Pooling with lanes along the innermost axis, the channels; or with one lane, of any layout.

STORES(keep, X)

// What a window becomes, of lanes at `x`.
V pooled(__global const X *x, const windows *w, const span *down, const span *along, const uint lanes)
{
    V total = BEGINNING;
    const int step = w->dilation[1] * (int)w->inner;
    for (int i = down->from; i < down->to; ++i) {
        const int row = (down->origin + i * w->dilation[0]) * w->in[1];
        int at = (row + along->origin + along->from * w->dilation[1]) * (int)w->inner;
        V part = BEGINNING;
        for (int j = along->from; j < along->to; ++j, at += step) {
            const V v = fetch(x, at, lanes, (V)0);
            part = WITH(part, MAP(v, V));
        }
        total = WITH(total, part);
    }
    const int counted = down->count * along->count;
#if NORM
    if (is_any_beyond(total, 0)) {
        C norms[LANES];
        for (uint k = 0; k < lanes; ++k) {
            norms[k] = norm_of_shares(x + k, w, down, along);
        }
        return TOGETHER(norms);
    }
#endif
#if !IS_FLOAT && SUMS
    total += (V)((counted - max(0, down->to - down->from) * max(0, along->to - along->from)) * w->pad);
#endif
    return FINISH(total, counted, V);
}

#if ON_CPU
// A work item takes rows of the result.
__kernel void pool(TENSOR(const X, x), TENSOR(X, y), const windows w)
{
    BEGIN(const X, x);
    BEGIN(X, y);
    const index n = w.planes * w.out[0];
    EACH(row, n) {
        const index plane = row / w.out[0];
        const span down = span_at(&w, 0, row - plane * w.out[0]);
        __global const X *const image = x + plane * w.in[0] * w.in[1] * w.inner;
        for (int column = 0; column < w.out[1]; ++column) {
            const span along = span_at(&w, 1, column);
            const index to = (row * w.out[1] + column) * w.inner;
            if (w.inner < LANES) {
                keep(y, to, w.inner, pooled(image, &w, &down, &along, w.inner));
                continue;
            }
            // The last vector begins among what the one before it has made.
            for (index wanted = 0; wanted < w.inner; wanted += LANES) {
                const index inside = min(wanted, w.inner - LANES);
                keep(y, to + inside, LANES, pooled(image + inside, &w, &down, &along, LANES));
            }
        }
    }
}
#else
__kernel void pool(TENSOR(const X, x), TENSOR(X, y), const windows w)
{
    BEGIN(const X, x);
    BEGIN(X, y);
    const index n = w.planes * w.out[0] * w.out[1] * w.inner;
    EACH(g, n) {
        const index pixel = g / w.inner, row = pixel / w.out[1], plane = row / w.out[0];
        const span down = span_at(&w, 0, row - plane * w.out[0]), along = span_at(&w, 1, pixel - row * w.out[1]);
        __global const X *const image = x + (plane * w.in[0] * w.in[1] * w.inner + (g - pixel * w.inner));
        keep(y, g, 1, pooled(image, &w, &down, &along, 1));
    }
}
#endif
