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

#define LARGER(a, b) ((b) > (a) ? (b) : (a))      // NaN is left to sums
