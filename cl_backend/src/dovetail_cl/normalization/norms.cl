// y = x over the norm of its line, which is at least epsilon; zeros stay zeros.
//
// SQUARES: the root of the sum of squares; else the sum of magnitudes.

STORES(keep, X)
#if SQUARES
V max_or_nan(const V a, const V b) { return MAX_OR_NAN(a, b); }
ACROSS(max_across, MAX_OR_NAN)
#endif
V measured(const V v)
{
#if SQUARES
    return v * v;
#else
    return fabs(v);
#endif
}

__kernel void divide_by_norm(TENSOR(const X, x), TENSOR(X, y), const lines s, const float epsilon)
{
    SHARED;
    BEGIN(const X, x);
    BEGIN(X, y);
    EACH_LINE(g, s) {
        const line l = line_at(g, s);
        SUM_OVER(total, i, l, measured(FETCH(x, l, i, (V)0)))
        V size = 1;     // that elements are divided by before
#if SQUARES
        if (is_any_beyond(total, shared)) {
            V top = 0;
            WALK(i, l, top = max_or_nan(top, fabs(FETCH(x, l, i, (V)0))))
            top = max_across(top, shared);
            size = top > 0 && top < INFINITY ? top : (V)1;
            SUM_OVER(shares, i, l, measured(FETCH(x, l, i, (V)0) / size))
            total = shares;
        }
        total = sqrt(total);
#endif
        const V least = epsilon / size, norm = total < least ? least : total;
        WALK(i, l, keep(y, AT(l, i), lanes, norm == 0 ? (V)0 : FETCH(x, l, i, (V)0) / size / norm))
    }
}
