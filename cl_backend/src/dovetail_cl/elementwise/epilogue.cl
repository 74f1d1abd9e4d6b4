// What a kernel does to an element before it is written; see epilogue.py.
//
// FINISH_WIDTH: elements that are treated at once. OPERANDS(X): X(type, name, way) for each
// operand. Truth is read as 1 and 0.
// FINISHES: whether there is a statement. STATEMENTS, RESULT: of value_x0, the element, and
// operands.
//
// A kernel ends its parameters with FINISH_PARAMETERS, says FINISH_BEGIN once, and says FINISH of a
// variable that holds the element. It lies `at` elements into the result, and at `line` along the
// axis for each position of which some operands have one element. FINISH_SOME is for fewer
// neighbours than FINISH_WIDTH, of which the others are anything.

#define FINISH_PARAMETER(T, x, way) , TENSOR(const T, x)
#define FINISH_FIRST(T, x, way) BEGIN(const T, x);
#define FINISH_NAME(T, x, way) , x, x##_bytes
#define FINISH_PARAMETERS OPERANDS(FINISH_PARAMETER)
#define FINISH_NAMES OPERANDS(FINISH_NAME)
#define FINISH_BEGIN OPERANDS(FINISH_FIRST)

#if FINISH_WIDTH == 1
typedef float finished;
#define FINISH_ALL(T, p) LOAD_AS(T, p, 0)
#define FINISH_COUNTED(T, p) LOAD_AS(T, p, 0)
#else
typedef JOINED(float, FINISH_WIDTH) finished;
#define FINISH_ALL_float(p) JOINED(vload, FINISH_WIDTH)(0, p)
#define FINISH_ALL_half(p) JOINED(load_halves, FINISH_WIDTH)(p)
#define FINISH_ALL_uchar(p) JOINED(convert_float, FINISH_WIDTH)(JOINED(vload, FINISH_WIDTH)(0, p))
#define FINISH_ALL_bfloat(p) JOINED(load_bfloats, FINISH_WIDTH)(p)
#define FINISH_ALL(T, p) JOINED(FINISH_ALL_, T)(p)
#define FINISH_COUNTED(T, p) JOINED(counted_, T)(p, count_)
#define COUNTED(T)                                                                                 \
    static finished counted_##T(__global const T *p, uint count)                                   \
    {                                                                                              \
        float some[FINISH_WIDTH];                                                                  \
        for (uint i = 0; i < FINISH_WIDTH; ++i) {                                                  \
            some[i] = i < count ? LOAD_AS(T, p, i) : 0.0f;                                         \
        }                                                                                          \
        return JOINED(vload, FINISH_WIDTH)(0, some);                                               \
    }
COUNTED(float)
COUNTED(half)
COUNTED(uchar)
COUNTED(bfloat)
#undef COUNTED
#endif

#define READ_one(T, x, LOADS) (finished)(LOAD_AS(T, x, 0))
#define READ_line(T, x, LOADS) LOADS(T, x + line_)
#define READ_each(T, x, LOADS) (finished)(LOAD_AS(T, x, line_))
#define READ_full(T, x, LOADS) LOADS(T, x + at_)
#define READ_ALL(T, x, way) const finished value_##x = READ_##way(T, x, FINISH_ALL);
#define READ_COUNTED(T, x, way) const finished value_##x = READ_##way(T, x, FINISH_COUNTED);

#if FINISHES
#define FINISH_BY(READ, v, at, line)                                                               \
    const ulong at_ = (at);                                                                        \
    const uint line_ = (line);                                                                     \
    const finished value_x0 = v;                                                                   \
    OPERANDS(READ)                                                                                 \
    STATEMENTS                                                                                     \
    v = RESULT;
#define FINISH(v, at, line) { FINISH_BY(READ_ALL, v, at, line) }
#define FINISH_SOME(v, at, line, count)                                                            \
    {                                                                                              \
        const uint count_ = (count);                                                               \
        FINISH_BY(READ_COUNTED, v, at, line)                                                       \
    }
#else
#define FINISH(v, at, line)
#define FINISH_SOME(v, at, line, count)
#endif
