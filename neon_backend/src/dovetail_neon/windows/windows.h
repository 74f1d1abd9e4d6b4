/* Windows over each channel of blocked images: one vector holds a pixel's channels of a block, so
 * that nothing is ever shuffled.
 *
 * A row is cut into its left border, where windows reach outside, its inside, and its right border.
 * Inside, `pixels` results are computed together; for the common windows everything is unrolled,
 * each element of the image is loaded once per row of the window, and weights of 3 x 3 stay in
 * registers along the row.
 */
#pragma once

#include "dovetail_neon/windows/parameters.h"
#include "dovetail_neon/elementwise/functions.h"
#include "dovetail_neon/geometry/edges.h"
#include "dovetail_neon/workload/spans.h"

namespace dovetail_acc::ACC_ISA {

struct WindowRows {
    const acc_windows *self;
    const acc_job *job;
    const float *in;        /* pixel (0, 0) of the block of channels */
    const float *weights;
    Vector bias;
    float *out;             /* of the first row */
    int64_t y, rows;        /* so many rows from y on, whose windows have the same taps */
    TapRange taps;          /* rows of the window that lie inside the image */
};

struct Depthwise {
    static constexpr bool weighted = true;
    static Vector outside() { return zeros(); }
    INLINE Vector start(const WindowRows &row) { return row.bias; }
    INLINE Vector add(Vector sum, Vector x, Vector w) { return fma(x, w, sum); }
    template <int pixels> INLINE void finish(const WindowRows &row, Vector (&sum)[pixels], int64_t, int64_t) {
        const acc_activation &with = row.self->activation;
        if (with.function == ACC_CLAMP) {
            const Vector low = broadcast(with.a), high = broadcast(with.b);
#pragma GCC unroll 16
            for (int p = 0; p < pixels; p++) sum[p] = minimum(high, maximum(low, sum[p]));
        } else if (with.function != ACC_IDENTITY) {
            /* A copy: sums whose address is handed on would not stay in registers. */
            Vector results[pixels];
#pragma GCC unroll 16
            for (int p = 0; p < pixels; p++) results[p] = sum[p];
            activate(with, results, pixels);
#pragma GCC unroll 16
            for (int p = 0; p < pixels; p++) sum[p] = results[p];
        }
    }
};

struct Maximum {
    static constexpr bool weighted = false;
    static Vector outside() { return broadcast(-__builtin_inff()); }
    INLINE Vector start(const WindowRows &) { return broadcast(-__builtin_inff()); }
    /* NaN wins, and stays. */
    INLINE Vector add(Vector best, Vector x, Vector) { return select(x > best || x != x, x, best); }
    template <int pixels> INLINE void finish(const WindowRows &, Vector (&)[pixels], int64_t, int64_t) {}
};

struct Average {
    static constexpr bool weighted = false;
    static Vector outside() { return zeros(); }
    INLINE Vector start(const WindowRows &) { return zeros(); }
    INLINE Vector add(Vector sum, Vector x, Vector) { return sum + x; }
    template <int pixels> INLINE void finish(const WindowRows &row, Vector (&sum)[pixels], int64_t y, int64_t x) {
        const float *factors = row.self->factors + y * row.self->window.out_width + x;
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++) sum[p] = sum[p] * broadcast(factors[p]);
    }
};

/* How windows of a tile reach outside from left to right: not at all, by the margin on either side,
 * which is then half a window wide and known when this is compiled, or in any way. */
enum Edge { INSIDE = 0, LEFT = 1, RIGHT = 2, BOTH = 3, ANYHOW = 4 };

/* The taps of one row of the window, for `pixels` results; each element of the image is loaded
 * once. */
