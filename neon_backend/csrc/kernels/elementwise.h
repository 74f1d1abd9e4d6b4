/* Two tensors element by element. */
#ifndef DOVETAIL_NEON_KERNELS_ELEMENTWISE_H
#define DOVETAIL_NEON_KERNELS_ELEMENTWISE_H

#include "../interface/elementwise.h"
#include "activation.h"

namespace dovetail_neon {
namespace DOVETAIL_NEON_ISA {

INLINE Vector larger(Vector a, Vector b) { return select(a > b || a != a, a, b); }
INLINE Vector smaller(Vector a, Vector b) { return select(a < b || a != a, a, b); }

/* One run of results. An operand is read as it lies, or its only element is spread out. */
template <typename Operation>
INLINE void combine_run(const neon_elementwise &s, const float *a, const float *b, float *out, int64_t count, Operation operation) {
    const bool spread_a = s.row_step[0] == 0, spread_b = s.row_step[1] == 0;
    const Vector all_a = broadcast(spread_a && count ? *a : 0.0f), all_b = broadcast(spread_b && count ? *b : 0.0f);
    constexpr int most = 8;
    for (int64_t at = 0; at < count; at += most * LANES) {
        Vector x[most];
        int vectors = 0;
        for (int64_t i = at; i < count && vectors < most; i += LANES, vectors++) {
            const int left = (int)lesser<int64_t>(LANES, count - i);
            const Vector u = spread_a ? all_a : left == LANES ? load(a + i) : load_part(a + i, left);
            const Vector v = spread_b ? all_b : left == LANES ? load(b + i) : load_part(b + i, left);
            x[vectors] = operation(u, v);
        }
        if (s.activation.function != NEON_IDENTITY) activate(s.activation, x, vectors);
        for (int k = 0; k < vectors; k++) {
            const int64_t i = at + k * LANES;
            if (count - i >= LANES)
                store(out + i, x[k]);
            else
                store_part(out + i, x[k], (int)(count - i));
        }
    }
}

template <typename Operation> INLINE void combine_rows(const neon_job *job, int64_t begin, int64_t end, Operation operation) {
    const neon_elementwise &s = *(const neon_elementwise *)job->parameters;
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / s.chunks, chunk = item % s.chunks;
        int64_t offset[2] = {0, 0}, rest = row;
        for (int axis = s.axes - 1; axis >= 0; axis--) {
            const int64_t index = rest % s.sizes[axis];
            rest /= s.sizes[axis];
            offset[0] += index * s.steps[0][axis], offset[1] += index * s.steps[1][axis];
        }
        const int64_t first = s.row * chunk / s.chunks, last = s.row * (chunk + 1) / s.chunks;
        combine_run(s, (const float *)job->inputs[0] + offset[0] + first * s.row_step[0],
                    (const float *)job->inputs[1] + offset[1] + first * s.row_step[1],
                    (float *)job->outputs[0] + row * s.row + first, last - first, operation);
    }
}

static void binary(int64_t begin, int64_t end, int32_t, void *arg) {
    const neon_job *job = (const neon_job *)arg;
    switch (((const neon_elementwise *)job->parameters)->operation) {
    case NEON_ADD: combine_rows(job, begin, end, [](Vector a, Vector b) { return a + b; }); break;
    case NEON_SUBTRACT: combine_rows(job, begin, end, [](Vector a, Vector b) { return a - b; }); break;
    case NEON_MULTIPLY: combine_rows(job, begin, end, [](Vector a, Vector b) { return a * b; }); break;
    case NEON_DIVIDE: combine_rows(job, begin, end, [](Vector a, Vector b) { return a / b; }); break;
    case NEON_MAXIMUM: combine_rows(job, begin, end, [](Vector a, Vector b) { return larger(a, b); }); break;
    case NEON_MINIMUM: combine_rows(job, begin, end, [](Vector a, Vector b) { return smaller(a, b); }); break;
    case NEON_SQUARED_DIFFERENCE: combine_rows(job, begin, end, [](Vector a, Vector b) { return (a - b) * (a - b); }); break;
    default: break;
    }
}

static const neon_elementwise_kernels elementwise_kernels = {binary};

} // namespace DOVETAIL_NEON_ISA
} // namespace dovetail_neon

#endif
