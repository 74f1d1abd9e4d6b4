// values, positions = the k best elements of each line, best first, and where they stand.
//
// Runs are sorted positions of parts of a line, of which the first k at most count. A line of one
// part is sorted at once; else runs are merged by twos. There is a work item for each element, or
// place in a run, which finds out at what place its own comes.

typedef struct { uint line, at; } place;

static place place_of(const uint g, const lines *s)
{
    const uint line = g / s->size;
    return (place){line, g - line * s->size};
}

// How many elements of a part come before one; k: that many at least.
static uint rank_in_part(__global const X *line, const lines *s, const uint own, const uint part, const uint k)
{
    const uint begin = own / part * part, end = min(begin + part, s->size);
    const C element = LOAD_AS(X, line, own * s->inner);
    uint rank = 0;
    for (uint i = begin; i < end && rank < k; ++i) {
        rank += comes_before(LOAD_AS(X, line, i * s->inner), i, element, own);
    }
    return rank;
}

// How many elements of a run and the one that it is merged with come before that at a place; k: it
// does not count.
static uint rank_in_two(__global const X *line, __global const uint *runs, const lines *s, const uint at,
                        const uint part, const uint k)
{
    const uint number = at / part, begin = (number ^ 1) * part, before = at - number * part;
    if (before >= k) return k;
    const uint own = runs[at];
    const C element = LOAD_AS(X, line, own * s->inner);
    uint low = 0, high = begin < s->size ? min(min(part, s->size - begin), k) : 0;
    while (low < high) {
        const uint middle = (low + high) / 2, other = runs[begin + middle];
        if (comes_before(LOAD_AS(X, line, other * s->inner), other, element, own)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return min(before + low, k);
}

// Write a result.
#define FINISH(own, rank)                                                                          \
    if (rank < k) {                                                                                \
        const index to = begin_of(&s, here.line, k) + rank * s.inner;                              \
        values[to] = ((__global const RAW *)line)[(own) * s.inner];                                \
        positions[to] = own;                                                                       \
    }

__kernel void sort_lines(TENSOR(const X, x), TENSOR(RAW, values), TENSOR(long, positions), const lines s, const uint k,
                         const uint n)
{
    BEGIN(const X, x);
    BEGIN(RAW, values);
    BEGIN(long, positions);
    EACH(g, n) {
        const place here = place_of(g, &s);
        __global const X *line = x + begin_of(&s, here.line, s.size);
        const uint rank = rank_in_part(line, &s, here.at, s.size, k);
        FINISH(here.at, rank)
    }
}

__kernel void sort_parts(TENSOR(const X, x), TENSOR(uint, runs), const lines s, const uint part, const uint k, const uint n)
{
    BEGIN(const X, x);
    BEGIN(uint, runs);
    EACH(g, n) {
        const place here = place_of(g, &s);
        __global const X *line = x + begin_of(&s, here.line, s.size);
        const uint rank = rank_in_part(line, &s, here.at, part, k);
        if (rank < k) {
            runs[here.line * s.size + here.at / part * part + rank] = here.at;
        }
    }
}

__kernel void merge_runs(TENSOR(const X, x), TENSOR(const uint, runs), TENSOR(uint, merged), const lines s, const uint part,
                         const uint k, const uint n)
{
    BEGIN(const X, x);
    BEGIN(const uint, runs);
    BEGIN(uint, merged);
    EACH(g, n) {
        const place here = place_of(g, &s);
        __global const X *line = x + begin_of(&s, here.line, s.size);
        const uint first = here.line * s.size, rank = rank_in_two(line, runs + first, &s, here.at, part, k);
        if (rank < k) {
            merged[first + here.at / part / 2 * 2 * part + rank] = runs[g];
        }
    }
}

__kernel void merge_last(TENSOR(const X, x), TENSOR(const uint, runs), TENSOR(RAW, values), TENSOR(long, positions),
                         const lines s, const uint part, const uint k, const uint n)
{
    BEGIN(const X, x);
    BEGIN(const uint, runs);
    BEGIN(RAW, values);
    BEGIN(long, positions);
    EACH(g, n) {
        const place here = place_of(g, &s);
        __global const X *line = x + begin_of(&s, here.line, s.size);
        const uint rank = rank_in_two(line, runs + here.line * s.size, &s, here.at, part, k);
        FINISH(runs[g], rank)
    }
}
