/* Two tensors element by element. */
#pragma once

#include "dovetail_neon/elementwise/parameters.h"
#include "dovetail_neon/elementwise/apply.h"

namespace dovetail_acc::ACC_ISA {

/* `maximum` answers b if either is NaN. */
INLINE Vector larger(Vector a, Vector b) { return select(a != a, a, maximum(a, b)); }
INLINE Vector smaller(Vector a, Vector b) { return select(a != a, a, minimum(a, b)); }

/* What the library of C computes, one element at a time. */
static __attribute__((noinline)) Vector each_pair(float (*function)(float, float), Vector a, Vector b) {
    for (int lane = 0; lane < LANES; lane++) a[lane] = function(a[lane], b[lane]);
    return a;
}

static float modulo(float a, float b) {
    const float rest = __builtin_fmodf(a, b);
    if (rest == 0.0f) return __builtin_copysignf(0.0f, b);
    return (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
}

/* One run of results. An operand is read as it lies, or its only element is spread out. */
template <bool spread_a, bool spread_b, typename Operation>
INLINE void combine_run(const acc_activation &activation, const float *a, const float *b, float *out, int64_t count,
                        Operation operation) {
    const Vector all_a = broadcast(spread_a && count ? *a : 0.0f), all_b = broadcast(spread_b && count ? *b : 0.0f);
    const bool plain = activation.function == ACC_IDENTITY;
    constexpr int most = 4;
    int64_t at = 0;
    for (; at + most * LANES <= count; at += most * LANES) {
        Vector x[most];
#pragma GCC unroll 4
        for (int k = 0; k < most; k++)
            x[k] = operation(spread_a ? all_a : load(a + at + k * LANES), spread_b ? all_b : load(b + at + k * LANES));
        if (!plain) activate(activation, x, most);
#pragma GCC unroll 4
        for (int k = 0; k < most; k++) store(out + at + k * LANES, x[k]);
    }
    for (; at + LANES <= count; at += LANES) {
        Vector x = operation(spread_a ? all_a : load(a + at), spread_b ? all_b : load(b + at));
        if (!plain) activate(activation, &x, 1);
        store(out + at, x);
    }
    if (at == count) return;
    const int left = (int)(count - at);
    Vector x = operation(spread_a ? all_a : load_part(a + at, left), spread_b ? all_b : load_part(b + at, left));
    if (!plain) activate(activation, &x, 1);
    store_part(out + at, x, left);
}

template <typename Operation> INLINE void combine_rows(const acc_job *job, int64_t begin, int64_t end, Operation operation) {
    const acc_elementwise &s = *(const acc_elementwise *)job->parameters;
    const float *a = (const float *)job->inputs[0], *b = (const float *)job->inputs[1];
    int64_t index[ACC_MAX_AXES], rest = begin / s.chunks, chunk = begin % s.chunks;
    float *out = (float *)job->outputs[0] + rest * s.row;
    for (int axis = s.axes - 1; axis >= 0; axis--) {
        index[axis] = rest % s.sizes[axis], rest /= s.sizes[axis];
        a += index[axis] * s.steps[0][axis], b += index[axis] * s.steps[1][axis];
    }
    for (int64_t item = begin; item < end; item++) {
        const int64_t first = s.row * chunk / s.chunks, count = s.row * (chunk + 1) / s.chunks - first;
        const float *from_a = a + first * s.row_step[0], *from_b = b + first * s.row_step[1];
        if (s.row_step[0] && s.row_step[1])
            combine_run<false, false>(s.activation, from_a, from_b, out + first, count, operation);
        else if (s.row_step[0])
            combine_run<false, true>(s.activation, from_a, from_b, out + first, count, operation);
        else if (s.row_step[1])
            combine_run<true, false>(s.activation, from_a, from_b, out + first, count, operation);
        else
            combine_run<true, true>(s.activation, from_a, from_b, out + first, count, operation);
        if (++chunk < s.chunks) continue;
        chunk = 0, out += s.row;
        for (int axis = s.axes - 1; axis >= 0; axis--) {
            a += s.steps[0][axis], b += s.steps[1][axis];
            if (++index[axis] < s.sizes[axis]) break;
            index[axis] = 0;
            a -= s.sizes[axis] * s.steps[0][axis], b -= s.sizes[axis] * s.steps[1][axis];
        }
    }
}

/* Squares and roots are what models raise to; the library's power costs fifty times as much. */
static void raise(const acc_job *job, int64_t begin, int64_t end) {
    const acc_elementwise &s = *(const acc_elementwise *)job->parameters;
    bool alone = s.row_step[1] == 0;
    for (int axis = 0; axis < s.axes; axis++) alone = alone && s.steps[1][axis] == 0;
    const float exponent = alone && begin < end ? *(const float *)job->inputs[1] : 0.0f;
    if (exponent == 2.0f) {
        combine_rows(job, begin, end, [](Vector a, Vector) { return a * a; });
    } else if (exponent == 3.0f) {
        combine_rows(job, begin, end, [](Vector a, Vector) { return a * a * a; });
    } else if (exponent == 0.5f) {
        /* Unlike the root, this power of -infinity is infinity, and that of -0 is 0. */
        const Vector infinity = broadcast(__builtin_inff());
        combine_rows(job, begin, end,
                     [=](Vector a, Vector) { return select(a == -infinity, infinity, square_root(a) + zeros()); });
    } else {
        combine_rows(job, begin, end, [](Vector a, Vector b) { return each_pair(__builtin_powf, a, b); });
    }
}

static void binary(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    switch (((const acc_elementwise *)job->parameters)->operation) {
    case ACC_ADD: combine_rows(job, begin, end, [](Vector a, Vector b) { return a + b; }); break;
    case ACC_SUBTRACT: combine_rows(job, begin, end, [](Vector a, Vector b) { return a - b; }); break;
    case ACC_MULTIPLY: combine_rows(job, begin, end, [](Vector a, Vector b) { return a * b; }); break;
    case ACC_DIVIDE: combine_rows(job, begin, end, [](Vector a, Vector b) { return a / b; }); break;
    case ACC_MAXIMUM: combine_rows(job, begin, end, [](Vector a, Vector b) { return larger(a, b); }); break;
    case ACC_MINIMUM: combine_rows(job, begin, end, [](Vector a, Vector b) { return smaller(a, b); }); break;
    case ACC_SQUARED_DIFFERENCE: combine_rows(job, begin, end, [](Vector a, Vector b) { return (a - b) * (a - b); }); break;
    case ACC_POWER: raise(job, begin, end); break;
    case ACC_MODULO: combine_rows(job, begin, end, [](Vector a, Vector b) { return each_pair(modulo, a, b); }); break;
    case ACC_REMAINDER: combine_rows(job, begin, end, [](Vector a, Vector b) { return each_pair(__builtin_fmodf, a, b); }); break;
    case ACC_PRELU: combine_rows(job, begin, end, [](Vector a, Vector b) { return select(a < zeros(), a * b, a); }); break;
    default: break;
    }
}

static const acc_elementwise_kernels elementwise_kernels = {binary, scale_channels, apply};

} // namespace dovetail_acc::ACC_ISA
