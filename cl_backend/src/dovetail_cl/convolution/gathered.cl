// Convolutions on a GPU: a work group computes TILE filters of TILE pixels, from slices of DEPTH
// terms of the sums of both in local memory; a work item holds 4 * QUADS of each.
//
// Slices are gathered by a table: where each term lies, seen from the first tap and channel.
//
// T: type of the elements. QUADS: 1 or 2. CHANNELS_LAST: whether channels are neighbours.

#define TILE (64 * QUADS)
#define DEPTH 16
#define GROUP 256
#define LINE (TILE + 4)         // floats; keeps lines apart in the banks of local memory
#define EACH_ITEM (DEPTH * TILE / GROUP)

typedef struct {
    int in_size[2], out_size[2], stride[2], start[2];
    uint in_at[4], out_at[4];   // elements between images, channels, rows and columns
    uint out_from;              // elements before the first pixel
    uint groups, channels, filters;     // of one group
    uint pixels;                // of all images
    uint padded;                // filters of a group of the weights
    uint depth, slices, splits; // of the sums: padded terms, those of a split
} geometry;

// Which term and pixel an item gathers: neighbours read neighbours.
#if CHANNELS_LAST
#define GATHERED_DEPTH(i) (item % DEPTH)
#define GATHERED_PIXEL(i) (item / DEPTH + (i) * (GROUP / DEPTH))
#else
#define GATHERED_DEPTH(i) (item / TILE + (i) * (GROUP / TILE))
#define GATHERED_PIXEL(i) (item % TILE)
#endif
#define FETCH(k)                                                                                   \
    _Pragma("unroll") for (int i = 0; i < EACH_ITEM / 4; ++i) {                                    \
        const uint at = item + i * GROUP;                                                          \
        next_weights[i] = fours[((k) + at / (TILE / 4)) * (ulong)(g->padded / 4) + at % (TILE / 4)];   \
    }                                                                                              \
    _Pragma("unroll") for (int i = 0; i < EACH_ITEM; ++i) {                                        \
        const uint one = GATHERED_PIXEL(i);                                                        \
        const int4 term = terms[(k) + GATHERED_DEPTH(i)];                                          \
        const int row = rows[one] + term.x, column = columns[one] + term.y;                        \
        next_pixels[i] = 0.0f;                                                                     \
        if (row >= 0 && row < g->in_size[0] && column >= 0 && column < g->in_size[1]) {            \
            next_pixels[i] = LOAD_AS(T, x, firsts[one] + (uint)term.z);                            \
        }                                                                                          \
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

__kernel __attribute__((reqd_work_group_size(16, 16, 1))) void convolve(
    TENSOR(const T, x), CONSTANT(float, weights), CONSTANT(float, bias), CONSTANT(int, table), TENSOR(float, partials),
    TENSOR(T, y), const geometry given FINISH_PARAMETERS)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
    BEGIN(const float, weights);
    BEGIN(const float, bias);
    BEGIN(const int, table);
    BEGIN(float, partials);
    BEGIN(T, y);
    FINISH_BEGIN
    __local float4 some_weights[DEPTH * LINE / 4], some_pixels[DEPTH * LINE / 4];
    __local float *const each_pixel = (__local float *)some_pixels;
    __local int rows[TILE], columns[TILE];
    __local uint firsts[TILE];
    const uint item = get_local_id(1) * 16 + get_local_id(0);
    const uint pixel = get_group_id(0) * TILE, filter = get_group_id(1) * TILE;
    const uint group = get_group_id(2) / g->splits, split = get_group_id(2) % g->splits;
    // Neighbouring items write neighbours.
    const uint at_filter = 4 * get_local_id(CHANNELS_LAST ? 0 : 1), at_pixel = 4 * get_local_id(CHANNELS_LAST ? 1 : 0);
    for (uint i = item; i < TILE; i += GROUP) {
        const uint one = pixel + i, line = one / g->out_size[1];
        rows[i] = line % g->out_size[0] * g->stride[0] + g->start[0];
        columns[i] = one % g->out_size[1] * g->stride[1] + g->start[1];
        if (one >= g->pixels) rows[i] = INT_MIN / 2;
        firsts[i] = line / g->out_size[0] * g->in_at[0] + group * g->channels * g->in_at[1]
                    + (uint)rows[i] * g->in_at[2] + (uint)columns[i] * g->in_at[3];
    }
    // Constants begin at the start of a buffer, so these are aligned.
    const __global int4 *terms = (const __global int4 *)table;
    const __global float4 *fours = (const __global float4 *)(weights + (ulong)group * g->depth * g->padded + filter);
    float sums[4 * QUADS][4 * QUADS];
    #pragma unroll
    for (int i = 0; i < 4 * QUADS; ++i) {
        #pragma unroll
        for (int j = 0; j < 4 * QUADS; ++j) sums[i][j] = 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint end = min(g->depth, (split + 1) * g->slices);
    float4 next_weights[EACH_ITEM / 4];
    float next_pixels[EACH_ITEM];
    uint k = split * g->slices;
    if (k < end) {
        FETCH(k)
    }
    while (k < end) {
        #pragma unroll
        for (int i = 0; i < EACH_ITEM / 4; ++i) {
            const uint at = item + i * GROUP;
            some_weights[at / (TILE / 4) * (LINE / 4) + at % (TILE / 4)] = next_weights[i];
        }
        #pragma unroll
        for (int i = 0; i < EACH_ITEM; ++i) each_pixel[GATHERED_DEPTH(i) * LINE + GATHERED_PIXEL(i)] = next_pixels[i];
        barrier(CLK_LOCAL_MEM_FENCE);
        k += DEPTH;
        if (k < end) {
            FETCH(k)    // arrives while this slice is summed up
        }
        #pragma unroll
        for (int depth = 0; depth < DEPTH; ++depth) {
            float w[4 * QUADS], v[4 * QUADS];
            #pragma unroll
            for (int quad = 0; quad < QUADS; ++quad) {
                const float4 four_weights = some_weights[(depth * LINE + 64 * quad + at_filter) / 4];
                const float4 four_pixels = some_pixels[(depth * LINE + 64 * quad + at_pixel) / 4];
                w[4 * quad] = four_weights.x, w[4 * quad + 1] = four_weights.y;
                w[4 * quad + 2] = four_weights.z, w[4 * quad + 3] = four_weights.w;
                v[4 * quad] = four_pixels.x, v[4 * quad + 1] = four_pixels.y;
                v[4 * quad + 2] = four_pixels.z, v[4 * quad + 3] = four_pixels.w;
            }
            #pragma unroll
            for (int i = 0; i < 4 * QUADS; ++i) {
                #pragma unroll
                for (int j = 0; j < 4 * QUADS; ++j) sums[i][j] = fma(w[i], v[j], sums[i][j]);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    #pragma unroll
    for (int j = 0; j < 4 * QUADS; ++j) {
        const uint one = pixel + at_pixel + 64 * (j / 4) + j % 4;
        if (one >= g->pixels) continue;
        const uint to = place(g, one);
        #pragma unroll
        for (int i = 0; i < 4 * QUADS; ++i) {
            const uint each = filter + at_filter + 64 * (i / 4) + i % 4, of_all = group * g->filters + each;
            if (each >= g->filters) continue;
            if (g->splits > 1) {
                partials[partial(g, split, of_all, one)] = sums[i][j];
            } else {
                float v = sums[i][j] + bias[of_all];
                FINISH(v, to + of_all * g->out_at[1], of_all)
                STORE_AS(T, y, to + of_all * g->out_at[1], v);
            }
        }
    }
}

// Results are the sums of the splits.
__kernel void finish(TENSOR(const float, partials), CONSTANT(float, bias), TENSOR(T, y),
                     const geometry given, const uint n FINISH_PARAMETERS)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const float, partials);
    BEGIN(const float, bias);
    BEGIN(T, y);
    FINISH_BEGIN
    const uint filters = g->groups * g->filters;
    EACH(i, n) {
#if CHANNELS_LAST
        const uint filter = i % filters, pixel = i / filters;
#else
        const uint filter = i / g->pixels, pixel = i % g->pixels;
#endif
        float v = bias[filter];
        for (uint split = 0; split < g->splits; ++split) v += partials[partial(g, split, filter, pixel)];
        const uint to = place(g, pixel) + filter * g->out_at[1];
        FINISH(v, to, filter)
        STORE_AS(T, y, to, v);
    }
}
