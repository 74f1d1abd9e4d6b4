/* Winograd convolution F(m x m, 3 x 3), for m = 2 and 4 (Lavin and Gray 2015): a tile of m x m
 * results from m + 2 squared products instead of 9 m squared. Results are polynomials' products,
 * evaluated at the points 0, +-1 and infinity for m = 2; for m = 4 the points are 0, +-a, +-b and
 * infinity, where a and b are those of the least error that was measured (Barabasz et al. 2020 say
 * how the choice matters).
 *
 * A tile is transformed as a whole: where its square holds an infinity or a NaN, all results of the
 * tile may be NaN. */
#pragma once

#include "dovetail_neon/convolution/parameters.h"
#include "dovetail_neon/elementwise/functions.h"
#include "dovetail_neon/convolution/tile.h"

namespace dovetail_acc::ACC_ISA {

/* Dyadic, so that all constants but those of the weights are exact. Next to +-1 and +-2 the largest
 * error is a quarter, the root of the mean squared one is half. */
constexpr double POINT_A = 0.625, POINT_B = 1.5;

/* Channels that are summed in a row. With 64 errors are larger by a quarter, with all of 256 they
 * double; sums of 32 cost some four hundredths of the time, of 16 up to a tenth. */
constexpr int64_t LONGEST_SUM = 32;

/* Weights are transformed in double, a vector of filters at once. */
typedef double Doubles __attribute__((vector_size(2 * sizeof(Vector))));

template <int tile> struct WinogradTransform;

template <> struct WinogradTransform<2> {
    INLINE void into(Vector (&to)[4], const Vector (&x)[4]) {
        to[0] = x[0] - x[2];
        to[1] = x[1] + x[2];
        to[2] = x[2] - x[1];
        to[3] = x[1] - x[3];
    }
    INLINE void back(Vector (&to)[2], const Vector (&x)[4]) {
        to[0] = x[0] + (x[1] + x[2]);
        to[1] = (x[1] - x[2]) - x[3];
    }
    INLINE void weights(Doubles (&to)[4], const Doubles (&g)[3]) {
        to[0] = g[0];
        to[1] = (g[0] + g[1] + g[2]) * 0.5;
        to[2] = (g[0] - g[1] + g[2]) * 0.5;
        to[3] = g[2];
    }
};

/* The points come in pairs: what +p and -p share is computed once. */
template <> struct WinogradTransform<4> {
    INLINE void into(Vector (&to)[6], const Vector (&x)[6]) {
        constexpr double a = POINT_A, b = POINT_B;
        const Vector both = broadcast((float)(-a * a - b * b)), product = broadcast((float)(a * a * b * b));
        const Vector a2 = broadcast((float)(-a * a)), b2 = broadcast((float)(-b * b));
        const Vector a1 = broadcast((float)a), b1 = broadcast((float)b);
        to[0] = fma(product, x[0], fma(both, x[2], x[4]));
        to[5] = fma(product, x[1], fma(both, x[3], x[5]));
        const Vector even_a = fma(b2, x[2], x[4]), odd_a = fma(b2, x[1], x[3]);
        const Vector even_b = fma(a2, x[2], x[4]), odd_b = fma(a2, x[1], x[3]);
        to[1] = fma(a1, odd_a, even_a);
        to[2] = fma(a1, -odd_a, even_a);
        to[3] = fma(b1, odd_b, even_b);
        to[4] = fma(b1, -odd_b, even_b);
    }
    INLINE void back(Vector (&to)[4], const Vector (&x)[6]) {
        constexpr double a = POINT_A, b = POINT_B;
        const Vector even_a = x[1] + x[2], odd_a = x[1] - x[2], even_b = x[3] + x[4], odd_b = x[3] - x[4];
        to[0] = x[0] + (even_a + even_b);
        to[1] = fma(broadcast((float)b), odd_b, odd_a * broadcast((float)a));
        to[2] = fma(broadcast((float)(b * b)), even_b, even_a * broadcast((float)(a * a)));
        to[3] = fma(broadcast((float)(b * b * b)), odd_b, fma(broadcast((float)(a * a * a)), odd_a, x[5]));
    }
    INLINE void weights(Doubles (&to)[6], const Doubles (&g)[3]) {
        constexpr double a = POINT_A, b = POINT_B;
        constexpr double of_a = 1 / (2 * a * a * (a * a - b * b)), of_b = 1 / (2 * b * b * (b * b - a * a));
        const Doubles even_a = g[0] + a * a * g[2], odd_a = a * g[1], even_b = g[0] + b * b * g[2], odd_b = b * g[1];
        to[0] = g[0] * (1 / (a * a * b * b));
        to[1] = (even_a + odd_a) * of_a;
        to[2] = (even_a - odd_a) * of_a;
        to[3] = (even_b + odd_b) * of_b;
        to[4] = (even_b - odd_b) * of_b;
        to[5] = g[2];
    }
};

/* What lies outside an image. */
alignas(64) static const float NOTHING[LANES] = {};

/* Where a tile lies. */
struct Place {
    int64_t image, row, column;
};
INLINE Place place_of(const acc_winograd &w, int64_t tile) {
    const int64_t within = tile % w.image_tiles;
    return {tile / w.image_tiles, within / w.tile_columns, within % w.tile_columns};
}
INLINE void move_on(const acc_winograd &w, Place &at) {
    if (++at.column < w.tile_columns) return;
    at.column = 0;
    if (++at.row * w.tile_columns < w.image_tiles) return;
    at.row = 0;
    at.image++;
}

/* Transform a block of channels of one tile; `to` is where position 0 goes. */
template <int tile, bool inside>
INLINE void transform_block(const float *image, int64_t height, int64_t width, int64_t top, int64_t left, float *to,
                            int64_t position_step) {
    constexpr int size = tile + 2;
    const float *corner = image + (top * width + left) * LANES;
    Vector half[size][size];
#pragma GCC unroll 6
    for (int x = 0; x < size; x++) {
        Vector in[size], out[size];
        const bool column_inside = (uint64_t)(left + x) < (uint64_t)width;
#pragma GCC unroll 6
        for (int y = 0; y < size; y++) {
            const float *at = corner + (y * width + x) * LANES;
            if (!inside && !(column_inside && (uint64_t)(top + y) < (uint64_t)height)) at = NOTHING;
            in[y] = load(at);
        }
        WinogradTransform<tile>::into(out, in);
#pragma GCC unroll 6
        for (int y = 0; y < size; y++) half[y][x] = out[y];
    }
#pragma GCC unroll 6
    for (int y = 0; y < size; y++) {
        Vector out[size];
        WinogradTransform<tile>::into(out, half[y]);
#pragma GCC unroll 6
        for (int x = 0; x < size; x++, to += position_step) store(to, out[x]);
    }
}

/* Transform all channels of tiles [first, last); `to` is where the first goes. */
template <int tile>
static void transform_tiles(const acc_winograd &w, const float *in, int64_t first, int64_t last, float *to) {
    const int64_t blocks = (w.channels + LANES - 1) / LANES, height = w.window.in_height, width = w.window.in_width;
    const int64_t row_step = w.row_step, position_step = w.position_step;
    for (int64_t block = 0; block < blocks; block++) {
        Place at = place_of(w, first);
        float *row = to + block * LANES;
        for (int64_t i = first; i < last; i++, row += row_step, move_on(w, at)) {
            const int64_t top = at.row * tile - w.window.padding_top, left = at.column * tile - w.window.padding_left;
            const float *image = in + (at.image * blocks + block) * height * width * LANES;
            if (top >= 0 && left >= 0 && top + tile + 2 <= height && left + tile + 2 <= width)
                transform_block<tile, true>(image, height, width, top, left, row, position_step);
            else
                transform_block<tile, false>(image, height, width, top, left, row, position_step);
        }
    }
}

/* Products of `rows` tiles and a panel of filters, at one position. Long sums are sums of sums. */
template <int vectors, int rows>
void position_tile(const acc_winograd &w, const float *in, const float *weights, float *out, Ahead ahead) {
    Scattered<rows> row;
#pragma GCC unroll 16
    for (int p = 0; p < rows; p++) row.in[p] = in + p * w.row_step;
    for (int64_t channel = 0; channel < w.channels; channel += LONGEST_SUM) {
        Vector sum[rows][vectors] = {};
        multiply_add(sum, row, weights, lesser<int64_t>(LONGEST_SUM, w.channels - channel), ahead);
#pragma GCC unroll 16
        for (int p = 0; p < rows; p++) {
            row.in[p] += LONGEST_SUM;
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                float *at = out + p * w.product_step + v * LANES;
                store(at, channel ? load(at) + sum[p][v] : sum[p][v]);
            }
        }
    }
}

