// Convolutions on a GPU: a work group computes a tile of filters of a tile of pixels, from slices
// of DEPTH terms of the sums of both in local memory; a work item holds 4 * FILTER_QUADS filters of
// 4 * PIXEL_QUADS pixels. Two slices are there at a time: while one is summed up the next arrives.
//
// Slices are gathered by a table: where each term lies, seen from the first tap and channel.
//
// TERM: type of what is multiplied, a float by default: of FACTORS channels, neighbours in the
// depth.
// TOTAL: type of the sums. ADD_PRODUCT(w, v, sum): a sum with another product. TERM_AT(g, x, at,
// count): the term of so many channels, or more, from an element on; OUTSIDE(g): the one outside of
// images. PART, if it is defined: type in which a slice is summed up; TOTAL_OF makes a TOTAL of
// that, or of the terms in local memory.
// T: type of the elements. FILTER_LANES: items that share the filters of a tile. FILTER_QUADS,
// PIXEL_QUADS: see above. CHANNELS_LAST: whether channels are neighbours. POINTWISE: windows are of
// one pixel, each within its image. VECTORS: four sums are written at once where they are
// neighbours.

#ifndef TERM
#define TERM float
#define TOTAL float
#define FACTORS 1
#define ADD_PRODUCT(w, v, sum) fma(w, v, sum)
#define TERM_AT(g, x, at, count) LOAD_AS(T, x, at)
#define OUTSIDE(g) 0.0f
#endif
typedef JOINED(TERM, 4) term4;
typedef JOINED(TOTAL, 4) total4;

#define DEPTH 8
#define GROUP 256
#define PIXEL_LANES (GROUP / FILTER_LANES)
#define FILTERS (4 * FILTER_QUADS * FILTER_LANES)
#define PIXELS (4 * PIXEL_QUADS * PIXEL_LANES)
#define FILTER_LINE (FILTERS + 4)   // floats; keeps lines apart in the banks of local memory
#define PIXEL_LINE (PIXELS + 4)
#define WEIGHT_FOURS (DEPTH * FILTERS / 4)
#define EACH_WEIGHT ((WEIGHT_FOURS + GROUP - 1) / GROUP)
#define EACH_PIXEL (DEPTH * PIXELS / GROUP)

typedef struct {
    int in_size[2], out_size[2], stride[2], start[2];
    uint in_at[4], out_at[4];   // elements between images, channels, rows and columns
    uint out_from;              // elements before the first pixel
    uint groups, channels, filters;     // of one group
    uint pixels;                // of all images
    uint padded;                // filters of a group of the weights
    uint depth, slices, splits; // of the sums: padded terms, those of a split
    uint terms;                 // that are no padding
    uint in_fours;              // whether each four results, from a multiple of four on, are neighbours
    int outside;                // the term outside of images, where it is not 0
} geometry;

// A pixel whose window is gathered: its first row, column and element of the input.
typedef struct {
    int row, column;
    uint first;
} window;

window window_of(const geometry *g, const uint pixel, const uint group)
{
    const uint line = pixel / g->out_size[1];
    window w = { (int)(line % g->out_size[0]) * g->stride[0] + g->start[0],
                 (int)(pixel % g->out_size[1]) * g->stride[1] + g->start[1], 0 };
    w.first = line / g->out_size[0] * g->in_at[0] + group * g->channels * g->in_at[1] + (uint)w.row * g->in_at[2]
              + (uint)w.column * g->in_at[3];
    if (pixel >= g->pixels) w.row = INT_MIN / 2;
    return w;
}

// What a window has at a term of the sum.
TERM gathered(const geometry *g, const __global T *x, const __global int4 *terms, const window w, const uint term)
{
#if POINTWISE
    const uint channel = term * FACTORS;
    return w.row >= 0 && term < g->terms ? TERM_AT(g, x, w.first + channel * g->in_at[1], g->channels - channel) : OUTSIDE(g);
#else
    const int4 at = terms[term];
    const bool is_inside = (uint)(w.row + at.x) < (uint)g->in_size[0] && (uint)(w.column + at.y) < (uint)g->in_size[1];
    return is_inside ? TERM_AT(g, x, w.first + (uint)at.z, (uint)at.w) : OUTSIDE(g);
#endif
}

