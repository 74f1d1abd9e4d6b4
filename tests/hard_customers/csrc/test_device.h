/* An asynchronous device in software, built to catch a core that is careless with it.
 *
 * Its memory is reached through handles that are no addresses: the host that follows one dies at
 * once. Each queue has a thread that carries out commands in order, each after a random delay.
 * While a command is in flight the device watches what it was given: a host source must not change,
 * a host target must not be written, and a range must not be handed out again before the queue was
 * waited for. What it sees is a violation: the run fails, and td_violation tells the first one.
 */
#pragma once

#include <stdint.h>

#include "abi.h"

typedef struct td_device td_device;
typedef struct td_workload td_workload;

/* Every field may be changed while the device runs. Command numbers count from 0 within what is
 * enqueued between two waits. */
typedef struct {
    int64_t delay_us;           /* average time that a command takes to begin */
    int64_t fail_at;            /* this command fails when it is carried out; -1: none */
    int64_t hang_at;            /* this command does not begin until the queue is aborted; -1: none */
    int64_t deaf;               /* a hanging command does not listen to an abort either, until this is reset */
    int64_t abort_status;       /* what queue_wait returns after an abort */
    int64_t limit;              /* bytes of memory */
    int64_t busy_us;            /* time that a command takes at least once it began */
    int64_t lie;                /* which of TD_LIE_... it tells of its times; 0: none */
} td_settings;

typedef struct {
    int64_t allocations, bytes, queues, workloads, runs;   /* that exist */
    int64_t commands, waits;                               /* in all */
} td_counts;

/* Untrue times: spans end before they begin, come in another order, are of another clock, are all
 * empty, cover each other; there are none; none can be had. */
enum { TD_LIE_ENDS = 1, TD_LIE_ORDER, TD_LIE_CLOCK, TD_LIE_EMPTY, TD_LIE_LONG, TD_LIE_NONE, TD_LIE_REFUSES };

enum { TD_COPY_IN, TD_COPY_OUT, TD_MOVE, TD_ADD, TD_RELU, TD_FULLY_CONNECTED, TD_BLOCK, TD_UNBLOCK, TD_PROGRAM };
enum { TD_MAX_STEPS = 64 };

/* One instruction of a program: registers 0..inputs-1 are the inputs, the next ones the results of
 * the instructions. */
typedef struct {
    int operation, a, b;
    int64_t elements;
    const float *weights, *bias;        /* of a fully connected layer: [units, depth] and [units]; owned by the workload */
    int64_t units, depth;
} td_instruction;

td_device *td_open(uint64_t seed);
td_settings *td_settings_of(td_device *device);
/* Free the device once the last queue, workload and allocation is gone; those that outlive this
 * call are a violation. */
void td_close(td_device *device);
void td_count(td_device *device, td_counts *counts);
/* Text of the first violation, or "". */
const char *td_violation(td_device *device);

/* Handle of fresh memory, filled with NaN; 0 if there is not that much. */
uint64_t td_allocate(td_device *device, size_t nbytes);
void td_free(td_device *device, uint64_t handle);

/* Bytes of a tensor in the blocked layout: blocks of four elements in reverse, behind a header. */
size_t td_blocked_bytes(int64_t elements);

/* A workload that enqueues one command. `blocked`: its tensors are in the blocked layout. Takes
 * over `program`, whose weights are copied. NULL: out of memory. */
td_workload *td_workload_create(td_device *device, int operation, int blocked, const char *name, const td_instruction *program,
                                int n_instructions, int n_inputs);
void td_workload_describe(td_workload *workload, dovetail_workload *table);
int td_execute(void *state, const dovetail_call *call);
void td_release(void *state);

/* Fill in the table of queue functions; `state` is the device. */
void td_queues(td_device *device, dovetail_queues *table);
