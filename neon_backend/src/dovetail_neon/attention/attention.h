/* softmax(scale * q k' + mask) v for each head: the scores of a block of queries never leave the
 * cache.
 *
 * What the softmax divides by is applied to the result, which is shorter than the scores. */
#pragma once

#include "dovetail_neon/attention/parameters.h"
#include "dovetail_neon/vectors/mathematics.h"
#include "dovetail_neon/matrices/product.h"
#include "dovetail_neon/vectors/horizontal.h"
#include "dovetail_neon/workload/spans.h"

namespace dovetail_acc::ACC_ISA {

/* Call pack(first, v, vectors) for vector v of each panel, of which `first` is the first; false if
 * the run should end. */
template <typename Pack> INLINE bool pack_panels(const acc_job *job, bool polls, int64_t vectors, int64_t panels, Pack pack) {
    for (int64_t number = 0; number < panels; number++) {
        const int64_t first = first_of_panel(vectors, panels, number);
        const int64_t count = first_of_panel(vectors, panels, number + 1) - first;
        for (int64_t v = 0; v < count; v++) {
            if (polls && acc_stopped(job)) return false;
            pack(first, v, count);
        }
    }
    return true;
}

static void pack_attention(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_attention &a = *(const acc_attention *)job->parameters;
    const int64_t key_vectors = vectors_of(a.keys), value_vectors = vectors_of(a.value_size);
    const int64_t key_step = a.heads * a.size, value_step = a.heads * a.value_size;
    const bool polls = a.keys * (a.size + a.value_size) > SPAN;
    for (int64_t item = begin; item < end; item++) {
        const int64_t batch = item / a.heads, head = item % a.heads;
        const float *keys = (const float *)job->inputs[1] + batch * a.keys * key_step + head * a.size;
        float *out = (float *)job->workspace + item * key_vectors * LANES * a.size;
        const auto pack_keys = [&](int64_t first, int64_t v, int64_t vectors) {
            const int64_t token = (first + v) * LANES;
            pack_transposed(keys + token * key_step, key_step, a.size, (int)lesser<int64_t>(LANES, a.keys - token),
                            out + first * LANES * a.size + v * LANES, vectors * LANES);
        };
        if (!pack_panels(job, polls, key_vectors, a.key_panels, pack_keys)) return;
        const float *values = (const float *)job->inputs[2] + batch * a.keys * value_step + head * a.value_size;
        out = (float *)job->workspace + a.packed_values + item * value_vectors * LANES * a.keys;
        const auto pack_values = [&](int64_t first, int64_t v, int64_t vectors) {
            const int64_t lane = (first + v) * LANES;
            pack_columns(values + lane, value_step, a.keys, (int)lesser<int64_t>(LANES, a.value_size - lane),
                         out + first * LANES * a.keys + v * LANES, vectors * LANES);
        };
        if (!pack_panels(job, polls, value_vectors, a.value_panels, pack_values)) return;
    }
}

/* Scales scores, adds the mask, and stores them in rows of whole vectors; lanes past the last key
 * are -inf. */
struct StoreScores {
    float *out;
    int64_t step;
    Vector scale;
    const float *mask;          /* at the first query and the panel's first key, or NULL */
    int64_t mask_query_step, mask_key_step;
    int last_lanes;

    template <int rows, int vectors>
    __attribute__((always_inline)) inline void operator()(Vector (&sum)[rows][vectors], int64_t first) const {
        float *at = out + first * step;
        Integers lane;
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) lane[i] = i;
        const Vector nothing = broadcast(-__builtin_inff());
        if (!mask) {
#pragma GCC unroll 16
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++) sum[r][v] = sum[r][v] * scale;
        } else if (mask_key_step == 0) {
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = fma(sum[r][v], scale, broadcast(mask[(first + r) * mask_query_step]));
        } else {
            const float *from = mask + first * mask_query_step;
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
#pragma GCC unroll 16
                for (int r = 0; r < rows; r++) {
                    const float *part = from + r * mask_query_step + v * LANES;
                    sum[r][v] = fma(sum[r][v], scale, v == vectors - 1 ? load_part(part, last_lanes) : load(part));
                }
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++, at += step) {
            if (last_lanes != LANES) sum[r][vectors - 1] = select(lane < last_lanes, sum[r][vectors - 1], nothing);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) store(at + v * LANES, sum[r][v]);
        }
    }
};

/* Multiplies each row by a factor, and stores it. */
struct StoreScaled {
    float *out;
    int64_t step;
    const float *factors;
    int last_lanes;

    template <int rows, int vectors>
    __attribute__((always_inline)) inline void operator()(Vector (&sum)[rows][vectors], int64_t first) const {
        float *at = out + first * step;
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++, at += step) {
            const Vector factor = broadcast(factors[first + r]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors - 1; v++) store(at + v * LANES, sum[r][v] * factor);
            if (last_lanes == LANES)
                store(at + (vectors - 1) * LANES, sum[r][vectors - 1] * factor);
            else
                store_part(at + (vectors - 1) * LANES, sum[r][vectors - 1] * factor, last_lanes);
        }
    }
};

