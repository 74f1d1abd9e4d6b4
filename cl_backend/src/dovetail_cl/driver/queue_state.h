/* What a queue is made of, for the files that carry out its functions: `queue.c`, `waiting.c`,
 * `reports.c` and `times.c`. */
#ifndef DOVETAIL_CL_QUEUE_STATE_H
#define DOVETAIL_CL_QUEUE_STATE_H

#include "imports.h"
#include "queue.h"

enum { MAX_STEPS = 4096, MAX_TEXT = 768 };

/* A command whose times are wanted. */
typedef struct {
    const dovetail_call *call;
    const char *name;
    cl_event event;             /* NULL: it was not enqueued, and its run failed */
} noted;

/* A result that is in pinned memory once the queue was waited for. */
typedef struct {
    const void *from;
    void *to;
    size_t bytes;
} leaving;

struct queue {
    device_handle *device;
    int32_t fail_at;
    cl_command_queue commands;  /* that work is enqueued on: one of the next two */
    cl_command_queue plain;
    cl_command_queue timed;     /* has the times of its commands taken; NULL until a run is profiled */
    noted *noted;               /* of the run that is profiled */
    size_t n_noted;
    size_t noted_room;
    struct signal_box *box;     /* of the wait that goes on, else NULL */
    int is_called_back;         /* by the driver, when the mark is reached */
    cl_event mark;              /* its event */
    cl_event older;             /* of queue_admit */
    cl_event newer;
    int64_t since_mark;
    int64_t enqueued;           /* since the last wait that ended */
    int64_t commands_made;      /* in all, for fail_at */
    cl_int failed;              /* first status that was no success, since the last wait */
    atomic_int is_aborted;
    imports imports;            /* of host memory */
    leaving *leaving;
    int32_t n_leaving, leaving_room;
    int keeps_imports;          /* as the tensors of all runs of this queue lie in the same place */
    cl_mem reports;
    int is_reporting;           /* kernels that report are in flight */
    cl_int words[REPORT_WORDS];
    int32_t n_steps;
    const char *steps[MAX_STEPS];
    char text[MAX_TEXT];
};

/* In `waiting.c`. */

/* Wait for all that was enqueued, until a time of the host's clock; a status of the core. */
int queue_wait(void *queue, int64_t deadline);
/* Forget what was waited for. */
void queue_end_wait(queue *queue);

/* In `reports.c`. */

/* Zero what kernels reported, on the device too, for the next run. */
void reports_clear(queue *queue);
/* Turn what a kernel reported into a sentence: DOVETAIL_FAILED; DOVETAIL_OK if none did. */
int reports_read(queue *queue);

/* In `times.c`. */

/* Let the commands of the runs to come take their times, or no more. */
int queue_profile(void *queue, int32_t wanted);
/* When a command of the profiled run was carried out, on the device's clock; 1: there is none. */
int queue_span(void *queue, int32_t index, dovetail_span *told);
/* One moment on the device's clock and on the host's. */
int queue_clock(void *queue, int64_t *device_time, int64_t *host_time);
/* Drop the commands of the profiled run. */
void times_forget(queue *queue);
/* The status of the first of them that failed; CL_SUCCESS if none did. */
cl_int times_failed(const queue *queue);

#endif
