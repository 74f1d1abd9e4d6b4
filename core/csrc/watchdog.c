#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "watchdog.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>

#define NEVER INT64_MAX
#define CLAIMED ((uintptr_t)1)

/* Ticks without a polled run after which the watchdog sleeps for good: long enough that a program
 * which runs a network now and then does not pay for waking it every time. */
#define QUIET_TICKS 50

/* Where the main thread shows its innermost run. The main thread writes all but `ticking`, the
 * watchdog only adds CLAIMED to the slot while it writes into the watch, and takes it off again:
 * whoever moves the slot on waits for that. */
static struct {
    alignas(64) _Atomic uintptr_t slot;
    _Atomic uint64_t sequence;  /* tells runs apart that use the same watch one after the other */
    _Atomic int ticking;        /* 0: the watchdog does not look at the slot, somebody must wake it */
} polled;

/* What the mutex guards. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell;
static int running;
static unsigned generation = 1;
static dvt_watch *deadlines;
static int64_t wake_at = NEVER; /* no deadline on the list is earlier */

struct ticker {
    int64_t next;
    uint64_t sequence;          /* at the last tick */
    int quiet;                  /* ticks without a polled run */
};

static void unlist(dvt_watch *watch)
{
    *watch->link = watch->next;
    if (watch->next) {
        watch->next->link = watch->link;
    }
    watch->listed = 0;
}

/* wake_at stays although the watches before it have ended, so that a stream of short runs with a
 * timeout each wakes the watchdog once a timeout, not once a run. */
static int64_t fire_deadlines(int64_t now)
{
    if (now < wake_at) {
        return wake_at;
    }
    wake_at = NEVER;
    for (dvt_watch *watch = deadlines, *next; watch; watch = next) {
        next = watch->next;
        if (watch->deadline <= now) {
            atomic_fetch_or_explicit(&watch->stop, DVT_TIMED_OUT, memory_order_relaxed);
            unlist(watch);
        } else if (watch->deadline < wake_at) {
            wake_at = watch->deadline;
        }
    }
    return wake_at;
}

/* Without the claim, the run could end and its memory be freed between the look at the slot and the
 * write. */
static void ask_to_poll(uintptr_t slot, uint64_t sequence)
{
    if (!atomic_compare_exchange_strong_explicit(&polled.slot, &slot, slot | CLAIMED, memory_order_acquire,
                                                 memory_order_relaxed)) {
        return;
    }
    if (atomic_load_explicit(&polled.sequence, memory_order_relaxed) == sequence) {
        atomic_fetch_or_explicit(&((dvt_watch *)slot)->stop, DVT_POLL, memory_order_relaxed);
    }
    atomic_store_explicit(&polled.slot, slot, memory_order_release);
}

/* Non-zero if there was a polled run since the last look. */
static int look_at_slot(struct ticker *ticker)
{
    uintptr_t slot = atomic_load_explicit(&polled.slot, memory_order_relaxed);
    uint64_t sequence = atomic_load_explicit(&polled.sequence, memory_order_relaxed);
    int same = sequence == ticker->sequence;
    if (slot && same) {
        ask_to_poll(slot, sequence);
    }
    ticker->sequence = sequence;
    return slot || !same;
}

/* Return when to tick next. `ticking` goes to 0 a whole tick before the last look: a main thread
 * that still read 1 showed its run at about that moment, so the look sees it. That tick is what
 * spares dvt_watch_begin a full memory barrier. */
static int64_t tick(struct ticker *ticker, int64_t now)
{
    if (ticker->quiet > QUIET_TICKS) {
        if (!atomic_load_explicit(&polled.ticking, memory_order_relaxed)) {
            return NEVER;
        }
        ticker->quiet = 0;
        ticker->next = now;
    }
    if (now < ticker->next) {
        return ticker->next;
    }
    ticker->next = now + DVT_TICK_NS;
    ticker->quiet = look_at_slot(ticker) ? 0 : ticker->quiet + 1;
    atomic_store_explicit(&polled.ticking, ticker->quiet < QUIET_TICKS, memory_order_relaxed);
    return ticker->quiet > QUIET_TICKS ? NEVER : ticker->next;
}

static void sleep_until(int64_t when)
{
    if (when == NEVER) {
        pthread_cond_wait(&bell, &mutex);
        return;
    }
    struct timespec time = {.tv_sec = when / 1000000000, .tv_nsec = when % 1000000000};
    pthread_cond_timedwait(&bell, &mutex, &time);
}

