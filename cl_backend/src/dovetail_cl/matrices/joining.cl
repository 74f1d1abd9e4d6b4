// y = ACTIVATION(sums of the parts of a depth that was split + bias); see groups.cl.
//
// Y: type of the result. BIAS: whether there is one, of the type Y.

__kernel void join(CONSTANT(float, sums), TENSOR(Y, y), const uint parts, const uint columns, const uint n
#if BIAS
    , CONSTANT(Y, bias)
#endif
    )
{
    BEGIN(const float, sums);
    BEGIN(Y, y);
#if BIAS
    BEGIN(const Y, bias);
#endif
    EACH(i, n) {
        float sum = 0;
        for (uint part = 0; part < parts; ++part) {
            sum += sums[part * (ulong)n + i];
        }
#if BIAS
        sum += LOAD_AS(Y, bias, i % columns);
#endif
        STORE_AS(Y, y, i, ACTIVATION(sum));
    }
}
