/* The second of two quantized tensors that are combined element by element. */
#pragma once

#include "dovetail_neon/quantized/parameters.h"
#include "dovetail_neon/vectors/bytes.h"

namespace dovetail_acc::ACC_ISA {

/* The bytes beside a place in the first of two tensors: constants begin anew where they repeat. */
struct Second {
    Second(const acc_job *job, const acc_quantized_second &second, int64_t at)
        : bytes((const Byte *)(second.constants ? second.constants : job->inputs[1])),
          period(second.constants ? second.period : INT64_MAX), at(at % period) {}
    INLINE_MEMBER const Byte *here() const { return bytes + at; }
    INLINE_MEMBER void advance(int64_t count) {
        at += count;
        if (at >= period) at = 0;
    }

  private:
    const Byte *const bytes;
    const int64_t period;
    int64_t at;
};

} // namespace dovetail_acc::ACC_ISA
