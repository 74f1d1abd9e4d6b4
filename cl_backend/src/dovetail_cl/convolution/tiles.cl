// Convolutions on a CPU: a work item packs what the windows of some pixels see, and multiplies that
// by weights that were packed before, a tile of rows by a panel of two vectors at a time.
//
// Vectors go along filters, and rows are pixels, where the channels of a pixel are neighbours; else
// vectors go along pixels, and rows are filters. Depth is ordered by tap, then by channel.
//
// T: type of the elements. VECTOR: terms of a vector. CHANNELS_LAST: see above.
// PACKED: type of what is packed. TERM: so many FACTORS of it, that are multiplied at once; SUM:
// type of sums. CHUNK: elements that are packed together: PACK(p, v) writes what READ(x, i) reads,
// or OUTSIDE_OF(g).
// SEPARABLE: what is multiplied is not packed but made by a convolution of single channels, and by
// MIDDLE(v) of its sums; see windows.cl.

typedef struct {
    int in_size[2], out_size[2], taps[2], stride[2], start[2], between[2];
    uint in_at[4], out_at[4];   // elements between images, channels, rows and columns
    uint out_from;              // elements before the first pixel
    uint in_elements;
    uint channels, filters;     // of a group
    uint pixels;                // of an image; of all images where channels are last
    uint depth, terms;          // terms: of so many factors each
    uint line;                  // elements between packed pixels where channels are last
    uint at_once;               // pixels that are packed together
    uint blocks;                // of so many pixels; of all images
    uint each;                  // tiles of filters, or panels of them, of a work unit
    uint splits, units;
    uint scratch;               // packed elements of scratch memory of a work item
    uint is_dense;              // whether results of pixels follow each other, of all images
    uint outside;               // FACTORS of packed elements outside of images
} geometry;

#if SEPARABLE
// What the convolution of single channels makes of `count` pixels from the pixel `first` on.
void filter_pixels(__global float *to, const __global T *x, const __global float *weights, const __global float *bias,
                   const windows *w, const geometry *g, const uint first, const uint count)
{
    for (uint i = 0, n; i < count; i += n) {
        const uint column = (first + i) % g->out_size[1], line = (first + i) / g->out_size[1];
        n = min((uint)BLOCK, min(count - i, g->out_size[1] - column));
        const sight s = seen(w, line % g->out_size[0], column, n);
        const __global T *image = x + line / g->out_size[0] * w->in_at[0];
        for (uint wanted = 0; wanted < w->channels; wanted += VECTOR) {
            const uint channel = min(wanted, w->channels - VECTOR);
            vec sums[BLOCK];
            sum_windows(sums, image + channel, weights + channel, w, &s, VLOAD(0, bias + channel));
            #pragma unroll
            for (uint r = 0; r < BLOCK; ++r) {
                if (r < n) VSTORE(MIDDLE(sums[r]), 0, to + (i + r) * g->line + channel);
            }
        }
    }
}
#elif CHANNELS_LAST
// These two write whole vectors: what they write too much is overwritten by what comes behind.
void clear(__global PACKED *to, const geometry *g, const uint n)
{
    for (uint i = 0; i < n; i += CHUNK) PACK(to + i, OUTSIDE_OF(g));
}

void copy(__global PACKED *to, const __global T *x, const uint from, const uint n, const uint end)
{
    uint i = 0;
    for (; i < n && from + i + CHUNK <= end; i += CHUNK) PACK(to + i, READ(x, from + i));
    for (; i < n; ++i) to[i] = LOAD_AS(T, x, from + i);
}

// What the window of a pixel sees of a group of channels; it begins at a row and a column.
void pack_pixel(__global PACKED *to, const __global T *x, const geometry *g, const uint image, const int row,
                const int column, const uint channel)
{
    const bool is_joined = g->between[1] == 1 && g->channels == g->in_at[3];
    for (int tap_row = 0; tap_row < g->taps[0]; ++tap_row) {
        const int at_row = row + tap_row * g->between[0];
        if (at_row < 0 || at_row >= g->in_size[0]) {
            clear(to, g, g->taps[1] * g->channels);
            to += g->taps[1] * g->channels;
            continue;
        }
        const uint first = image * g->in_at[0] + at_row * g->in_at[2] + channel;
        if (is_joined) {
            const int low = clamp(-column, 0, g->taps[1]), high = clamp(g->in_size[1] - column, low, g->taps[1]);
            clear(to, g, low * g->channels);
            to += low * g->channels;
            if (high > low) copy(to, x, first + (column + low) * g->in_at[3], (high - low) * g->channels, g->in_elements);
            to += (high - low) * g->channels;
            clear(to, g, (g->taps[1] - high) * g->channels);
            to += (g->taps[1] - high) * g->channels;
            continue;
        }
        for (int tap = 0; tap < g->taps[1]; ++tap) {
            const int at = column + tap * g->between[1];
            if (at < 0 || at >= g->in_size[1]) clear(to, g, g->channels);
            else copy(to, x, first + at * g->in_at[3], g->channels, g->in_elements);
            to += g->channels;
        }
    }
}