// Which term and pixel an item gathers: neighbours read neighbours. With channels that are not
// neighbours an item has always the same pixel.
#if CHANNELS_LAST
#define GATHERED_TERM(i) (item % DEPTH)
#define GATHERED_PIXEL(i) (item / DEPTH + (i) * (GROUP / DEPTH))
#define WINDOW(i) windows[i]
#define WINDOWS EACH_PIXEL
#else
#define GATHERED_TERM(i) (item / PIXELS + (i) * (GROUP / PIXELS))
#define GATHERED_PIXEL(i) (item % PIXELS)
#define WINDOW(i) windows[0]
#define WINDOWS 1
#endif
#define FETCH(k)                                                                                   \
    _Pragma("unroll") for (int i = 0; i < EACH_WEIGHT; ++i) {                                      \
        const uint at = item + i * GROUP;                                                          \
        if (WEIGHT_FOURS % GROUP == 0 || at < WEIGHT_FOURS) {                                      \
            next_weights[i] = fours[((k) + at / (FILTERS / 4)) * (ulong)(g->padded / 4) + at % (FILTERS / 4)]; \
        }                                                                                          \
    }                                                                                              \
    _Pragma("unroll") for (int i = 0; i < EACH_PIXEL; ++i) {                                       \
        next_pixels[i] = gathered(g, x, terms, WINDOW(i), (k) + GATHERED_TERM(i));                 \
    }
#define KEEP(slice)                                                                                \
    _Pragma("unroll") for (int i = 0; i < EACH_WEIGHT; ++i) {                                      \
        const uint at = item + i * GROUP;                                                          \
        if (WEIGHT_FOURS % GROUP == 0 || at < WEIGHT_FOURS) {                                      \
            some_weights[slice][at / (FILTERS / 4) * (FILTER_LINE / 4) + at % (FILTERS / 4)] = next_weights[i]; \
        }                                                                                          \
    }                                                                                              \
    _Pragma("unroll") for (int i = 0; i < EACH_PIXEL; ++i) {                                       \
        ((__local TERM *)some_pixels[slice])[GATHERED_TERM(i) * PIXEL_LINE + GATHERED_PIXEL(i)] = next_pixels[i]; \
    }

// Where a pixel of all images lies in the output.
uint place(const geometry *g, const uint pixel)
{
    const uint column = pixel % g->out_size[1], line = pixel / g->out_size[1];
    return g->out_from + line / g->out_size[0] * g->out_at[0] + line % g->out_size[0] * g->out_at[2] + column * g->out_at[3];
}

// Where the sum of a split of the depth is kept.
uint partial(const geometry *g, const uint split, const uint filter, const uint pixel)
{
    const uint filters = g->groups * g->filters;
#if CHANNELS_LAST
    return (split * g->pixels + pixel) * filters + filter;
#else
    return (split * filters + filter) * g->pixels + pixel;
#endif
}

