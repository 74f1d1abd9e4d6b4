/* What treats every element of quantized tensors by itself: sums and products of two, tables of
 * what each byte becomes, changes of layout and of type. */
#pragma once

#include "dovetail_neon/quantized/requantization.h"
#include "dovetail_neon/quantized/second.h"

namespace dovetail_acc::ACC_ISA {

/* What two elements, less their zero points, come to before it is rounded. */
struct Sum {
    const Vector a, b;
    explicit Sum(const acc_quantized_sum &s) : a(broadcast(s.a)), b(broadcast(s.b)) {}
    INLINE_MEMBER Vector operator()(Vector p, Vector q) const { return p * a + q * b; }
    static float most(const acc_quantized_sum &s) { return 256.0f * (__builtin_fabsf(s.a) + __builtin_fabsf(s.b)); }
};
struct Product {
    const Vector factor;
    explicit Product(const acc_quantized_sum &s) : factor(broadcast(s.a)) {}
    INLINE_MEMBER Vector operator()(Vector p, Vector q) const { return p * q * factor; }     /* the product of two is exact */
    static float most(const acc_quantized_sum &s) { return 256.0f * 256.0f * __builtin_fabsf(s.a); }
};

template <typename Combine> static void combine_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_sum &s = *(const acc_quantized_sum *)job->parameters;
    const Combine combine(s);
    const Byte *left = (const Byte *)job->inputs[0];
    Byte *out = (Byte *)job->outputs[0];
    const auto combined = [&](const Byte *p, const Byte *q) __attribute__((always_inline)) {
        return combine(to_floats(load_bytes(p) - s.zero_a), to_floats(load_bytes(q) - s.zero_b));
    };
    int64_t at = begin * BLOCK;
    Second right(job, s.second, at);
    const int64_t stop = lesser(end * BLOCK, s.count);
    if (Combine::most(s) < NEAR) {
        const NearRounding rounding(s.zero, s.low, s.high);
        for (; at + GROUP <= stop; at += GROUP, right.advance(GROUP)) {
            Integers x[GROUP_VECTORS];
            const Byte *const beside = right.here();
#pragma GCC unroll 4
            for (int v = 0; v < GROUP_VECTORS; v++) x[v] = rounding(combined(left + at + v * LANES, beside + v * LANES));
            const GroupBytes bytes = in_order(rounding.bytes(x));
            __builtin_memcpy(out + at, &bytes, sizeof(bytes));
        }
    }
    const Rounding rounding(s.zero, s.low, s.high);
    for (; at < stop; at += BLOCK, right.advance(BLOCK)) {
        Integers x[BLOCK_VECTORS];
        const Byte *const beside = right.here();
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) x[v] = rounding(combined(left + at + v * LANES, beside + v * LANES));
        store_block(out + at, x, (int)lesser<int64_t>(BLOCK, s.count - at));
    }
}

/* The greater, or the lesser, of two. */
typedef Byte Block16 __attribute__((vector_size(16)));
struct Greatest {
    static constexpr int32_t FIRST = SIGNED_BYTES ? -128 : 0;
    template <typename Many> static INLINE_MEMBER Many of(Many a, Many b) { return a > b ? a : b; }
};
struct Least {
    static constexpr int32_t FIRST = SIGNED_BYTES ? 127 : 255;
    template <typename Many> static INLINE_MEMBER Many of(Many a, Many b) { return a < b ? a : b; }
};

template <typename Extreme> static void extreme_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_sum &s = *(const acc_quantized_sum *)job->parameters;
    const Byte *left = (const Byte *)job->inputs[0];
    Byte *out = (Byte *)job->outputs[0];
    Second right(job, s.second, begin * BLOCK);
    for (int64_t at = begin * BLOCK; at < end * BLOCK; at += BLOCK, right.advance(BLOCK)) {
        const Block16 a = Extreme::of(load_as<Block16>(left + at), load_as<Block16>(right.here()));
        __builtin_memcpy(out + at, &a, (size_t)lesser<int64_t>(BLOCK, s.count - at));
    }
}

INLINE void look_up(const ByteTable &table, const uint8_t *bytes, const uint8_t *in, int64_t count, uint8_t *out) {
    int64_t at = 0;
    for (; at + ByteTable::WIDTH <= count; at += ByteTable::WIDTH) table(in + at, out + at);
    for (; at < count; at++) out[at] = bytes[in[at]];
}

static void look_up_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const uint8_t *bytes = ((const acc_quantized_table *)job->parameters)->bytes;
    const ByteTable table(bytes);
    look_up(table, bytes, (const uint8_t *)job->inputs[0] + begin, end - begin, (uint8_t *)job->outputs[0] + begin);
}

typedef uint8_t Bytes16 __attribute__((vector_size(16)));