template <int vectors, int rows> struct PositionTiles {
    static void run(const acc_winograd &w, const float *in, const float *weights, float *out, Ahead ahead, int count) {
        if (count == rows)
            position_tile<vectors, rows>(w, in, weights, out, ahead);
        else
            PositionTiles<vectors, rows - 1>::run(w, in, weights, out, ahead, count);
    }
};
template <int vectors> struct PositionTiles<vectors, 0> {
    static void run(const acc_winograd &, const float *, const float *, float *, Ahead, int) {}
};

/* Products [tiles][positions][filters of the panel] of `count` transformed tiles. */
template <int vectors>
static void position_products(const acc_winograd &w, const float *in, const float *weights, int64_t count, float *out) {
    constexpr int most = pixels_of(vectors);
    const int64_t positions = (w.tile + 2) * (w.tile + 2), steps = (count + most - 1) / most;
    const int64_t matrix = w.channels * vectors * LANES;
    for (int64_t position = 0; position < positions; position++, weights += matrix) {
        const float *from = in + position * w.position_step;
        float *to = out + position * vectors * LANES;
        /* Each step fetches its share of the weights of the next position. */
        Ahead ahead;
        ahead.step = vectors * LANES * (int64_t)sizeof(float) / steps;
        ahead.at = (const char *)(position + 1 < positions ? weights + matrix : weights);
        int64_t left = count;
        for (int64_t step = steps; step; step--, ahead.at += w.channels * ahead.step) {
            const int rows = (int)((left + step - 1) / step);
            PositionTiles<vectors, most>::run(w, from, weights, to, ahead, rows);
            from += rows * w.row_step, to += rows * w.product_step, left -= rows;
        }
    }
}

