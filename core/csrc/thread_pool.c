#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "thread_pool.h"
#include "usable_cores.h"
#include "watchdog.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Two lines of 64: the hardware fetches neighbours in pairs, and some aarch64 cores have lines of
 * 128. */
#define LINE 128

/* The gate of a pool is one word, so that coming in, being last out and posting a region are one
 * atomic operation each. No threads: closed, nobody may come in. The epoch tells a worker a new
 * region from the one it has left; that it wraps is harmless, entering is safe whenever the gate is
 * open. */
#define GATE_INSIDE 0x000003ffu     /* workers inside */
#define GATE_THREAD 0x00000400u
#define GATE_THREADS 0x000ffc00u
#define GATE_WAITING 0x00100000u    /* the caller sleeps until the last one is out */
#define GATE_SHUTDOWN 0x00200000u
#define GATE_EPOCH 0x00400000u
#define GATE_EPOCHS 0xffc00000u
#define MAX_THREADS 1023

/* How long the caller spins for stragglers before it sleeps: about what a wake-up costs. */
#define JOIN_SPIN_NS 50000
#define POLL_NS 1000000

struct region {
    void (*body)(int64_t, int64_t, int32_t, void *);
    void *arg;
    int64_t range;
    int64_t grain;
    int64_t chunks;
    int threads;
    int64_t share, larger;          /* chunks of a segment; one more for the first `larger` threads */
    const _Atomic int *stop;
};

/* The next chunk of a thread's own segment: of so many chunks side by side that come after those of
 * the thread before it. */
struct segment {
    alignas(LINE) _Atomic int64_t next;
};

struct worker {
    alignas(LINE) _Atomic uint32_t asleep;
    int index;
    uint32_t seen;                  /* epoch of the last region it was in */
    int licensed;                   /* counted in `spinners` */
    pthread_t thread;
    dvt_pool *pool;
};

struct dvt_pool {
    alignas(LINE) _Atomic uint32_t gate;
    alignas(LINE) struct region region;     /* written with the gate closed and nobody inside, as are all segments */
    alignas(LINE) _Atomic int busy; /* a caller owns the gate, the region and what follows */
    int threads;
    int started;                    /* workers that run: 1..started */
    int exhausted;                  /* the system refused another thread */
    int64_t spin_ns;
    struct segment *segments;
    struct worker *workers;         /* of thread i: workers[i - 1] */
    dvt_pool *next;
    dvt_pool **link;
};

/* Workers that may spin. A worker keeps its licence while it works, so that a job costs no
 * operation on this shared line. */
static _Atomic int spinners;

static pthread_mutex_t pools_mutex = PTHREAD_MUTEX_INITIALIZER;
static dvt_pool *pools;
static unsigned forks;

static _Thread_local int enclosing = -1;    /* the worker index of the body that this thread is inside */
static _Thread_local dvt_pool *owned;       /* the pool that this thread keeps busy */

static void futex_wait(_Atomic uint32_t *word, uint32_t expected, const struct timespec *timeout)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");   /* `yield` is a no-op on most cores, this waits about as long as x86's pause */
#endif
}

/* ---- the work ---- */

static int ended(const struct region *region)
{
    return region->stop && atomic_load_explicit(region->stop, memory_order_relaxed) & DVT_ENDED;
}

static void run_chunk(const struct region *region, int64_t chunk, int worker)
{
    int64_t begin = chunk * region->grain;
    int64_t end = region->range - begin > region->grain ? begin + region->grain : region->range;
    region->body(begin, end, worker, region->arg);
}

static int64_t segment_begin(const struct region *region, int thread)
{
    return region->share * thread + (thread < region->larger ? thread : region->larger);
}

/* What is left of one segment. */
static void run_segment(const struct region *region, struct segment *segment, int64_t end, int worker, void (*poll)(void *),
                        void *poll_arg)
{
    /* Looked at before it is written to: most segments of others are done when this thread comes to
     * them. */
    while (!ended(region) && atomic_load_explicit(&segment->next, memory_order_relaxed) < end) {
        int64_t chunk = atomic_fetch_add_explicit(&segment->next, 1, memory_order_relaxed);
        if (chunk >= end) {
            return;
        }
        run_chunk(region, chunk, worker);
        if (poll) {
            poll(poll_arg);
        }
    }
}