INLINE Bytes16 load16(const void *at) { return load_as<Bytes16>(at); }

/* `count` rows, of which there are 4 or 16, become columns: each time the first half of the vectors
 * is interleaved with the second. */
template <int count> INLINE void transpose_bytes(Bytes16 (&x)[count]) {
    const Bytes16 low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    const Bytes16 high = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
#pragma GCC unroll 4
    for (int width = 1; width < count; width *= 2) {
        Bytes16 y[count];
#pragma GCC unroll 8
        for (int i = 0; i < count / 2; i++) {
            y[2 * i] = __builtin_shuffle(x[i], x[i + count / 2], low);
            y[2 * i + 1] = __builtin_shuffle(x[i], x[i + count / 2], high);
        }
#pragma GCC unroll 16
        for (int i = 0; i < count; i++) x[i] = y[i];
    }
}

/* Planes of up to 4 channels become pixels of 4 bytes, 16 at a time. */
template <int channels> INLINE void interleave(const uint8_t *from, int64_t plane, int64_t count, uint8_t sign, uint8_t *to) {
    for (int64_t p = 0; p < count; p += 16) {
        const int64_t here = lesser<int64_t>(16, count - p);
        Bytes16 x[4] = {};
#pragma GCC unroll 4
        for (int i = 0; i < channels; i++) {
            if (here == 16)
                x[i] = load16(from + i * plane + p);
            else
                __builtin_memcpy(&x[i], from + i * plane + p, (size_t)here);
            x[i] ^= sign;
        }
        transpose_bytes(x);
        if (here == 16)
            __builtin_memcpy(to + p * 4, x, sizeof(x));
        else
            __builtin_memcpy(to + p * 4, x, (size_t)here * 4);
    }
}

static void interleave_planes(const uint8_t *from, int64_t plane, int64_t channels, int64_t count, uint8_t sign, uint8_t *to) {
    switch (channels) {
    case 1: return interleave<1>(from, plane, count, sign, to);
    case 2: return interleave<2>(from, plane, count, sign, to);
    case 3: return interleave<3>(from, plane, count, sign, to);
    case 4: return interleave<4>(from, plane, count, sign, to);
    }
}

/* `rows` rows of `count` bytes, `from_step` apart, become `count` rows of `rows` bytes, at most 16
 * either way, and zeros as far as there is `room`. */
INLINE void transpose_square(const uint8_t *from, int64_t from_step, int rows, int count, uint8_t sign, uint8_t *to, int64_t to_step,
                             int64_t room) {
    Bytes16 x[16];
    for (int i = 0; i < 16; i++) {
        if (i < rows && count == 16)
            x[i] = load16(from + i * from_step);
        else {
            uint8_t bytes[16] = {};
            for (int k = 0; i < rows && k < count; k++) bytes[k] = from[i * from_step + k];
            x[i] = load16(bytes);
        }
        x[i] ^= sign;
    }
    transpose_bytes(x);
    for (int k = 0; k < count; k++) {
        if (room >= 16)
            __builtin_memcpy(to + k * to_step, &x[k], 16);
        else
            for (int i = 0; i < rows; i++) to[k * to_step + i] = x[k][i];
    }
}

INLINE void copy_flipped(const uint8_t *from, int64_t count, uint8_t sign, uint8_t *to) {
    int64_t i = 0;
    for (; i + 64 <= count; i += 64) {
        typedef uint8_t Bytes64 __attribute__((vector_size(64), aligned(1)));
        Bytes64 x;
        __builtin_memcpy(&x, from + i, sizeof(x));
        x ^= sign;
        __builtin_memcpy(to + i, &x, sizeof(x));
    }
    for (; i + 16 <= count; i += 16) {
        const Bytes16 x = load16(from + i) ^ sign;
        __builtin_memcpy(to + i, &x, sizeof(x));
    }
    for (; i < count; i++) to[i] = from[i] ^ sign;
}

/* Pixels of up to 3 channels become pixels of 4 bytes, 4 at a time; returns how many: as long as 16
 * bytes may be read. */
INLINE int64_t open_gaps(const uint8_t *from, int64_t channels, int64_t count, uint8_t sign, uint8_t *to) {
    Bytes16 order;
    for (int i = 0; i < 16; i++) order[i] = (uint8_t)(i / 4 * channels + (i % 4 < channels ? i % 4 : 0));
    int64_t p = 0;
    for (; (count - p) * channels >= 16; p += 4) {
        const Bytes16 x = __builtin_shuffle(load16(from + p * channels), order) ^ sign;
        __builtin_memcpy(to + p * 4, &x, sizeof(x));
    }
    return p;
}