static void *watch_forever(void *unused)
{
    struct ticker ticker = {.quiet = QUIET_TICKS + 1};
    (void)unused;
    pthread_setname_np(pthread_self(), "dovetail-watch");
    pthread_mutex_lock(&mutex);
    for (;;) {
        int64_t now = dvt_now_ns();
        int64_t fire = fire_deadlines(now);
        int64_t look = tick(&ticker, now);
        sleep_until(fire < look ? fire : look);
    }
    return NULL;
}

/* The mutex is held. Returns -1 if there is no thread to wake and none can be made. */
static int ring(void)
{
    pthread_cond_signal(&bell);
    if (running) {
        return 0;
    }
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    running = pthread_create(&thread, NULL, watch_forever, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!running) {
        return -1;
    }
    pthread_detach(thread);
    return 0;
}

static int start_ticking(void)
{
    pthread_mutex_lock(&mutex);
    int failed = ring();
    if (!failed) {
        atomic_store_explicit(&polled.ticking, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&mutex);
    return failed;
}

static int list_deadline(dvt_watch *watch)
{
    int failed = 0;
    pthread_mutex_lock(&mutex);
    watch->next = deadlines;
    watch->link = &deadlines;
    watch->listed = generation;
    if (deadlines) {
        deadlines->link = &watch->next;
    }
    deadlines = watch;
    if (watch->deadline < wake_at || !running) {
        wake_at = watch->deadline < wake_at ? watch->deadline : wake_at;
        failed = ring();
    }
    pthread_mutex_unlock(&mutex);
    return failed;
}

/* Move the slot on, once the watchdog has released it. */
static void replace_slot(uintptr_t from, uintptr_t to)
{
    uintptr_t found = from;
    while (!atomic_compare_exchange_strong_explicit(&polled.slot, &found, to, memory_order_acq_rel, memory_order_relaxed)) {
        if (found != (from | CLAIMED)) {
            return;             /* forked since: the child's slot was emptied */
        }
        found = from;
        sched_yield();
    }
}

static int show_run(dvt_watch *watch)
{
    uint64_t sequence = atomic_load_explicit(&polled.sequence, memory_order_relaxed);
    atomic_store_explicit(&polled.sequence, sequence + 1, memory_order_relaxed);
    watch->outer = atomic_load_explicit(&polled.slot, memory_order_relaxed) & ~CLAIMED;
    if (watch->outer) {
        replace_slot(watch->outer, (uintptr_t)watch);
    } else {
        atomic_store_explicit(&polled.slot, (uintptr_t)watch, memory_order_release);
    }
    return atomic_load_explicit(&polled.ticking, memory_order_relaxed) ? 0 : start_ticking();
}

int dvt_watch_begin(dvt_watch *watch, int64_t deadline_ns, int wants_poll)
{
    int failed = 0;
    atomic_store_explicit(&watch->stop, 0, memory_order_relaxed);
    watch->polled = wants_poll;
    watch->deadline = deadline_ns;
    if (wants_poll) {
        failed = show_run(watch);
    }
    if (deadline_ns) {
        failed |= list_deadline(watch);
    }
    return failed;
}

void dvt_watch_end(dvt_watch *watch)
{
    if (watch->deadline) {
        pthread_mutex_lock(&mutex);
        if (watch->listed == generation) {
            unlist(watch);
        }
        pthread_mutex_unlock(&mutex);
    }
    if (watch->polled) {
        replace_slot((uintptr_t)watch, watch->outer);
    }
}

static void create_bell(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&bell, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

/* The runs that were being watched belong to threads that do not exist here, and the stacks that
 * hold their watches may go at any time: forget them without looking. */
static void after_fork_in_child(void)
{
    create_bell();
    running = 0;
    generation++;
    deadlines = NULL;
    wake_at = NEVER;
    atomic_store_explicit(&polled.slot, 0, memory_order_relaxed);
    atomic_store_explicit(&polled.ticking, 0, memory_order_relaxed);
    pthread_mutex_unlock(&mutex);
}

/* At load, not at first use: a fork must not fall between a first run and its handler. */
__attribute__((constructor)) static void initialize_watchdog(void)
{
    create_bell();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
