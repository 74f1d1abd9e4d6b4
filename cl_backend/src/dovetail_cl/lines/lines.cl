// Lines: a tensor seen as [outer, size, inner], each line of which, along the middle axis, is
// treated by itself.
//
// C: the type that is computed with. X: of the elements that `fetch` reads.
// LANES: elements that are treated at once, as one vector V.
// ROWS: they are neighbours in a line (inner is 1); else they are elements of as many lines.
// GROUP: work items that share WIDTH lines, neighbours; 0: a work item has lines of its own.
// SUBGROUPS: what they find becomes one in subgroups first.

typedef struct { uint outer, size, inner; } lines;

// `lanes` elements lie at `at`, and again with each step, `stride` elements on. `which`: of the
// first line; lines count in the order of [outer, inner].
typedef struct { index which, at; uint size, stride, lanes; } line;

#define WIDE(T, n) JOINED(T, n)
#if LANES == 1
typedef C V;
#else
typedef WIDE(C, LANES) V;
#endif

#if GROUP
#define DEPTH (GROUP / WIDTH)
#define FIRST ((uint)get_local_id(0) / WIDTH)
#define EVERY DEPTH
#define EACH_LINE(g, s) for (index g = get_group_id(0); g < lines_of(s); g += get_num_groups(0))
#define SHARED __local C shared[GROUP]
#define IS_WRITER(l) (FIRST == 0 && (l).lanes)
#else
#define FIRST 0u
#define EVERY 1u
#define EACH_LINE(g, s) const index n_##g = lines_of(s); EACH(g, n_##g)
#define SHARED __local C *const shared = 0
#define IS_WRITER(l) 1
#endif

// WALK does a statement for each step of a line that is this work item's; `lanes` in it is how many
// lanes there are. TERMS, in SUM_OVER, the same with a sum of expressions.
#if ROWS
#define STEPS_OF(l) ((l).size / LANES)
#define REST_OF(l) ((l).size % LANES)
#define WHOLE(l) LANES
#else
#define STEPS_OF(l) ((l).size)
#define REST_OF(l) 0
#define WHOLE(l) ((l).lanes)
#endif
#define WALK(i, l, statement)                                                                      \
    {                                                                                              \
        const uint all_ = STEPS_OF(l);                                                             \
        for (uint i = FIRST; i < all_; i += EVERY) {                                               \
            const uint lanes = WHOLE(l);                                                           \
            statement;                                                                             \
        }                                                                                          \
        if (REST_OF(l)) {                                                                          \
            const uint i = all_, lanes = REST_OF(l);                                               \
            statement;                                                                             \
        }                                                                                          \
    }

// Neighbouring lines that one work item, or group, has at a time.
#if GROUP
#define ABREAST WIDTH
#else
#define ABREAST LANES
#endif
index lines_of(const lines s)
{
#if ROWS
    return s.outer;
#else
    return s.outer * ((s.inner + ABREAST - 1) / ABREAST);
#endif
}

line line_at(const index g, const lines s)
{
#if ROWS
    const line l = { g, g * s.size, s.size, LANES, LANES };
#else
    const index blocks = (s.inner + ABREAST - 1) / ABREAST, o = g / blocks;
#if GROUP
    // Where there is no line, a work item does as if there were an empty one.
    const index wanted = (g - o * blocks) * WIDTH + get_local_id(0) % WIDTH, k = min(wanted, s.inner - 1);
    const line l = {
        o * s.inner + k, o * s.size * s.inner + k, k == wanted ? s.size : 0, s.inner, k == wanted };
#else
    const index k = (g - o * blocks) * LANES;
    const line l = { o * s.inner + k, o * s.size * s.inner + k, s.size, s.inner, min((uint)LANES, s.inner - k) };
#endif
#endif
    return l;
}

// -- reading and writing --------------------------------------------------------------------------

// FETCHES and STORES make functions for an element type. Lanes that are not there are read as
// `fill`, and not written.
#if LANES == 1
#define FETCHES(name, T)                                                                           \
    V name(__global const T *p, const index at, const uint lanes, const V fill)                    \
    {                                                                                              \
        return (V)LOAD_AS(T, p, at);                                                               \
    }
#define STORES(name, T)                                                                            \
    void name(__global T *p, const index at, const uint lanes, const V v) { STORE_AS(T, p, at, v); }
