// Quantized convolutions of single channels on a CPU.
//
// As in `convolution/depthwise.cl`, but two rows of a window are treated at once: what they see is
// one term of two factors of 16 bits. Elements are taken as they are, and those outside of the
// image are the zero point; so `bias` is less the zero point times the sum of the weights.
//
// T: type of images and results. VECTOR: terms of a vector. CHANNELS_LAST: vectors go along
// channels, else along the pixels of a row.

typedef struct {
    int in_size[2], out_size[2], taps[2], stride[2], start[2], between[2];
    uint in_at[4], out_at[4];   // elements between images, channels, rows and columns
    uint in_elements;
    uint groups, filters;       // filters of a group
    uint pairs;                 // of rows of a window
    uint band, bands;           // rows of a work unit, and how many bands of them there are
    uint residue;               // packed: terms of the columns with one residue
    uint chunk, chunks;         // channels of a work unit
    uint units;
    uint scratch;               // terms of scratch memory of a work item
    int zero, out_zero, low, high;
} geometry;

#define ROWS 4
#define MAX_STRIDE 4           // as the host says
#define REPEAT(DO) DO(0) DO(1) DO(2) DO(3)
#define DECLARE(r) vec sum##r = add;
#define KEEP(r) VSTORE(FINISHED(sum##r, by, g), r, results);
#define WIDEN(p) NAMED(convert_int, VECTOR)(VLOAD(0, p))
#define NARROW NAMED(convert_, NAMED(T, VECTOR))
#define TERM_OF(v, w) (((v) & 0xFFFF) | (w) << 16)

#if CHANNELS_LAST
__kernel void convolve(
    TENSOR(const T, x), CONSTANT(int, weights), CONSTANT(int, bias), CONSTANT(float, factors), TENSOR(T, y),
    const geometry given)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
    BEGIN(const int, weights);
    BEGIN(const int, bias);
    BEGIN(const float, factors);
    BEGIN(T, y);
    int results[ROWS * VECTOR];
    const vec nothing = (vec)(g->zero);
    const uint to_unit = (ulong)g->units * (get_global_id(0) + 1) / get_global_size(0);
    for (uint unit = (ulong)g->units * get_global_id(0) / get_global_size(0); unit < to_unit; ++unit) {
        const uint chunk = unit % g->chunks, line = unit / g->chunks;
        const int row = line % g->out_size[0] * g->stride[0] + g->start[0];
        const uint image = line / g->out_size[0], to_channel = min(g->groups, (chunk + 1) * g->chunk);
        for (uint wanted = chunk * g->chunk; wanted < to_channel; wanted += VECTOR) {
            const uint channel = min(wanted, g->groups - VECTOR);
            const vec add = VLOAD(0, bias + channel);
            const real by = VLOAD(0, factors + channel);
            __global T *to = y + image * g->out_at[0] + line % g->out_size[0] * g->out_at[2] + channel;
            for (int column = 0; column < g->out_size[1]; column += ROWS) {
                const int at = column * g->stride[1] + g->start[1];
                const int last = at + (ROWS - 1) * g->stride[1] + (g->taps[1] - 1) * g->between[1];
                const bool is_inside = at >= 0 && last < g->in_size[1];
                REPEAT(DECLARE)
                for (uint pair = 0; pair < g->pairs; ++pair) {
                    const int first = row + 2 * (int)pair * g->between[0], second = first + g->between[0];
                    const bool has_first = first >= 0 && first < g->in_size[0];
                    const bool has_second = second >= 0 && second < g->in_size[0];
                    const __global int *w = weights + pair * g->taps[1] * g->groups + channel;
                    const __global T *from = x + image * g->in_at[0] + channel;
                    const __global T *from_first = from + (has_first ? first : 0) * g->in_at[2];
                    const __global T *from_second = from + (has_second ? second : 0) * g->in_at[2];
                    for (int tap = 0; tap < g->taps[1]; ++tap) {
                        const vec weight = VLOAD(0, w + tap * g->groups);
                        const int position = at + tap * g->between[1];
#define SEE(r)                                                                                     \
    {                                                                                              \
        const uint p = (uint)(position + r * g->stride[1]) * g->in_at[3];                          \
        const vec v = has_first ? WIDEN(from_first + p) : nothing;                                 \
        sum##r = ADD_PRODUCT(TERM_OF(v, has_second ? WIDEN(from_second + p) : nothing), weight, sum##r); \
    }
#define SEE_WHERE_INSIDE(r)                                                                        \
    if (position + r * g->stride[1] >= 0 && position + r * g->stride[1] < g->in_size[1]) {         \
        SEE(r)                                                                                     \
    } else {                                                                                       \
        sum##r = ADD_PRODUCT(TERM_OF(nothing, nothing), weight, sum##r);                           \
    }
                        if (is_inside) {
                            REPEAT(SEE)
                        } else {
                            REPEAT(SEE_WHERE_INSIDE)
                        }
                    }
                }
                REPEAT(KEEP)
                for (int r = 0; r < min(ROWS, g->out_size[1] - column); ++r) {
                    VSTORE(NARROW(VLOAD(r, results)), 0, to + (column + r) * g->out_at[3]);
                }
            }
        }
    }
}

