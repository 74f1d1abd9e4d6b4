// Transcendental functions of FLOATS, a float or a vector of them, whose integers are INTEGERS: by
// range reduction and polynomials fitted for the least largest relative error. NaN gives NaN;
// infinities give the limits. A driver's own are accurate too, but on CPUs up to a hundred times
// slower.

#define OVERLOADED __attribute__((overloadable, always_inline))
#ifdef FP_FAST_FMAF
#define ADD_PRODUCT(a, b, c) fma(a, b, c)
#else
#define ADD_PRODUCT(a, b, c) ((a) * (b) + (c))
#endif
#define AS_(T) JOINED(as_, T)
#define CONVERT_(T) JOINED(convert_, T)
// A comparison is 1 of floats, -1 of vectors.
#define CHOOSE(condition, a, b) select((FLOATS)(b), (FLOATS)(a), (INTEGERS)(condition))

// x 2^n, for whole n from -252 to 252.
static FLOATS OVERLOADED scaled(FLOATS x, FLOATS n)
{
    const INTEGERS whole = CONVERT_(INTEGERS)(n), half_of = whole >> 1;
    return x * AS_(FLOATS)((half_of + 127) << 23) * AS_(FLOATS)((whole - half_of + 127) << 23);
}

// x = n log 2 + r with |r| hardly above log(2) / 2; n times the first part of log 2 is exact.
// Beside 3 * 2^22 floats are whole: adding that rounds, where PoCL's rint is many instructions.
static FLOATS OVERLOADED reduced_by_log2(FLOATS x, FLOATS *n)
{
    *n = ADD_PRODUCT(x, (FLOATS)1.44269504088896341f, (FLOATS)12582912.0f) - 12582912.0f;
    return ADD_PRODUCT(*n, (FLOATS)2.12194440e-4f, ADD_PRODUCT(*n, (FLOATS)-0.693359375f, x));
}

// e^r - 1 - r, over r^2.
static FLOATS OVERLOADED exponential_rest(FLOATS r)
{
    FLOATS sum = ADD_PRODUCT(r, (FLOATS)1.381416264e-03f, (FLOATS)8.368927373e-03f);
    sum = ADD_PRODUCT(sum, r, (FLOATS)4.166840852e-02f);
    sum = ADD_PRODUCT(sum, r, (FLOATS)1.666651889e-01f);
    return ADD_PRODUCT(sum, r, (FLOATS)4.999999333e-01f);
}

// Below 1.5 ulp.
static FLOATS OVERLOADED exp_of(FLOATS x)
{
    FLOATS n;
    x = CHOOSE(x < -105.0f, -105.0f, CHOOSE(x > 90.0f, 90.0f, x));
    const FLOATS r = reduced_by_log2(x, &n);
    return scaled(ADD_PRODUCT(ADD_PRODUCT(exponential_rest(r), r, (FLOATS)1.0f), r, (FLOATS)1.0f), n);
}

// e^x for x of no more than 0; below 1.5 ulp, and 0 where that would be subnormal.
static FLOATS OVERLOADED power_of_e(FLOATS x)
{
    FLOATS n;
    const FLOATS r = reduced_by_log2(CHOOSE(x < -88.0f, -88.0f, x), &n);
    const FLOATS power = AS_(FLOATS)((CONVERT_(INTEGERS)(n) + 127) << 23);
    return power * ADD_PRODUCT(ADD_PRODUCT(exponential_rest(r), r, (FLOATS)1.0f), r, (FLOATS)1.0f);
}

// e^x - 1; below 1.5 ulp.
static FLOATS OVERLOADED expm1_of(FLOATS x)
{
    FLOATS sum = ADD_PRODUCT(x, (FLOATS)2.496977184e-05f, (FLOATS)1.997208289e-04f);
    sum = ADD_PRODUCT(sum, x, (FLOATS)1.388856011e-03f);
    sum = ADD_PRODUCT(sum, x, (FLOATS)8.333156290e-03f);
    sum = ADD_PRODUCT(sum, x, (FLOATS)4.166666880e-02f);
    sum = ADD_PRODUCT(sum, x, (FLOATS)1.666666727e-01f);
    sum = ADD_PRODUCT(sum, x, (FLOATS)5.000000000e-01f);
    return CHOOSE(fabs(x) < 0.5f, ADD_PRODUCT(sum, x * x, x), exp_of(x) - 1.0f);
}

