// Quantized convolutions of single channels on a CPU, where the channels of a pixel are neighbours.
//
// What FACTORS rows of an image have in one column is a term. Terms of some columns are made of a
// vector of channels; then windows are sums of such terms, times weights, ROWS pixels at a time.
// Rows and columns outside of the image are the zero point.
//
// T: type of images and results. VECTOR: channels that are treated at once. HEIGHT: 3 if windows
// have no more rows; else FACTORS.

typedef struct {
    int in_size[2], out_size[2], taps[2], stride[2], start[2], between[2];
    uint in_at[4], out_at[4];   // elements between images, channels, rows and columns
    uint groups;
    uint stacks;                // of FACTORS rows of a window
    uint block, reach;          // pixels of a row that are treated together, and columns that they see
    uint chunk, chunks;         // channels of a work unit
    uint units;
    uint scratch;               // vectors of scratch memory of a work item
    int zero;
} geometry;

typedef vec loose_vec __attribute__((aligned(4)));
#define ROWS 8
#define REPEAT(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define DECLARE(r) vec sum##r = add;
#define PUT(r)                                                                                     \
    if (column + r < columns) {                                                                    \
        put(y, to + (column + r) * g->out_at[3], channel, sum##r, VECTOR FINISH_NAMES);            \
    }

// The terms of a stack of rows, at some columns. Rows and columns may lie outside of the image:
// what is seen there lies at `nothing`, a vector of channels.
static void stack_columns(__global loose_vec *to, const __global T *x, const __global T *nothing, const geometry *g,
                          const int row, const int column)
{
    const __global T *rows[FACTORS];
    uint steps[FACTORS];
    const int low = clamp(-column, 0, (int)g->reach), high = clamp(g->in_size[1] - column, low, (int)g->reach);
    #pragma unroll
    for (int i = 0; i < FACTORS; ++i) {
        const int at = row + i * g->between[0];
        const bool is_inside = i < HEIGHT && at >= 0 && at < g->in_size[0];
        rows[i] = is_inside ? x + at * g->in_at[2] + (column + low) * (int)g->in_at[3] : nothing;
        steps[i] = is_inside ? g->in_at[3] : 0;
    }
#define SEEN(p) NAMED(convert_int, VECTOR)(VLOAD(0, p))
#if FACTORS == 2
#define TERM_OF(p) ((SEEN((p)[0]) & 0xFFFF) | SEEN((p)[1]) << 16)
#elif HEIGHT == 3
#define TERM_OF(p) ((SEEN((p)[0]) & 0xFF) | (SEEN((p)[1]) & 0xFF) << 8 | (SEEN((p)[2]) & 0xFF) << 16)
#else
#define TERM_OF(p)                                                                                 \
    ((SEEN((p)[0]) & 0xFF) | (SEEN((p)[1]) & 0xFF) << 8 | (SEEN((p)[2]) & 0xFF) << 16 | SEEN((p)[3]) << 24)
#endif
    const __global T *const outside[4] = { nothing, nothing, nothing, nothing };
    for (int j = 0; j < low; ++j) to[j] = TERM_OF(outside);
    for (int j = low; j < high; ++j) {
        to[j] = TERM_OF(rows);
        #pragma unroll
        for (int i = 0; i < FACTORS; ++i) rows[i] += steps[i];
    }
    for (int j = high; j < (int)g->reach; ++j) to[j] = TERM_OF(outside);
}

__kernel void convolve(
    TENSOR(const T, x), CONSTANT(int, weights), CONSTANT(int, bias), TENSOR(loose_vec, scratch), TENSOR(T, y),
    const geometry given FINISH_PARAMETERS)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
    BEGIN(const int, weights);
    BEGIN(const int, bias);
    BEGIN(loose_vec, scratch);
    BEGIN(T, y);
    FINISH_BEGIN
    scratch += get_global_id(0) * g->scratch;
    const int columns = g->out_size[1], step = g->stride[1];
    __global T *nothing = (__global T *)(scratch + g->scratch - 1);
    for (int i = 0; i < VECTOR; ++i) nothing[i] = g->zero;
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
                    stack_columns(scratch + stack * g->reach, x + image * g->in_at[0] + channel, nothing, g,
                                  row + (int)stack * FACTORS * g->between[0], first * g->stride[1] + g->start[1]);
                }
                for (int column = first; column < min(columns, first + (int)g->block); column += ROWS) {
                    REPEAT(DECLARE)
                    for (uint stack = 0; stack < g->stacks; ++stack) {
                        const __global int *w = weights + stack * g->taps[1] * g->groups + channel;
                        const __global loose_vec *from = scratch + stack * g->reach + (column - first) * step;
                        for (int tap = 0; tap < g->taps[1]; ++tap) {
                            const vec weight = VLOAD(0, w);
#define SEE(r) sum##r = ADD_PRODUCT(from[r * step], weight, sum##r);
                            REPEAT(SEE)
                            w += g->groups;
                            from += g->between[1];
                        }
                    }
                    REPEAT(PUT)
                }
            }
        }
    }
}
