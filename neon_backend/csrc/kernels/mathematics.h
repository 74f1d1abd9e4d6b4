#ifndef DOVETAIL_NEON_MATHEMATICS_H
#define DOVETAIL_NEON_MATHEMATICS_H
#include "../vector.h"
namespace dovetail_neon {
namespace DOVETAIL_NEON_ISA {
INLINE Vector exponential(Vector x) {
    const Vector log2e = broadcast(1.44269504088896341f);
    x = minimum(broadcast(88.72283f), maximum(broadcast(-87.33654f), x));
    Vector n = round_even(x * log2e);
    Vector r = fma(n, broadcast(-0.693359375f), x);
    r = fma(n, broadcast(2.12194440e-4f), r);
    Vector p = broadcast(1.9875691500e-4f);
    p = fma(p, r, broadcast(1.3981999507e-3f));
    p = fma(p, r, broadcast(8.3334519073e-3f));
    p = fma(p, r, broadcast(4.1665795894e-2f));
    p = fma(p, r, broadcast(1.6666665459e-1f));
    p = fma(p, r, broadcast(5.0000001201e-1f));
    p = fma(p, r * r, r) + broadcast(1.0f);
    return p * floats_of((to_integers(n) + 127) << 23);
}
INLINE Vector sigmoid(Vector x) { return broadcast(1.0f) / (broadcast(1.0f) + exponential(-x)); }
} // namespace DOVETAIL_NEON_ISA
} // namespace dovetail_neon
#endif