// 1 / (1 + e^-x); below 2.5 ulp. From 30 on it is 1; far below zero it is e^x itself.
static FLOATS OVERLOADED sigmoid_of(FLOATS x)
{
    const FLOATS e = exp_of(CHOOSE(x > 30.0f, 30.0f, x));
    return e / (1.0f + e);
}

// Below 2.5 ulp: with e = e^(-2 |x|) - 1 it is -e / (2 + e), where nothing cancels.
static FLOATS OVERLOADED tanh_of(FLOATS x)
{
    FLOATS n, size = fabs(x) * -2.0f;
    const FLOATS r = reduced_by_log2(CHOOSE(size < -30.0f, -30.0f, size), &n), power = scaled((FLOATS)1.0f, n);
    const FLOATS e = ADD_PRODUCT(power, ADD_PRODUCT(exponential_rest(r), r * r, r), power - 1.0f);
    return copysign(-e / (2.0f + e), x);
}

// log x; below 1 ulp.
static FLOATS OVERLOADED log_of(FLOATS x)
{
    const FLOATS normal = CHOOSE(x < 1.17549435e-38f, x * 8388608.0f, x);
    const INTEGERS shifted = AS_(INTEGERS)(normal) - 0x3F3504F3;
    const FLOATS exponent = CONVERT_(FLOATS)(shifted >> 23) - CHOOSE(x < 1.17549435e-38f, 23.0f, 0.0f);
    const FLOATS f = AS_(FLOATS)((shifted & 0x007FFFFF) + 0x3F3504F3) - 1.0f, square = f * f;
    FLOATS sum = ADD_PRODUCT(f, (FLOATS)6.131898359e-02f, (FLOATS)-1.175194613e-01f);
    sum = ADD_PRODUCT(sum, f, (FLOATS)1.210956676e-01f);
    sum = ADD_PRODUCT(sum, f, (FLOATS)-1.240542556e-01f);
    sum = ADD_PRODUCT(sum, f, (FLOATS)1.420417059e-01f);
    sum = ADD_PRODUCT(sum, f, (FLOATS)-1.666787072e-01f);
    sum = ADD_PRODUCT(sum, f, (FLOATS)2.000206681e-01f);
    sum = ADD_PRODUCT(sum, f, (FLOATS)-2.500000006e-01f);
    sum = ADD_PRODUCT(sum, f, (FLOATS)3.333332508e-01f);
    FLOATS result = ADD_PRODUCT(sum * square, f, exponent * -2.12194440e-4f);
    result = ADD_PRODUCT(square, (FLOATS)-0.5f, result) + f;
    result = ADD_PRODUCT(exponent, (FLOATS)0.693359375f, result);
    result = CHOOSE(x == 0.0f, -INFINITY, CHOOSE(x < 0.0f, NAN, result));
    return CHOOSE(x == INFINITY || isnan(x), x, result);
}

// The logarithm of 1 - erf(x), for x from 0.93 on.
static FLOATS OVERLOADED error_tail(FLOATS x)
{
    FLOATS sum = ADD_PRODUCT(x, (FLOATS)4.197433552e-07f, (FLOATS)1.574313355e-05f);
    sum = ADD_PRODUCT(sum, x, (FLOATS)-4.052957728e-04f);
    sum = ADD_PRODUCT(sum, x, (FLOATS)4.082301706e-03f);
    sum = ADD_PRODUCT(sum, x, (FLOATS)-2.495438825e-02f);
    sum = ADD_PRODUCT(sum, x, (FLOATS)1.080880138e-01f);
    sum = ADD_PRODUCT(sum, x, (FLOATS)6.334836174e-01f);
    sum = ADD_PRODUCT(sum, x, (FLOATS)1.129460491e+00f);
    return -ADD_PRODUCT(sum, x, (FLOATS)-1.653933072e-04f);
}

