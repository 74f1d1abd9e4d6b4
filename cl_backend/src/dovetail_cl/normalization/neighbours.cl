// y = x / POWER(k + factor * the sum of squares over neighbouring channels); x is seen as
// [outer, channels, inner].
//
// POWER(v): the power, of all lanes.

STORES(keep, X)

__kernel void divide_by_neighbours(
    TENSOR(const X, x), TENSOR(X, y), const lines s, const uint before, const uint after, const float factor, const float k)
{
    BEGIN(const X, x);
    BEGIN(X, y);
    const index blocks = (s.inner + LANES - 1) / LANES, n = s.outer * s.size * blocks;
    EACH(g, n) {
        const index plane = g / blocks, inside = (g - plane * blocks) * LANES;
        const uint channel = plane % s.size, lanes = min((uint)LANES, s.inner - inside);
        const uint first = channel - min(channel, before), last = channel + min(after, s.size - 1 - channel);
        const index at = plane * s.inner + inside;
        V total = 0;
        for (uint other = first; other <= last; ++other) {
            const V v = fetch(x, at - (channel - other) * s.inner, lanes, (V)0);
            total += v * v;
        }
        keep(y, at, lanes, fetch(x, at, lanes, (V)0) / POWER(k + factor * total));
    }
}
