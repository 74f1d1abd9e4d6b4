// Scores of a row become weights, on a CPU. VECTOR: floats of a vector; PANEL: two of them.

#define TOTAL_4(v) (((v).s0 + (v).s1) + ((v).s2 + (v).s3))
#define TOTAL_8(v) TOTAL_4((v).lo + (v).hi)
#define TOTAL_16(v) TOTAL_8((v).lo + (v).hi)
#define TOTAL NAMED(TOTAL_, VECTOR)
float largest_4(float4 v) { return MAX_BUT_NAN(MAX_BUT_NAN(v.s0, v.s1), MAX_BUT_NAN(v.s2, v.s3)); }
float largest_8(float8 v) { return largest_4(MAX_BUT_NAN(v.lo, v.hi)); }
float largest_16(float16 v) { return largest_8(MAX_BUT_NAN(v.lo, v.hi)); }
#define LARGEST NAMED(largest_, VECTOR)

// Finish the scores of a row with `count` keys, the first of which is `key`; returns the largest.
// There are whole panels of them: those that are not there become -infinity.
float finish_scores(__local float *scores, const uint count, const uint key FINISH_PARAMETERS)
{
    vec top = -INFINITY;
    uint j = 0;
    for (; j + VECTOR <= count; j += VECTOR) {
        vec v = VLOAD(0, scores + j);
        FINISH(v, 0, key + j)
        VSTORE(v, 0, scores + j);
        top = MAX_BUT_NAN(top, v);
    }
    if (j < count) {
        float some[VECTOR];
        vec v = VLOAD(0, scores + j);
        FINISH_SOME(v, 0, key + j, count - j)
        VSTORE(v, 0, some);
        for (uint i = count - j; i < VECTOR; ++i) {
            some[i] = -INFINITY;
        }
        v = VLOAD(0, some);
        VSTORE(v, 0, scores + j);
        top = MAX_BUT_NAN(top, v);
        j += VECTOR;
    }
    if (j % PANEL) {
        VSTORE((vec)-INFINITY, 0, scores + j);
    }
    return LARGEST(top);
}

// Make powers of e of the scores of a row, less `top`; returns their sum.
float weigh(__local float *scores, const uint count, const float top)
{
    vec total = 0;
    for (uint j = 0; j < count; j += VECTOR) {
        const vec v = power_of_e(VLOAD(0, scores + j) - top);
        VSTORE(v, 0, scores + j);
        total += v;
    }
    return TOTAL(total);
}
