/* Looks at the stop word: steps may be tiny, and sequences, units and inputs many. */
#pragma once

#include "dovetail_neon/vectors/vector.h"
#include "dovetail_neon/workload/job.h"

namespace dovetail_acc::ACC_ISA {

constexpr int64_t UNITS_AT_ONCE = 1 << 13;
constexpr int64_t WORK_BETWEEN_LOOKS = 1 << 18;    /* elements that a pass goes over */

struct Pace {
    const acc_job *job;
    int64_t work = 0;

    /* Count work that is about to be done; true if the run should end. */
    INLINE_MEMBER bool stops(int64_t more) {
        work += more;
        if (work < WORK_BETWEEN_LOOKS) return false;
        work = 0;
        return acc_stopped(job);
    }

    /* `body(first, last)` for as many units at once, each of which costs so many passes; false if
     * the run should end. */
    template <typename Body> INLINE_MEMBER bool spans(int64_t count, int64_t passes, Body body) {
        for (int64_t first = 0; first < count; first += UNITS_AT_ONCE) {
            const int64_t last = lesser(count, first + UNITS_AT_ONCE);
            if (stops((last - first) * passes)) return false;
            body(first, last);
        }
        return true;
    }
};

} // namespace dovetail_acc::ACC_ISA