template <typename Kind, int pixels, int kernel, int stride, Edge edge>
INLINE void add_taps(Vector (&sum)[pixels], const float *line, int64_t column, int64_t width, const float *outside, const Vector (&w)[kernel]) {
    constexpr int count = (pixels - 1) * stride + kernel;
    constexpr int first = edge == LEFT || edge == BOTH ? kernel / 2 : 0, last = edge == RIGHT || edge == BOTH ? count - kernel / 2 : count;
    Vector x[count];
    if constexpr (edge == ANYHOW) {
#pragma GCC unroll 32
        for (int i = 0; i < count; i++) x[i] = load(column_at(line, column + i, width, outside));
    } else {
        /* One address for all of them: GCC would carry one along for each, in memory. */
        const float *from = line + column * LANES;
        asm("" : "+r"(from));
#pragma GCC unroll 32
        for (int i = 0; i < count; i++) x[i] = i >= first && i < last ? load(from + i * LANES) : zeros();
    }
#pragma GCC unroll 7
    for (int kx = 0; kx < kernel; kx++)
#pragma GCC unroll 16
        for (int p = 0; p < pixels; p++)
            if (p * stride + kx >= first && p * stride + kx < last) sum[p] = Kind::add(sum[p], x[p * stride + kx], w[kx]);
}

/* Taps of a row of the window between two looks at the stop word, where one takes long. */
constexpr int64_t TAPS_BETWEEN = 1 << 14;

/* A step in elements; one that leaves the image is never taken, and might not be a number of 64
 * bits. */
INLINE int64_t wrapped_product(int64_t step, int64_t size) { return (int64_t)((uint64_t)step * (uint64_t)size); }

/* `tiles` times `pixels` results of some rows, from x on; at an edge, windows may reach outside
 * from left to right. `kernel`, `stride` and `taps` are 0 if they are only known at run time;
 * weights of so many rows of taps stay in registers. */
template <typename Kind, int pixels, int kernel, int stride, int taps, Edge edge>
static void window_tiles(const WindowRows &row, int64_t x, int64_t tiles) {
    const acc_windows &s = *row.self;
    const int64_t kernel_width = kernel ? kernel : s.window.kernel_width, step = stride ? stride : s.window.stride_x, dilation = kernel ? 1 : s.window.dilation_x;
    const int64_t kernel_height = taps ? taps : row.taps.last - row.taps.first, width = s.window.in_width, out_step = s.window.out_width * LANES;
    const int64_t line_step = wrapped_product(s.window.dilation_y, width * LANES), row_step = wrapped_product(s.window.stride_y, width * LANES);
    const float *const weights = Kind::weighted ? row.weights + row.taps.first * kernel_width * LANES : nullptr;
    const float *const top = row.in + (row.y * s.window.stride_y - s.window.padding_top + row.taps.first * s.window.dilation_y) * width * LANES;
    int64_t column = x * step - s.window.padding_left;
    alignas(64) float outside[LANES];
    if constexpr (edge == ANYHOW) store(outside, Kind::outside());
    Vector w[taps ? taps : 1][kernel ? kernel : 1];
    if constexpr (taps != 0) {
#pragma GCC unroll 7
        for (int ky = 0; ky < taps; ky++)
#pragma GCC unroll 7
            for (int kx = 0; kx < kernel; kx++) w[ky][kx] = Kind::weighted ? load(weights + (ky * kernel + kx) * LANES) : zeros();
    }
    for (; tiles; tiles--, x += pixels, column += pixels * step) {
        const float *line = top;
        float *out = row.out + x * LANES;
        for (int64_t y = row.y, last = row.y + row.rows; y < last; y++, line += row_step, out += out_step) {
            Vector sum[pixels];
#pragma GCC unroll 16
            for (int p = 0; p < pixels; p++) sum[p] = Kind::start(row);
            if constexpr (taps != 0) {
#pragma GCC unroll 7
                for (int ky = 0; ky < taps; ky++)
                    add_taps<Kind, pixels, kernel, stride, edge>(sum, line + ky * line_step, column, width, outside, w[ky]);
            } else if constexpr (kernel != 0) {
                for (int64_t ky = 0; ky < kernel_height; ky++) {
#pragma GCC unroll 7
                    for (int kx = 0; kx < kernel; kx++) w[0][kx] = Kind::weighted ? load(weights + (ky * kernel + kx) * LANES) : zeros();
                    add_taps<Kind, pixels, kernel, stride, edge>(sum, line + ky * line_step, column, width, outside, w[0]);
                }
            } else {
                /* Columns of the window of which some result reads one inside the image. */
                TapRange columns{0, kernel_width};
                if constexpr (edge == ANYHOW) columns = taps_inside(column, column + (pixels - 1) * step, dilation, width, kernel_width);
                const auto add_run = [&](int64_t ky, int64_t from_tap, int64_t to_tap) __attribute__((always_inline)) {
                    for (int64_t kx = from_tap; kx < to_tap; kx++) {
                        const Vector weight = Kind::weighted ? load(weights + (ky * kernel_width + kx) * LANES) : zeros();
                        const float *from = line + ky * line_step;
                        const int64_t left = column + kx * dilation;
#pragma GCC unroll 16
                        for (int p = 0; p < pixels; p++) {
                            const int64_t at = left + p * step;
                            sum[p] = Kind::add(sum[p], load(edge ? column_at(from, at, width, outside) : from + at * LANES), weight);
                        }
                    }
                };
                if (!s.polls)
                    for (int64_t ky = 0; ky < kernel_height; ky++) add_run(ky, columns.first, columns.last);
                else
                    for (int64_t ky = 0; ky < kernel_height; ky++)
                        for (int64_t kx = columns.first; kx < columns.last; kx += TAPS_BETWEEN) {
                            if (acc_stopped(row.job)) return;
                            add_run(ky, kx, lesser(columns.last, kx + TAPS_BETWEEN));
                        }
            }
            Kind::template finish<pixels>(row, sum, y, x);
#pragma GCC unroll 16
            for (int p = 0; p < pixels; p++) store(out + p * LANES, sum[p]);
        }
    }
}

