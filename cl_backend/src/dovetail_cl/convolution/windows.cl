// Windows of single channels on a CPU, where channels are neighbours: BLOCK pixels of a row at a
// time, of a vector of channels.
//
// T: type of the elements. VECTOR: floats of a vector. TAPS, STRIDE: of columns, where taps are
// neighbours; 0: as arguments say.

typedef struct {
    int in_size[2], taps[2], stride[2], start[2], between[2];
    uint in_at[4];              // elements between images, channels, rows and columns
    uint channels;
} windows;

#define BLOCK 8                 // pixels whose sums registers hold
#define REACH ((BLOCK - 1) * STRIDE + TAPS)

// Add what a row of taps sees of a vector of channels, from the first pixel's first tap on. Of the
// columns that the taps see, those from `low` to `high` lie within the image.
static void __attribute__((always_inline)) add_row(
    vec *sums, const __global T *from, const __global float *weights, const windows *w, const int low, const int high)
{
    const int step = w->in_at[3];
#if TAPS
    vec weight[TAPS];
    #pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) weight[tap] = VLOAD(0, weights + tap * w->channels);
    #pragma unroll
    for (int i = 0; i < REACH; ++i) {
        if (i < low || i >= high) continue;
        const vec v = READ(from, i * step);
        #pragma unroll
        for (int r = 0; r < BLOCK; ++r) {
            const int tap = i - r * STRIDE;
            if (tap >= 0 && tap < TAPS) sums[r] = fma(weight[tap], v, sums[r]);
        }
    }
#else
    for (int tap = 0; tap < w->taps[1]; ++tap) {
        const vec weight = VLOAD(0, weights + tap * w->channels);
        const int first = tap * w->between[1];
        #pragma unroll
        for (int r = 0; r < BLOCK; ++r) {
            const int i = first + r * w->stride[1];
            if (i >= low && i < high) sums[r] = fma(weight, READ(from, i * step), sums[r]);
        }
    }
#endif
}

// What BLOCK pixels see that lie side by side, or as many of them as there are.
typedef struct {
    int from_tap, to_tap;       // rows of taps within the image
    int low, high;              // columns within the image, from the first one on that is seen
    long from;                  // elements from the image's first to what the first tap sees
    bool is_inside;             // all columns are within the image
} sight;

static sight seen(const windows *w, const int out_row, const int out_column, const int count)
{
    const int row = out_row * w->stride[0] + w->start[0], column = out_column * w->stride[1] + w->start[1];
    const int reach = (count - 1) * w->stride[1] + (w->taps[1] - 1) * w->between[1] + 1;
    sight s;
    s.from_tap = row < 0 ? (-row + w->between[0] - 1) / w->between[0] : 0;
    s.to_tap = row >= w->in_size[0] ? 0 : min(w->taps[0], (w->in_size[0] - 1 - row) / w->between[0] + 1);
    s.low = max(0, -column);
    s.high = min(reach, w->in_size[1] - column);
    s.from = (long)(row + s.from_tap * w->between[0]) * w->in_at[2] + (long)column * w->in_at[3];
    s.is_inside = count == BLOCK && s.low == 0 && s.high == reach;
    return s;
}

// The sums of what is seen of a vector of channels, the first of which `x` and `weights` point at.
static void __attribute__((always_inline)) sum_windows(
    vec *sums, const __global T *x, const __global float *weights, const windows *w, const sight *s, const vec add)
{
    const int down = w->between[0] * w->in_at[2], next = w->taps[1] * w->channels;
    const __global T *from = x + s->from;
    weights += s->from_tap * next;
    #pragma unroll
    for (int r = 0; r < BLOCK; ++r) sums[r] = add;
    if (s->is_inside) {
        for (int tap = s->from_tap; tap < s->to_tap; ++tap, from += down, weights += next) {
            add_row(sums, from, weights, w, 0, INT_MAX);
        }
    } else {
        for (int tap = s->from_tap; tap < s->to_tap; ++tap, from += down, weights += next) {
            add_row(sums, from, weights, w, s->low, s->high);
        }
    }
}