// erf(x) for x from -0.93 to 0.93.
static FLOATS OVERLOADED error_core(FLOATS x)
{
    const FLOATS square = x * x;
    FLOATS sum = ADD_PRODUCT(square, (FLOATS)8.215423703e-05f, (FLOATS)-8.105965117e-04f);
    sum = ADD_PRODUCT(sum, square, (FLOATS)5.197797167e-03f);
    sum = ADD_PRODUCT(sum, square, (FLOATS)-2.685810429e-02f);
    sum = ADD_PRODUCT(sum, square, (FLOATS)1.128367255e-01f);
    sum = ADD_PRODUCT(sum, square, (FLOATS)-3.761263229e-01f);
    return x * ADD_PRODUCT(sum, square, (FLOATS)1.128379166e+00f);
}

// Below 2.5 ulp. Beyond 10 the tail is 0, and its polynomial none of it.
static FLOATS OVERLOADED erf_of(FLOATS x)
{
    const FLOATS size = CHOOSE(fabs(x) > 10.0f, 10.0f, fabs(x));
    return CHOOSE(size < 0.93f, error_core(x), copysign(1.0f - power_of_e(error_tail(size)), x));
}

// The part of a normal distribution that lies below x; below 3.5 ulp, but where it is subnormal.
// Far out it is e^(-x^2 / 2) times a polynomial of t, and t; what rounding loses of the square is
// made up for, as a power of e makes much of it.
static FLOATS OVERLOADED normal_below(FLOATS x)
{
    const FLOATS size = CHOOSE(fabs(x) > 15.0f, 15.0f, fabs(x)), t = 1.0f / ADD_PRODUCT(size, (FLOATS)0.35f, (FLOATS)1.0f);
    FLOATS sum = ADD_PRODUCT(t, (FLOATS)-2.916393243e-02f, (FLOATS)1.440608352e-01f);
    sum = ADD_PRODUCT(sum, t, (FLOATS)-2.559019327e-01f);
    sum = ADD_PRODUCT(sum, t, (FLOATS)1.593929827e-01f);
    sum = ADD_PRODUCT(sum, t, (FLOATS)-2.326388657e-02f);
    sum = ADD_PRODUCT(sum, t, (FLOATS)1.055748239e-01f);
    sum = ADD_PRODUCT(sum, t, (FLOATS)1.198154911e-01f);
    sum = ADD_PRODUCT(sum, t, (FLOATS)1.398643404e-01f);
    sum = ADD_PRODUCT(sum, t, (FLOATS)1.396212578e-01f);
    const FLOATS square = size * size, high = AS_(FLOATS)(AS_(INTEGERS)(size) & ~0xFFF);   // whose square is exact
    const FLOATS lost = (high * high - square) + (size - high) * (size + high);
    const FLOATS power = exp_of(-0.5f * square), tail = sum * t * ADD_PRODUCT(power, -0.5f * lost, power);
    return CHOOSE(x < 0.0f, tail, 1.0f - tail);
}

// log(1 + e^x); below 2 ulp.
static FLOATS OVERLOADED softplus_of(FLOATS x)
{
    // log1p(e) with the rounding of 1 + e put right.
    const FLOATS e = exp_of(-fabs(x)), sum = 1.0f + e;
    return CHOOSE(x < 0.0f, 0.0f, x) + log_of(sum) + (e - (sum - 1.0f)) / sum;
}

// A driver's own. Of vectors with a number that is NaN or beyond some 39000, those of PoCL 3.1 take
// numbers near zero for others of 2^-6: they are computed one by one.
#define EACH_NUMBER(name, function)                                                                \
    static FLOATS OVERLOADED name(FLOATS x)                                                        \
    {                                                                                              \
        if (all(fabs(x) < 30000.0f)) return function(x); /* of a single float it never is */       \
        for (uint i = 0; i < sizeof(FLOATS) / sizeof(NUMBER); ++i) {                               \
            ((NUMBER *)&x)[i] = function(((NUMBER *)&x)[i]);                                       \
        }                                                                                          \
        return x;                                                                                  \
    }
EACH_NUMBER(sin_of, sin)
EACH_NUMBER(cos_of, cos)
EACH_NUMBER(tan_of, tan)
#undef EACH_NUMBER

#undef OVERLOADED
#undef ADD_PRODUCT
#undef AS_
#undef CONVERT_
#undef CHOOSE
