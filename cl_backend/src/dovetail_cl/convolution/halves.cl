// What tiles of a GPU sum up where it computes in halves: terms of `gathered.cl` are two channels,
// and the products of a slice are summed in halves before they become part of a sum.
//
// Behind `matrices/halves.cl`. T: half. CHANNELS_LAST: whether channels are neighbours.

#define TERM int
#define TOTAL float
#define FACTORS 2
#define PART half2
#define ADD_PRODUCT(w, v, part) fma(as_half2(w), as_half2(v), part)
#define TERM_AT(g, x, at, count) halves_at((const __global ushort *)(x) + (at), (g)->in_at[1], count)
#define OUTSIDE(g) 0

// Two channels of a pixel, `apart` from each other; 0 is behind the last of `count`.
static int halves_at(const __global ushort *p, const uint apart, const uint count)
{
#if CHANNELS_LAST
    if (count >= 2) return as_int(vload2(0, p));
#endif
    return p[0] | (count > 1 ? (int)p[apart] << 16 : 0);
}
