/* Calls into another process: words and tensors in shared memory, futexes to wait on.
 *
 * The host asks, one request at a time; the worker process answers. The host believes nothing that
 * it reads here: it counts requests itself, a status is one of a few, a text is cut. What the
 * worker writes elsewhere in the shared memory is a wrong result at worst.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "abi.h"
#include "crossing.h"

/* Bytes of the text in an answer: an error in JSON, with the end of its traceback. */
enum { DVT_CHANNEL_TEXT = 16384 };

/* Times of devices in an answer, and bytes of the name of each. */
enum { DVT_CHANNEL_SPANS = 256, DVT_CHANNEL_SPAN_NAME = 112 };

/* What is asked in the place of a part: look at the socket. */
enum { DVT_LOOK_AT_SOCKET = -1 };

/* What execute found instead of an answer; never the status of a worker. */
enum {
    DVT_WORKER_DIED = -200,
    DVT_WORKER_LOST = -201,     /* it says that the run was cancelled, which nobody had asked for */
    DVT_NEVER_BEGUN = -202      /* it died before it took the request */
};

/* When a device worked, in CLOCK_MONOTONIC nanoseconds, which all processes share. */
typedef struct {
    int64_t begin, end;
    char name[DVT_CHANNEL_SPAN_NAME];
} dvt_channel_span;

typedef struct {
    /* the host's */
    _Alignas(64) _Atomic uint32_t request;  /* number of the latest request; the worker waits on it */
    _Atomic uint32_t host_sleeps;
    _Atomic uint32_t stopped;               /* number of the request that is to end early */
    int32_t part;                           /* number of the part to run, or DVT_LOOK_AT_SOCKET */
    int64_t deadline;                       /* of the run, CLOCK_MONOTONIC nanoseconds; 0: none */
    int32_t is_profiled;                    /* whether times of devices are wanted */
    /* the worker's */
    _Alignas(64) _Atomic uint32_t answer;   /* number of the latest answer; the host waits on it */
    _Atomic uint32_t taken;                 /* number of the request that it began with */
    _Atomic uint32_t worker_sleeps;
    int32_t status;
    uint32_t text_bytes;
    int64_t busy_ns;                        /* from taking the request to answering it */
    int32_t n_spans;
    _Alignas(64) char text[DVT_CHANNEL_TEXT];
    dvt_channel_span spans[DVT_CHANNEL_SPANS];
} dvt_channel;

/* Whether spinning is worth it: where it was in vain, it is left out for a while, twice as long
 * each time. Where cores are busy, who spins keeps the other end from running. */
typedef struct {
    int32_t left_out;           /* so many times to come */
    int32_t backoff;
} dvt_patience;

/* The host's end of one worker process, and of those that take its place. */
typedef struct {
    dvt_channel *channel;       /* of the process that lives; NULL: none was started */
    int pidfd;                  /* readable once the process has ended; -1 */
    int alive;                  /* false once it died or was killed */
    int was_killed;             /* by this end, because it did not stop */
    int32_t generation;         /* counts processes, from 1 */
    uint32_t requests;          /* the number of the latest */
    int64_t spin_ns, grace_ns;
    dvt_patience patience;
    int64_t successes;          /* runs that were answered, of all processes */
    int32_t host;               /* the process that may use this */
    _Atomic uint32_t lock;      /* 0: free, 1: held, 2: held and waited for */
} dvt_worker_end;

/* A part of a network that runs in a worker process: the state of a workload. */
typedef struct dvt_isolated_part {
    dvt_worker_end *worker;
    int32_t number;
    int32_t generation;         /* of the process that has loaded it */
    char *memory;               /* its tensors, shared */
    const size_t *offsets, *bytes;  /* in it, of the inputs, then of the outputs */
    int32_t n_inputs, n_outputs;
    dvt_crossing crossing;      /* of its inputs, to the worker */
    int is_explained;           /* `revive` said why the run failed */
    int is_long;                /* the latest run kept the worker busy for longer than anybody spins */
    void *owner;
    /* Start a process, or load the part into it; the lock is held. DOVETAIL_OK, or the run ends
     * with this status. */
    int (*revive)(void *owner, const dovetail_call *call);
    /* Say why a run failed, with `host->fail`; the lock is held, unless the status is
     * DOVETAIL_FORKED. Returns what execute returns. */
    int (*explain)(void *owner, const dovetail_call *call, int status);
} dvt_isolated_part;

/* execute() of a workload whose state is a dvt_isolated_part. */
int dvt_isolated_execute(void *state, const dovetail_call *call);

/* Ask for something; returns the number of the request. */
uint32_t dvt_ask(dvt_worker_end *worker, int32_t part, int64_t deadline);

/* Sleep until a request is answered. 1: it is; 0: not within `sleep_ns`. */
int dvt_is_answered(dvt_channel *channel, uint32_t request, int64_t sleep_ns);

/* Whether the process has ended. */
int dvt_has_ended(const dvt_worker_end *worker);

/* Take the lock of a worker, within `sleep_ns`; 1: it is held. */
int dvt_worker_try(dvt_worker_end *worker, int64_t sleep_ns);
void dvt_worker_release(dvt_worker_end *worker);

/* End the process. */
void dvt_worker_kill(dvt_worker_end *worker);

/* In the worker: wait for a request after `last`, as long as it takes; returns its number, and when
 * that was. */
uint32_t dvt_next_request(dvt_channel *channel, uint32_t last, int64_t spin_ns, dvt_patience *patience, int64_t *taken_ns);

/* In the worker: answer what was taken then; the text was written before. */
void dvt_answer_request(dvt_channel *channel, uint32_t request, int64_t taken_ns, int32_t status, uint32_t text_bytes);
