// Results of a CPU: bytes, made of vectors of sums. They lie `to` elements into the result, and
// belong to the channels from `line` on.

#define FINISH_PARAMETERS , CONSTANT(float, factors), const scaling s
#define FINISH_NAMES , factors, factors_bytes, s
#define FINISH_BEGIN BEGIN(const float, factors);

// The first n of a vector, or all.
static void put(__global T *y, const uint to, const uint line, const vec sum, const uint n FINISH_PARAMETERS)
{
    const vec made = FINISHED(sum, VLOAD(0, factors + line), s);
    if (n >= VECTOR) {
        NAMED(store_bytes, VECTOR)(y + to, NAMED(convert_, NAMED(T, VECTOR))(made));
        return;
    }
    int some[VECTOR];
    VSTORE(made, 0, some);
    for (uint j = 0; j < n; ++j) y[to + j] = some[j];
}
