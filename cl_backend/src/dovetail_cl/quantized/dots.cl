// What tiles of a GPU sum up: products of four signed bytes, as terms of `convolution/gathered.cl`.
//
// T: type of images and results. FLIP: what makes signed bytes of it. DOTS: whether the device has
// an instruction for the products of four. CHANNELS_LAST: whether channels are neighbours.

#define TERM int
#define TOTAL int
#define FACTORS 4
#define ADD_PRODUCT(w, v, sum) DOT4(w, v, sum)
#define TERM_AT(g, x, at, count) bytes_at((x) + (at), (g)->in_at[1], count)
#define OUTSIDE(g) ((g)->outside)

// A sum with four products.
#if DOTS
#define DOT4(a, b, sum) ((sum) + dot_4x8packed_ss_int(as_uint(a), as_uint(b)))
#else
static int DOT4(const int a, const int b, const int sum)
{
    const char4 p = as_char4(a), q = as_char4(b);
    return sum + p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
}
#endif

// Four channels of a pixel, `apart` from each other, of which there are `count`: behind the last
// one are any, as their weights are 0.
static int bytes_at(const __global T *p, const uint apart, const uint count)
{
#if CHANNELS_LAST
    if (count >= 4) return as_int(vload4(0, p)) ^ FLIP;
#endif
    const uint last = count - 1;
    const JOINED(T, 4) four = { p[0], p[min(1u, last) * apart], p[min(2u, last) * apart], p[min(3u, last) * apart] };
    return as_int(four) ^ FLIP;
}

#define FINISH_PARAMETERS , CONSTANT(float, factors), const scaling numbers
#define FINISH_BEGIN BEGIN(const float, factors); const scaling scale = numbers;
#define FINISH_SOME(v, at, line, count) (v).x = finished((v).x, factors[line], &scale);
