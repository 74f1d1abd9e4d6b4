// int8 kernels on NHWC, bit for bit as TensorFlow Lite's reference (tensorflow/lite/kernels/internal/reference/integer_ops, and
// gemmlowp/fixedpoint). A vendor's instructions take their place.
#include "program.h"

#include <cmath>
#include <numeric>

namespace npu {

// x times the factor, rounded twice, ties away from zero: gemmlowp's high half of 2 * x * multiplier, then the shift.
static int32_t scaled(int32_t x, FixedPoint by) {
    const auto shifted = static_cast<int32_t>(static_cast<uint32_t>(x) << std::max(by.shift, 0));
    const int64_t product = int64_t{shifted} * by.multiplier;
    const auto high = static_cast<int32_t>((product + (product >= 0 ? 1 << 30 : 1 - (1 << 30))) / (INT64_C(1) << 31));
    const int right = std::max(-by.shift, 0);
    const auto mask = static_cast<int32_t>((INT64_C(1) << right) - 1);
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0) ? 1 : 0);
}

static int8_t clamped(int32_t x, const Instruction &s) { return static_cast<int8_t>(std::min(std::max(x, s.low), s.high)); }

static int8_t finish(uint32_t sum, const Channel &channel, const Instruction &s) {
    const auto whole = static_cast<int32_t>(sum + static_cast<uint32_t>(channel.bias));
    if (s.opcode != Opcode::FULLY_CONNECTED) return clamped(scaled(whole, channel.scale) + s.zero, s);
    return static_cast<int8_t>(std::min<double>(std::max<double>(std::round(whole * channel.factor) + s.zero, s.low), s.high));
}

// The taps [begin, end) of a window along an axis that lie inside the image, and where the first of them reads.
struct Taps { int begin, end, at; };

static Taps taps_of(const Instruction &s, Axis axis, int position) {
    const int origin = position * s.stride[axis] - s.padding[axis], begin = std::max(0, -origin);
    return {begin, std::max(begin, std::min(s.kernel[axis], s.in[axis] - origin)), origin + begin};
}

// Call body(rows, columns, output pixel) for each window.
template <typename Body> static void each_window(const Instruction &s, int8_t *output, Body body) {
    for (int y = 0; y < s.out[HEIGHT]; y++)
        for (int x = 0; x < s.out[WIDTH]; x++, output += s.out[CHANNELS])
            body(taps_of(s, HEIGHT, y), taps_of(s, WIDTH, x), output);
}

// Call body(input pixels, number of the first tap) for each row of a window.
template <typename Body>
static void each_row(const Instruction &s, const int8_t *image, const Taps &rows, const Taps &columns, Body body) {
    image += (int64_t{rows.at} * s.in[WIDTH] + columns.at) * s.in[CHANNELS];
    for (int tap = rows.begin; tap < rows.end; tap++, image += int64_t{s.in[WIDTH]} * s.in[CHANNELS])
        body(image, int64_t{tap} * s.kernel[WIDTH] + columns.begin);
}

static void convolve(const Instruction &s, const int8_t *image, const int8_t *weights, const Channel *channels, int8_t *y) {
    const int64_t depth = s.in[CHANNELS], filter_size = int64_t{s.kernel[HEIGHT]} * s.kernel[WIDTH] * depth;
    each_window(s, y, [&](const Taps &rows, const Taps &columns, int8_t *target) {
        for (int filter = 0; filter < s.out[CHANNELS]; filter++) {
            const int32_t zero = channels[filter].weight_zero;
            uint32_t sum = 0;       // wraps, as that of the reference does, if it is too large
            each_row(s, image, rows, columns, [&](const int8_t *x, int64_t tap) {
                const int8_t *w = weights + filter * filter_size + tap * depth;
                for (int64_t i = 0; i < (columns.end - columns.begin) * depth; i++)
                    sum += static_cast<uint32_t>((x[i] - s.zero_a) * (w[i] - zero));
            });
            target[filter] = finish(sum, channels[filter], s);
        }
    });
}

