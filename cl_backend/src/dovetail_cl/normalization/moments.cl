// y = (x - mean) / sqrt(variance + epsilon) * scale + offset, with mean and variance of lines.
//
// CENTER: the mean is subtracted; else the mean of squares takes the place of the variance.
// HAS_SCALE, HAS_OFFSET: there are such, of the types S and O.
// BY_POSITION: they have a number for each position in a line. Else a line has `parts`, neighbours,
// each with one number: numbers count on from line to line, and begin anew after `period` lines.

#if HAS_SCALE
FETCHES(fetch_scale, S)
#endif
#if HAS_OFFSET
FETCHES(fetch_offset, O)
#endif
STORES(keep, X)
// Return the square of a difference, and add up the difference.
V noted(const V v, V *total)
{
    *total += v;
    return v * v;
}

// The numbers of a part, or of a position.
#if HAS_SCALE
#define SCALE(at) PARAMETER(S, fetch_scale, scale, at)
#else
#define SCALE(at) 1
#endif
#if HAS_OFFSET
#define OFFSET(at) PARAMETER(O, fetch_offset, offset, at)
#else
#define OFFSET(at) 0
#endif
#if BY_POSITION || !ROWS
#define PARAMETER(T, fetch, p, at) fetch(p, at, lanes, (V)0)
#else
#define PARAMETER(T, fetch, p, at) ((V)LOAD_AS(T, p, at))
#endif

__kernel void normalize_lines(
    TENSOR(const X, x),
#if HAS_SCALE
    TENSOR(const S, scale),
#endif
#if HAS_OFFSET
    TENSOR(const O, offset),
#endif
    TENSOR(X, y), const lines s, const uint parts, const uint period, const float epsilon)
{
    SHARED;
    BEGIN(const X, x);
#if HAS_SCALE
    BEGIN(const S, scale);
#endif
#if HAS_OFFSET
    BEGIN(const O, offset);
#endif
    BEGIN(X, y);
    EACH_LINE(g, s) {
        const line l = line_at(g, s);
        V unit = 1;     // elements are multiplied by it, so that what is squared is not too large
        V mean, rest, variance;
        for (int turn = 0; turn < 2; ++turn) {
            mean = rest = 0;
#if CENTER
            SUM_OVER(total, i, l, FETCH(x, l, i, (V)0) * unit)
            mean = total / (float)l.size;
#endif
            const V fill = mean / unit;
            SUM_OVER(squares, i, l, noted(FETCH(x, l, i, fill) * unit - mean, &rest))
#if CENTER
            // What rounding took from the mean shows in the mean of the differences.
            rest = summed_across(rest, shared) / (float)l.size;
            variance = fmax(squares / (float)l.size - rest * rest, (V)0);
#else
            rest = 0;
            variance = squares / (float)l.size;
#endif
            if (turn || !is_any_beyond(squares + 1, shared)) break;
            unit = squares <= (V)1e37f ? (V)1 : (V)0x1p-80f;    // lines of other lanes stay as they are
        }
        const V factor = 1 / sqrt(variance + epsilon * unit * unit);
        line part = l;
        part.size = l.size / parts;
        for (uint p = 0; p < parts; ++p, part.at += part.size * s.inner) {
#if BY_POSITION
            WALK(i, part, keep(y, AT(part, i), lanes,
                (FETCH(x, part, i, (V)0) * unit - mean - rest) * (factor * SCALE(i * (ROWS ? LANES : 1))) +
                OFFSET(i * (ROWS ? LANES : 1))))
#else
            const index channel = l.which % period * parts + p;
            const uint lanes = l.lanes;
            const V by = factor * SCALE(channel), more = OFFSET(channel);
            WALK(i, part, keep(y, AT(part, i), lanes, (FETCH(x, part, i, (V)0) * unit - mean - rest) * by + more))
#endif
        }
    }
}