/* Its own segment first, the same part of the range in every region of as many threads: what a
 * thread reads is then likely to be what it wrote in the region before, and lies in its own cache.
 * After that it helps those that come next. */
static void run_shared(const struct region *region, struct segment *segments, int worker, void (*poll)(void *), void *poll_arg)
{
    for (int i = 0; i < region->threads; i++) {
        int thread = worker + i < region->threads ? worker + i : worker + i - region->threads;
        run_segment(region, &segments[thread], segment_begin(region, thread + 1), worker, poll, poll_arg);
    }
}

static int run_inline(const struct region *region, int worker, void (*poll)(void *), void *poll_arg)
{
    for (int64_t chunk = 0; chunk < region->chunks; chunk++) {
        if (ended(region)) {
            return 1;
        }
        run_chunk(region, chunk, worker);
        if (poll) {
            poll(poll_arg);
        }
    }
    return 0;
}

/* ---- workers ---- */

static int gate_lanes(uint32_t gate)
{
    return (int)((gate & GATE_THREADS) / GATE_THREAD);
}

static int has_work(const struct worker *self, uint32_t gate)
{
    return gate & GATE_SHUTDOWN || (gate_lanes(gate) > self->index && (gate & GATE_EPOCHS) != self->seen);
}

/* Sequentially consistent, as is going to sleep: either the sleeper sees the new gate, or we see
 * that it sleeps. */
static void wake(struct worker *worker)
{
    if (atomic_load(&worker->asleep) && atomic_exchange(&worker->asleep, 0)) {
        futex_wake(&worker->asleep);
    }
}

/* Everybody wakes two more: waking a sleeper costs microseconds, and the caller should not pay that
 * for every thread. */
static void wake_next(dvt_pool *pool, int index, int threads)
{
    for (int thread = 2 * index + 1; thread <= 2 * index + 2 && thread < threads; thread++) {
        wake(&pool->workers[thread - 1]);
    }
}

static int take_licence(void)
{
    int count = atomic_load_explicit(&spinners, memory_order_relaxed);
    while (count < dvt_usable_cores() - 1) {
        if (atomic_compare_exchange_weak_explicit(&spinners, &count, count + 1, memory_order_relaxed, memory_order_relaxed)) {
            return 1;
        }
    }
    return 0;
}

static void return_licence(struct worker *self)
{
    if (self->licensed) {
        self->licensed = 0;
        atomic_fetch_sub_explicit(&spinners, 1, memory_order_relaxed);
    }
}

static int spin_for_work(struct worker *self)
{
    int64_t until = dvt_now_ns() + self->pool->spin_ns;
    do {
        for (int i = 0; i < 32; i++) {
            if (has_work(self, atomic_load_explicit(&self->pool->gate, memory_order_relaxed))) {
                return 1;
            }
            relax();
        }
    } while (dvt_now_ns() < until);
    return 0;
}

static void sleep_for_work(struct worker *self)
{
    atomic_store(&self->asleep, 1);
    if (has_work(self, atomic_load(&self->pool->gate))) {
        atomic_store(&self->asleep, 0);
        return;
    }
    while (atomic_load(&self->asleep)) {
        futex_wait(&self->asleep, 1, NULL);
    }
}

/* A sleeper that is woken too late spins nevertheless: its caller is likely to be back soon. */
static void wait_for_work(struct worker *self)
{
    while (!has_work(self, atomic_load(&self->pool->gate))) {
        self->licensed = self->licensed || (self->pool->spin_ns > 0 && take_licence());
        if (self->licensed && spin_for_work(self)) {
            return;
        }
        return_licence(self);
        sleep_for_work(self);
    }
}

/* Returns the threads of the region entered, 0 if it had been closed. */
static int enter(struct worker *self)
{
    _Atomic uint32_t *gate = &self->pool->gate;
    uint32_t found = atomic_load(gate);
    while (gate_lanes(found) > self->index) {
        if (atomic_compare_exchange_weak(gate, &found, found + 1)) {
            self->seen = found & GATE_EPOCHS;
            return gate_lanes(found);
        }
    }
    return 0;
}

static void leave(dvt_pool *pool)
{
    uint32_t before = atomic_fetch_sub_explicit(&pool->gate, 1, memory_order_acq_rel);
    if ((before & GATE_INSIDE) == 1 && before & GATE_WAITING) {
        futex_wake(&pool->gate);
    }
}