#else
// A vector of pixels of a row, `stride` apart; nothing is read from `end` on.
static vec pixels_at(const __global T *x, const uint from, const uint n, const int stride, const uint end)
{
    if (stride == 1 && from + VECTOR <= end) return WIDEN(x + from);
    if (stride == 2 && from + 2 * VECTOR <= end) {
        return (vec)(WIDEN(x + from).even, WIDEN(x + from + VECTOR).even);
    }
    int some[VECTOR];
    for (uint i = 0; i < VECTOR; ++i) some[i] = i < n ? x[from + i * stride] : 0;
    return VLOAD(0, some);
}

// The rows that a band of a plane sees, each with the one that the next row of a window sees:
// packed[row][residue of the stride][column].
static void pack_plane(__global int *to, const __global T *x, const geometry *g, const uint plane, const int first,
                       const uint rows)
{
    const int stride = g->stride[1], n = g->residue;
    const vec nothing = (vec)(g->zero);
    for (uint i = 0; i < rows; ++i) {
        const int row = first + (int)i, next = row + g->between[0];
        const bool has_row = row >= 0 && row < g->in_size[0], has_next = next >= 0 && next < g->in_size[0];
        for (int residue = 0; residue < stride; ++residue) {
            const int at = residue + g->start[1];
            const int low = at >= 0 ? 0 : min(n, (stride - 1 - at) / stride);
            const int high = clamp(at >= g->in_size[1] ? 0 : (g->in_size[1] - 1 - at) / stride + 1, low, n);
            for (int j = 0; j < low; j += VECTOR) VSTORE(TERM_OF(nothing, nothing), 0, to + j);
            for (int j = low; j < high; j += VECTOR) {
                const uint from = plane + at + j * stride, many = high - j;
                const vec v = has_row ? pixels_at(x, from + row * g->in_at[2], many, stride, g->in_elements) : nothing;
                const vec w = has_next ? pixels_at(x, from + next * g->in_at[2], many, stride, g->in_elements) : nothing;
                VSTORE(TERM_OF(v, w), 0, to + j);
            }
            for (int j = high; j < n; j += VECTOR) VSTORE(TERM_OF(nothing, nothing), 0, to + j);
            to += n;
        }
    }
}

__kernel void convolve(
    TENSOR(const T, x), CONSTANT(int, weights), CONSTANT(int, bias), CONSTANT(float, factors),
    CONSTANT(uint, places), TENSOR(int, scratch), TENSOR(T, y), const geometry given)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
    BEGIN(const int, weights);
    BEGIN(const int, bias);
    BEGIN(const float, factors);
    BEGIN(const uint, places);
    BEGIN(int, scratch);
    BEGIN(T, y);
    int results[ROWS * VECTOR];
    scratch += get_global_id(0) * g->scratch;
    const uint terms = g->pairs * g->taps[1], columns = g->out_size[1];
    const uint down = g->stride[0] * g->stride[1] * g->residue;     // terms to what the next row sees
    const uint to_unit = (ulong)g->units * (get_global_id(0) + 1) / get_global_size(0);
    for (uint unit = (ulong)g->units * get_global_id(0) / get_global_size(0); unit < to_unit; ++unit) {
        const uint band = unit % g->bands, group = unit / g->bands % g->groups, image = unit / g->bands / g->groups;
        const uint first = band * g->band, rows = min(g->band, g->out_size[0] - first);
        pack_plane(scratch, x, g, image * g->in_at[0] + group * g->in_at[1], (int)first * g->stride[0] + g->start[0],
                   (rows - 1) * g->stride[0] + (g->taps[0] - 1) * g->between[0] + 1);
        for (uint filter = group * g->filters; filter < (group + 1) * g->filters; ++filter) {
            const __global int *w = weights + filter * terms;
            const vec add = (vec)(bias[filter]);
            const real by = (real)(factors[filter]);
            for (uint row = 0; row < rows; row += ROWS) {
                for (uint wanted = 0; wanted < columns; wanted += VECTOR) {
                    const uint column = columns < VECTOR ? 0 : min(wanted, columns - VECTOR);
                    const __global int *from = scratch + row * down + column;
                    REPEAT(DECLARE)
                    for (uint term = 0; term < terms; ++term) {
                        const vec weight = (vec)(w[term]);
                        const __global int *at = from + places[term];
#define SEE(r) sum##r = ADD_PRODUCT(VLOAD(0, at + r * down), weight, sum##r);
                        REPEAT(SEE)
                    }
                    REPEAT(KEEP)
                    __global T *to = y + image * g->out_at[0] + filter * g->out_at[1] + (first + row) * g->out_at[2] + column;
                    for (uint r = 0; r < min((uint)ROWS, rows - row); ++r) {
                        if (columns >= VECTOR) {
                            VSTORE(NARROW(VLOAD(r, results)), 0, to + r * columns);
                        } else {
                            for (uint j = 0; j < columns; ++j) to[r * columns + j] = results[r * VECTOR + j];
                        }
                    }
                }
            }
        }
    }
}
#endif
