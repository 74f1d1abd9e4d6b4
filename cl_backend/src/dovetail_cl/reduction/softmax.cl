// y = exp(beta * x) over its sum along lines; with LOGARITHM, the logarithm of that.

ACROSS(largest_across, fmax)
STORES(keep, X)

__kernel void softmax(TENSOR(const X, x), TENSOR(X, y), const lines s, const float beta)
{
    SHARED;
    BEGIN(const X, x);
    BEGIN(X, y);
    EACH_LINE(g, s) {
        const line l = line_at(g, s);
        const V absent = beta < 0 ? INFINITY : -INFINITY;
        V top = -INFINITY;
        STEPS(i, l) {
            top = fmax(top, beta * FETCH(x, l, i, absent));
        }
        top = largest_across(top, shared);
        SUM_OVER(total, i, l, exp(beta * FETCH(x, l, i, absent) - top))
#if LOGARITHM
        const V logarithm = log(total);
#endif
        STEPS(i, l) {
            const V shifted = beta * FETCH(x, l, i, absent) - top;
#if LOGARITHM
            keep(y, l.at + i * l.stride, LANES_AT(l, i), shifted - logarithm);
#else
            keep(y, l.at + i * l.stride, LANES_AT(l, i), exp(shifted) / total);
#endif
        }
    }
}
