/* The run loop: a flat array of steps, executed without the GIL.
 *
 * A plan is immutable and shared; a run context is one run's own: memory, queues, stop word, first
 * failure. Contexts are made of a plan (plan.h), and pooled by its owner.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "abi.h"
#include "spans.h"
#include "thread_pool.h"
#include "watchdog.h"
#include "worker_times.h"

enum { DVT_STEP_EXECUTE = 0, DVT_STEP_WAIT = 1 };
/* A deadline was asked for, and the thread that would watch it cannot be started: nothing ran. */
enum { DVT_UNWATCHED = -100 };
enum { DVT_MESSAGE_BYTES = 512, DVT_MAX_MARKS = 4096 };

/* A device that does not answer is given this long to release a run's memory once the run has ended
 * early. */
#define DVT_DRAIN_NS INT64_C(10000000000)

typedef struct {
    int kind;
    int32_t queue;              /* index of the queue that is enqueued on or waited for; -1: none */
    void *state;
    int (*execute)(void *state, const dovetail_call *call);
} dvt_step;

typedef struct {
    const char *name;
    int64_t time;
    int32_t step;
} dvt_mark;

/* A tensor of a call that lies in the caller's memory. */
typedef struct {
    dovetail_tensor *tensor;
    int64_t offset;
} dvt_patch;

/* A pointer into the shared arena. */
typedef struct {
    void **pointer;
    int64_t offset;
} dvt_pointer_patch;

typedef struct dvt_context {
    dvt_watch watch;
    /* fixed when the context is made */
    const dvt_step *steps;
    dovetail_call *calls;       /* one per step; a wait's is unused */
    int32_t n_steps;
    int32_t n_queues;
    const dovetail_queues *const *queue_tables;
    void **queues;
    char *pending;              /* per queue: work was enqueued since the last wait */
    dvt_pool *pool;
    int32_t threads;
    void *owner;                /* of the code that made the context */
    int (*poll)(struct dvt_context *);  /* on the calling thread: look for signals; non-zero ends the run */
    dovetail_tensor *tensors;   /* of all calls */
    dvt_patch *input_patches, *output_patches;
    const int32_t *input_begin, *output_begin;
    dvt_pointer_patch *shared_patches;
    int32_t n_shared;
    void *shared;               /* where the shared arena begins, now */
    int32_t runs_created;
    /* of the run in progress */
    void *owner_thread;
    int64_t *times;             /* (begin, end) of each step, or NULL if nobody profiles */
    dvt_spans *spans;           /* when devices worked; NULL with `times` */
    dvt_worker_times *workers;  /* when threads of the pool worked; NULL with `times` */
    dvt_mark *marks;
    _Atomic int n_marks;
    _Atomic int failure;        /* 0: none, 1: being written, 2: written */
    int code;
    int32_t failed_step;
    int32_t current_step;
    int stuck;                  /* a queue did not drain: memory and queues must never be used again */
    char message[DVT_MESSAGE_BYTES];
} dvt_context;

/* Run all steps. Returns DOVETAIL_OK, or why not: DOVETAIL_CANCELLED (see watch.stop for whether it
 * was the deadline), or the code of failed_step. All queues are drained on return, unless `stuck`
 * says otherwise. deadline: CLOCK_MONOTONIC ns, or 0. */
int dvt_context_run(dvt_context *context, int64_t deadline, int wants_poll);

/* Ask a run in progress, of another thread, to end. */
void dvt_context_cancel(dvt_context *context);

/* The table that every call carries. */
extern const dovetail_host dvt_host;
