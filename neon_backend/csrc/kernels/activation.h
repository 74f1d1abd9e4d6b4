/* Functions of one element. */
#ifndef DOVETAIL_NEON_KERNELS_ACTIVATION_H
#define DOVETAIL_NEON_KERNELS_ACTIVATION_H

#include "../interface/activation.h"
#include "../vector.h"
#include "mathematics.h"

namespace dovetail_neon {
namespace DOVETAIL_NEON_ISA {

template <typename Function> INLINE void each(Vector *x, int count, Function function) {
    for (int i = 0; i < count; i++) x[i] = function(x[i]);
}

/* Apply a function to `count` vectors that were just computed. */
static __attribute__((noinline)) void activate(const neon_activation &with, Vector *x, int count) {
    const Vector a = broadcast(with.a), b = broadcast(with.b), one = broadcast(1.0f), none = broadcast(0.0f);
    switch (with.function) {
    case NEON_CLAMP: each(x, count, [=](Vector v) { return minimum(b, maximum(a, v)); }); break;
    case NEON_LEAKY_RELU: each(x, count, [=](Vector v) { return select(v < none, v * a, v); }); break;
    case NEON_SIGMOID: each(x, count, [](Vector v) { return sigmoid(v); }); break;
    case NEON_HARD_SIGMOID: each(x, count, [=](Vector v) { return minimum(one, maximum(none, fma(v, a, b))); }); break;
    case NEON_HARD_SWISH: {
        const Vector sixth = broadcast(1.0f / 6.0f), half = broadcast(0.5f);
        each(x, count, [=](Vector v) { return v * minimum(one, maximum(none, fma(v, sixth, half))); });
        break;
    }
    default: break;
    }
}

} // namespace DOVETAIL_NEON_ISA
} // namespace dovetail_neon

#endif
