// Quantized convolutions of single channels on a CPU, where the channels of a pixel are neighbours.
//
// What FACTORS rows of an image have in one column is a term. Terms of some columns are made of a
// vector of channels; then windows are sums of such terms, times weights, ROWS pixels at a time.
// Rows and columns outside of the image are the zero point.
//
// T: type of images and results. VECTOR: channels that are treated at once.

typedef struct {
    int in_size[2], out_size[2], taps[2], stride[2], start[2], between[2];
    uint in_at[4], out_at[4];   // elements between images, channels, rows and columns
    uint groups;
    uint stacks;                // of FACTORS rows of a window
    uint block, reach;          // pixels of a row that are treated together, and columns that they see
    uint chunk, chunks;         // channels of a work unit
    uint units;
    uint scratch;               // terms of scratch memory of a work item
    int zero;
} geometry;

#define ROWS 8
#define REPEAT(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define DECLARE(r) vec sum##r = add;
#define PUT(r)                                                                                     \
    if (column + r < columns) {                                                                    \
        put(y, to + (column + r) * g->out_at[3], channel, sum##r, VECTOR FINISH_NAMES);            \
    }

// Rows of which some may lie outside of the image, at some columns: the terms of a stack.
static void stack_columns(__global int *to, const __global T *x, const geometry *g, const int row, const int column)
{
    const __global T *rows[FACTORS];
    bool has[FACTORS];
    for (int i = 0; i < FACTORS; ++i) {
        const int at = row + i * g->between[0];
        has[i] = at >= 0 && at < g->in_size[0];
        rows[i] = x + (has[i] ? at : 0) * g->in_at[2];
    }
    const vec nothing = (vec)(g->zero);
    const int low = clamp(-column, 0, (int)g->reach), high = clamp(g->in_size[1] - column, low, (int)g->reach);
#define SEEN(i) (has[i] ? NAMED(convert_int, VECTOR)(VLOAD(0, rows[i] + at)) : nothing)
#if FACTORS == 4
#define MASK 0xFF
#define TERM_OF(a, b, c, d) (((a) & MASK) | ((b) & MASK) << 8 | ((c) & MASK) << 16 | (d) << 24)
#define STACKED TERM_OF(SEEN(0), SEEN(1), SEEN(2), SEEN(3))
#define UNSEEN TERM_OF(nothing, nothing, nothing, nothing)
#else
#define TERM_OF(a, b) (((a) & 0xFFFF) | (b) << 16)
#define STACKED TERM_OF(SEEN(0), SEEN(1))
#define UNSEEN TERM_OF(nothing, nothing)
#endif
    for (int j = 0; j < low; ++j) VSTORE(UNSEEN, j, to);
    uint at = (uint)(column + low) * g->in_at[3];
    for (int j = low; j < high; ++j, at += g->in_at[3]) VSTORE(STACKED, j, to);
    for (int j = high; j < (int)g->reach; ++j) VSTORE(UNSEEN, j, to);
}

__kernel void convolve(
    TENSOR(const T, x), CONSTANT(int, weights), CONSTANT(int, bias), TENSOR(int, scratch), TENSOR(T, y),
    const geometry given FINISH_PARAMETERS)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
    BEGIN(const int, weights);
    BEGIN(const int, bias);
    BEGIN(int, scratch);
    BEGIN(T, y);
    FINISH_BEGIN
    scratch += get_global_id(0) * g->scratch;
    const int columns = g->out_size[1], step = g->stride[1] * VECTOR;
    const uint to_unit = (ulong)g->units * (get_global_id(0) + 1) / get_global_size(0);
    for (uint unit = (ulong)g->units * get_global_id(0) / get_global_size(0); unit < to_unit; ++unit) {
        const uint chunk = unit % g->chunks, line = unit / g->chunks;
        const int row = line % g->out_size[0] * g->stride[0] + g->start[0];
        const uint image = line / g->out_size[0], to_channel = min(g->groups, (chunk + 1) * g->chunk);
        for (uint wanted = chunk * g->chunk; wanted < to_channel; wanted += VECTOR) {
            const uint channel = min(wanted, g->groups - VECTOR);
            const vec add = VLOAD(0, bias + channel);
            const uint to = image * g->out_at[0] + line % g->out_size[0] * g->out_at[2] + channel;
            for (int first = 0; first < columns; first += g->block) {
                for (uint stack = 0; stack < g->stacks; ++stack) {
                    stack_columns(scratch + stack * g->reach * VECTOR, x + image * g->in_at[0] + channel, g,
                                  row + (int)stack * FACTORS * g->between[0], first * g->stride[1] + g->start[1]);
                }
                for (int column = first; column < min(columns, first + (int)g->block); column += ROWS) {
                    REPEAT(DECLARE)
                    for (uint stack = 0; stack < g->stacks; ++stack) {
                        const __global int *w = weights + stack * g->taps[1] * g->groups + channel;
                        const __global int *from = scratch + stack * g->reach * VECTOR + (column - first) * step;
                        for (int tap = 0; tap < g->taps[1]; ++tap) {
                            const vec weight = VLOAD(0, w);
#define SEE(r) sum##r = ADD_PRODUCT(VLOAD(0, from + r * step), weight, sum##r);
                            REPEAT(SEE)
                            w += g->groups;
                            from += g->between[1] * VECTOR;
                        }
                    }
                    REPEAT(PUT)
                }
            }
        }
    }
}