/* From products to results: one vector of filters of one tile. `at` is its first result, of which
 * `height` x `width` lie inside the image; `adds` lies alike, or is NULL. */
template <int tile>
INLINE void results_of(const acc_winograd &w, const float *products, int64_t step, const float *bias, const float *adds, float *at,
                       int64_t height, int64_t width) {
    constexpr int size = tile + 2;
    Vector half[tile][size], result[tile * tile];
#pragma GCC unroll 6
    for (int x = 0; x < size; x++) {
        Vector in[size], out[tile];
#pragma GCC unroll 6
        for (int y = 0; y < size; y++) in[y] = load(products + (y * size + x) * step);
        WinogradTransform<tile>::back(out, in);
#pragma GCC unroll 4
        for (int y = 0; y < tile; y++) half[y][x] = out[y];
    }
    const Vector offset = load(bias);
    const int64_t row = w.window.out_width * LANES;
    const bool whole = height >= tile && width >= tile;
    const bool simple = w.activation.function == ACC_IDENTITY || w.activation.function == ACC_CLAMP;
    if (whole && simple) {
        const Vector low = broadcast(w.activation.a), high = broadcast(w.activation.b);
        const bool clamps = w.activation.function == ACC_CLAMP;
#pragma GCC unroll 4
        for (int y = 0; y < tile; y++) {
            Vector out[tile];
            WinogradTransform<tile>::back(out, half[y]);
#pragma GCC unroll 4
            for (int x = 0; x < tile; x++) out[x] += offset;
            if (adds)
#pragma GCC unroll 4
                for (int x = 0; x < tile; x++) out[x] += load(adds + y * row + x * LANES);
            if (clamps)
#pragma GCC unroll 4
                for (int x = 0; x < tile; x++) out[x] = clamped(out[x], low, high);
#pragma GCC unroll 4
            for (int x = 0; x < tile; x++) store(at + y * row + x * LANES, out[x]);
        }
        return;
    }
    for (int y = 0; y < tile; y++) {
        Vector out[tile];
        WinogradTransform<tile>::back(out, half[y]);
        for (int x = 0; x < tile; x++) {
            result[y * tile + x] = out[x] + offset;
            if (adds && y < height && x < width) result[y * tile + x] += load(adds + y * row + x * LANES);
        }
    }
    if (w.activation.function != ACC_IDENTITY) activate(w.activation, result, tile * tile);
    for (int y = 0; y < tile && y < height; y++)
        for (int x = 0; x < tile && x < width; x++) store(at + y * row + x * LANES, result[y * tile + x]);
}

