/* Softmax of rows of quantized bytes, from tables of exponentials: an exponential depends on how
 * far an element is below the greatest one of its row. */
#pragma once

#include "dovetail_neon/quantized/elements.h"
#include "dovetail_neon/workload/spans.h"

namespace dovetail_acc::ACC_ISA {

constexpr int64_t WORTH_A_TABLE = 96;   /* elements: a table of all results takes as long as so many */

/* The high half of 2 * a * b, rounded to nearest: halves up. */
INLINE int32_t doubled_high(int32_t a, int32_t b) { return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31); }

INLINE int32_t times_four(int32_t x) {
    const int64_t wide = 4 * (int64_t)x;
    return (int32_t)lesser<int64_t>(INT32_MAX, greater<int64_t>(INT32_MIN, wide));
}

/* What makes results of exponentials, worked out once for each row. */
struct Share {
    const uint32_t *terms;
    double whole;               /* of real numbers: the sum of all terms, in steps of the result */
    int32_t inverse, exponent;  /* in fixed point: 1 / sum, and by which power of two products are divided; 0: all are 0 */
    bool fixed;

    Share(const acc_quantized_softmax &s, uint64_t total) : whole((double)total * s.step), fixed(s.fixed != 0) {
        terms = fixed ? s.powers : s.terms;
        if (!fixed) return;
        /* 1 / sum by Newton's method: the sum has 12 integer bits. */
        const uint32_t sum = (uint32_t)lesser<uint64_t>(total, INT32_MAX);
        const int zeros = __builtin_clz(sum);
        const int32_t rest = (int32_t)((sum << zeros) - (1u << 31));
        const int32_t half = (int32_t)(((int64_t)rest + INT32_MAX + 1) / 2);
        int32_t found = 1515870810 + doubled_high(half, -1010580540);
        for (int i = 0; i < 3; i++) found += times_four(doubled_high(found, (1 << 29) - doubled_high(half, found)));
        inverse = (int32_t)lesser<int64_t>(INT32_MAX, 2 * (int64_t)found);
        exponent = zeros < 4 ? 0 : 35 - zeros;
    }

    /* The result of an element so far below the greatest, less the zero point. */
    INLINE_MEMBER int32_t fixed_at(int distance) const {
        const uint32_t product = (uint32_t)doubled_high(inverse, (int32_t)terms[distance]);
        return exponent ? (int32_t)((product + (1u << (exponent - 1))) >> exponent) : 0;
    }
    INLINE_MEMBER int32_t real_at(int distance) const {
        const double value = __builtin_rint((double)terms[distance] / whole);
        return (int32_t)lesser(value, 512.0);
    }
};

INLINE uint8_t byte_of(const acc_quantized_softmax &s, int32_t share) {
    return (uint8_t)lesser(s.high, greater(s.low, share + s.zero));
}

/* Results by elements as they are stored; none beyond the reach is more than the zero point. */
static void tabulate(const acc_quantized_softmax &s, const Share &share, int most, uint8_t (&table)[256]) {
    uint8_t results[256];
    for (int first = 0; first < s.reach; first += BLOCK) {
        if (share.fixed)
            for (int i = 0; i < BLOCK; i++) results[first + i] = byte_of(s, share.fixed_at(first + i));
        else
            for (int i = 0; i < BLOCK; i++) results[first + i] = byte_of(s, share.real_at(first + i));
    }
    __builtin_memset(table, byte_of(s, 0), sizeof(table));
    const int count = lesser(s.reach, most + 1);
    for (int distance = 0; distance < count; distance++) table[(most - distance) ^ s.sign] = results[distance];
}

INLINE int greatest_of(const uint8_t *in, int64_t count, uint8_t sign) {
    Bytes16 most = {};
    int64_t at = 0;
    for (; at + 16 <= count; at += 16) {
        const Bytes16 x = load16(in + at) ^ sign;
        most = most > x ? most : x;
    }
    int found = 0;
    for (int i = 0; i < 16; i++) found = greater<int>(found, most[i]);
    for (; at < count; at++) found = greater<int>(found, in[at] ^ sign);
    return found;
}

/* The sum of exact terms: any order of additions has the same bits. Blocks have a constant number
 * of elements, so that loops over them are vectorized. */
INLINE uint64_t total_of(const uint8_t *in, int64_t count, const uint32_t *greatest, uint8_t sign) {
    uint64_t sums[BLOCK] = {}, total = 0;
    int64_t at = 0;
    for (; at + BLOCK <= count; at += BLOCK)
        for (int i = 0; i < BLOCK; i++) sums[i] += greatest[-(int)(in[at + i] ^ sign)];
    for (; at < count; at++) total += greatest[-(int)(in[at] ^ sign)];
    for (int i = 0; i < BLOCK; i++) total += sums[i];
    return total;
}

template <bool fixed>
INLINE void shares_of(const acc_quantized_softmax &s, const Share &share, int most, const uint8_t *in, int64_t count, uint8_t *out) {
    const auto one = [&](uint8_t stored) {
        const int distance = most - (stored ^ s.sign);
        return byte_of(s, fixed ? share.fixed_at(distance) : share.real_at(distance));
    };
    int64_t at = 0;
    for (; at + BLOCK <= count; at += BLOCK) {
        uint8_t block[BLOCK];
        for (int i = 0; i < BLOCK; i++) block[i] = one(in[at + i]);
        __builtin_memcpy(out + at, block, BLOCK);
    }
    for (; at < count; at++) out[at] = one(in[at]);
}

static void softmax_bytes(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_quantized_softmax &s = *(const acc_quantized_softmax *)job->parameters;
    for (int64_t row = begin; row < end; row++) {
        const uint8_t *in = (const uint8_t *)job->inputs[0] + row * s.size;
        uint8_t *out = (uint8_t *)job->outputs[0] + row * s.size;
        int most = 0;
        for (int64_t at = 0; at < s.size; at += SPAN) {
            if (at && acc_stopped(job)) return;
            most = greater(most, greatest_of(in + at, lesser(SPAN, s.size - at), s.sign));
        }
        uint64_t total = 0;
        for (int64_t at = 0; at < s.size; at += SPAN) {
            if (at && acc_stopped(job)) return;
            total += total_of(in + at, lesser(SPAN, s.size - at), s.terms + most, s.sign);
        }
        const Share share(s, total);
        if (s.size < WORTH_A_TABLE) {
            if (share.fixed)
                shares_of<true>(s, share, most, in, s.size, out);
            else
                shares_of<false>(s, share, most, in, s.size, out);
            continue;
        }
        alignas(64) uint8_t bytes[256];
        tabulate(s, share, most, bytes);
        const ByteTable table(bytes);
        for (int64_t at = 0; at < s.size; at += SPAN) {
            if (at && acc_stopped(job)) return;
            look_up(table, bytes, in + at, lesser(SPAN, s.size - at), out + at);
        }
    }
}

} // namespace dovetail_acc::ACC_ISA
