/* In-order queues, as the core's `dovetail_queues`: enqueue at once, wait with a deadline. */
#ifndef DOVETAIL_CL_QUEUE_H
#define DOVETAIL_CL_QUEUE_H

#include "abi.h"
#include "opencl.h"

#include <stdatomic.h>

/* An opened device, as queues and workloads see it; it outlives both. */
typedef struct {
    const opencl *cl;
    cl_context context;
    cl_device_id device;
    int64_t process;            /* that opened it: a driver does not survive fork() */
    int32_t spins;              /* whether the host's cores are idle while the device works */
    int32_t is_coherent;        /* what it writes to the host's memory the host sees without mapping */
    size_t staged_from;         /* bytes of an input from which on it goes through pinned memory */
    size_t chunk;               /* bytes that go through it at a time; 0: nothing does */
    atomic_int is_lost;         /* nothing can be done with this context any more */
    atomic_llong freed;         /* buffers, in all: another may have the address of an earlier one */
} device_handle;

/* What a kernel reports of the values it met, such as an index out of range: the number of a step,
 * counted from 1, or 0; then what the kernel adds. */
enum { REPORT_WORDS = 2 };

typedef struct queue queue;

/* Tell a command that was enqueued; returns its status. */
cl_int queue_enqueued(queue *queue, cl_int status);
/* Where the event of a command goes that a step enqueues next, for its time; NULL: nobody wants it.
 * `name` lives as long as the workload. */
cl_event *queue_event(queue *queue, const dovetail_call *call, const char *name);
/* Keep the number of commands in flight bounded, so that a run can end soon. 0, or
 * DOVETAIL_CANCELLED. */
int queue_admit(queue *queue, const dovetail_call *call);
/* The buffer that kernels report to; it is read back with the next wait. */
cl_mem queue_reports(queue *queue);
cl_command_queue queue_commands(queue *queue);
const opencl *queue_api(const queue *queue);
/* Copy some bytes within the host once the next wait ended well. */
cl_int queue_leave(queue *queue, const void *from, void *to, size_t bytes);
/* The buffer of a tensor that lies in host memory, on a device that shares it, and the bytes in
 * front of the tensor; for the commands up to the next wait. */
cl_int queue_import(queue *queue, const dovetail_call *call, const dovetail_tensor *tensor, int is_written, cl_mem *buffer,
                    uint64_t *offset);
/* Bytes of a tensor. */
size_t tensor_bytes(const dovetail_tensor *tensor);
int queue_is_aborted(const queue *queue);
/* Give a step a number under which its kernels report, and its text. */
int32_t queue_step(queue *queue, const char *text);

/* Fill in the functions of queues of a device, which lives longer; the table's owner frees its
 * `state`. Of the commands of each queue, number `fail_at` fails late, for tests; -1: none. 0, or
 * -1 where there is no memory. */
int queue_table(device_handle *device, int32_t fail_at, dovetail_queues *table);

/* Remember that a device is lost, if that is what a code of it says. */
int is_loss(device_handle *device, cl_int code);

/* Explain a code of a device, with what happened; returns a status of the core. */
int explain(device_handle *device, char *text, size_t room, const char *what, cl_int code);

/* Wait for an event some time at most; its status, where above CL_COMPLETE it is still awaited. */
cl_int await_event(const opencl *cl, cl_event event, int64_t nanoseconds);

#endif