/* Tiles [first, last) and one panel of filters: from transformed elements to results. */
template <int tile>
static void multiply_band(const acc_winograd &w, const acc_job *job, int64_t panel, int64_t first, int64_t last, const float *in,
                          float *products) {
    constexpr int positions = (tile + 2) * (tile + 2);
    const int64_t vector = w.panel_vector[panel], vectors = w.panel_vector[panel + 1] - vector;
    const float *weights = w.weights + vector * positions * w.channels * LANES;
    switch (vectors) {
    case 1: position_products<1>(w, in, weights, last - first, products); break;
    case 2: position_products<2>(w, in, weights, last - first, products); break;
#if ACC_IS == 1 || ACC_IS == 3
    case 3: position_products<3>(w, in, weights, last - first, products); break;
    case 4: position_products<4>(w, in, weights, last - first, products); break;
#endif
    }
    const int64_t plane = w.window.out_height * w.window.out_width * LANES, blocks = w.panel_vector[w.panels];
    Place at = place_of(w, first);
    for (int64_t i = first; i < last; i++, products += w.product_step, move_on(w, at)) {
        const int64_t y = at.row * tile, x = at.column * tile;
        const int64_t offset = (at.image * blocks + vector) * plane + (y * w.window.out_width + x) * LANES;
        for (int64_t v = 0; v < vectors; v++) {
            const float *adds = w.adds ? (const float *)job->inputs[1] + offset + v * plane : nullptr;
            results_of<tile>(w, products + v * LANES, vectors * LANES, w.bias + (vector + v) * LANES, adds,
                             (float *)job->outputs[0] + offset + v * plane, w.window.out_height - y, w.window.out_width - x);
        }
    }
}

template <int tile> static void winograd_bands(int64_t begin, int64_t end, int32_t worker, const acc_job *job) {
    const acc_winograd &w = *(const acc_winograd *)job->parameters;
    char *scratch = job->worker_workspace + worker * job->worker_stride;
    for (int64_t band = begin; band < end; band++) {
        const int64_t first = w.tiles * band / w.bands, last = w.tiles * (band + 1) / w.bands;
        transform_tiles<tile>(w, (const float *)job->inputs[0], first, last, (float *)scratch);
        for (int64_t panel = 0; panel < w.panels; panel++)
            multiply_band<tile>(w, job, panel, first, last, (const float *)scratch, (float *)(scratch + w.products_at));
    }
}

