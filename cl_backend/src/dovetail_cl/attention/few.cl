// y = softmax(scores of q and k) v of few rows on a CPU, bound by how fast k and v can be read: a
// work item has a row of a head, and takes all keys, KEYS at a time. It needs little local memory.
//
// VECTOR: floats of a vector; PANEL: two of them. T: type of q, k, v and y.
// OPERANDS_OF(row): arguments for the operands of the epilogue, at a row of a batch and a head.

#define KEYS 256
#define MAX_ELEMENTS 256                // of a row

// The sum of products of a row of q and one of k, whose elements are so many apart.
float product_with(const float *q, const __global T *k, const uint depth, const uint step)
{
    vec total = 0;
    uint i = 0;
    for (; step == 1 && i + VECTOR <= depth; i += VECTOR) {
        total = fma(LOADS(k + i), VLOAD(0, q + i), total);
    }
    float rest = 0;
    for (; i < depth; ++i) {
        rest = fma(LOAD_AS(T, k, i * step), q[i], rest);
    }
    return TOTAL(total) + rest;
}

__kernel void attend(ATTENTION, __local float *scores FINISH_PARAMETERS)
{
    ATTENTION_BEGIN
    const uint batch = get_global_id(1) / p.heads, head = get_global_id(1) % p.heads, row = get_global_id(0);
    q += OF_MATRIX(q) + row * p.q[2];
    k += OF_MATRIX(k);
    v += OF_MATRIX(v);
    y += OF_MATRIX(y) + row * p.y[2];
    float query[MAX_ELEMENTS], sums[MAX_ELEMENTS], before = -INFINITY, total = 0;
    for (uint i = 0; i < p.depth; ++i) {
        query[i] = LOAD_AS(T, q, i * p.q[3]);
    }
    for (uint i = 0; i < p.width; ++i) {
        sums[i] = 0;
    }
    for (uint key = 0; key < p.keys; key += KEYS) {
        const uint count = min((uint)KEYS, p.keys - key), padded = (count + PANEL - 1) / PANEL * PANEL;
        for (uint j = 0; j < count; ++j) {
            scores[j] = product_with(query, k + (key + j) * p.k[2], p.depth, p.k[3]);
        }
        for (uint j = count; j < padded; ++j) {
            scores[j] = 0;
        }
        const float highest = finish_scores(scores, count, key OPERANDS_OF(row)), top = MAX_BUT_NAN(before, highest);
        const float base = base_of(top), factor = power_of_e((vec)(before - base)).s0;
        total = total * factor + weigh(scores, padded, base);
        before = top;
        if (factor != 1) {
            for (uint i = 0; i < p.width; ++i) {
                sums[i] *= factor;
            }
        }
        // Four keys at a time, as each time all sums are read and written.
        for (uint j = 0, some; j < count; j += some) {
            const __global T *line = v + (key + j) * p.v[2];
            const uint step = p.v[2];
            some = count - j >= 4 ? 4 : 1;
            uint i = 0;
            for (; some == 4 && p.v[3] == 1 && i + VECTOR <= p.width; i += VECTOR) {
                const vec one = fma((vec)(scores[j]), LOADS(line + i), VLOAD(0, sums + i));
                const vec other = fma((vec)(scores[j + 1]), LOADS(line + step + i), scores[j + 2] * LOADS(line + 2 * step + i));
                VSTORE(fma((vec)(scores[j + 3]), LOADS(line + 3 * step + i), one) + other, 0, sums + i);
            }
            for (; i < p.width; ++i) {
                for (uint r = 0; r < some; ++r) {
                    sums[i] = fma(scores[j + r], LOAD_AS(T, line, r * step + i * p.v[3]), sums[i]);
                }
            }
        }
    }
    for (uint i = 0; i < p.width; ++i) {
        STORE_AS(T, y, i * p.y[3], sums[i] / total);
    }
}
