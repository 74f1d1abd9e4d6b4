/* When threads of the pool worked for steps, of one run that is profiled. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "thread_pool.h"

/* What one worker did of one region. */
typedef struct {
    int32_t step;
    int32_t worker;             /* 0: the thread that runs the network */
    int64_t begin, end;         /* of its first and its last chunk, CLOCK_MONOTONIC nanoseconds; 0: it had none */
    int64_t busy;               /* nanoseconds in chunks */
} dvt_work;

/* Regions claim their entries from `works` while they run; those of a region lie side by side. */
typedef struct {
    _Atomic int32_t n_works;    /* claimed, at most `room` */
    int32_t room;
    dvt_work works[];
} dvt_worker_times;

/* Make room for a run of so many steps, on so many threads. NULL: there is no memory. free() ends
 * it. */
dvt_worker_times *dvt_worker_times_create(int32_t n_steps, int32_t threads);

/* dvt_pool_run for a step, noting what each worker does. It is not noted for regions of one chunk
 * or thread, and for those inside another one, which notes them; nor where the room is taken. */
int dvt_worker_times_run(dvt_worker_times *times, int32_t step, dvt_pool *pool, int threads, int64_t range, int64_t grain,
                         void (*body)(int64_t begin, int64_t end, int32_t worker, void *arg), void *arg,
                         const _Atomic int *stop, void (*poll)(void *), void *poll_arg);
