/* What instruction sets of four lanes share, in the operators of GCC's vector types. */

INLINE Vector quotient(Vector a, Vector b) { return a / b; }

/* x * 2^n for whole n from -252 to 254: in two steps, so that a result that is no normal number
 * comes out right. */
INLINE Vector scale(Vector x, Vector n) {
    const Integers whole = to_integers(n), half = whole >> 1;
    return x * (Vector)((half + 127) << 23) * (Vector)((whole - half + 127) << 23);
}

INLINE Vector load_part(const float *at, int n) {
    Vector x = {};
    for (int i = 0; i < LANES; i++)
        if (i < n) x[i] = at[i];
    return x;
}
INLINE void store_part(float *at, Vector x, int n) {
    for (int i = 0; i < LANES; i++)
        if (i < n) at[i] = x[i];
}
INLINE Vector gather(const float *at, int64_t stride) { return Vector{at[0], at[stride], at[2 * stride], at[3 * stride]}; }
