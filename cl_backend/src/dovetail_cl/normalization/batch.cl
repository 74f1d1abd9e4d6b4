// y = (x - mean) * factor + offset, with numbers for each channel; the factor is scale over the
// root of variance + epsilon.
//
// M, F, O: types of mean, factor and offset. HAS_VARIANCE: it is given, with type W; the factor is
// the scale alone.
// BY_POSITION: lines go along channels. Else each line has one channel: after `within` lines comes
// the next one, and the first one after the last of `channels`.

FETCHES(fetch_mean, M)
FETCHES(fetch_factor, F)
FETCHES(fetch_offset, O)
#if HAS_VARIANCE
FETCHES(fetch_variance, W)
#endif
STORES(keep, X)

#if BY_POSITION
#define PARAMETER(T, name) fetch_##name(name, i * (ROWS ? LANES : 1), lanes, (V)1)
#else
#define PARAMETER(T, name) ((V)LOAD_AS(T, name, channel))
#endif

__kernel void batch_normalize(
    TENSOR(const X, x), TENSOR(const M, mean), TENSOR(const F, factor), TENSOR(const O, offset),
#if HAS_VARIANCE
    TENSOR(const W, variance),
#endif
    TENSOR(X, y), const lines s, const uint within, const uint channels, const float epsilon)
{
    BEGIN(const X, x);
    BEGIN(const M, mean);
    BEGIN(const F, factor);
    BEGIN(const O, offset);
#if HAS_VARIANCE
    BEGIN(const W, variance);
#define FACTOR (PARAMETER(F, factor) / sqrt(PARAMETER(W, variance) + epsilon))
#else
#define FACTOR PARAMETER(F, factor)
#endif
    BEGIN(X, y);
    EACH_LINE(g, s) {
        const line l = line_at(g, s);
#if BY_POSITION
        WALK(i, l, keep(y, AT(l, i), lanes, (FETCH(x, l, i, (V)0) - PARAMETER(M, mean)) * FACTOR + PARAMETER(O, offset)))
#else
        const index channel = l.which / within % channels;
        const V less = PARAMETER(M, mean), by = FACTOR, more = PARAMETER(O, offset);
        WALK(i, l, keep(y, AT(l, i), lanes, (FETCH(x, l, i, (V)0) - less) * by + more))
#endif
    }
}
