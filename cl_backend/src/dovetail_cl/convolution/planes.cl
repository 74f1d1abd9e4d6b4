// Convolutions of single channels on a GPU: a work item computes ROWS results of a column, one
// below the other, so that what their windows share of the image is read once.
//
// T: type of the elements. CHANNELS_LAST: neighbouring items have neighbouring channels; else
// neighbouring columns. TAPS_DOWN, TAPS_ACROSS, STRIDE: where taps are neighbours; 0: as arguments
// say.

typedef struct {
    int in_size[2], out_size[2], taps[2], stride[2], start[2], between[2];
    uint in_at[4], out_at[4];   // elements between images, channels, rows and columns
    uint count, filters;        // filters of all groups, and of one
    uint blocks;                // of ROWS rows
    uint weight_at[2];          // elements between filters, and between taps
} geometry;

#if TAPS_DOWN
#define REACH ((ROWS - 1) * STRIDE + TAPS_DOWN)
#endif

__kernel void convolve(
    TENSOR(const T, x), CONSTANT(float, weights), CONSTANT(float, bias), TENSOR(T, y), const geometry g,
    const uint n FINISH_PARAMETERS)
{
    BEGIN(const T, x);
    BEGIN(const float, weights);
    BEGIN(const float, bias);
    BEGIN(T, y);
    FINISH_BEGIN
    EACH(i, n) {
#if CHANNELS_LAST
        const uint filter = i % g.count, pixel = i / g.count;
        const uint column = pixel % g.out_size[1], line = pixel / g.out_size[1];
        const uint block = line % g.blocks, image = line / g.blocks;
#else
        const uint column = i % g.out_size[1], line = i / g.out_size[1];
        const uint block = line % g.blocks, plane = line / g.blocks;
        const uint filter = plane % g.count, image = plane / g.count;
#endif
        const __global T *from = x + image * g.in_at[0] + filter / g.filters * g.in_at[1];
        const __global float *weight = weights + filter * g.weight_at[0];
        const int first_row = (int)(block * ROWS) * g.stride[0] + g.start[0];
        const int first_column = (int)column * g.stride[1] + g.start[1];
        float sums[ROWS];
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) sums[r] = bias[filter];
#if TAPS_DOWN
        float w[TAPS_DOWN][TAPS_ACROSS];
        #pragma unroll
        for (int tap = 0; tap < TAPS_DOWN * TAPS_ACROSS; ++tap) {
            w[tap / TAPS_ACROSS][tap % TAPS_ACROSS] = weight[tap * g.weight_at[1]];
        }
        #pragma unroll
        for (int reached = 0; reached < REACH; ++reached) {
            const int row = first_row + reached;
            const bool is_row = (uint)row < (uint)g.in_size[0];
            float v[TAPS_ACROSS];
            #pragma unroll
            for (int tap = 0; tap < TAPS_ACROSS; ++tap) {
                const int at = first_column + tap;
                const bool is_inside = is_row && (uint)at < (uint)g.in_size[1];
                v[tap] = is_inside ? LOAD_AS(T, from, (uint)row * g.in_at[2] + (uint)at * g.in_at[3]) : 0.0f;
            }
            #pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                if (reached < r * STRIDE || reached >= r * STRIDE + TAPS_DOWN) continue;
                #pragma unroll
                for (int tap = 0; tap < TAPS_ACROSS; ++tap) {
                    sums[r] = fma(v[tap], w[reached - r * STRIDE][tap], sums[r]);
                }
            }
        }
#else
        for (int tap_row = 0; tap_row < g.taps[0]; ++tap_row) {
            for (int tap = 0; tap < g.taps[1]; ++tap) {
                const float w = weight[(tap_row * g.taps[1] + tap) * g.weight_at[1]];
                const int at = first_column + tap * g.between[1];
                if ((uint)at >= (uint)g.in_size[1]) continue;
                #pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    const int row = first_row + r * g.stride[0] + tap_row * g.between[0];
                    if ((uint)row >= (uint)g.in_size[0]) continue;
                    sums[r] = fma(LOAD_AS(T, from, (uint)row * g.in_at[2] + (uint)at * g.in_at[3]), w, sums[r]);
                }
            }
        }
#endif
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const uint row = block * ROWS + r;
            if (row >= g.out_size[0]) continue;
            const uint to = image * g.out_at[0] + filter * g.out_at[1] + row * g.out_at[2] + column * g.out_at[3];
            FINISH(sums[r], to, filter)
            STORE_AS(T, y, to, sums[r]);
        }
    }
}
