// values, positions = the k best elements of each line, best first, and where they stand.
//
// A work item keeps the best so far of a line as a heap, whose worst lies first, in the memory of
// the positions that it ends up with.

// Let an element sink from the top of a heap of `count`.
static void sink(__global long *heap, const uint count, __global const X *line, const uint stride, const uint sinking)
{
    const C own = LOAD_AS(X, line, sinking * stride);
    uint j = 0;
    for (uint below = 1; below < count; below = 2 * j + 1) {
        uint at = heap[below * stride];
        C best = LOAD_AS(X, line, at * stride);
        if (below + 1 < count) {
            const uint other = heap[(below + 1) * stride];
            const C beside = LOAD_AS(X, line, other * stride);
            if (comes_before(best, at, beside, other)) {
                at = other;
                best = beside;
                ++below;
            }
        }
        if (!comes_before(own, sinking, best, at)) break;
        heap[j * stride] = at;
        j = below;
    }
    heap[j * stride] = sinking;
}

__kernel void keep_heaps(TENSOR(const X, x), TENSOR(RAW, values), TENSOR(long, positions), const lines s, const uint k,
                         const uint n)
{
    BEGIN(const X, x);
    BEGIN(RAW, values);
    BEGIN(long, positions);
    const uint stride = s.inner;
    EACH(which, n) {
        __global const X *line = x + begin_of(&s, which, s.size);
        const index to = begin_of(&s, which, k);
        __global long *heap = positions + to;
        for (uint i = 0; i < k; ++i) {  // rises in a heap of i
            const C own = LOAD_AS(X, line, i * stride);
            uint j = i;
            while (j) {
                const uint above = (j - 1) / 2, at = heap[above * stride];
                if (!comes_before(LOAD_AS(X, line, at * stride), at, own, i)) break;
                heap[j * stride] = at;
                j = above;
            }
            heap[j * stride] = i;
        }
        uint at = heap[0];
        C worst = LOAD_AS(X, line, at * stride);
        for (uint i = k; i < s.size; ++i) {
            if (comes_before(LOAD_AS(X, line, i * stride), i, worst, at)) {
                sink(heap, k, line, stride, i);
                at = heap[0];
                worst = LOAD_AS(X, line, at * stride);
            }
        }
        for (uint last = k - 1; last; --last) {
            const long out = heap[0];
            sink(heap, last, line, stride, heap[last * stride]);
            heap[last * stride] = out;
        }
        for (uint j = 0; j < k; ++j) {
            values[to + j * stride] = ((__global const RAW *)line)[(uint)heap[j * stride] * stride];
        }
    }
}
