/* In-order queues, as the core's `dovetail_queues`: enqueue at once, wait with a deadline. */
#ifndef DOVETAIL_CL_QUEUE_H
#define DOVETAIL_CL_QUEUE_H

#include "abi.h"
#include "device_handle.h"

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

#endif
