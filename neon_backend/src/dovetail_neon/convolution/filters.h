/* Reading filters at load time, a vector of them at once, from weights in any order: in the files
 * of models each filter lies apart, and whole vectors are read along it and transposed, since
 * reading one element of each filter would fetch a line for it. */
#pragma once

#include "dovetail_neon/workload/packing.h"
#include "dovetail_neon/vectors/transpose.h"

namespace dovetail_acc::ACC_ISA {

/* Columns of up to LANES rows that lie `step` apart, `count` of them; the lanes of rows that are
 * not there are 0. */
INLINE void read_columns(const float *from, int64_t step, int rows, int count, Vector (&x)[LANES]) {
    for (int row = 0; row < LANES; row++)
        x[row] = row >= rows ? zeros() : count == LANES ? load(from + row * step) : load_part(from + row * step, count);
    transpose(x);
}

/* Call take(channel, tap, vector) for all elements of up to LANES filters, or until packing should
 * stop. */
template <typename Take>
INLINE void take_filters(const float *from, int64_t filter_step, int64_t tap_step, int64_t channel_step, int rows, int64_t taps,
                         int64_t channels, acc_packing *packing, const Take &take) {
    Vector x[LANES];
    if (channel_step == taps && (taps == 1 || tap_step == 1)) { /* a filter is one run of elements, its taps innermost */
        int64_t channel = 0, tap = 0;
        for (int64_t first = 0; first < channels * taps; first += LANES) {
            if (acc_packing_stops(packing, LANES * LANES)) return;
            const int count = (int)lesser<int64_t>(LANES, channels * taps - first);
            read_columns(from + first, filter_step, rows, count, x);
            for (int i = 0; i < count; i++) {
                take(channel, tap, x[i]);
                if (++tap == taps) tap = 0, channel++;
            }
        }
    } else if (channel_step == 1) { /* each tap has a run */
        for (int64_t tap = 0; tap < taps; tap++)
            for (int64_t first = 0; first < channels; first += LANES) {
                if (acc_packing_stops(packing, LANES * LANES)) return;
                const int count = (int)lesser<int64_t>(LANES, channels - first);
                read_columns(from + tap * tap_step + first, filter_step, rows, count, x);
                for (int i = 0; i < count; i++) take(first + i, tap, x[i]);
            }
    } else {
        for (int64_t channel = 0; channel < channels; channel++)
            for (int64_t tap = 0; tap < taps; tap++) {
                if (acc_packing_stops(packing, LANES)) return;
                const float *at = from + channel * channel_step + tap * tap_step;
                if (filter_step == 1) {
                    take(channel, tap, load_part(at, rows));
                } else {
                    float lanes[LANES] = {};
                    for (int row = 0; row < rows; row++) lanes[row] = at[row * filter_step];
                    take(channel, tap, load(lanes));
                }
            }
    }
}

} // namespace dovetail_acc::ACC_ISA