// What the windows of pixels from a column up to another see, which lie in one row of an image.
void pack_run(__global PACKED *to, const __global T *x, const geometry *g, const uint image, const int out_row,
              const int from, const int until, const uint channel)
{
    const int row = out_row * g->stride[0] + g->start[0], reach = (g->taps[1] - 1) * g->between[1];
    const int before = g->start[1] + min(0, reach), behind = g->start[1] + max(0, reach);
    // Columns whose windows lie within the rows of the image.
    const int low = clamp((max(0, -before) + g->stride[1] - 1) / g->stride[1], from, until);
    const int high = behind >= g->in_size[1] ? low : clamp((g->in_size[1] - 1 - behind) / g->stride[1] + 1, low, until);
    for (int j = from; j < until; ++j) {
        if (j == low) j = high;
        if (j == until) break;
        pack_pixel(to + (j - from) * g->line, x, g, image, row, j * g->stride[1] + g->start[1], channel);
    }
    const bool is_joined = g->between[1] == 1 && g->channels == g->in_at[3];
    const uint runs = is_joined ? 1 : g->taps[1], n = (is_joined ? g->taps[1] : 1) * g->channels;
    const uint whole = (n + CHUNK - 1) / CHUNK * CHUNK, step = g->stride[1] * g->in_at[3];
    for (int tap_row = 0; tap_row < g->taps[0]; ++tap_row) {
        const int at_row = row + tap_row * g->between[0];
        const bool is_inside = at_row >= 0 && at_row < g->in_size[0];
        for (uint run = 0; run < runs; ++run) {
            __global PACKED *packed = to + (low - from) * g->line + (tap_row * runs + run) * n;
            uint at = image * g->in_at[0] + at_row * g->in_at[2] + channel;
            at += (low * g->stride[1] + g->start[1] + (int)run * g->between[1]) * g->in_at[3];
            for (int j = low; j < high; ++j, packed += g->line, at += step) {
                if (!is_inside) {
                    for (uint i = 0; i < n; i += CHUNK) PACK(packed + i, OUTSIDE_OF(g));
                } else if (at + whole <= g->in_elements) {
                    for (uint i = 0; i < n; i += CHUNK) PACK(packed + i, READ(x, at + i));
                } else {
                    copy(packed, x, at, n, g->in_elements);
                }
            }
        }
    }
}

#endif

#if CHANNELS_LAST
// Elements before the results of a pixel.
uint place(const geometry *g, const uint pixel)
{
    if (g->is_dense) return pixel * g->out_at[3];
    const uint line = pixel / g->out_size[1], image = line / g->out_size[0];
    return image * g->out_at[0] + line % g->out_size[0] * g->out_at[2] + pixel % g->out_size[1] * g->out_at[3];
}

__kernel void convolve(
    TENSOR(const T, x),
#if SEPARABLE
    CONSTANT(float, taps), CONSTANT(float, added),
#endif
    CONSTANT(SUM, weights), CONSTANT(SUM, bias), TENSOR(PACKED, scratch), TENSOR(T, y),
#if SEPARABLE
    const windows single,
#endif
    const geometry given FINISH_PARAMETERS)
{
    const geometry copied = given, *g = &copied;
    BEGIN(const T, x);
#if SEPARABLE
    const windows copied_single = single;
    BEGIN(const float, taps);
    BEGIN(const float, added);
#endif
    BEGIN(const SUM, weights);
    BEGIN(const SUM, bias);
    BEGIN(PACKED, scratch);
    BEGIN(T, y);
    FINISH_BEGIN
    vec sums[2 * LARGE];
    scratch += get_global_id(0) * g->scratch;
    uint packed = UINT_MAX;     // the block, and the group of channels, that scratch memory holds
    const uint panels = (g->filters + PANEL - 1) / PANEL;
    const uint to_unit = (ulong)g->units * (get_global_id(0) + 1) / get_global_size(0);
    for (uint unit = (ulong)g->units * get_global_id(0) / get_global_size(0); unit < to_unit; ++unit) {
        const uint split = unit % g->splits, block = unit / g->splits % g->blocks, group = unit / g->splits / g->blocks;
        const uint first = block * g->at_once, count = min(g->at_once, g->pixels - first);
        uint in_place = 0;
#if IN_PLACE
        in_place = count / LARGE * LARGE;       // as many as whole tiles take
#endif
        if (packed != unit / g->splits) {
            packed = unit / g->splits;
#if SEPARABLE
            filter_pixels(scratch, x, taps, added, &copied_single, g, first, count);
#else
            for (uint i = in_place, n; i < count; i += n) {
                const uint row = (first + i) / g->out_size[1], column = (first + i) % g->out_size[1];
                n = min(count - i, g->out_size[1] - column);
                pack_run(scratch + (i - in_place) * g->line, x, g, row / g->out_size[0], row % g->out_size[0], column,
                         column + n, group * g->channels);
            }
#endif
        }
        const uint to_panel = min(panels, (split + 1) * g->each);
        for (uint panel = split * g->each; panel < to_panel; ++panel) {
            const uint filter = panel * PANEL, filters = min((uint)PANEL, g->filters - filter);
            const __global SUM *b = weights + (group * panels + panel) * (ulong)g->terms * PANEL;
            const vec low = VLOAD(0, bias + (group * panels + panel) * PANEL);
            const vec high = VLOAD(1, bias + (group * panels + panel) * PANEL);
            for (uint i = 0; i < count; i += LARGE) {
                const uint rows = min((uint)LARGE, count - i);
#if IN_PLACE
                if (i < in_place) {
                    tile(rows, filters, (const __global TERM *)(x + (first + i) * g->in_at[3] + group * g->channels),
                         g->in_at[3] / FACTORS, b, g->terms, sums);
                } else
#endif
                tile(rows, filters, (const __global TERM *)(scratch + (i - in_place) * g->line), g->line / FACTORS, b, g->terms,
                     sums);
                const uint channel = group * g->filters + filter;
                for (uint r = 0; r < rows; ++r) {
                    const uint to = g->out_from + place(g, first + i + r) + channel;
                    put(y, to, channel, sums[2 * r] + low, filters FINISH_NAMES);
                    if (filters > VECTOR) {
                        put(y, to + VECTOR, channel + VECTOR, sums[2 * r + 1] + high, filters - VECTOR FINISH_NAMES);
                    }
                }
            }
        }
    }
}

