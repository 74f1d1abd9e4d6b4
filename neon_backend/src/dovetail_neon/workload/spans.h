/* Long rows are worked through span by span, so that a run that should end is looked for between
 * two of them. */
#pragma once

#include "dovetail_neon/workload/job.h"
#include "dovetail_neon/vectors/vector.h"

namespace dovetail_acc::ACC_ISA {

/* Elements of a row, or vectors, of a span: some tenths of a millisecond, and whole tiles of all
 * loops. */
constexpr int64_t SPAN = 1 << 18;

/* Where the span that begins at `i` ends; `i` itself if the run should end there. Rows of one span,
 * as nearly all are, never ask. */
INLINE int64_t span_end(const acc_job *job, int64_t i, int64_t size) {
    if (__builtin_expect(size <= SPAN, 1)) return size;
    return i && acc_stopped(job) ? i : lesser(size, i + SPAN);
}

/* Copy any number of elements, or write zeros where there is nothing to copy; false if the run
 * should end. */
INLINE bool copy_spans(const acc_job *job, float *to, const float *from, int64_t count) {
    for (int64_t i = 0; i < count;) {
        const int64_t end = span_end(job, i, count);
        if (end == i) return false;
        if (from)
            __builtin_memcpy(to + i, from + i, (size_t)(end - i) * sizeof(float));
        else
            __builtin_memset(to + i, 0, (size_t)(end - i) * sizeof(float));
        i = end;
    }
    return true;
}

} // namespace dovetail_acc::ACC_ISA