template <int tile> static void winograd_panels(int64_t begin, int64_t end, int32_t worker, const acc_job *job) {
    const acc_winograd &w = *(const acc_winograd *)job->parameters;
    float *products = (float *)(job->worker_workspace + worker * job->worker_stride + w.products_at);
    for (int64_t item = begin; item < end; item++) {
        const int64_t band = item % w.bands, first = w.tiles * band / w.bands, last = w.tiles * (band + 1) / w.bands;
        multiply_band<tile>(w, job, item / w.bands, first, last, (const float *)job->workspace + first * w.row_step, products);
    }
}

static void winograd_banded(int64_t begin, int64_t end, int32_t worker, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    if (((const acc_winograd *)job->parameters)->tile == 2)
        winograd_bands<2>(begin, end, worker, job);
    else
        winograd_bands<4>(begin, end, worker, job);
}

static void winograd_transform(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_winograd &w = *(const acc_winograd *)job->parameters;
    float *to = (float *)job->workspace + begin * w.row_step;
    if (w.tile == 2)
        transform_tiles<2>(w, (const float *)job->inputs[0], begin, end, to);
    else
        transform_tiles<4>(w, (const float *)job->inputs[0], begin, end, to);
}

static void winograd_multiply(int64_t begin, int64_t end, int32_t worker, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    if (((const acc_winograd *)job->parameters)->tile == 2)
        winograd_panels<2>(begin, end, worker, job);
    else
        winograd_panels<4>(begin, end, worker, job);
}

template <int tile> INLINE void pack_filters(const Vector (&taps)[9], int64_t step, float *to) {
    constexpr int size = tile + 2;
    Doubles half[3][size];
    for (int x = 0; x < 3; x++) {
        Doubles g[3];
        for (int y = 0; y < 3; y++) g[y] = __builtin_convertvector(taps[3 * y + x], Doubles);
        WinogradTransform<tile>::weights(half[x], g);
    }
    for (int y = 0; y < size; y++) {
        const Doubles g[3] = {half[0][y], half[1][y], half[2][y]};
        Doubles out[size];
        WinogradTransform<tile>::weights(out, g);
        for (int x = 0; x < size; x++, to += step) store(to, __builtin_convertvector(out[x], Vector));
    }
}

template <int tile>
static void pack_vector(const float *from, int64_t filter_step, int64_t tap_step, int64_t channel_step, int rows, int64_t channels,
                        int64_t width, float *to, acc_packing *packing) {
    Vector taps[LANES][9];
    for (int64_t first = 0; first < channels; first += LANES) {
        if (acc_packing_stops(packing, 36 * LANES * LANES)) return; /* tiles of transformed weights */
        const int64_t count = lesser<int64_t>(LANES, channels - first);
        take_filters(from + first * channel_step, filter_step, tap_step, channel_step, rows, 9, count, packing,
                     [&](int64_t channel, int64_t tap, Vector x) { taps[channel][tap] = x; });
        for (int64_t channel = 0; channel < count; channel++)
            pack_filters<tile>(taps[channel], channels * width, to + (first + channel) * width);
    }
}

static void pack_winograd(const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first_filter,
                          int64_t filters, int64_t vectors, int64_t channels, int64_t tile, float *packed,
                          acc_packing *packing) {
    const auto pack = tile == 2 ? pack_vector<2> : pack_vector<4>;
    for (int64_t v = 0; v < vectors; v++) {
        const int64_t first = first_filter + v * LANES;
        pack(weights + first * filter_step, filter_step, tap_step, channel_step, (int)lesser<int64_t>(LANES, filters - first),
             channels, vectors * LANES, packed + v * LANES, packing);
    }
}

static const acc_winograd_kernels winograd_kernels = {winograd_banded, winograd_transform, winograd_multiply, pack_winograd};

} // namespace dovetail_acc::ACC_ISA
