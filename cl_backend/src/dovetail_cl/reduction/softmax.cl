// y = exp(beta * x) over its sum along lines; with LOGARITHM, the logarithm of that.
//
// KEEPS: powers of e are not computed twice, as y can hold them without loss.

// NaN is left to the sum.
V larger(const V a, const V b) { return MAX_BUT_NAN(a, b); }
ACROSS(largest_across, MAX_BUT_NAN)
STORES(keep, X)

#if KEEPS
V kept(__global X *y, const index at, const uint lanes, const V v)
{
    keep(y, at, lanes, v);
    return v;
}
#endif

// How far beta * x is below the largest: products of their own would be rounded, and may overflow.
#define BELOW_TOP(i) (size * (sign * FETCH(x, l, i, absent) - top))

__kernel void softmax(TENSOR(const X, x), TENSOR(X, y), const lines s, const float beta)
{
    SHARED;
    BEGIN(const X, x);
    BEGIN(X, y);
    EACH_LINE(g, s) {
        const line l = line_at(g, s);
        const V absent = beta < 0 ? INFINITY : -INFINITY;
        const float sign = beta < 0 ? -1 : 1, size = fabs(beta);
        V top = -INFINITY;
        WALK(i, l, top = larger(top, sign * FETCH(x, l, i, absent)))
        top = largest_across(top, shared);
#if KEEPS
        // Results are kept in y, and read again.
        SUM_OVER(total, i, l, kept(y, AT(l, i), lanes, power_of_e(BELOW_TOP(i))))
        const V factor = 1 / total;
        WALK(i, l, keep(y, AT(l, i), lanes, factor * FETCH(y, l, i, absent)))
#else
        SUM_OVER(total, i, l, power_of_e(BELOW_TOP(i)))
#if LOGARITHM
        const V logarithm = log(total);
#else
        const V factor = 1 / total;
#endif
#if LOGARITHM
        WALK(i, l, keep(y, AT(l, i), lanes, BELOW_TOP(i) - logarithm))
#else
        WALK(i, l, keep(y, AT(l, i), lanes, factor * power_of_e(BELOW_TOP(i))))
#endif
#endif
    }
}
