// Results of a CPU: what an epilogue makes of vectors of sums. They lie `to` elements into the
// result, and belong to the channel `line`, or to those from there on.

static void put_vector(__global T *y, const uint to, const uint line, const vec sum FINISH_PARAMETERS)
{
    vec v = sum;
    FINISH(v, to, line)
    WRITE(y, to, v);
}

// The first n floats of a vector.
static void put_some(__global T *y, const uint to, const uint line, const vec sum, const uint n FINISH_PARAMETERS)
{
    vec v = sum;
    FINISH_SOME(v, to, line, n)
    float some[VECTOR];
    VSTORE(v, 0, some);
    uint j = 0;
    for (; j + 4 <= n; j += 4) WRITE_4(y, to + j, vload4(0, some + j));
    for (; j < n; ++j) STORE_AS(T, y, to + j, some[j]);
}

static void put(__global T *y, const uint to, const uint line, const vec sum, const uint n FINISH_PARAMETERS)
{
    if (n >= VECTOR) put_vector(y, to, line, sum FINISH_NAMES);
    else if (n) put_some(y, to, line, sum, n FINISH_NAMES);
}
