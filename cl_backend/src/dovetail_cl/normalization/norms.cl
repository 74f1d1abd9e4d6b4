// y = x over the norm of its line, which is at least epsilon; zeros stay zeros.
//
// SQUARES: the root of the sum of squares; else the sum of magnitudes.

STORES(keep, X)
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
#if SQUARES
        total = sqrt(total);
#endif
        const V norm = total < epsilon ? (V)epsilon : total;
        WALK(i, l, keep(y, AT(l, i), lanes, norm == 0 ? (V)0 : FETCH(x, l, i, (V)0) / norm))
    }
}
