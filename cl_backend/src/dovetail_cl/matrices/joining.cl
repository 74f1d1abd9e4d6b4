// y = sums of the parts of a depth that was split, and what an epilogue makes of them; see
// groups.cl.
//
// Y: type of the result.

__kernel void join(CONSTANT(float, sums), TENSOR(Y, y), const uint parts, const uint columns, const uint n
    FINISH_PARAMETERS)
{
    BEGIN(const float, sums);
    BEGIN(Y, y);
    FINISH_BEGIN
    EACH(i, n) {
        float sum = 0;
        for (uint part = 0; part < parts; ++part) {
            sum += sums[part * (ulong)n + i];
        }
        FINISH(sum, i, i % columns)
        STORE_AS(Y, y, i, sum);
    }
}