/* Pixels of up to 4 channels become pixels of 4 bytes. */
INLINE void enter_pixels(const uint8_t *from, int64_t channels, int64_t count, uint8_t sign, uint8_t *to) {
    if (channels == 4) {
        copy_flipped(from, count * 4, sign, to);
        return;
    }
    for (int64_t p = open_gaps(from, channels, count, sign, to); p < count; p++) copy_flipped(from + p * channels, channels, sign, to + p * 4);
}

template <bool to_image> static void reorder_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_reorder &r = *(const acc_quantized_reorder *)job->parameters;
    const uint8_t sign = r.flip ? 0x80 : 0;
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / r.chunks, chunk = item % r.chunks;
        const int64_t first = r.pixels * chunk / r.chunks, last = r.pixels * (chunk + 1) / r.chunks;
        const int64_t plain = image * r.pixels * r.channels, padded = image * r.pixels * r.step;
        const uint8_t *in = (const uint8_t *)job->inputs[0] + (to_image ? plain : padded);
        uint8_t *out = (uint8_t *)job->outputs[0] + (to_image ? padded : plain);
        if (r.channels_last) {
            const int64_t in_step = to_image ? r.channels : r.step, out_step = to_image ? r.step : r.channels;
            if (in_step == out_step)
                copy_flipped(in + first * in_step, (last - first) * in_step, sign, out + first * out_step);
            else if (to_image && r.step == 4)
                enter_pixels(in + first * in_step, r.channels, last - first, sign, out + first * 4);
            else
                for (int64_t p = first; p < last; p++) copy_flipped(in + p * in_step, r.channels, sign, out + p * out_step);
            continue;
        }
        if (to_image && r.step == 4) {
            interleave_planes(in + first, r.pixels, r.channels, last - first, sign, out + first * 4);
            continue;
        }
        for (int64_t p = first; p < last; p += 16) {
            const int count = (int)lesser<int64_t>(16, last - p);
            for (int64_t channel = 0; channel < r.channels; channel += 16) {
                const int rows = (int)lesser<int64_t>(16, r.channels - channel);
                if (to_image)
                    transpose_square(in + channel * r.pixels + p, r.pixels, rows, count, sign, out + p * r.step + channel, r.step,
                                     r.step - channel);
                else
                    transpose_square(in + p * r.step + channel, r.step, count, rows, sign, out + channel * r.pixels + p, r.pixels,
                                     count);
            }
        }
    }
}

/* The nearest integers; ties go to even ones, or away from zero. */
INLINE Integers nearest_integers(Vector x, bool away) {
    const Integers even = to_integers(x);
    if (!away) return even;
    /* What is left over is exact; of a tie it points to the other integer. True is -1. */
    const Vector rest = x - to_floats(even), half = broadcast(0.5f);
    const Integers up = (Integers)(rest == half) & (Integers)(x > zeros());
    const Integers down = (Integers)(rest == -half) & (Integers)(x < zeros());
    return even - up + down;
}

/* ONNX QuantizeLinear: x / scale rounded to nearest, plus the zero point, saturated; NaN becomes
 * the zero point. */
struct Quantizing {
    const Vector scale, low, high;
    const int32_t zero;
    const bool away;

    explicit Quantizing(const acc_quantize &q)
        : scale(broadcast(q.scale)), low(broadcast(least(q) - (float)q.zero)), high(broadcast(least(q) + 255.0f - (float)q.zero)),
          zero(q.zero), away(q.away != 0) {}

    INLINE_MEMBER void operator()(const float *in, int64_t count, Byte *out) const {
        if (away)
            run<true>(in, count, out);
        else
            run<false>(in, count, out);
    }

  private:
    template <bool away> INLINE_MEMBER void run(const float *in, int64_t count, Byte *out) const {
        for (int64_t at = 0; at < count; at += BLOCK) {
            const int here = (int)lesser<int64_t>(BLOCK, count - at);
            Integers y[BLOCK_VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < BLOCK_VECTORS; v++) {
                const int part = here - v * LANES;
                const Vector x = part >= LANES ? load(in + at + v * LANES) : part > 0 ? load_part(in + at + v * LANES, part) : zeros();
                const Vector ratio = select(x == x, x / scale, zeros());
                y[v] = nearest_integers(minimum(high, maximum(low, ratio)), away) + zero;
            }
            store_block(out + at, y, here);
        }
    }
    static float least(const acc_quantize &q) { return q.is_signed ? -128.0f : 0.0f; }
};

static void quantize(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const Quantizing quantizing(*(const acc_quantize *)job->parameters);
    quantizing((const float *)job->inputs[0] + begin, end - begin, (Byte *)job->outputs[0] + begin);
}

/* Floats become pixels of up to 4 channels: planes or pixels are quantized piece by piece into a
 * near place, from which they are put in order. */