#else
#define CONVERTED(p) WIDE(WIDE(convert_, C), LANES)(WIDE(vload, LANES)(0, p))
// Vectors at any multiple of the size of a float; the library's vstore is several instructions.
typedef V loose __attribute__((aligned(4)));
#define VECTOR_float(p) (*(__global const loose *)(p))
#define VECTOR_half(p) WIDE(load_halves, LANES)(p)
#define VECTOR_bfloat(p) WIDE(load_bfloats, LANES)(p)
#define VECTOR_char(p) CONVERTED(p)
#define VECTOR_uchar(p) CONVERTED(p)
#define VECTOR_short(p) CONVERTED(p)
#define VECTOR_ushort(p) CONVERTED(p)
#define VECTOR_uint(p) CONVERTED(p)
#define VECTOR_ulong(p) CONVERTED(p)
#define VECTOR_double(p) CONVERTED(p)
#define VECTOR_int(p) CONVERTED(p)
#define VECTOR_long(p) CONVERTED(p)
#define KEEP_float(p, v) (*(__global loose *)(p) = (v))
#define KEEP_half(p, v) WIDE(store_halves, LANES)(p, v)
#define KEEP_bfloat(p, v) WIDE(store_bfloats, LANES)(p, v)
#define KEEP_char(p, v) WIDE(vstore, LANES)(WIDE(convert_char, LANES)(v), 0, p)
#define KEEP_uchar(p, v) WIDE(vstore, LANES)(WIDE(convert_uchar, LANES)(v), 0, p)
#define KEEP_short(p, v) WIDE(vstore, LANES)(WIDE(convert_short, LANES)(v), 0, p)
#define KEEP_ushort(p, v) WIDE(vstore, LANES)(WIDE(convert_ushort, LANES)(v), 0, p)
#define KEEP_uint(p, v) WIDE(vstore, LANES)(WIDE(convert_uint, LANES)(v), 0, p)
#define KEEP_ulong(p, v) WIDE(vstore, LANES)(WIDE(convert_ulong, LANES)(v), 0, p)
#define KEEP_double(p, v) WIDE(vstore, LANES)(v, 0, p)
#define KEEP_int(p, v) WIDE(vstore, LANES)(WIDE(convert_int, LANES)(v), 0, p)
#define KEEP_long(p, v) WIDE(vstore, LANES)(WIDE(convert_long, LANES)(v), 0, p)
#define VECTOR_AS(T, p) WIDE(VECTOR_, T)(p)
#define KEEP_AS(T, p, v) WIDE(KEEP_, T)(p, v)
#define FETCHES(name, T)                                                                           \
    V name(__global const T *p, const index at, const uint lanes, const V fill)                    \
    {                                                                                              \
        if (lanes == LANES) {                                                                      \
            return VECTOR_AS(T, p + at);                                                           \
        }                                                                                          \
        C some[LANES];                                                                             \
        WIDE(vstore, LANES)(fill, 0, some);                                                        \
        for (uint k = 0; k < lanes; ++k) {                                                         \
            some[k] = (C)LOAD_AS(T, p, at + k);                                                    \
        }                                                                                          \
        return WIDE(vload, LANES)(0, some);                                                        \
    }
#define STORES(name, T)                                                                            \
    void name(__global T *p, const index at, const uint lanes, const V v)                          \
    {                                                                                              \
        if (lanes == LANES) {                                                                      \
            KEEP_AS(T, p + at, v);                                                                 \
            return;                                                                                \
        }                                                                                          \
        C some[LANES];                                                                             \
        WIDE(vstore, LANES)(v, 0, some);                                                           \
        for (uint k = 0; k < lanes; ++k) {                                                         \
            STORE_AS(T, p, at + k, some[k]);                                                       \
        }                                                                                          \
    }
#endif
FETCHES(fetch, X)
#define AT(l, i) ((l).at + (i) * (l).stride)
#define FETCH(x, l, i, fill) fetch(x, AT(l, i), lanes, fill)

// -- what lanes and work items have becomes one ---------------------------------------------------

#define SUM(a, b) ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))

// ACROSS makes a function of what each lane, or each work item, found of a line: one number, in all
// lanes and all work items. Where lanes are lines of their own, each keeps its number.
#if SUBGROUPS
// OF is the name of one of these macros: they say what it makes of a subgroup, and what a work item
// for which no subgroup is left begins with.
#define SUBGROUP_SUM(v) sub_group_reduce_add(v)
#define SUBGROUP_MAX_BUT_NAN(v) sub_group_reduce_max(v)
// No subgroup's work hangs on a condition, even one that is the same for all of its work items.
#if IS_FLOAT
#define KEEPING_NAN(name, of_numbers)                                                              \
    V name(const V v)                                                                              \
    {                                                                                              \
        const int is_any = sub_group_any(v != v);                                                  \
        const V found = of_numbers(v);                                                             \
        return is_any ? (V)NAN : found;                                                            \
    }
#else
#define KEEPING_NAN(name, of_numbers)                                                              \
    V name(const V v) { return of_numbers(v); }
#endif
KEEPING_NAN(SUBGROUP_MAX_OR_NAN, sub_group_reduce_max)
KEEPING_NAN(SUBGROUP_MIN_OR_NAN, sub_group_reduce_min)
#undef KEEPING_NAN
#define FIRST_SUM 0
#define FIRST_MAX_BUT_NAN shared[0]
#define FIRST_MAX_OR_NAN shared[0]
#define FIRST_MIN_OR_NAN shared[0]
#define ACROSS(name, OF)                                                                           \
    V name(const V v, __local C *shared)                                                           \
    {                                                                                              \
        const V part = JOINED(SUBGROUP_, OF)(v);                                                   \
        if (get_sub_group_local_id() == 0) {                                                       \
            shared[get_sub_group_id()] = part;                                                     \
        }                                                                                          \
        barrier(CLK_LOCAL_MEM_FENCE);                                                              \
        V found = JOINED(FIRST_, OF);                                                              \
        const uint parts = get_num_sub_groups(), apart = get_sub_group_size();                     \
        for (uint other = get_sub_group_local_id(); other < parts; other += apart) {               \
            found = OF(found, shared[other]);                                                      \
        }                                                                                          \
        barrier(CLK_LOCAL_MEM_FENCE);                                                              \
        return JOINED(SUBGROUP_, OF)(found);                                                       \
    }
