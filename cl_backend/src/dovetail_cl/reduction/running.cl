// y = running sums along lines. EXCLUSIVE: without the element itself. REVERSE: from the end on.

STORES(keep, X)

__kernel void running_sum(TENSOR(const X, x), TENSOR(X, y), const lines s)
{
    BEGIN(const X, x);
    BEGIN(X, y);
    EACH_LINE(g, s) {
        const line l = line_at(g, s);
        V total = 0, lost = 0;
        for (uint i = 0; i < l.size; ++i) {
            const index at = l.at + (REVERSE ? l.size - 1 - i : i) * l.stride;
            const V v = fetch(x, at, l.lanes, (V)0);
#if EXCLUSIVE
            keep(y, at, l.lanes, total);
            total = plus(total, v, &lost);
#else
            total = plus(total, v, &lost);
            keep(y, at, l.lanes, total);
#endif
        }
    }
}
