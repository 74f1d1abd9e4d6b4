// Convolutions of 3 x 3 taps on a CPU by Winograd's F(2 x 2, 3 x 3) (Lavin and Gray 2015): squares
// of 4 x 4 pixels become 16 numbers, whose products with those of the filters are summed over
// channels, and become 2 x 2 results. The points are 0, +-1 and infinity. A sum has fewer products
// than a direct one, so that errors are smaller.
//
// T: type of the elements. Channels are neighbours.

#define SIDE 2
#define SQUARE 4
#define POINTS 16

typedef struct {
    int in_size[2], out_size[2], start[2];
    uint in_at[4], out_at[4];   // elements between images, channels, rows and columns
    uint channels, filters;
    uint rows, columns;         // of the squares of an image
    uint squares;               // of all images
    uint at_once, blocks;       // squares of a work unit
    uint line;                  // floats of one number of a square
    uint each, splits, units;   // panels of filters of a work unit
    uint scratch;               // floats of scratch memory of a work item
} geometry;

// Four numbers of a line of pixels, `step` apart.
static void __attribute__((always_inline)) into(vec *x, const int step)
{
    const vec x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
    x[0] = x0 - x2;
    x[step] = x1 + x2;
    x[2 * step] = x2 - x1;
    x[3 * step] = x1 - x3;
}

// Two results of a line of four sums.
static void __attribute__((always_inline)) back(vec *x, const int step)
{
    const vec x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
    x[0] = x0 + (x1 + x2);
    x[step] = (x1 - x2) - x3;
}

// The numbers of some squares: to[point][square][channel].
void transform(__global float *to, const __global T *x, const geometry *g, const uint first, const uint count)
{
    const uint step = g->at_once * g->line;
    for (uint i = 0; i < count; ++i) {
        const uint column = (first + i) % g->columns, line = (first + i) / g->columns;
        const int top = (int)(line % g->rows) * SIDE + g->start[0], left = (int)column * SIDE + g->start[1];
        const int at = (int)(line / g->rows * g->in_at[0]) + top * (int)g->in_at[2] + left * (int)g->in_at[3];
        const bool is_inside = top >= 0 && left >= 0 && top + SQUARE <= g->in_size[0] && left + SQUARE <= g->in_size[1];
        for (uint channel = 0; channel < g->channels; channel += VECTOR) {
            vec v[POINTS];
            if (is_inside) {
                #pragma unroll
                for (int p = 0; p < POINTS; ++p) {
                    v[p] = READ(x, at + p / SQUARE * (int)g->in_at[2] + p % SQUARE * (int)g->in_at[3] + channel);
                }
            } else {
                #pragma unroll
                for (int p = 0; p < POINTS; ++p) {
                    const int row = top + p / SQUARE, place = left + p % SQUARE;
                    v[p] = 0.0f;
                    if (row >= 0 && row < g->in_size[0] && place >= 0 && place < g->in_size[1]) {
                        v[p] = READ(x, at + p / SQUARE * (int)g->in_at[2] + p % SQUARE * (int)g->in_at[3] + channel);
                    }
                }
            }
            #pragma unroll
            for (int p = 0; p < SQUARE; ++p) into(v + p * SQUARE, 1);
            #pragma unroll
            for (int p = 0; p < SQUARE; ++p) into(v + p, SQUARE);
            #pragma unroll
            for (int p = 0; p < POINTS; ++p) VSTORE(v[p], 0, to + p * step + i * g->line + channel);
        }
    }
}

// A work unit is a block of squares, and some panels of filters.
__kernel void convolve(
    TENSOR(const T, x), CONSTANT(float, weights), CONSTANT(float, bias), TENSOR(float, scratch), TENSOR(T, y),
    const geometry given FINISH_PARAMETERS)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
    BEGIN(const float, weights);
    BEGIN(const float, bias);
    BEGIN(float, scratch);
    BEGIN(T, y);
    FINISH_BEGIN
    vec sums[POINTS * 2 * LARGE];
    scratch += get_global_id(0) * g->scratch;
    const uint panels = (g->filters + PANEL - 1) / PANEL;
    uint transformed = UINT_MAX;    // the block that scratch memory holds
    const uint to_unit = (ulong)g->units * (get_global_id(0) + 1) / get_global_size(0);
    for (uint unit = (ulong)g->units * get_global_id(0) / get_global_size(0); unit < to_unit; ++unit) {
        const uint split = unit % g->splits, block = unit / g->splits;
        const uint first = block * g->at_once, count = min(g->at_once, g->squares - first);
        if (transformed != block) transform(scratch, x, g, first, count);
        transformed = block;
        const uint to_panel = min(panels, (split + 1) * g->each);
        for (uint panel = split * g->each; panel < to_panel; ++panel) {
            const uint filter = panel * PANEL, columns = min((uint)PANEL, g->filters - filter);
            for (uint i = 0; i < count; i += LARGE) {
                const uint rows = min((uint)LARGE, count - i);
                for (uint point = 0; point < POINTS; ++point) {
                    tile(rows, columns, scratch + (point * g->at_once + i) * g->line, g->line,
                         weights + ((ulong)panel * POINTS + point) * g->channels * PANEL, g->channels,
                         sums + point * 2 * LARGE);
                }
                for (uint r = 0; r < 2 * rows; ++r) {
                    const uint square = first + i + r / 2, line = square / g->columns;
                    const uint channel = filter + r % 2 * VECTOR;
                    if (channel >= g->filters) continue;
                    const uint row = line % g->rows * SIDE, column = square % g->columns * SIDE;
                    const uint to = line / g->rows * g->out_at[0] + row * g->out_at[2] + column * g->out_at[3] + channel;
                    const vec add = VLOAD(0, bias + channel);
                    vec v[POINTS];
                    #pragma unroll
                    for (int p = 0; p < POINTS; ++p) v[p] = sums[p * 2 * LARGE + r];
                    #pragma unroll
                    for (int p = 0; p < SQUARE; ++p) back(v + p, SQUARE);
                    #pragma unroll
                    for (int p = 0; p < SIDE; ++p) {
                        back(v + p * SQUARE, 1);
                        if (row + p >= g->out_size[0]) continue;
                        const uint at = to + p * g->out_at[2];
                        put_vector(y, at, channel, v[p * SQUARE] + add FINISH_NAMES);
                        if (column + 1 < g->out_size[1]) {
                            put_vector(y, at + g->out_at[3], channel, v[p * SQUARE + 1] + add FINISH_NAMES);
                        }
                    }
                }
            }
        }
    }
}