// Of what an item holds, the quad at `q` of filters (or pixels), and one of it.
#define FILTER_OF(i) (filter + at_filter + 4 * FILTER_LANES * ((i) / 4) + (i) % 4)
#define PIXEL_OF(j) (pixel + at_pixel + 4 * PIXEL_LANES * ((j) / 4) + (j) % 4)
// Neighbouring items write neighbours, four at a time.
#if CHANNELS_LAST
#define QUADS FILTER_QUADS
#define OTHERS (4 * PIXEL_QUADS)
#define FILTER_AT(q, k, other) FILTER_OF(4 * (q) + (k))
#define PIXEL_AT(q, k, other) PIXEL_OF(other)
#define SUM_AT(q, k, other) sums[4 * (q) + (k)][other]
#define BIASES(of_all) vload4(0, bias + (of_all))
#else
#define QUADS PIXEL_QUADS
#define OTHERS (4 * FILTER_QUADS)
#define FILTER_AT(q, k, other) FILTER_OF(other)
#define PIXEL_AT(q, k, other) PIXEL_OF(4 * (q) + (k))
#define SUM_AT(q, k, other) sums[other][4 * (q) + (k)]
#define BIASES(of_all) (float4)(bias[of_all])
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void convolve(
    TENSOR(const T, x), CONSTANT(TERM, weights), CONSTANT(TOTAL, bias), CONSTANT(int, table), TENSOR(TOTAL, partials),
    TENSOR(T, y), const geometry given FINISH_PARAMETERS)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
    BEGIN(const TERM, weights);
    BEGIN(const TOTAL, bias);
    BEGIN(const int, table);
    BEGIN(TOTAL, partials);
    BEGIN(T, y);
    FINISH_BEGIN
    __local term4 some_weights[2][DEPTH * FILTER_LINE / 4], some_pixels[2][DEPTH * PIXEL_LINE / 4];
    const uint item = get_local_id(0);
    const uint pixel = get_group_id(0) * PIXELS, filter = get_group_id(1) * FILTERS;
    const uint group = get_group_id(2) / g->splits, split = get_group_id(2) % g->splits;
#if CHANNELS_LAST
    const uint at_filter = 4 * (item % FILTER_LANES), at_pixel = 4 * (item / FILTER_LANES);
#else
    const uint at_filter = 4 * (item / PIXEL_LANES), at_pixel = 4 * (item % PIXEL_LANES);
