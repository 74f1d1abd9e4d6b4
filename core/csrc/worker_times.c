#include "worker_times.h"

#include <stdlib.h>
#include <string.h>

#include "watchdog.h"

/* Regions of a step that there is room for, if each has all threads; and entries in all. */
#define REGIONS_EACH 4
#define MAX_WORKS (1 << 16)

struct noted {
    void (*body)(int64_t, int64_t, int32_t, void *);
    void *arg;
    dvt_work *works;            /* of worker 0, 1, ... */
};

static _Thread_local int is_noting;     /* this thread is inside a chunk whose time is taken */

dvt_worker_times *dvt_worker_times_create(int32_t n_steps, int32_t threads)
{
    int64_t room = (int64_t)n_steps * threads * REGIONS_EACH;
    room = room < MAX_WORKS ? room : MAX_WORKS;
    dvt_worker_times *made = malloc(sizeof *made + (size_t)room * sizeof made->works[0]);
    if (made) {
        atomic_init(&made->n_works, 0);
        made->room = (int32_t)room;
    }
    return made;
}

/* Only the worker itself writes its entry; who reads it has waited for the region. */
static void run_noted(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    const struct noted *noted = arg;
    dvt_work *work = &noted->works[worker];
    is_noting = 1;
    int64_t from = dvt_now_ns();
    noted->body(begin, end, worker, noted->arg);
    work->end = dvt_now_ns();
    is_noting = 0;
    work->begin = work->begin ? work->begin : from;
    work->busy += work->end - from;
}

/* NULL: there is no room. */
static dvt_work *claim(dvt_worker_times *times, int32_t step, int32_t workers)
{
    int32_t first = atomic_load_explicit(&times->n_works, memory_order_relaxed);
    do {
        if (workers > times->room - first) {
            return NULL;
        }
    } while (!atomic_compare_exchange_weak_explicit(&times->n_works, &first, first + workers, memory_order_relaxed,
                                                    memory_order_relaxed));
    for (int32_t worker = 0; worker < workers; worker++) {
        times->works[first + worker] = (dvt_work){.step = step, .worker = worker};
    }
    return &times->works[first];
}

int dvt_worker_times_run(dvt_worker_times *times, int32_t step, dvt_pool *pool, int threads, int64_t range, int64_t grain,
                         void (*body)(int64_t begin, int64_t end, int32_t worker, void *arg), void *arg,
                         const _Atomic int *stop, void (*poll)(void *), void *poll_arg)
{
    grain = grain > 0 ? grain : 1;
    int64_t chunks = range > 0 ? range / grain + (range % grain != 0) : 0;
    int workers = threads < chunks ? threads : (int)chunks;
    dvt_work *works = is_noting || workers < 2 ? NULL : claim(times, step, workers);
    if (!works) {
        return dvt_pool_run(pool, threads, range, grain, body, arg, stop, poll, poll_arg);
    }
    struct noted noted = {body, arg, works};
    return dvt_pool_run(pool, threads, range, grain, run_noted, &noted, stop, poll, poll_arg);
}