template <typename Kind, int pixels, int kernel, int stride, int rows> struct WindowTiles {
    static constexpr bool margins = Kind::weighted && kernel != 0;
    static void run(const WindowRows &row, int64_t x, int64_t size, int64_t tiles, Edge edge) {
        if (size != pixels)
            WindowTiles<Kind, pixels - 1, kernel, stride, rows>::run(row, x, size, tiles, edge);
        else if (edge == INSIDE)
            window_tiles<Kind, pixels, kernel, stride, rows, INSIDE>(row, x, tiles);
        else if (margins && edge == LEFT)
            window_tiles<Kind, pixels, kernel, stride, rows, margins ? LEFT : ANYHOW>(row, x, tiles);
        else if (margins && edge == RIGHT)
            window_tiles<Kind, pixels, kernel, stride, rows, margins ? RIGHT : ANYHOW>(row, x, tiles);
        else if (margins && edge == BOTH)
            window_tiles<Kind, pixels, kernel, stride, rows, margins ? BOTH : ANYHOW>(row, x, tiles);
        else
            window_tiles<Kind, pixels, kernel, stride, rows, ANYHOW>(row, x, tiles);
    }
};
template <typename Kind, int kernel, int stride, int rows> struct WindowTiles<Kind, 0, kernel, stride, rows> {
    static void run(const WindowRows &, int64_t, int64_t, int64_t, Edge) {}
};

/* Columns [left, right) of the results have windows that lie inside the image from left to right.
 * */
struct Inside {
    int64_t left, right;

    explicit Inside(const acc_windows &s) {
        const int64_t room = s.window.in_width - 1 - (s.window.kernel_width - 1) * s.window.dilation_x + s.window.padding_left;
        left = lesser(s.window.out_width, (s.window.padding_left + s.window.stride_x - 1) / s.window.stride_x);
        right = room < 0 ? left : greater(left, lesser(s.window.out_width, room / s.window.stride_x + 1));
    }
};

/* Results in a tile: with them the elements that they read stay in registers. */
template <int stride> constexpr int most_results() { return REGISTERS < 32 ? 4 : stride == 2 ? 6 : 8; }