static void *work_forever(void *arg)
{
    struct worker *self = arg;
    dvt_pool *pool = self->pool;
    char name[16];
    snprintf(name, sizeof name, "dovetail-w%hd", (short)self->index);
    pthread_setname_np(pthread_self(), name);
    enclosing = self->index;
    for (;;) {
        wait_for_work(self);
        if (atomic_load_explicit(&pool->gate, memory_order_acquire) & GATE_SHUTDOWN) {
            break;
        }
        int threads = enter(self);
        if (threads) {
            wake_next(pool, self->index, threads);
            run_shared(&pool->region, pool->segments, self->index, NULL, NULL);
            leave(pool);
        }
    }
    return_licence(self);
    return NULL;
}

/* All but those that a fault in a body raises: blocked, they would kill the process without
 * Python's faulthandler. */
static void signals_to_block(sigset_t *set)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    sigfillset(set);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sigdelset(set, faults[i]);
    }
}

/* Fewer threads than asked for are not an error, and not asked for again: a failing attempt in
 * every region is dear. */
static void start_workers(dvt_pool *pool, int threads)
{
    sigset_t blocked, before;
    if (pool->started >= threads - 1 || pool->exhausted) {
        return;
    }
    signals_to_block(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    while (pool->started < threads - 1) {
        struct worker *worker = &pool->workers[pool->started];
        *worker = (struct worker){.index = pool->started + 1, .pool = pool,
                                  .seen = atomic_load_explicit(&pool->gate, memory_order_relaxed) & GATE_EPOCHS};
        if (pthread_create(&worker->thread, NULL, work_forever, worker) != 0) {
            pool->exhausted = 1;
            break;
        }
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- regions ---- */

static int anybody_inside(dvt_pool *pool)
{
    return (atomic_load_explicit(&pool->gate, memory_order_acquire) & GATE_INSIDE) != 0;
}

static void sleep_until_all_left(dvt_pool *pool, void (*poll)(void *), void *poll_arg)
{
    const struct timespec timeout = {.tv_nsec = POLL_NS};
    uint32_t gate = atomic_fetch_or(&pool->gate, GATE_WAITING) | GATE_WAITING;
    while (gate & GATE_INSIDE) {
        futex_wait(&pool->gate, gate, &timeout);
        if (poll) {
            poll(poll_arg);
        }
        gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
    }
    atomic_fetch_and(&pool->gate, ~GATE_WAITING);
}

static void wait_for_stragglers(dvt_pool *pool, void (*poll)(void *), void *poll_arg)
{
    if (!anybody_inside(pool)) {
        return;
    }
    int64_t until = dvt_usable_cores() > 1 ? dvt_now_ns() + JOIN_SPIN_NS : 0;
    do {
        for (int i = 0; i < 32; i++) {
            if (!anybody_inside(pool)) {
                return;
            }
            relax();
        }
    } while (dvt_now_ns() < until);
    sleep_until_all_left(pool, poll, poll_arg);
}

static void open_gate(dvt_pool *pool, int threads)
{
    uint32_t gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
    atomic_store(&pool->gate, (gate & GATE_EPOCHS) + GATE_EPOCH + (uint32_t)threads * GATE_THREAD);
}

static int any_undone(const struct region *region, const struct segment *segments)
{
    for (int thread = 0; thread < region->threads; thread++) {
        if (atomic_load_explicit(&segments[thread].next, memory_order_relaxed) < segment_begin(region, thread + 1)) {
            return 1;
        }
    }
    return 0;
}

/* The pool is ours. */
static int run_parallel(dvt_pool *pool, int threads, struct region *region, void (*poll)(void *), void *poll_arg)
{
    unsigned forks_before = forks;
    owned = pool;
    start_workers(pool, threads);
    threads = threads - 1 < pool->started ? threads : pool->started + 1;
    region->threads = threads;
    region->share = region->chunks / threads;
    region->larger = region->chunks % threads;
    pool->region = *region;
    for (int thread = 0; thread < threads; thread++) {
        atomic_store_explicit(&pool->segments[thread].next, segment_begin(region, thread), memory_order_relaxed);
    }
    open_gate(pool, threads);
    wake_next(pool, 0, threads);
    run_shared(region, pool->segments, 0, poll, poll_arg);
    atomic_fetch_and_explicit(&pool->gate, ~GATE_THREADS, memory_order_acq_rel);
    wait_for_stragglers(pool, poll, poll_arg);
    int undone = any_undone(region, pool->segments);
    owned = NULL;
    atomic_store_explicit(&pool->busy, 0, memory_order_release);
    return undone || forks != forks_before;
}

static int take_pool(dvt_pool *pool)
{
    return !atomic_load_explicit(&pool->busy, memory_order_relaxed)
           && !atomic_exchange_explicit(&pool->busy, 1, memory_order_acquire);
}

static int run_nested(int threads, const struct region *region, void (*poll)(void *), void *poll_arg)
{
    return run_inline(region, enclosing < threads ? enclosing : 0, enclosing == 0 ? poll : NULL, poll_arg);
}

int dvt_pool_run(dvt_pool *pool, int threads, int64_t range, int64_t grain,
                 void (*body)(int64_t begin, int64_t end, int32_t worker, void *arg), void *arg,
                 const _Atomic int *stop, void (*poll)(void *), void *poll_arg)
{
    if (range <= 0) {
        return 0;
    }
    struct region region = {.body = body, .arg = arg, .range = range, .grain = grain > 0 ? grain : 1, .stop = stop};
    region.chunks = range / region.grain + (range % region.grain != 0);
    if (enclosing >= 0) {
        return run_nested(threads, &region, poll, poll_arg);
    }
    threads = threads < pool->threads ? threads : pool->threads;
    threads = threads < region.chunks ? threads : (int)region.chunks;
    enclosing = 0;
    int undone = threads > 1 && take_pool(pool) ? run_parallel(pool, threads, &region, poll, poll_arg)
                                              : run_inline(&region, 0, poll, poll_arg);
    enclosing = -1;
    return undone;
}

/* ---- pools ---- */

dvt_pool *dvt_pool_create(int threads, int spin_us)
{
    threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    dvt_pool *pool = aligned_alloc(LINE, sizeof *pool);
    struct worker *workers = aligned_alloc(LINE, sizeof *workers * (size_t)threads);
    struct segment *segments = aligned_alloc(LINE, sizeof *segments * (size_t)threads);
    if (!pool || !workers || !segments) {
        free(pool);
        free(workers);
        free(segments);
        return NULL;
    }
    memset(workers, 0, sizeof *workers * (size_t)threads);
    memset(segments, 0, sizeof *segments * (size_t)threads);
    *pool = (dvt_pool){.threads = threads, .spin_ns = (int64_t)spin_us * 1000, .segments = segments, .workers = workers};
    pthread_mutex_lock(&pools_mutex);
    pool->next = pools;
    pool->link = &pools;
    if (pools) {
        pools->link = &pool->next;
    }
    pools = pool;
    pthread_mutex_unlock(&pools_mutex);
    return pool;
}

void dvt_pool_destroy(dvt_pool *pool)
{
    if (!pool) {
        return;
    }
    pthread_mutex_lock(&pools_mutex);
    *pool->link = pool->next;
    if (pool->next) {
        pool->next->link = pool->link;
    }
    pthread_mutex_unlock(&pools_mutex);
    atomic_fetch_or(&pool->gate, GATE_SHUTDOWN);
    for (int i = 0; i < pool->started; i++) {
        wake(&pool->workers[i]);
    }
    for (int i = 0; i < pool->started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    free(pool->workers);
    free(pool->segments);
    free(pool);
}

int dvt_pool_threads(const dvt_pool *pool)
{
    return pool->threads;
}

/* ---- fork ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&pools_mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&pools_mutex);
}

/* No worker exists here, and no caller but perhaps this thread (forking from its poll). */
static void after_fork_in_child(void)
{
    forks++;
    atomic_store_explicit(&spinners, 0, memory_order_relaxed);
    dvt_forget_usable_cores();
    for (dvt_pool *pool = pools; pool; pool = pool->next) {
        atomic_store_explicit(&pool->gate, 0, memory_order_relaxed);
        atomic_store_explicit(&pool->busy, pool == owned, memory_order_relaxed);
        pool->started = 0;
        pool->exhausted = 0;
    }
    pthread_mutex_unlock(&pools_mutex);
}

/* At load, not at first use: a fork must not fall between a first pool and its handler. */
__attribute__((constructor)) static void register_fork_handlers(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
