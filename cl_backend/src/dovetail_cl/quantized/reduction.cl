// From sums of quantized elements, or their extremes, to results.
//
// C: type of the sums. T: of results.

typedef struct {
    long zero;                      // of the sum
    int out_zero, low, high;
    float factor;
} scaling;

__kernel void finish(TENSOR(const C, sums), TENSOR(T, y), const scaling s, const uint n)
{
    BEGIN(const C, sums);
    BEGIN(T, y);
    EACH(i, n) y[i] = nearest((float)((long)sums[i] - s.zero) * s.factor, s.out_zero, s.low, s.high);
}
