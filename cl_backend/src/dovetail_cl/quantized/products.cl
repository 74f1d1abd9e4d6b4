// Products of quantized tensors on a CPU: convolutions, and rows by a constant matrix.
//
// As in `convolution/tiles.cl`: a work item packs what the windows of some pixels see, less its
// zero point, in 16 bits, and multiplies that by weights that were packed before. Two neighbours of
// the depth are one TERM of 32 bits, so that one instruction multiplies and adds up both. Vectors
// go along filters, and rows are pixels, where the channels of a pixel are neighbours; else vectors
// go along pixels, and rows are filters. Depth is ordered by tap, then by channel.
//
// T: type of images and results. VECTOR: terms of a vector. CHANNELS_LAST: see above.

typedef struct {
    int in_size[2], out_size[2], taps[2], stride[2], start[2], between[2];
    uint in_at[4], out_at[4];   // elements between images, channels, rows and columns
    uint out_from;              // elements before the first pixel
    uint in_elements;
    uint channels, filters;     // of a group
    uint pixels;                // of an image; of all images where channels are last
    uint depth, terms;          // terms: half of the depth, rounded up
    uint line;                  // terms between packed pixels where channels are last
    uint at_once;               // pixels that are packed together
    uint blocks;                // of so many pixels; of all images
    uint each;                  // tiles of filters, or panels of them, of a work unit
    uint splits, units;
    uint scratch;               // terms of scratch memory of a work item
    int zero, out_zero, low, high;
} geometry;

// Elements of 16 at a time, whatever a vector of terms has.
#define AT_ONCE 16
#define WIDEN(p, g) (convert_short16(vload16(0, p)) - (short16)(short)(g)->zero)
#define NARROW NAMED(convert_, NAMED(T, VECTOR))


// The first n results of a panel.
static void put(__global T *to, const vec low, const vec high, const uint n)
{
    if (n == PANEL) {
        VSTORE(NARROW(low), 0, to);
        VSTORE(NARROW(high), 1, to);
        return;
    }
    int results[PANEL];
    VSTORE(low, 0, results);
    VSTORE(high, 1, results);
    for (uint j = 0; j < n; ++j) to[j] = results[j];
}

#if CHANNELS_LAST
// These two write whole vectors: what they write too much is overwritten by what comes behind.
static void clear(__global short *to, const uint n)
{
    for (uint i = 0; i < n; i += AT_ONCE) vstore16((short16)0, 0, to + i);
}

static void copy(__global short *to, const __global T *x, const geometry *g, const uint from, const uint n)
{
    uint i = 0;
    for (; i < n && from + i + AT_ONCE <= g->in_elements; i += AT_ONCE) vstore16(WIDEN(x + from + i, g), 0, to + i);
    for (; i < n; ++i) to[i] = x[from + i] - g->zero;
}

// What the window of a pixel sees of a group of channels.
static void pack_pixel(__global short *to, const __global T *x, const geometry *g, const uint pixel, const uint channel)
{
    const uint row = pixel / g->out_size[1] % g->out_size[0], image = pixel / g->out_size[1] / g->out_size[0];
    const int column = (int)(pixel % g->out_size[1]) * g->stride[1] + g->start[1];
    const bool is_joined = g->between[1] == 1 && g->channels == g->in_at[3];
    for (int tap_row = 0; tap_row < g->taps[0]; ++tap_row) {
        const int at_row = (int)row * g->stride[0] + g->start[0] + tap_row * g->between[0];
        const uint first = image * g->in_at[0] + at_row * g->in_at[2] + channel;
        const bool is_inside = at_row >= 0 && at_row < g->in_size[0];
        if (is_joined) {
            const int low = is_inside ? clamp(-column, 0, g->taps[1]) : g->taps[1];
            const int high = is_inside ? clamp(g->in_size[1] - column, low, g->taps[1]) : low;
            clear(to, low * g->channels);
            to += low * g->channels;
            if (high > low) copy(to, x, g, first + (column + low) * g->in_at[3], (high - low) * g->channels);
            to += (high - low) * g->channels;
            clear(to, (g->taps[1] - high) * g->channels);
            to += (g->taps[1] - high) * g->channels;
            continue;
        }
        for (int tap = 0; tap < g->taps[1]; ++tap) {
            const int at = column + tap * g->between[1];
            if (!is_inside || at < 0 || at >= g->in_size[1]) clear(to, g->channels);
            else copy(to, x, g, first + at * g->in_at[3], g->channels);
            to += g->channels;
        }
    }
}
#else
// Pixels of a line of the image, so many apart, to lanes; whole vectors are written, as above.
static void copy_lanes(short *lanes, const __global T *x, const geometry *g, const uint from, const uint n)
{
    const int stride = g->stride[1];
    uint i = 0;
    if (stride == 1) {
        for (; i < n && from + i + AT_ONCE <= g->in_elements; i += AT_ONCE) vstore16(WIDEN(x + from + i, g), 0, lanes + i);
    } else if (stride == 2) {
        for (; i < n && from + 2 * (i + AT_ONCE) <= g->in_elements; i += AT_ONCE) {
            const short16 low = WIDEN(x + from + 2 * i, g), high = WIDEN(x + from + 2 * i + AT_ONCE, g);
            vstore16((short16)(low.even, high.even), 0, lanes + i);
        }
    }
    for (; i < n; ++i) lanes[i] = x[from + i * stride] - g->zero;
}

