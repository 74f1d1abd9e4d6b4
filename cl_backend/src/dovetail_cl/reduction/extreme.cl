// y[outer, inner] = where the extreme of x[outer, size, inner] stands along the middle axis.
//
// AHEAD(a, b): whether element a lies before b in the order that is asked for, NaN left aside.
// OF: MAX_OR_NAN or MIN_OR_NAN, what that order makes of two.
// LAST: of equal extremes the last one counts. P: type of positions, as wide as C.
// NEUTRAL: an element that is ahead of none.

#if LANES == 1
typedef P places;
#else
typedef WIDE(P, LANES) places;
#endif

#define PER_STEP (ROWS ? LANES : 1)

// Whether b, which stands behind a, takes its place. NaN is ahead of all numbers.
#if LAST
#define TAKES(a, b) (AHEAD(b, a) | ((b) == (a)) | ((b) != (b)))
#else
#define TAKES(a, b) (AHEAD(b, a) | (((b) != (b)) & ((a) == (a))))
#endif
// Whether b comes before a, wherever they stand.
#define ALIKE(a, b) (((a) == (b)) | (((a) != (a)) & ((b) != (b))))
#define COMES(a, at_a, b, at_b)                                                                    \
    (AHEAD(b, a) | (((b) != (b)) & ((a) == (a))) | (ALIKE(a, b) & (LAST ? (at_b) > (at_a) : (at_b) < (at_a))))

#if SUBGROUPS
ACROSS(extreme_across, OF)
#if LAST
#define PLACE_OF(a, b) max(a, b)
#define SUBGROUP_PLACE(v) sub_group_reduce_max(v)
#else
#define PLACE_OF(a, b) min(a, b)
#define SUBGROUP_PLACE(v) sub_group_reduce_min(v)
#endif
#endif

__kernel void extreme(TENSOR(const X, x), TENSOR(Y, y), const lines s)
{
    SHARED;
#if GROUP
    __local P shared_at[GROUP];
#endif
    BEGIN(const X, x);
    BEGIN(Y, y);
    EACH_LINE(g, s) {
        const line l = line_at(g, s);
        // What is ahead of nothing stands at a lane's first place, or behind all there are.
        places at = LAST ? 0 : FIRST;
#if ROWS
        P numbers[LANES];
        for (int k = 0; k < LANES; ++k) {
            numbers[k] = k;
        }
        const places number = WIDE(vload, LANES)(0, numbers);
        at = LAST ? at : number;
#endif
        V best = NEUTRAL;
        for (uint i = FIRST; i < (l.size + PER_STEP - 1) / PER_STEP; i += EVERY) {
            const uint lanes = ROWS ? min((uint)LANES, l.size - i * LANES) : l.lanes;
            const V v = FETCH(x, l, i, (V)NEUTRAL);
#if ROWS
            const places here = (P)(i * LANES) + number;
#if LAST
            const places takes = TAKES(best, v) & (here < (P)l.size);
#else
            const places takes = TAKES(best, v);
#endif
#else
            const places here = (places)(P)i;
#if LANES == 1
            const int takes = TAKES(best, v);
#else
            const places takes = TAKES(best, v);
#endif
#endif
            best = takes ? v : best;
            at = takes ? here : at;
        }
#if SUBGROUPS
        const V found = extreme_across(best, shared);
        const P place = SUBGROUP_PLACE(ALIKE(best, found) ? at : LAST ? 0 : (P)l.size);
        if (get_sub_group_local_id() == 0) {
            shared_at[get_sub_group_id()] = place;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (IS_WRITER(l)) {
            P first = shared_at[0];
            for (uint other = 1; other < get_num_sub_groups(); ++other) {
                first = PLACE_OF(first, shared_at[other]);
            }
            y[l.which] = (Y)first;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#elif GROUP
        const uint own = get_local_id(0);
        shared[own] = best;
        shared_at[own] = at;
        for (uint depth = DEPTH / 2; depth; depth /= 2) {
            const uint other = own + depth * WIDTH;
            barrier(CLK_LOCAL_MEM_FENCE);
            if (own < depth * WIDTH && COMES(shared[own], shared_at[own], shared[other], shared_at[other])) {
                shared[own] = shared[other];
                shared_at[own] = shared_at[other];
            }
        }
        if (IS_WRITER(l)) {
            y[l.which] = (Y)shared_at[own];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#elif ROWS
        C found[LANES];
        P places_found[LANES];
        WIDE(vstore, LANES)(best, 0, found);
        WIDE(vstore, LANES)(at, 0, places_found);
        int k = 0;
        for (int other = 1; other < LANES; ++other) {
            k = COMES(found[k], places_found[k], found[other], places_found[other]) ? other : k;
        }
        y[l.which] = (Y)places_found[k];
#elif LANES == 1
        y[l.which] = (Y)at;
#else
        P places_found[LANES];
        WIDE(vstore, LANES)(at, 0, places_found);
        for (uint k = 0; k < l.lanes; ++k) {
            y[l.which + k] = (Y)places_found[k];
        }
#endif
    }
}
