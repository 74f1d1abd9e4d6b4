/* What a region and a watch cost. Build and run, from core/:
 *   gcc -std=c11 -O2 -pthread tests/c/bench_fork_join.c csrc/thread_pool.c csrc/usable_cores.c \
 *       csrc/watchdog.c -o /tmp/bench && /tmp/bench
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../../csrc/thread_pool.h"
#include "../../csrc/usable_cores.h"
#include "../../csrc/watchdog.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SAMPLES = 2001 };

struct meeting {
    int threads;
    _Atomic int arrived;
};

static void do_nothing(UNUSED int64_t begin, UNUSED int64_t end, UNUSED int32_t worker, UNUSED void *arg)
{
}

/* Every thread holds its chunk until all threads have one: the cost of a region in which the others
 * really come in. */
static void meet(UNUSED int64_t begin, UNUSED int64_t end, UNUSED int32_t worker, void *arg)
{
    struct meeting *meeting = arg;
    atomic_fetch_add(&meeting->arrived, 1);
    while (atomic_load_explicit(&meeting->arrived, memory_order_relaxed) < meeting->threads) {
    }
}

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double median(double *samples)
{
    qsort(samples, SAMPLES, sizeof *samples, compare);
    return samples[SAMPLES / 2];
}

/* Median of the mean of `batch` regions, with `pause_us` before each batch. */
static double fork_join_ns(dvt_pool *pool, int threads, int all_come, int batch, int pause_us)
{
    static double samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        if (pause_us) {
            usleep((useconds_t)pause_us);
        }
        int64_t start = dvt_now_ns();
        for (int j = 0; j < batch; j++) {
            struct meeting meeting = {.threads = threads};
            dvt_pool_run(pool, threads, threads, 1, all_come ? meet : do_nothing, &meeting, NULL, NULL, NULL);
        }
        samples[i] = (double)(dvt_now_ns() - start) / batch;
    }
    return median(samples);
}

static double watch_ns(int64_t timeout, int wants_poll)
{
    static double samples[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        int64_t start = dvt_now_ns(), deadline = timeout ? start + timeout : 0;
        for (int j = 0; j < 100; j++) {
            dvt_watch watch;
            dvt_watch_begin(&watch, deadline, wants_poll);
            dvt_watch_end(&watch);
        }
        samples[i] = (double)(dvt_now_ns() - start) / 100;
    }
    return median(samples);
}

int main(void)
{
    int most = dvt_usable_cores();
    dvt_pool *spinning = dvt_pool_create(most, 100000), *sleeping = dvt_pool_create(most, 0);
    printf("usable cores %d\n", most);
    for (int threads = 1; threads <= most; threads *= 2) {
        printf("threads %d, empty body:      %8.0f ns\n", threads, fork_join_ns(spinning, threads, 0, 20, 0));
        if (threads > 1) {
            printf("threads %d, all come in:     %8.0f ns\n", threads, fork_join_ns(spinning, threads, 1, 20, 0));
            printf("threads %d, asleep, empty:   %8.0f ns\n", threads, fork_join_ns(sleeping, threads, 0, 1, 200));
            printf("threads %d, asleep, all come:%8.0f ns\n", threads, fork_join_ns(sleeping, threads, 1, 1, 200));
        }
    }
    printf("watch, nothing wanted:    %8.1f ns\n", watch_ns(0, 0));
    printf("watch, poll:              %8.1f ns\n", watch_ns(0, 1));
    printf("watch, deadline:          %8.1f ns\n", watch_ns(1000000000, 0));
    dvt_pool_destroy(spinning);
    dvt_pool_destroy(sleeping);
    return 0;
}
