/* The one pool of CPU threads that a runtime owns.
 *
 * A region (one call of dvt_pool_run) is cut into chunks whose boundaries depend on range and grain
 * alone. Each thread has a segment of chunks side by side, the same share in each region, and helps
 * others when it is done: a body whose items lie in memory in their order reads what its thread has
 * written. The caller works too and never waits for a thread to wake up: it closes the region when
 * no chunk is left and waits only for those that had come in. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

typedef struct dvt_pool dvt_pool;

/* `threads`: threads including the caller, clamped to 1..1023. `spin_us`: how long a worker spins
 * for its next job before it sleeps. Starts no thread: the first region that wants one does. NULL
 * if out of memory. */
dvt_pool *dvt_pool_create(int threads, int spin_us);

/* No region may be running. NULL is fine. */
void dvt_pool_destroy(dvt_pool *pool);

int dvt_pool_threads(const dvt_pool *pool);

/* Run body over [0, range) in chunks of `grain`, one call a chunk, on at most `threads` threads
 * including the caller. Returns 0, or non-zero if chunks were left undone: because of `stop`, or
 * because the process is a child forked in the middle.
 *
 * The caller is worker 0, the pool's threads are 1..threads-1. Called from inside a body it runs
 * inline as the enclosing body's worker (as worker 0 if that is not below `threads`: the region of
 * another run, whose workspaces this thread has to itself); with the pool busy it runs inline as
 * worker 0.
 *
 * stop: (optional) bits of watchdog.h, read between chunks: once it has any of DVT_ENDED no chunk
 *       is begun.
 * poll: (optional) called by the caller alone, never by a thread of the pool: after each of its
 *       chunks, and every millisecond while it waits for the others. What it calls may use any
 *       pool; that runs inline.
 * body: must not fork. */
int dvt_pool_run(dvt_pool *pool, int threads, int64_t range, int64_t grain,
                 void (*body)(int64_t begin, int64_t end, int32_t worker, void *arg), void *arg,
                 const _Atomic int *stop, void (*poll)(void *), void *poll_arg);
