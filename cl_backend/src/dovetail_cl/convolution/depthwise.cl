// Convolutions of single channels on a CPU.
//
// CHANNELS_LAST: vectors go along channels; see windows.cl. Else they go along the pixels of a row,
// four rows at a time, of a plane that was packed with its padding around it, its columns sorted by
// their residues of the stride, so that what a vector sees is a vector at every tap.
//
// T: type of the elements. VECTOR: floats of a vector.

#if CHANNELS_LAST
typedef struct {
    windows seen;
    int out_size[2];
    uint out_at[4];             // elements between images, channels, rows and columns
    uint chunk, chunks;         // channels of a work unit
    uint units;
} geometry;

__kernel void convolve(
    TENSOR(const T, x), CONSTANT(float, weights), CONSTANT(float, bias), TENSOR(T, y),
    const geometry given FINISH_PARAMETERS)
{
    const geometry copied = given, *g = &copied;
    const windows *w = &copied.seen;
    BEGIN(const T, x);
    BEGIN(const float, weights);
    BEGIN(const float, bias);
    BEGIN(T, y);
    FINISH_BEGIN
    const uint to_unit = (ulong)g->units * (get_global_id(0) + 1) / get_global_size(0);
    for (uint unit = (ulong)g->units * get_global_id(0) / get_global_size(0); unit < to_unit; ++unit) {
        const uint chunk = unit % g->chunks, line = unit / g->chunks;
        const uint row = line % g->out_size[0], image = line / g->out_size[0];
        const uint to_channel = min(w->channels, (chunk + 1) * g->chunk);
        for (int column = 0; column < g->out_size[1]; column += BLOCK) {
            const int count = min(BLOCK, g->out_size[1] - column);
            const sight s = seen(w, row, column, count);
            for (uint wanted = chunk * g->chunk; wanted < to_channel; wanted += VECTOR) {
                const uint channel = min(wanted, w->channels - VECTOR);
                vec sums[BLOCK];
                sum_windows(sums, x + image * w->in_at[0] + channel, weights + channel, w, &s, VLOAD(0, bias + channel));
                const uint to = image * g->out_at[0] + row * g->out_at[2] + column * g->out_at[3] + channel;
                #pragma unroll
                for (int r = 0; r < BLOCK; ++r) {
                    if (r < count) put_vector(y, to + r * g->out_at[3], channel, sums[r] FINISH_NAMES);
                }
            }
        }
    }
}

#else
typedef struct {
    int in_size[2], out_size[2], taps[2], stride[2], start[2], between[2];
    uint in_at[4], out_at[4];   // elements between images, channels, rows and columns
    uint in_elements;
    uint groups, filters;       // filters of a group
    uint band, bands;           // rows of a work unit, and how many bands of them there are
    uint residue;               // packed: floats of the columns with one residue
    uint units;
    uint scratch;               // floats of scratch memory of a work item
} geometry;

#define ROWS 4
#define MAX_STRIDE 4           // as the host says
#define REPEAT(DO) DO(0) DO(1) DO(2) DO(3)
#define DECLARE(r) vec sum##r = add;

// The rows that a band of a plane sees: packed[row][residue of the stride][column].
void pack_plane(__global float *to, const __global T *x, const geometry *g, const uint plane, const int first, const uint rows)
{
    const int stride = g->stride[1], n = g->residue;
    int lows[MAX_STRIDE], highs[MAX_STRIDE];      // columns within the image
    for (int residue = 0; residue < stride; ++residue) {
        const int at = residue + g->start[1];
        lows[residue] = at >= 0 ? 0 : min(n, (stride - 1 - at) / stride);
        highs[residue] = clamp(at >= g->in_size[1] ? 0 : (g->in_size[1] - 1 - at) / stride + 1, lows[residue], n);
    }
    for (uint i = 0; i < rows; ++i) {
        const int row = first + (int)i;
        const bool is_inside = row >= 0 && row < g->in_size[0];
        for (int residue = 0; residue < stride; ++residue) {
            const int low = is_inside ? lows[residue] : n, high = is_inside ? highs[residue] : n;
            for (int j = 0; j < low; j += VECTOR) VSTORE((vec)(0.0f), 0, to + j);
            if (high > low) {
                const int at = residue + g->start[1] + low * stride;
                copy_line(to + low, x, plane + row * g->in_at[2] + at, high - low, stride, g->in_elements);
            }
            for (int j = high; j < n; j += VECTOR) VSTORE((vec)(0.0f), 0, to + j);
            to += n;
        }
    }
}

__kernel void convolve(
    TENSOR(const T, x), CONSTANT(float, weights), CONSTANT(float, bias), CONSTANT(uint, places), TENSOR(float, scratch),
    TENSOR(T, y), const geometry given FINISH_PARAMETERS)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
    BEGIN(const float, weights);
    BEGIN(const float, bias);
    BEGIN(const uint, places);
    BEGIN(float, scratch);
    BEGIN(T, y);
    FINISH_BEGIN
    scratch += get_global_id(0) * g->scratch;
    const uint taps = g->taps[0] * g->taps[1], columns = g->out_size[1];
    const uint down = g->stride[0] * g->stride[1] * g->residue;     // floats to what the next row sees
    const uint to_unit = (ulong)g->units * (get_global_id(0) + 1) / get_global_size(0);
    for (uint unit = (ulong)g->units * get_global_id(0) / get_global_size(0); unit < to_unit; ++unit) {
        const uint band = unit % g->bands, group = unit / g->bands % g->groups, image = unit / g->bands / g->groups;
        const uint first = band * g->band, rows = min(g->band, g->out_size[0] - first);
        pack_plane(scratch, x, g, image * g->in_at[0] + group * g->in_at[1], (int)first * g->stride[0] + g->start[0],
                   (rows - 1) * g->stride[0] + (g->taps[0] - 1) * g->between[0] + 1);
        for (uint filter = group * g->filters; filter < (group + 1) * g->filters; ++filter) {
            const __global float *w = weights + filter * taps;
            const vec add = (vec)(bias[filter]);
            for (uint row = 0; row < rows; row += ROWS) {
                for (uint wanted = 0; wanted < columns; wanted += VECTOR) {
                    const uint column = columns < VECTOR ? 0 : min(wanted, columns - VECTOR);
                    const __global float *from = scratch + row * down + column;
                    REPEAT(DECLARE)
                    for (uint tap = 0; tap < taps; ++tap) {
                        const vec weight = (vec)(w[tap]);
                        const __global float *at = from + places[tap];
#define ADD(r) sum##r = fma(weight, VLOAD(0, at + r * down), sum##r);
                        REPEAT(ADD)
                    }
                    const uint to = image * g->out_at[0] + filter * g->out_at[1] + (first + row) * g->out_at[2] + column;
#define PUT(r) if (row + r < rows) put(y, to + r * columns, filter, sum##r, columns FINISH_NAMES);
                    REPEAT(PUT)
                }
            }
        }
    }
}
#endif