// What the windows of some pixels see: packed[term][pixel].
static void pack_panel(__global int *to, const __global T *x, const geometry *g, const uint channel_from, const uint first,
                       const uint count)
{
    run runs[3 * PANEL];
    short lanes[2][PANEL + AT_ONCE];
    uint part = 0;
    for (int tap = 0; tap < g->taps[0] * g->taps[1]; ++tap) {
        const int row = g->start[0] + tap / g->taps[1] * g->between[0];
        const int column = g->start[1] + tap % g->taps[1] * g->between[1];
        const uint found = find_runs(runs, g->in_size, g->out_size, g->stride, g->in_at, first, count, row, column);
        for (uint c = 0; c < g->channels; ++c) {
            const uint channel = channel_from + c * g->in_at[1];
            for (uint i = 0; i < found; ++i) {
                short *from = lanes[part] + runs[i].lane;
                if (runs[i].from == OUTSIDE) {
                    for (uint j = 0; j < runs[i].n; j += AT_ONCE) vstore16((short16)0, 0, from + j);
                } else {
                    copy_lanes(from, x, g, channel + runs[i].from, runs[i].n);
                }
            }
            part = !part;
            if (part && (c + 1 < g->channels || tap + 1 < g->taps[0] * g->taps[1])) continue;
            for (uint j = 0; j < PANEL; j += VECTOR) {
                const vec even = NAMED(convert_int, VECTOR)(VLOAD(0, lanes[0] + j)) & 0xFFFF;
                VSTORE(even | NAMED(convert_int, VECTOR)(VLOAD(0, lanes[1] + j)) << 16, 0, to + j);
            }
            to += PANEL;
        }
    }
}
#endif

__kernel void multiply(
    TENSOR(const T, x), CONSTANT(int, weights), CONSTANT(int, bias), CONSTANT(float, factors),
    TENSOR(int, scratch), TENSOR(T, y), const geometry given)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
    BEGIN(const int, weights);
    BEGIN(const int, bias);
    BEGIN(const float, factors);
    BEGIN(int, scratch);
    BEGIN(T, y);
    vec sums[2 * LARGE];
    scratch += get_global_id(0) * g->scratch;
    y += g->out_from;
#if CHANNELS_LAST
    const uint width = PANEL;
#else
    const uint width = LARGE, blocks_of_image = (g->pixels + PANEL - 1) / PANEL;
    uint packed = UINT_MAX;
#endif
    const uint parts = (g->filters + width - 1) / width;
    const uint to_unit = (ulong)g->units * (get_global_id(0) + 1) / get_global_size(0);
    for (uint unit = (ulong)g->units * get_global_id(0) / get_global_size(0); unit < to_unit; ++unit) {
        const uint split = unit % g->splits, block = unit / g->splits % g->blocks, group = unit / g->splits / g->blocks;
        const uint to_part = min(parts, (split + 1) * g->each);
#if CHANNELS_LAST
        const uint first = block * g->at_once, count = min(g->at_once, g->pixels - first);
        for (uint i = 0; i < count; ++i) {
            pack_pixel((__global short *)(scratch + i * g->line), x, g, first + i, group * g->channels);
        }
        for (uint part = split * g->each; part < to_part; ++part) {
            const uint filter = part * PANEL, filters = min((uint)PANEL, g->filters - filter);
            const uint at_panel = (group * parts + part) * PANEL;
            const __global int *b = weights + (ulong)at_panel * g->terms;
            const vec low_add = VLOAD(0, bias + at_panel), high_add = VLOAD(1, bias + at_panel);
            const real low_by = VLOAD(0, factors + at_panel), high_by = VLOAD(1, factors + at_panel);
            for (uint i = 0; i < count; i += LARGE) {
                const uint rows = min((uint)LARGE, count - i);
                tile(rows, filters, scratch + i * g->line, g->line, b, g->terms, sums);
                for (uint r = 0; r < rows; ++r) {
                    const uint pixel = first + i + r, line = pixel / g->out_size[1], image = line / g->out_size[0];
                    const vec low = FINISHED(sums[2 * r] + low_add, low_by, g);
                    const vec high = FINISHED(sums[2 * r + 1] + high_add, high_by, g);
                    put(y + image * g->out_at[0] + line % g->out_size[0] * g->out_at[2]
                            + pixel % g->out_size[1] * g->out_at[3] + group * g->filters + filter,
                        low, high, filters);
                }
            }
        }
#else
        const uint image = block / blocks_of_image, first = block % blocks_of_image * PANEL;
        const uint count = min((uint)PANEL, g->pixels - first);
        if (packed != group * g->blocks + block) {
            packed = group * g->blocks + block;
            pack_panel(scratch, x, g, image * g->in_at[0] + group * g->channels * g->in_at[1], first, count);
        }
        for (uint part = split * g->each; part < to_part; ++part) {
            const uint filter = part * LARGE, rows = min((uint)LARGE, g->filters - filter);
            const uint at = (group * parts + part) * LARGE;
            tile(rows, count, weights + (ulong)at * g->terms, 0, scratch, g->terms, sums);
            for (uint r = 0; r < rows; ++r) {
                const vec add = (vec)(bias[at + r]);
                const real by = (real)(factors[at + r]);
                const vec low = FINISHED(sums[2 * r] + add, by, g);
                const vec high = FINISHED(sums[2 * r + 1] + add, by, g);
                __global T *plane = y + image * g->out_at[0] + (group * g->filters + filter + r) * g->out_at[1];
                if (g->out_at[3] == 1 && g->out_at[2] == g->out_size[1]) {
                    put(plane + first, low, high, count);
                } else {
                    sums[2 * r] = low;
                    sums[2 * r + 1] = high;
                    for (uint j = 0; j < count; ++j) {
                        const uint row = (first + j) / g->out_size[1], column = (first + j) % g->out_size[1];
                        plane[row * g->out_at[2] + column * g->out_at[3]] = ((const int *)(sums + 2 * r))[j];
                    }
                }
            }
        }
#endif
    }
}