#elif GROUP
#define ACROSS(name, OF)                                                                           \
    V name(const V v, __local C *shared)                                                           \
    {                                                                                              \
        const uint own = get_local_id(0);                                                          \
        shared[own] = v;                                                                           \
        for (uint depth = DEPTH / 2; depth; depth /= 2) {                                          \
            barrier(CLK_LOCAL_MEM_FENCE);                                                          \
            if (own < depth * WIDTH) {                                                             \
                shared[own] = OF(shared[own], shared[own + depth * WIDTH]);                        \
            }                                                                                      \
        }                                                                                          \
        barrier(CLK_LOCAL_MEM_FENCE);                                                              \
        const V found = shared[own % WIDTH];                                                       \
        barrier(CLK_LOCAL_MEM_FENCE);                                                              \
        return found;                                                                              \
    }
#elif ROWS
#if LANES == 16
#define HALVED(v, OF) OF((v).lo, (v).hi)
#else
#define HALVED(v, OF) (v)
#endif
#define ACROSS(name, OF)                                                                           \
    V name(const V v, __local C *shared)                                                           \
    {                                                                                              \
        const WIDE(C, 8) eight = HALVED(v, OF);                                                    \
        const WIDE(C, 4) four = OF(eight.lo, eight.hi);                                            \
        const WIDE(C, 2) two = OF(four.lo, four.hi);                                               \
        const C one = OF(two.lo, two.hi);                                                          \
        return (V)one;                                                                             \
    }
#else
#define ACROSS(name, OF)                                                                           \
    V name(const V v, __local C *shared) { return v; }
#endif
ACROSS(summed_across, SUM)

// Whether a number of some line that goes with this one lies outside of what its squares can hold:
// the same for all work items of a group.
#if IS_FLOAT
#if SUBGROUPS
ACROSS(any_across, MAX_OR_NAN)
#endif
bool is_any_beyond(const V v, __local C *shared)
{
#if LANES == 1
    const bool is_own = !(v <= 1e37f && v >= 1e-30f);
#else
    const bool is_own = any(!(v <= (V)1e37f && v >= (V)1e-30f));
#endif
#if SUBGROUPS
    return any_across(is_own, shared) != 0;
#elif GROUP
    barrier(CLK_LOCAL_MEM_FENCE);
    shared[0] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (is_own) shared[0] = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    const bool is_any = shared[0] != 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    return is_any;
#else
    return is_own;
#endif
}
#endif

// -- sums -----------------------------------------------------------------------------------------

// Sums of BLOCK terms are added up with compensation (Kahan), so that the error of a long sum does
// not grow with its length.
#define BLOCK 64
// Two sums go on at a time, as each addition waits for the one before it; other work items do that
// on GPUs.
#define PAIRED ON_CPU
V plus(const V total, const V part, V *lost)
{
#if IS_FLOAT
    const V given = part - *lost, found = total + given, missed = (found - total) - given;
    *lost = missed == missed ? missed : 0;      // infinity less infinity is no error to make up for
    return found;
#else
    return total + part;
#endif
}

// Declare `total`, the sum over a line of a term, an expression with the step `i`.
#define SUM_OVER(total, i, l, term)                                                                \
    V total = 0;                                                                                   \
    {                                                                                              \
        V lost_ = 0;                                                                               \
        const uint all_ = STEPS_OF(l);                                                             \
        for (uint from_ = FIRST; from_ < all_; from_ += BLOCK * EVERY) {                           \
            const uint to_ = min(all_, from_ + BLOCK * EVERY), lanes = WHOLE(l);                   \
            V part_ = 0, other_ = 0;                                                               \
            uint next_ = from_;                                                                    \
            for (; PAIRED && next_ + EVERY < to_; next_ += 2 * EVERY) {                            \
                {                                                                                  \
                    const uint i = next_;                                                          \
                    part_ += (term);                                                               \
                }                                                                                  \
                const uint i = next_ + EVERY;                                                      \
                other_ += (term);                                                                  \
            }                                                                                      \
            for (uint i = next_; i < to_; i += EVERY) {                                            \
                part_ += (term);                                                                   \
            }                                                                                      \
            part_ += other_;                                                                       \
            total = plus(total, part_, &lost_);                                                    \
        }                                                                                          \
        if (REST_OF(l)) {                                                                          \
            const uint i = all_, lanes = REST_OF(l);                                               \
            total = plus(total, (term), &lost_);                                                   \
        }                                                                                          \
        total = summed_across(total, shared);                                                      \
    }