template <int kernel> INLINE Edge edge_of(const acc_windows &s, int64_t x, int64_t size) {
    const int64_t before = s.window.padding_left - x * s.window.stride_x;
    const int64_t after = (x + size - 1) * s.window.stride_x + (kernel - 1) - s.window.padding_left - (s.window.in_width - 1);
    constexpr int64_t margin = kernel / 2;
    if (before == margin && after <= 0) return LEFT;
    if (before <= 0 && after == margin) return RIGHT;
    return before == margin && after == margin ? BOTH : ANYHOW;
}

/* So many tiles of one size. */
template <typename Kind, int kernel, int stride, int rows>
void window_run(const WindowRows &row, const Inside &inside, int64_t x, int64_t size, int64_t tiles) {
    constexpr int most = most_results<stride>();
    const int64_t begin = lesser(tiles, greater<int64_t>(0, inside.left - x + size - 1) / size);
    const int64_t end = lesser(tiles, greater(begin, greater<int64_t>(0, inside.right - x) / size));
    typedef WindowTiles<Kind, most, kernel, stride, rows> Tiles;
    if (begin < end) Tiles::run(row, x + begin * size, size, end - begin, INSIDE);
    for (int64_t tile = 0; tile < tiles; tile++)
        if (tile < begin || tile >= end) Tiles::run(row, x + tile * size, size, 1, edge_of<kernel>(*row.self, x + tile * size, size));
}

/* Tiles of two sizes, one apart: a lone result would wait for each of its additions. */
template <typename Kind, int kernel, int stride, int rows> void window_row(const WindowRows &row, const Inside &inside) {
    /* Results further apart than the image is wide share none of their taps: each walks over its
     * own. */
    const int most = kernel == 0 && row.self->window.stride_x > row.self->window.in_width ? 1 : most_results<stride>();
    const int64_t width = row.self->window.out_width, tiles = (width + most - 1) / most, size = width / tiles, larger = width % tiles;
    if (larger) window_run<Kind, kernel, stride, rows>(row, inside, 0, size + 1, larger);
    window_run<Kind, kernel, stride, rows>(row, inside, larger * (size + 1), size, tiles - larger);
}

/* Rows that were just read are read again while they lie in the L1 cache. */
constexpr int64_t ROWS_BYTES = 32 << 10;

/* Rows [first, last) of the results of one block of channels, which begin at `out`. */
template <typename Kind> static void window_rows(WindowRows &row, const Inside &inside, float *out, int64_t first, int64_t last) {
    const acc_windows &s = *row.self;
    const int64_t kernel = s.window.dilation_x == 1 && (s.window.stride_x == 1 || s.window.stride_x == 2) ? s.window.kernel_width : 0;
    const int64_t reach = (s.window.kernel_height - 1) * s.window.dilation_y, room = s.window.in_height - 1 - reach + s.window.padding_top;
    const int64_t lines = ROWS_BYTES / greater<int64_t>(1, s.window.in_width * LANES * (int64_t)sizeof(float));
    const int64_t most = lines < 8 ? 1 : greater<int64_t>(1, (lines - reach - 1) / s.window.stride_y + 1);
    for (row.y = first; row.y < last; row.y += row.rows) {
        if (s.polls && acc_stopped(row.job)) return;
        const int64_t top = row.y * s.window.stride_y - s.window.padding_top;
        row.out = out + row.y * s.window.out_width * LANES;
        row.taps = taps_inside(top, top, s.window.dilation_y, s.window.in_height, s.window.kernel_height);
        const bool whole = row.taps.first == 0 && row.taps.last == s.window.kernel_height;
        row.rows = whole ? lesser(most, lesser(last, room / s.window.stride_y + 1) - row.y) : 1;
        constexpr int three = Kind::weighted ? 3 : 0, five = Kind::weighted ? 5 : 0, two = Kind::weighted ? 2 : 0;
        const bool square = whole && kernel == 3 && s.window.kernel_height == 3 && Kind::weighted;
        if (square && s.window.stride_x == 1)
            window_row<Kind, 3, 1, three>(row, inside);
        else if (square)
            window_row<Kind, 3, 2, three>(row, inside);
        else if (kernel == 3 && s.window.stride_x == 1)
            window_row<Kind, 3, 1, 0>(row, inside);
        else if (kernel == 3)
            window_row<Kind, 3, 2, 0>(row, inside);
        else if (kernel == 5 && s.window.stride_x == 1 && Kind::weighted)
            window_row<Kind, five, Kind::weighted ? 1 : 0, 0>(row, inside);
        else if (kernel == 5 && Kind::weighted)
            window_row<Kind, five, two, 0>(row, inside);
        else
            window_row<Kind, 0, 0, 0>(row, inside);
    }
}