/* Exponentials of what lies below the maximum of each row, in place, and one over their sum. Rows
 * go by `rows` at a time, so that the exponentials of one hide how long the reductions of another
 * take. */
template <int rows> INLINE void exponentials_of(float *scores, int64_t vectors, float *factors) {
    const int64_t step = vectors * LANES;
    const Vector least = broadcast(-87.0f);
    Vector most[rows], sum[rows];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) most[r] = broadcast(-__builtin_inff()), sum[r] = zeros();
    for (int64_t at = 0; at < step; at += LANES)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) most[r] = maximum(most[r], load(scores + r * step + at));
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) most[r] = broadcast(largest(most[r]));
    for (int64_t at = 0; at < step; at += LANES)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            /* What is masked becomes nothing at once: on the way there lie subnormal numbers, which
             * are slow. */
            const Vector below = load(scores + r * step + at) - most[r];
            const Vector e = select(below < least, zeros(), exponential(maximum(least, below)));
            store(scores + r * step + at, e);
            sum[r] += e;
        }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) factors[r] = vectors ? 1.0f / total(sum[r]) : 0.0f;
}

static void exponentials_of_rows(float *scores, int64_t vectors, int64_t rows, float *factors) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) exponentials_of<4>(scores + r * vectors * LANES, vectors, factors + r);
    for (; r < rows; r++) exponentials_of<1>(scores + r * vectors * LANES, vectors, factors + r);
}

static void attend(int64_t begin, int64_t end, int32_t worker, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_attention &a = *(const acc_attention *)job->parameters;
    const int64_t key_vectors = vectors_of(a.keys), value_vectors = vectors_of(a.value_size);
    float *scores = (float *)(job->worker_workspace + worker * job->worker_stride);
    float *factors = scores + a.block_rows * key_vectors * LANES;
    const bool polls = a.block_rows * a.keys > SPAN;
    for (int64_t item = begin; item < end; item++) {
        const int64_t block = item % a.blocks, head = item / a.blocks % a.heads, batch = item / a.blocks / a.heads;
        const int64_t one = batch * a.heads + head;
        const int64_t first = a.queries * block / a.blocks, rows = a.queries * (block + 1) / a.blocks - first;

        Panel panel;
        panel.in = (const float *)job->inputs[0] + ((batch * a.queries + first) * a.heads + head) * a.size;
        panel.in_step = a.heads * a.size, panel.depth = a.size, panel.step = 0;
        StoreScores scored;
        scored.step = key_vectors * LANES, scored.scale = broadcast(a.scale);
        scored.mask_query_step = a.mask_query_step, scored.mask_key_step = a.mask_key_step;
        for (int64_t number = 0; number < a.key_panels; number++) {
            if (polls && acc_stopped(job)) return;
            const int64_t vector = first_of_panel(key_vectors, a.key_panels, number);
            const int64_t vectors = first_of_panel(key_vectors, a.key_panels, number + 1) - vector;
            panel.right = (const float *)job->workspace + (one * key_vectors + vector) * LANES * a.size;
            panel.last_lanes = (int)lesser<int64_t>(LANES, a.keys - (vector + vectors - 1) * LANES);
            scored.out = scores + vector * LANES, scored.last_lanes = panel.last_lanes;
            scored.mask = !a.masked ? nullptr
                                    : (const float *)job->inputs[3] + batch * a.mask_batch_step + head * a.mask_head_step +
                                          first * a.mask_query_step + vector * LANES * a.mask_key_step;
            product<true>(panel, vectors, scored, 0, rows);
        }

        exponentials_of_rows(scores, key_vectors, rows, factors);

        panel.in = scores, panel.in_step = key_vectors * LANES, panel.depth = a.keys;
        for (int64_t number = 0; number < a.value_panels; number++) {
            if (polls && acc_stopped(job)) return;
            const int64_t vector = first_of_panel(value_vectors, a.value_panels, number);
            const int64_t vectors = first_of_panel(value_vectors, a.value_panels, number + 1) - vector;
            panel.right = (const float *)job->workspace + a.packed_values + (one * value_vectors + vector) * LANES * a.keys;
            panel.last_lanes = (int)lesser<int64_t>(LANES, a.value_size - (vector + vectors - 1) * LANES);
            const StoreScaled scaled = {
                (float *)job->outputs[0] + ((batch * a.queries + first) * a.heads + head) * a.value_size + vector * LANES,
                a.heads * a.value_size, factors, panel.last_lanes};
            product<true>(panel, vectors, scaled, 0, rows);
        }
    }
}

static const acc_attention_kernels attention_kernels = {pack_attention, attend};

} // namespace dovetail_acc::ACC_ISA
