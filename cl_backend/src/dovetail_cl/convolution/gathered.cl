// Convolutions on a GPU: a work group computes TILE filters of TILE pixels, from slices of DEPTH taps and
// channels of both in local memory; a work item holds 4 * QUADS of each.
//
// Slices are gathered by a table: where each term of the sums lies, seen from the first tap and channel.
//
// T: type of the elements. QUADS: 1 or 2. CHANNELS_LAST: whether channels are neighbours.
// ACTIVATION(v): of a sum.

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
    TENSOR(T, y), const geometry given)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
    BEGIN(const float, weights);
    BEGIN(const float, bias);
    BEGIN(const int, table);
    BEGIN(float, partials);
    BEGIN(T, y);
    __local float some_weights[DEPTH * LINE], some_pixels[DEPTH * LINE];
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
    weights += (ulong)group * g->depth * g->padded + filter;
    float sums[4 * QUADS][4 * QUADS];
    #pragma unroll
    for (int i = 0; i < 4 * QUADS; ++i) {
        #pragma unroll
        for (int j = 0; j < 4 * QUADS; ++j) sums[i][j] = 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint end = min(g->depth, (split + 1) * g->slices);
    for (uint k = split * g->slices; k < end; k += DEPTH) {
        #pragma unroll
        for (int i = 0; i < EACH_ITEM / 4; ++i) {
            const uint at = item + i * GROUP, depth = at / (TILE / 4), four = at % (TILE / 4);
            vstore4(vload4(four, weights + (k + depth) * (ulong)g->padded), 0, some_weights + depth * LINE + 4 * four);
        }
        #pragma unroll
        for (int i = 0; i < EACH_ITEM; ++i) {
#if CHANNELS_LAST
            const uint depth = item % DEPTH, one = item / DEPTH + i * (GROUP / DEPTH);
#else
            const uint depth = item / TILE + i * (GROUP / TILE), one = item % TILE;
#endif
            const int4 term = vload4(k + depth, table);
            const int row = rows[one] + term.x, column = columns[one] + term.y;
            float v = 0.0f;
            if (row >= 0 && row < g->in_size[0] && column >= 0 && column < g->in_size[1]) {
                v = LOAD_AS(T, x, firsts[one] + (uint)term.z);
            }
            some_pixels[depth * LINE + one] = v;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        #pragma unroll
        for (int depth = 0; depth < DEPTH; ++depth) {
            float w[4 * QUADS], v[4 * QUADS];
            #pragma unroll
            for (int quad = 0; quad < QUADS; ++quad) {
                vstore4(vload4(0, some_weights + depth * LINE + 64 * quad + at_filter), quad, w);
                vstore4(vload4(0, some_pixels + depth * LINE + 64 * quad + at_pixel), quad, v);
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
                const float v = sums[i][j] + bias[of_all];
                STORE_AS(T, y, to + of_all * g->out_at[1], ACTIVATION(v));
            }
        }
    }
}

// Results are the sums of the splits.
__kernel void finish(TENSOR(const float, partials), CONSTANT(float, bias), TENSOR(T, y), const geometry given, const uint n)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const float, partials);
    BEGIN(const float, bias);
    BEGIN(T, y);
    const uint filters = g->groups * g->filters;
    EACH(i, n) {
#if CHANNELS_LAST
        const uint filter = i % filters, pixel = i / filters;
#else
        const uint filter = i / g->pixels, pixel = i % g->pixels;
#endif
        float v = bias[filter];
        for (uint split = 0; split < g->splits; ++split) v += partials[partial(g, split, filter, pixel)];
        STORE_AS(T, y, place(g, pixel) + filter * g->out_at[1], ACTIVATION(v));
    }
}