#else
// What the windows of some pixels see: packed[tap][channel][pixel].
void pack_panel(__global float *to, const __global T *x, const geometry *g, const uint channel_from, const uint first,
                const uint count)
{
    run runs[3 * PANEL];
    for (int tap_row = 0; tap_row < g->taps[0]; ++tap_row) {
        for (int tap = 0; tap < g->taps[1]; ++tap) {
            const int row = g->start[0] + tap_row * g->between[0], column = g->start[1] + tap * g->between[1];
            const uint found = find_runs(runs, g->in_size, g->out_size, g->stride, g->in_at, first, count, row, column);
            for (uint c = 0; c < g->channels; ++c) {
                const uint channel = channel_from + c * g->in_at[1];
                for (uint i = 0; i < found; ++i) {
                    __global float *lanes = to + runs[i].lane;
                    if (runs[i].from == OUTSIDE) {
                        for (uint j = 0; j < runs[i].n; j += VECTOR) VSTORE((vec)(0.0f), 0, lanes + j);
                    } else {
                        copy_line(lanes, x, channel + runs[i].from, runs[i].n, g->stride[1], g->in_elements);
                    }
                }
                to += PANEL;
            }
        }
    }
}

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
    vec sums[2 * LARGE];
    uint places[PANEL];
    scratch += get_global_id(0) * g->scratch;
    const uint tiles = (g->filters + LARGE - 1) / LARGE, blocks_each = (g->pixels + PANEL - 1) / PANEL;
    const bool is_joined = g->out_at[3] == 1 && g->out_at[2] == g->out_size[1];
    const uint to_unit = (ulong)g->units * (get_global_id(0) + 1) / get_global_size(0);
    for (uint unit = (ulong)g->units * get_global_id(0) / get_global_size(0); unit < to_unit; ++unit) {
        const uint split = unit % g->splits, block = unit / g->splits % g->blocks, group = unit / g->splits / g->blocks;
        const uint image = block / blocks_each, first = block % blocks_each * PANEL;
        const uint count = min((uint)PANEL, g->pixels - first);
        pack_panel(scratch, x, g, image * g->in_at[0] + group * g->channels * g->in_at[1], first, count);
        for (uint j = 0; j < count; ++j) {
            places[j] = (first + j) / g->out_size[1] * g->out_at[2] + (first + j) % g->out_size[1] * g->out_at[3];
        }
        const uint to_tile = min(tiles, (split + 1) * g->each);
        for (uint t = split * g->each; t < to_tile; ++t) {
            const uint rows = min((uint)LARGE, g->filters - t * LARGE);
            tile(rows, count, weights + (group * tiles + t) * (ulong)g->depth * LARGE, 1, scratch, g->depth, sums);
            for (uint r = 0; r < rows; ++r) {
                const vec add = (vec)(bias[(group * tiles + t) * LARGE + r]);
                const uint channel = group * g->filters + t * LARGE + r;
                const uint to = g->out_from + image * g->out_at[0] + channel * g->out_at[1];
                if (is_joined) {
                    put(y, to + first, channel, sums[2 * r] + add, count FINISH_NAMES);
                    if (count > VECTOR) {
                        put(y, to + first + VECTOR, channel, sums[2 * r + 1] + add, count - VECTOR FINISH_NAMES);
                    }
                    continue;
                }
                for (uint j = 0; j < count; ++j) {
                    put_some(y, to + places[j], channel, (vec)(((const float *)(sums + 2 * r))[j]) + add, 1 FINISH_NAMES);
                }
            }
        }
    }
}
#endif
