// y[outer, inner] = x[outer, size, inner], reduced along the middle axis.
//
// MAP(v): what is made of each element. FINISH(v): what is made of the result, with `count`, the
// elements that became one.
// SUMS: elements are added up; else OF, the name of a macro, makes one of two, from NEUTRAL on.
// LOG_SUM_EXP: the logarithm of the sum of powers of e, none of which overflows.
// NORM: MAP is a power, and FINISH its root; where powers leave the range, those of shares of the
// greatest element are added up.

#if LOG_SUM_EXP || NORM
ACROSS(max_across, MAX_OR_NAN)
V max_or_nan(const V a, const V b) { return MAX_OR_NAN(a, b); }
#endif
#if !SUMS && !LOG_SUM_EXP
ACROSS(across, OF)
V of_two(const V a, const V b) { return OF(a, b); }
#endif
STORES(keep, Y)

V square_of(const V v) { return v * v; }
#if IS_FLOAT
V magnitude_of(const V v) { return fabs(v); }
V mean_of(const V v, const C count) { return v / count; }
#else
V magnitude_of(const V v) { return v < 0 ? -v : v; }
V mean_of(const V v, const C count) { return count ? v / count : v; }
// To nearest, halves away from zero.
V rounded_mean_of(const V v, const C count) { return count ? (v + (v > 0 ? count / 2 : -(count / 2))) / count : v; }
#endif

__kernel void reduce(TENSOR(const X, x), TENSOR(Y, y), const lines s, const C count)
{
    SHARED;
    BEGIN(const X, x);
    BEGIN(Y, y);
    EACH_LINE(g, s) {
        const line l = line_at(g, s);
#if LOG_SUM_EXP
        V top = -INFINITY;
        WALK(i, l, top = max_or_nan(top, FETCH(x, l, i, (V)-INFINITY)))
        top = max_across(top, shared);
        SUM_OVER(powers, i, l, power_of_e(FETCH(x, l, i, (V)-INFINITY) - top))
        // The choice is made before the logarithm: LLVM 18 ends the process over one behind it.
        const V total = top + log(fabs(top) == INFINITY ? (V)1 : powers);
#elif NORM
        SUM_OVER(total, i, l, MAP(FETCH(x, l, i, (V)0)))
        V size = 1;     // that elements are divided by before
        if (is_any_beyond(total, shared)) {
            V top = 0;
            WALK(i, l, top = max_or_nan(top, fabs(FETCH(x, l, i, (V)0))))
            top = max_across(top, shared);
            size = top > 0 && top < INFINITY ? top : (V)1;
            SUM_OVER(shares, i, l, MAP(FETCH(x, l, i, (V)0) / size))
            total = shares;
        }
#elif SUMS
        SUM_OVER(total, i, l, MAP(FETCH(x, l, i, (V)0)))
#else
        V total = NEUTRAL;
        WALK(i, l, total = of_two(total, FETCH(x, l, i, (V)NEUTRAL)))
        total = across(total, shared);
#endif
        if (IS_WRITER(l)) {
#if NORM
            const V made = FINISH(total) * size;
#else
            const V made = FINISH(total);
#endif
            keep(y, l.which, ROWS ? 1 : l.lanes, made);
        }
    }
}
