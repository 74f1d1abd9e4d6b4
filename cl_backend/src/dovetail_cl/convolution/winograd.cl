// Convolutions of 3 x 3 taps on a CPU by Winograd's F(4 x 4, 3 x 3) (Lavin and Gray 2015): squares
// of 6 x 6 pixels become 36 numbers, whose products with those of the filters are summed over
// channels, and become 4 x 4 results. The points are 0, +-5/8, +-3/2 and infinity, of which errors
// are small.
//
// T: type of the elements. Channels are neighbours.

#define SIDE 4
#define SQUARE (SIDE + 2)
#define POINTS (SQUARE * SQUARE)
#define A 0.625f
#define B 1.5f

typedef struct {
    int in_size[2], out_size[2], start[2];
    uint in_at[4], out_at[4];   // elements between images, channels, rows and columns
    uint channels, filters;
    uint rows, columns;         // of the squares of an image
    uint squares;               // of all images
    uint at_once, blocks;       // squares that are multiplied together
    uint line;                  // floats of one number of a square
    uint units;
    uint scratch;               // floats of scratch memory of a work item
} geometry;

// Six numbers of a line of pixels, `step` apart.
static void __attribute__((always_inline)) into(vec *to, const vec *x, const int step)
{
    const vec both = -A * A - B * B, product = A * A * B * B;
    const vec x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step], x5 = x[5 * step];
    const vec even_a = fma((vec)(-B * B), x2, x4), odd_a = fma((vec)(-B * B), x1, x3);
    const vec even_b = fma((vec)(-A * A), x2, x4), odd_b = fma((vec)(-A * A), x1, x3);
    to[0] = fma(product, x0, fma(both, x2, x4));
    to[step] = fma((vec)(A), odd_a, even_a);
    to[2 * step] = fma((vec)(-A), odd_a, even_a);
    to[3 * step] = fma((vec)(B), odd_b, even_b);
    to[4 * step] = fma((vec)(-B), odd_b, even_b);
    to[5 * step] = fma(product, x1, fma(both, x3, x5));
}

// Four results of a line of six sums.
static void __attribute__((always_inline)) back(vec *to, const vec *x, const int step)
{
    const vec x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step], x5 = x[5 * step];
    const vec even_a = x1 + x2, odd_a = x1 - x2, even_b = x3 + x4, odd_b = x3 - x4;
    to[0] = x0 + (even_a + even_b);
    to[step] = fma((vec)(B), odd_b, odd_a * A);
    to[2 * step] = fma((vec)(B * B), even_b, even_a * (A * A));
    to[3 * step] = fma((vec)(B * B * B), odd_b, fma((vec)(A * A * A), odd_a, x5));
}

// A vector of channels of what a row of squares sees: strip[row][column][channel], zeros outside.
void fill_strip(__global float *strip, const __global T *x, const geometry *g, const uint first, const int top)
{
    const int wanted = g->columns * SIDE + 2, width = g->in_size[1];
    const int low = clamp(-g->start[1], 0, wanted), high = clamp(width - g->start[1], low, wanted);
    for (int y = 0; y < SQUARE; ++y) {
        const int row = top + y;
        const bool is_inside = row >= 0 && row < g->in_size[0];
        const int from = is_inside ? low : wanted, to = is_inside ? high : wanted;
        __global float *line = strip + y * wanted * VECTOR;
        for (int j = 0; j < from; ++j) VSTORE((vec)(0.0f), j, line);
        for (int j = to; j < wanted; ++j) VSTORE((vec)(0.0f), j, line);
        const uint at = first + row * g->in_at[2] + g->start[1] * g->in_at[3];
        for (int j = from; j < to; ++j) VSTORE(READ(x, at + j * g->in_at[3]), j, line);
    }
}

