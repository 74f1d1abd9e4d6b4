// From sums of quantized elements, or their extremes, to results.
//
// C: type of the sums. T: of results. FIXED_POINT: they are scaled in fixed point.

typedef struct {
    long zero;                      // of the sum
    int out_zero, low, high, multiplier, shift;
} scaling;

__kernel void finish(TENSOR(const C, sums), TENSOR(T, y), const scaling s, const float by, const uint n)
{
    BEGIN(const C, sums);
    BEGIN(T, y);
    EACH(i, n) {
        const long sum = (long)sums[i] - s.zero;
#if FIXED_POINT
        y[i] = clamp(requantized((int)sum, s.multiplier, s.shift) + s.out_zero, s.low, s.high);
#else
        y[i] = (int)clamp(round((float)sum * by) + s.out_zero, (float)s.low, (float)s.high);
#endif
    }
}
