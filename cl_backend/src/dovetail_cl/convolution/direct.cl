// Convolutions of any kind, one result at a time: for what the other sources do not take.
//
// T: type of the elements. BIASED: whether there is a bias. DIVIDED: whether input pixels are
// divided by a stride. CHANNELS_LAST: the layout. POSITION: int, or long where positions in padded
// images need that.
// W, B: types of weights and bias, SUM: of sums; ADD_PRODUCT(v, w, filter, sum): a sum with another
// product. By default, for what is computed with as floats.

#ifndef SUM
#define W T
#define B T
#define SUM float
#define ADD_PRODUCT(v, w, filter, sum) fma(v, w, sum)
#endif

typedef POSITION position;

typedef struct {
    position stride[2], start[2], between[2], divide[2];
    int in_size[2], out_size[2], taps[2];
    int groups, channels, filters;
    int in_at[4], out_at[4], weight_at[5];
} geometry;

__kernel void convolve(
    TENSOR(const T, x), TENSOR(const W, weights),
#if BIASED
    TENSOR(const B, bias),
#endif
    TENSOR(T, y), const geometry g, const uint n FINISH_PARAMETERS)
{
    BEGIN(const T, x);
    BEGIN(const W, weights);
#if BIASED
    BEGIN(const B, bias);
#endif
    BEGIN(T, y);
    FINISH_BEGIN
    const uint count = g.groups * g.filters;
    EACH(i, n) {
#if CHANNELS_LAST
        const uint filter = i % count, pixel = i / count;
        const uint column = pixel % g.out_size[1], line = pixel / g.out_size[1];
        const uint row = line % g.out_size[0], image = line / g.out_size[0];
#else
        const uint column = i % g.out_size[1], line = i / g.out_size[1];
        const uint row = line % g.out_size[0], plane = line / g.out_size[0];
        const uint filter = plane % count, image = plane / count;
#endif
        const uint group = filter / g.filters, one = filter % g.filters;
        __global const T *from = x + image * (uint)g.in_at[0] + group * (uint)(g.channels * g.in_at[1]);
        __global const W *weight = weights + group * (uint)g.weight_at[0] + one * (uint)g.weight_at[1];
        SUM sum = 0;
        for (int tap_row = 0; tap_row < g.taps[0]; ++tap_row) {
            position at_row = row * g.stride[0] + g.start[0] + tap_row * g.between[0];
#if DIVIDED
            if (at_row % g.divide[0]) continue;
            at_row /= g.divide[0];
#endif
            if (at_row < 0 || at_row >= g.in_size[0]) continue;
            for (int tap = 0; tap < g.taps[1]; ++tap) {
                position at = column * g.stride[1] + g.start[1] + tap * g.between[1];
#if DIVIDED
                if (at % g.divide[1]) continue;
                at /= g.divide[1];
#endif
                if (at < 0 || at >= g.in_size[1]) continue;
                const uint first = (uint)at_row * g.in_at[2] + (uint)at * g.in_at[3];
                const uint first_weight = (uint)(tap_row * g.weight_at[3] + tap * g.weight_at[4]);
                for (int c = 0; c < g.channels; ++c) {
                    sum = ADD_PRODUCT(LOAD_AS(T, from, first + c * (uint)g.in_at[1]),
                                      LOAD_AS(W, weight, first_weight + c * (uint)g.weight_at[2]), filter, sum);
                }
            }
        }
#if BIASED
        sum += LOAD_AS(B, bias, filter);
#endif
        const uint to = image * (uint)g.out_at[0] + filter * (uint)g.out_at[1] + row * (uint)g.out_at[2]
                        + column * (uint)g.out_at[3];
        FINISH(sum, to, filter)
        STORE_AS(T, y, to, sum);
    }
}