/* What the rows of one block of channels share; `in` is where its pixel (0, 0) lies. */
template <typename Kind> static WindowRows rows_of(const acc_job *job, const acc_windows &s, int64_t block, const float *in) {
    WindowRows row;
    row.self = &s;
    row.job = job;
    row.in = in;
    row.weights = Kind::weighted ? s.weights + block * s.window.kernel_height * s.window.kernel_width * LANES : nullptr;
    row.bias = Kind::weighted ? load(s.bias + block * LANES) : zeros();
    return row;
}

/* Rows [first, last) of blocks [first_block, last_block) of the results of one image. */
template <typename Kind>
static void windows_of_image(const acc_job *job, const Inside &inside, int64_t image, int64_t first_block, int64_t last_block,
                             int64_t first, int64_t last) {
    const acc_windows &s = *(const acc_windows *)job->parameters;
    const float *in = (const float *)job->inputs[0] + image * s.blocks * s.window.in_height * s.window.in_width * LANES;
    float *out = (float *)job->outputs[0] + image * s.blocks * s.window.out_height * s.window.out_width * LANES;
    for (int64_t block = first_block; block < last_block; block++) {
        WindowRows row = rows_of<Kind>(job, s, block, in + block * s.window.in_height * s.window.in_width * LANES);
        window_rows<Kind>(row, inside, out + block * s.window.out_height * s.window.out_width * LANES, first, last);
    }
}

template <typename Kind> static void windows(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_windows &s = *(const acc_windows *)job->parameters;
    const Inside inside(s);
    const int64_t items = s.by_rows ? s.window.out_height : s.blocks;
    for (int64_t item = begin; item < end;) {
        const int64_t image = item / items, first = item % items, last = lesser(items, first + end - item);
        if (s.by_rows)
            windows_of_image<Kind>(job, inside, image, 0, s.blocks, first, last);
        else
            windows_of_image<Kind>(job, inside, image, first, last, 0, s.window.out_height);
        item += last - first;
    }
}

/* The mean of each channel: four sums, so that additions overlap and rounding errors grow more
 * slowly. */
static void mean_of_image(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_windows &s = *(const acc_windows *)job->parameters;
    const int64_t pixels = s.window.in_height * s.window.in_width;
    for (int64_t plane = begin; plane < end; plane++) {
        const float *in = (const float *)job->inputs[0] + plane * pixels * LANES;
        Vector sum[4] = {};
        int64_t p = 0;
        while (p + 4 <= pixels) {
            const int64_t end = span_end(job, p, pixels);
            if (end == p) return;
            for (; p + 4 <= end; p += 4)
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++) sum[i] += load(in + (p + i) * LANES);
        }
        for (; p < pixels; p++) sum[0] += load(in + p * LANES);
        const int64_t block = plane % s.blocks;
        store_part((float *)job->outputs[0] + plane / s.blocks * s.channels + block * LANES,
                   ((sum[0] + sum[1]) + (sum[2] + sum[3])) * broadcast(1.0f / (float)pixels),
                   (int)lesser<int64_t>(LANES, s.channels - block * LANES));
    }
}

static const acc_windows_kernels windows_kernels = {windows<Depthwise>, windows<Maximum>, windows<Average>, mean_of_image};

} // namespace dovetail_acc::ACC_ISA