static void quantize_image(int64_t begin, int64_t end, int32_t, void *arg) {
    constexpr int64_t PIECE = 2048;
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_entry &entry = *(const acc_quantized_entry *)job->parameters;
    const acc_quantized_reorder &r = entry.order;
    const Quantizing quantizing(entry.quantize);
    const uint8_t sign = r.flip ? 0x80 : 0;
    Byte bytes[4 * PIECE + 64];
    for (int64_t item = begin; item < end; item++) {
        const int64_t image = item / r.chunks, chunk = item % r.chunks, last = r.pixels * (chunk + 1) / r.chunks;
        const float *in = (const float *)job->inputs[0] + image * r.pixels * r.channels;
        uint8_t *out = (uint8_t *)job->outputs[0] + image * r.pixels * r.step;
        for (int64_t p = r.pixels * chunk / r.chunks; p < last; p += PIECE) {
            const int64_t count = lesser(PIECE, last - p);
            if (r.channels_last) {
                quantizing(in + p * r.channels, count * r.channels, bytes);
                enter_pixels((const uint8_t *)bytes, r.channels, count, sign, out + p * 4);
            } else {
                for (int64_t channel = 0; channel < r.channels; channel++)
                    quantizing(in + channel * r.pixels + p, count, bytes + channel * PIECE);
                interleave_planes((const uint8_t *)bytes, PIECE, r.channels, count, sign, out + p * 4);
            }
        }
    }
}

/* scale * (element - zero point) */
static void dequantize(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantize &q = *(const acc_quantize *)job->parameters;
    /* Bytes of the other signedness, read as ours, have their sign bit changed first. */
    const uint8_t sign = (q.is_signed != 0) != SIGNED_BYTES ? 0x80 : 0;
    const int32_t zero = q.zero + (sign ? (SIGNED_BYTES ? -128 : 128) : 0);
    const Vector scale = broadcast(q.scale);
    const uint8_t *in = (const uint8_t *)job->inputs[0];
    float *out = (float *)job->outputs[0];
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int count = (int)lesser<int64_t>(BLOCK, end - at);
        Bytes16 bytes = {};
        if (count == BLOCK)
            bytes = load16(in + at);
        else
            for (int i = 0; i < count; i++) bytes[i] = in[at + i];
        bytes ^= sign;
        Byte block[BLOCK];
        __builtin_memcpy(block, &bytes, sizeof(block));
#pragma GCC unroll 4
        for (int v = 0; v < BLOCK_VECTORS; v++) {
            const Vector x = to_floats(load_bytes(block + v * LANES) - zero) * scale;
            const int here = count - v * LANES;
            if (here >= LANES)
                store(out + at + v * LANES, x);
            else if (here > 0)
                store_part(out + at + v * LANES, x, here);
        }
    }
}

typedef int16_t LanesOfShorts __attribute__((vector_size(LANES * 2)));

/* The same, of int16: vectors are cut short at the end. */
static void quantize_shorts(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantize &q = *(const acc_quantize *)job->parameters;
    const Vector scale = broadcast(q.scale), low = broadcast(-32768.0f - (float)q.zero), high = broadcast(32767.0f - (float)q.zero);
    const float *in = (const float *)job->inputs[0];
    int16_t *out = (int16_t *)job->outputs[0];
    for (int64_t at = begin; at < end; at += LANES) {
        const int here = (int)lesser<int64_t>(LANES, end - at);
        const Vector x = here == LANES ? load(in + at) : load_part(in + at, here);
        const Vector ratio = select(x == x, x / scale, zeros());
        const Integers whole = nearest_integers(minimum(high, maximum(low, ratio)), q.away != 0) + q.zero;
        const LanesOfShorts y = __builtin_convertvector(whole, LanesOfShorts);
        if (here == LANES)
            __builtin_memcpy(out + at, &y, sizeof(y));
        else
            for (int i = 0; i < here; i++) out[at + i] = y[i];
    }
}

static void dequantize_shorts(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantize &q = *(const acc_quantize *)job->parameters;
    const Vector scale = broadcast(q.scale);
    const int16_t *in = (const int16_t *)job->inputs[0];
    float *out = (float *)job->outputs[0];
    for (int64_t at = begin; at < end; at += LANES) {
        const int here = (int)lesser<int64_t>(LANES, end - at);
        LanesOfShorts x = {};
        if (here == LANES)
            __builtin_memcpy(&x, in + at, sizeof(x));
        else
            for (int i = 0; i < here; i++) x[i] = in[at + i];
        const Vector y = to_floats(__builtin_convertvector(x, Integers) - q.zero) * scale;
        if (here == LANES)
            store(out + at, y);
        else
            store_part(out + at, y, here);
    }
}

} // namespace dovetail_acc::ACC_ISA