#endif
    window windows[WINDOWS];
    #pragma unroll
    for (int i = 0; i < WINDOWS; ++i) windows[i] = window_of(g, pixel + GATHERED_PIXEL(i), group);
    // Constants begin at the start of a buffer, so these are aligned.
    const __global int4 *terms = (const __global int4 *)table;
    const __global term4 *fours = (const __global term4 *)(weights + (ulong)group * g->depth * g->padded + filter);
    TOTAL sums[4 * FILTER_QUADS][4 * PIXEL_QUADS];
    #pragma unroll
    for (int i = 0; i < 4 * FILTER_QUADS; ++i) {
        #pragma unroll
        for (int j = 0; j < 4 * PIXEL_QUADS; ++j) sums[i][j] = 0;
    }
    const uint end = min(g->depth, (split + 1) * g->slices);
    term4 next_weights[EACH_WEIGHT];
    TERM next_pixels[EACH_PIXEL];
    uint k = split * g->slices, slice = 0;
    if (k < end) {
        FETCH(k)
        KEEP(0)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    while (k < end) {
        k += DEPTH;
        if (k < end) {
            FETCH(k)
        }
#ifdef PART
#define SUMMED parts
        PART parts[4 * FILTER_QUADS][4 * PIXEL_QUADS];
        #pragma unroll
        for (int i = 0; i < 4 * FILTER_QUADS; ++i) {
            #pragma unroll
            for (int j = 0; j < 4 * PIXEL_QUADS; ++j) parts[i][j] = 0;
        }
#else
#define SUMMED sums
#endif
        #pragma unroll
        for (int depth = 0; depth < DEPTH; ++depth) {
            TERM w[4 * FILTER_QUADS], v[4 * PIXEL_QUADS];
            #pragma unroll
            for (int quad = 0; quad < FILTER_QUADS; ++quad) {
                const term4 four = some_weights[slice][(depth * FILTER_LINE + 4 * FILTER_LANES * quad + at_filter) / 4];
                w[4 * quad] = four.x, w[4 * quad + 1] = four.y, w[4 * quad + 2] = four.z, w[4 * quad + 3] = four.w;
            }
            #pragma unroll
            for (int quad = 0; quad < PIXEL_QUADS; ++quad) {
                const term4 four = some_pixels[slice][(depth * PIXEL_LINE + 4 * PIXEL_LANES * quad + at_pixel) / 4];
                v[4 * quad] = four.x, v[4 * quad + 1] = four.y, v[4 * quad + 2] = four.z, v[4 * quad + 3] = four.w;
            }
            #pragma unroll
            for (int i = 0; i < 4 * FILTER_QUADS; ++i) {
                #pragma unroll
                for (int j = 0; j < 4 * PIXEL_QUADS; ++j) SUMMED[i][j] = ADD_PRODUCT(w[i], v[j], SUMMED[i][j]);
            }
        }
#ifdef PART
        #pragma unroll
        for (int i = 0; i < 4 * FILTER_QUADS; ++i) {
            #pragma unroll
            for (int j = 0; j < 4 * PIXEL_QUADS; ++j) {
                sums[i][j] += TOTAL_OF(
                    parts[i][j], (const __local TERM *)some_weights[slice] + FILTER_OF(i) - filter, FILTER_LINE,
                    (const __local TERM *)some_pixels[slice] + PIXEL_OF(j) - pixel, PIXEL_LINE, DEPTH);
            }
        }
#endif
        slice ^= 1;
        if (k < end) {
            KEEP(slice)
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#if VECTORS
    // Where tensors begin is known only here.
    const bool in_fours = g->in_fours && ((ulong)y | (ulong)partials) % 16 == 0;
#endif
    #pragma unroll
    for (int quad = 0; quad < QUADS; ++quad) {
        #pragma unroll
        for (int other = 0; other < OTHERS; ++other) {
            const uint first_filter = FILTER_AT(quad, 0, other), first_pixel = PIXEL_AT(quad, 0, other);
            if (first_filter >= g->filters || first_pixel >= g->pixels) continue;
#if VECTORS
            if (in_fours) {
                const uint of_all = group * g->filters + first_filter;
                float4 v = (float4)(SUM_AT(quad, 0, other), SUM_AT(quad, 1, other), SUM_AT(quad, 2, other),
                                    SUM_AT(quad, 3, other));
                if (g->splits > 1) {
                    *(__global float4 *)(partials + partial(g, split, of_all, first_pixel)) = v;
                    continue;
                }
                const uint to = place(g, first_pixel) + of_all * g->out_at[1];
                v += BIASES(of_all);
                FINISH(v, to, of_all)
                *(__global float4 *)(y + to) = v;
                continue;
            }
#endif
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                const uint each = FILTER_AT(quad, k, other), one = PIXEL_AT(quad, k, other);
                if (each >= g->filters || one >= g->pixels) continue;
                const uint of_all = group * g->filters + each, to = place(g, one) + of_all * g->out_at[1];
                if (g->splits > 1) {
                    partials[partial(g, split, of_all, one)] = SUM_AT(quad, k, other);
                    continue;
                }
                total4 v = (total4)(SUM_AT(quad, k, other) + bias[of_all], 0, 0, 0);
                FINISH_SOME(v, to, of_all, 1)
                STORE_AS(T, y, to, v.x);
            }
        }
    }
}

// Results are the sums of the splits.
__kernel void finish(TENSOR(const TOTAL, partials), CONSTANT(TOTAL, bias), TENSOR(T, y),
                     const geometry given, const uint n FINISH_PARAMETERS)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const TOTAL, partials);
    BEGIN(const TOTAL, bias);
    BEGIN(T, y);
    FINISH_BEGIN
    const uint filters = g->groups * g->filters;
    EACH(i, n) {
#if CHANNELS_LAST
        const uint filter = i % filters, pixel = i / filters;
#else
        const uint filter = i / g->pixels, pixel = i % g->pixels;
#endif
        total4 v = (total4)(bias[filter], 0, 0, 0);
        for (uint split = 0; split < g->splits; ++split) v.x += partials[partial(g, split, filter, pixel)];
        const uint to = place(g, pixel) + filter * g->out_at[1];
        FINISH_SOME(v, to, filter, 1)
        STORE_AS(T, y, to, v.x);
    }
}
