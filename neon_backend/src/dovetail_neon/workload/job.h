/* What every kernel is handed: the parameters that were worked out at load time, and the tensors of
 * the run at hand.
 *
 * A kernel is a body for `parallel_for`: it does items [begin, end) of a range. Nothing that it
 * computes depends on how a range is cut up. These headers are plain C, the same for every
 * instruction set: Cython reads them too.
 */
#pragma once

#include <abi.h>

typedef struct {
    const void *parameters;
    const void *const *inputs;
    void *const *outputs;
    char *workspace;
    char *worker_workspace;
    size_t worker_stride;
    const dovetail_call *call;
    int32_t *stopped;       /* set once a body has seen that the run should end, and left some of its items undone */
} acc_job;

/* True once the run should end: a body then leaves the rest undone and returns. Loops between two
 * chunks of `parallel_for` are stopped there; a body asks where one item may take longer than a
 * millisecond. */
static inline int acc_stopped(const acc_job *job) {
    if (!job->call->host->is_cancelled(job->call)) return 0;
    __atomic_store_n(job->stopped, 1, __ATOMIC_RELAXED);
    return 1;
}

/* One parallel loop of a workload. */
typedef struct {
    dovetail_body body;
    int64_t range;
    int64_t multiple;       /* chunks are multiples of so many items */
    int64_t most;           /* chunks that are worth their handing out */
    int64_t alone;          /* items that one worker takes at once */
    int32_t per_worker;     /* chunks for each of several, at most */
    int32_t reserved;
} acc_phase;
