// What a tap sees of pixels that lie side by side.

// Lanes of a panel that one tap finds side by side in a row of the image, or outside of it.
typedef struct {
    uint lane, n;
    uint from;                  // elements; OUTSIDE: what stands for nothing
} run;
#define OUTSIDE 0xFFFFFFFFu

// The runs of a tap, in order, for `count` pixels from the pixel `first` on; they are at most three
// times as many as there are lanes. Of the first pixel of an image the tap sees the pixel at
// `row_from` and `column_from`.
uint find_runs(run *runs, const int *in_size, const int *out_size, const int *stride, const uint *in_at, const uint first,
               const uint count, const int row_from, const int column_from)
{
    uint found = 0, lane = 0;
    int row = first / out_size[1], column = first % out_size[1];
    while (lane < count) {
        const int n = min((int)(count - lane), out_size[1] - column);
        const int at_row = row * stride[0] + row_from, at = column * stride[1] + column_from;
        int low = n, high = n;
        if (at_row >= 0 && at_row < in_size[0]) {
            low = at >= 0 ? 0 : min(n, (-at + stride[1] - 1) / stride[1]);
            high = clamp(at >= in_size[1] ? 0 : (in_size[1] - 1 - at) / stride[1] + 1, low, n);
        }
        const uint ends[3] = {low, high, n};
        for (int part = 0, from = 0; part < 3; from = ends[part++]) {
            const uint many = ends[part] - from;
            if (!many) continue;
            const uint source = part == 1 ? at_row * in_at[2] + (at + from * stride[1]) * in_at[3] : OUTSIDE;
            run *last = runs + found - 1;
            if (found && source != OUTSIDE && stride[1] == 1 && last->from != OUTSIDE && last->from + last->n == source) {
                last->n += many;
            } else if (found && source == OUTSIDE && last->from == OUTSIDE) {
                last->n += many;
            } else {
                const run next = {lane + from, many, source};
                runs[found++] = next;
            }
        }
        lane += n;
        column = 0;
        ++row;
    }
    return found;
}
