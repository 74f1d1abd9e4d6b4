// What kernels of attention take.

typedef struct {
    uint q[4], k[4], v[4], y[4];    // elements between batches, heads, rows and elements of a row
    uint from[3];                   // elements before the first of q, k and v
    uint heads, rows, keys;
    uint depth, width;              // elements of a row of q and k, and of v and y
    uint matrices;                  // batches times heads
    uint each;                      // rows of a work item of a CPU
    uint block;                     // keys that it takes at a time, whole panels
    uint step;                      // 1: were that known, rows would be reached by a chain of additions
} attention;

// Elements between batches, heads and rows of the operands with which scores are finished; along
// keys they go by 1 ("line") or 0 ("one").
typedef struct { uint step[COUNT + 1][3]; } places;

// A kernel's parameters before others and those of its epilogue; then its tensors begin where their
// first elements are. OF_MATRIX: elements to a batch and a head.
#define ATTENTION CONSTANT(T, q), CONSTANT(T, k), CONSTANT(T, v), TENSOR(T, y), const attention p, const places at
#define ATTENTION_BEGIN                                                                            \
    BEGIN(const T, q);                                                                             \
    BEGIN(const T, k);                                                                             \
    BEGIN(const T, v);                                                                             \
    BEGIN(T, y);                                                                                   \
    q += p.from[0];                                                                                \
    k += p.from[1];                                                                                \
    v += p.from[2];                                                                                \
    FINISH_BEGIN
#define OF_MATRIX(x) (batch * p.x[0] + head * p.x[1])

// What is subtracted from the scores of a row before powers of e are made of them: the largest one;
// of a row of which no key is to be seen yet, powers are 0.
float base_of(const float top) { return top == -INFINITY ? 0 : top; }