// A work unit is a vector of channels of a row of squares.
__kernel void transform(TENSOR(const T, x), TENSOR(float, scratch), TENSOR(float, numbers), const geometry given)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
    BEGIN(float, scratch);
    BEGIN(float, numbers);
    scratch += get_global_id(0) * g->scratch;
    const uint vectors = g->channels / VECTOR, wanted = g->columns * SIDE + 2, step = g->at_once * g->line;
    const uint to_unit = (ulong)g->units * (get_global_id(0) + 1) / get_global_size(0);
    for (uint unit = (ulong)g->units * get_global_id(0) / get_global_size(0); unit < to_unit; ++unit) {
        const uint channel = unit % vectors * VECTOR, row = unit / vectors, image = row / g->rows;
        const int top = row % g->rows * SIDE + g->start[0];
        fill_strip(scratch, x, g, image * g->in_at[0] + channel * g->in_at[1], top);
        for (uint column = 0; column < g->columns; ++column) {
            const uint square = row * g->columns + column;
            vec v[POINTS];
            #pragma unroll
            for (int y = 0; y < SQUARE; ++y) {
                #pragma unroll
                for (int i = 0; i < SQUARE; ++i) v[y * SQUARE + i] = VLOAD(y * wanted + column * SIDE + i, scratch);
                into(v + y * SQUARE, v + y * SQUARE, 1);
            }
            __global float *to = numbers + (ulong)(square / g->at_once) * POINTS * step;
            to += square % g->at_once * g->line + channel;
            #pragma unroll
            for (int i = 0; i < SQUARE; ++i) into(v + i, v + i, SQUARE);
            #pragma unroll
            for (int i = 0; i < POINTS; ++i) VSTORE(v[i], 0, to + i * step);
        }
    }
}

// Of sums of a square, of a vector of filters, those that lie within the image become results.
void put_square(__global T *y, const vec *sums, const geometry *g, const uint square, const uint filter FINISH_PARAMETERS)
{
    const uint column = square % g->columns * SIDE, line = square / g->columns;
    const uint row = line % g->rows * SIDE, image = line / g->rows;
    const uint rows = min((uint)SIDE, g->out_size[0] - row), columns = min((uint)SIDE, g->out_size[1] - column);
    const uint first = image * g->out_at[0] + row * g->out_at[2] + column * g->out_at[3] + filter * g->out_at[1];
    for (uint r = 0; r < rows; ++r) {
        for (uint j = 0; j < columns; ++j) {
            put_vector(y, first + r * g->out_at[2] + j * g->out_at[3], filter, sums[r * SIDE + j] FINISH_NAMES);
        }
    }
}

// A work unit is a panel of filters of a block of squares.
__kernel void multiply(
    TENSOR(const float, numbers), CONSTANT(float, weights), CONSTANT(float, bias), TENSOR(float, scratch), TENSOR(T, y),
    const geometry given FINISH_PARAMETERS)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const float, numbers);
    BEGIN(const float, weights);
    BEGIN(const float, bias);
    BEGIN(float, scratch);
    BEGIN(T, y);
    FINISH_BEGIN
    vec sums[2 * LARGE];
    scratch += get_global_id(0) * g->scratch;
    const uint to_unit = (ulong)g->units * (get_global_id(0) + 1) / get_global_size(0);
    for (uint unit = (ulong)g->units * get_global_id(0) / get_global_size(0); unit < to_unit; ++unit) {
        const uint panel = unit / g->blocks, block = unit % g->blocks, first = block * g->at_once;
        const uint count = min(g->at_once, g->squares - first), columns = min((uint)PANEL, g->filters - panel * PANEL);
        for (uint point = 0; point < POINTS; ++point) {
            const __global float *a = numbers + ((ulong)block * POINTS + point) * g->at_once * g->line;
            const __global float *b = weights + ((ulong)panel * POINTS + point) * g->channels * PANEL;
            for (uint i = 0; i < count; i += LARGE) {
                const uint rows = min((uint)LARGE, count - i);
                tile(rows, columns, a + i * g->line, g->line, b, g->channels, sums);
                for (uint r = 0; r < 2 * rows; ++r) {
                    VSTORE(sums[r], 2 * (POINTS * (i + r / 2) + point) + r % 2, scratch);
                }
            }
        }
        for (uint i = 0; i < 2 * count; ++i) {
            const uint filter = panel * PANEL + i % 2 * VECTOR;
            if (filter >= g->filters) continue;
            vec v[POINTS], half_way[SQUARE * SIDE], w[SIDE * SIDE];
            #pragma unroll
            for (int point = 0; point < POINTS; ++point) v[point] = VLOAD(2 * POINTS * (i / 2) + 2 * point + i % 2, scratch);
            #pragma unroll
            for (int j = 0; j < SQUARE; ++j) back(half_way + j, v + j, SQUARE);
            vec results[SIDE * SIDE];
            const vec add = VLOAD(0, bias + filter);
            #pragma unroll
            for (int r = 0; r < SIDE; ++r) {
                back(w + r * SIDE, half_way + r * SQUARE, 1);
                #pragma unroll
                for (int j = 0; j < SIDE; ++j) results[r * SIDE + j] = w[r * SIDE + j] + add;
            }
            put_square(y, results, g, first + i / 2, filter FINISH_NAMES);
        }
    }
}