static void convolve_channels(const Instruction &s, const int8_t *image, const int8_t *weights, const Channel *channels,
                              int32_t *sums, int8_t *output) {
    const int multiplier = s.out[CHANNELS] / s.in[CHANNELS];
    each_window(s, output, [&](const Taps &rows, const Taps &columns, int8_t *target) {
        std::fill_n(sums, s.out[CHANNELS], 0);
        each_row(s, image, rows, columns, [&](const int8_t *x, int64_t tap) {
            const int8_t *w = weights + tap * s.out[CHANNELS];
            for (int column = columns.begin; column < columns.end; column++, x += s.in[CHANNELS], w += s.out[CHANNELS])
                for (int c = 0, o = 0; c < s.in[CHANNELS]; c++)
                    for (const int end = o + multiplier; o < end; o++)
                        sums[o] += (x[c] - s.zero_a) * (w[o] - channels[o].weight_zero);
        });
        for (int o = 0; o < s.out[CHANNELS]; o++) target[o] = finish(sums[o], channels[o], s);
    });
}

// Maximum or average. Padding never takes part, and no window lies in the padding alone.
static void pool(const Instruction &s, const int8_t *image, int32_t *sums, int8_t *output) {
    const bool maximum = s.opcode == Opcode::MAXIMUM;
    each_window(s, output, [&](const Taps &rows, const Taps &columns, int8_t *target) {
        std::fill_n(sums, s.out[CHANNELS], maximum ? INT8_MIN : 0);
        each_row(s, image, rows, columns, [&](const int8_t *x, int64_t) {
            for (int column = columns.begin; column < columns.end; column++, x += s.in[CHANNELS])
                for (int c = 0; c < s.in[CHANNELS]; c++) sums[c] = maximum ? std::max<int32_t>(sums[c], x[c]) : sums[c] + x[c];
        });
        const int32_t count = maximum ? 1 : (rows.end - rows.begin) * (columns.end - columns.begin);
        for (int c = 0; c < s.out[CHANNELS]; c++)   // rounded to nearest, ties away from zero
            target[c] = static_cast<int8_t>((sums[c] + (sums[c] > 0 ? count / 2 : -(count / 2))) / count);
    });
}

static void add(const Instruction &s, const int8_t *a, const int8_t *b, int8_t *output) {
    for (int32_t row = 0; row < s.size[0] * s.size[1] * s.size[2]; row++) {
        const int32_t at[] = {row / s.size[2] / s.size[1], row / s.size[2] % s.size[1], row % s.size[2]};
        const int8_t *x = std::inner_product(at, at + 3, s.step_a, a), *y = std::inner_product(at, at + 3, s.step_b, b);
        for (int32_t i = 0; i < s.size[3]; i++, x += s.step_a[3], y += s.step_b[3]) {
            const int32_t left = scaled((*x - s.zero_a) * (1 << 20), s.scale_a);
            const int32_t right = scaled((*y - s.zero_b) * (1 << 20), s.scale_b);
            *output++ = clamped(scaled(left + right, s.scale) + s.zero, s);
        }
    }
}

void execute(const Instruction &s, int8_t *const *tensors, const char *constants, int32_t *sums) {
    const auto *weights = reinterpret_cast<const int8_t *>(constants + s.weights);
    const auto *channels = reinterpret_cast<const Channel *>(constants + s.channels);
    const int8_t *a = tensors[s.a], *b = tensors[s.b];
    int8_t *output = tensors[s.output];
    switch (s.opcode) {
    case Opcode::CONVOLUTION: case Opcode::FULLY_CONNECTED: return convolve(s, a, weights, channels, output);
    case Opcode::DEPTHWISE: return convolve_channels(s, a, weights, channels, sums, output);
    case Opcode::MAXIMUM: case Opcode::AVERAGE: return pool(s, a, sums, output);
    case Opcode::ADD: return add(s, a, b, output);
    case Opcode::COPY: std::memcpy(output, a, s.in[CHANNELS]);
    }
}

}  // namespace npu
