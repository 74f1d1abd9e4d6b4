// Sums of a few products in halves, two at a time, that become part of a sum of floats.

#pragma OPENCL EXTENSION cl_khr_fp16 : enable

// The sum of `count` products of floats, of terms that lie `apart` from each other.
static float sum_of_floats(const __local int *w, const uint w_apart, const __local int *v, const uint v_apart, const uint count)
{
    float sum = 0;
    for (uint k = 0; k < count; ++k) {
        const float2 a = convert_float2(as_half2(w[k * w_apart])), b = convert_float2(as_half2(v[k * v_apart]));
        sum = fma(a.x, b.x, fma(a.y, b.y, sum));
    }
    return sum;
}

// A part as a float. What is too large for halves is computed again: infinities and NaN stay.
#define TOTAL_OF(part, w, w_apart, v, v_apart, count)                                              \
    (isfinite((float)(part).x + (float)(part).y) ? (float)(part).x + (float)(part).y               \
                                                 : sum_of_floats(w, w_apart, v, v_apart, count))
