/* The watchdog: turns deadlines, and "time to look for signals", into one word that a run reads
 * between its steps.
 *
 * One thread per process, started when first needed. It touches a watch only between
 * dvt_watch_begin and dvt_watch_end.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

/* Bits of dvt_watch.stop. They are only ever or-ed in, so that none hides another. */
enum {
    DVT_POLL = 1,               /* the thread that began the run should look for pending signals; the run goes on */
    DVT_TIMED_OUT = 2,          /* the deadline passed */
    DVT_CANCELLED = 4,          /* somebody asked the run to end: Ctrl-C, unload, another thread */
    DVT_STEP_FAILED = 8,        /* a step called fail(): the rest of the run is pointless */
    DVT_ENDED = DVT_TIMED_OUT | DVT_CANCELLED | DVT_STEP_FAILED
};

/* The period of the ticks that set DVT_POLL: a run is first asked after one to two of them. Tests
 * shorten it. */
#ifndef DVT_TICK_NS
#define DVT_TICK_NS INT64_C(40000000)
#endif

/* One run. The owner may or DVT_CANCELLED and DVT_STEP_FAILED into `stop` at any time; the rest is
 * the watchdog's. */
typedef struct dvt_watch {
    _Atomic int stop;           /* 0: go on */
    int polled;
    int64_t deadline;
    uintptr_t outer;            /* the polled run that this one is nested in */
    struct dvt_watch *next;
    struct dvt_watch **link;    /* what points at this watch in the list of deadlines */
    unsigned listed;            /* the fork generation in which it was put on that list; 0: it is not on it */
} dvt_watch;

/* Begin to watch a run and clear `stop`. Deadline: CLOCK_MONOTONIC nanoseconds, 0 for none.
 * `wants_poll`: this is Python's main thread, ask it for signals; one thread of the process at a
 * time, its runs may nest. Returns -1 if the watchdog's thread cannot be started (no deadline will
 * fire); dvt_watch_end is due in any case. In a child forked in the middle of a run, that run is no
 * longer watched. */
int dvt_watch_begin(dvt_watch *watch, int64_t deadline_ns, int wants_poll);

/* Stop watching: once this returns, nobody but the owner touches the watch. `stop` keeps its bits.
 * */
void dvt_watch_end(dvt_watch *watch);

/* Non-zero, once, if the thread that began the run should look for signals now. */
static inline int dvt_watch_take_poll(dvt_watch *watch)
{
    if (!(atomic_load_explicit(&watch->stop, memory_order_relaxed) & DVT_POLL)) {
        return 0;
    }
    atomic_fetch_and_explicit(&watch->stop, ~DVT_POLL, memory_order_relaxed);
    return 1;
}

static inline int64_t dvt_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
