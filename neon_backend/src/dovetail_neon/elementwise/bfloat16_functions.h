/* Functions whose result is rounded to bfloat16, as exactly as that needs: errors are a tenth of
 * what rounding may add. */
#pragma once

#include "dovetail_neon/elementwise/activation.h"
#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

/* s(x) or x s(x), with s(x) = 1 / (1 + 2^(x p(x^2))) where x is cut at `limit`. Relative errors: 8
 * * 10^-6 of the power (a minimax polynomial of degree 4), 2^-14 of the reciprocal, and for GELU
 * 3.3 * 10^-4 of p where the result exceeds 2 * 10^-5; below, an absolute error of 2 * 10^-8. */
struct Logistic {
    bool known;             /* whether the function has this form */
    bool times;             /* x s(x) */
    Vector p[6];
    Vector limit;

    explicit Logistic(const acc_activation &with) : known(true), times(with.function != ACC_SIGMOID) {
        const float log2_e = 1.44269504089f;
        float terms[6] = {}, most = 0.0f;
        switch (with.function) {
        case ACC_GELU: {
            /* log2((1 + erf(x / sqrt 2)) / (1 - erf(x / sqrt 2))) / x on [-6, 6], its relative
             * error weighted as said above. */
            const float fitted[6] = {-2.3008928152f, -1.0660425484e-1f, 7.7402686955e-4f, 4.7326322523e-5f, -2.4217729634e-6f, 3.5029389168e-8f};
            for (int i = 0; i < 6; i++) terms[i] = fitted[i];
            most = 6.0f;
            break;
        }
        case ACC_GELU_TANH:
            terms[0] = -1.59576912161f * log2_e, terms[1] = terms[0] * 0.044715f, most = 9.0f;
            break;
        case ACC_SIGMOID:
        case ACC_SWISH: {
            terms[0] = -log2_e * (with.function == ACC_SWISH ? with.a : 1.0f);
            const float slope = terms[0] < 0 ? -terms[0] : terms[0];
            most = slope > 1e-15f ? 126.0f / slope : 1e17f;
            known = slope < 1e15f;
            break;
        }
        default: known = false;
        }
        for (int i = 0; i < 6; i++) p[i] = broadcast(terms[i]);
        limit = broadcast(most);
    }

    __attribute__((always_inline)) inline Vector operator()(Vector x) const {
        const Vector above = maximum(-limit, x), cut = minimum(limit, above), square = cut * cut;
        Vector t = fma(p[5], square, p[4]);
        t = fma(t, square, p[3]), t = fma(t, square, p[2]), t = fma(t, square, p[1]), t = fma(t, square, p[0]) * cut;
        const Vector whole = round_even(t), f = t - whole;
        Vector power = fma(broadcast(0.009670815233f), f, broadcast(0.055875869755f));
        power = fma(power, f, broadcast(0.240222108684f)), power = fma(power, f, broadcast(0.693127226757f));
        power = scale(fma(power, f, broadcast(1.00000005243f)), whole);
        const Vector s = (Vector)_mm512_rcp14_ps((__m512)(power + broadcast(1.0f)));
        return times ? above * s : s;
    }
};

} // namespace dovetail_acc::ACC_ISA
