// Pooling with lanes along the innermost axis, the channels; or with one lane, of any layout.

STORES(keep, X)

__kernel void pool(TENSOR(const X, x), TENSOR(X, y), const windows w)
{
    BEGIN(const X, x);
    BEGIN(X, y);
    const index blocks = (w.inner + LANES - 1) / LANES, n = w.planes * w.out[0] * w.out[1] * blocks;
    EACH(g, n) {
        const index pixel = g / blocks, inside = (g - pixel * blocks) * LANES;
        const index row = pixel / w.out[1], plane = row / w.out[0];
        const uint lanes = min((uint)LANES, w.inner - inside);
        const span down = span_at(&w, 0, row - plane * w.out[0]), along = span_at(&w, 1, pixel - row * w.out[1]);
        V total = BEGINNING;
        for (int i = down.from; i < down.to; ++i) {
            const index line = (plane * w.in[0] + down.origin + i * w.dilation[0]) * w.in[1];
            V part = BEGINNING;
            for (int j = along.from; j < along.to; ++j) {
                const V v = fetch(x, (line + along.origin + j * w.dilation[1]) * w.inner + inside, lanes, (V)0);
                part = WITH(part, MAP(v, V));
            }
            total = WITH(total, part);
        }
        keep(y, pixel * w.inner + inside, lanes, FINISH(total, down.count * along.count, V));
    }
}
