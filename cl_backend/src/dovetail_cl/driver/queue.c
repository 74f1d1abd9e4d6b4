#include "events.h"
#include "queue_state.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Commands between two marks, of which two may be in flight: what a run that was given up still
 * waits for. */
#define MARK_EVERY 128
/* Of every system that drivers exist for, at least: what a device may take memory over by. */
#define PAGE 4096

/* What queues are made by. */
typedef struct {
    device_handle *device;
    int32_t fail_at;
} queue_source;

cl_command_queue queue_commands(queue *queue)
{
    return queue->commands;
}

const opencl *queue_api(const queue *queue)
{
    return queue->device->cl;
}

cl_int queue_leave(queue *queue, const void *from, void *to, size_t bytes)
{
    if (queue->n_leaving == queue->leaving_room) {
        int32_t room = queue->leaving_room ? 2 * queue->leaving_room : 8;
        leaving *more = realloc(queue->leaving, (size_t)room * sizeof(*more));
        if (!more) {
            return CL_OUT_OF_HOST_MEMORY;
        }
        queue->leaving = more;
        queue->leaving_room = room;
    }
    queue->leaving[queue->n_leaving++] = (leaving){from, to, bytes};
    return CL_SUCCESS;
}

int queue_is_aborted(const queue *queue)
{
    return atomic_load_explicit(&queue->is_aborted, memory_order_relaxed);
}

size_t tensor_bytes(const dovetail_tensor *tensor)
{
    size_t bytes = (size_t)(tensor->dtype.bits + 7) / 8 * tensor->dtype.lanes;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        bytes *= (size_t)tensor->shape[i];
    }
    return bytes;
}

cl_int queue_import(queue *queue, const dovetail_call *call, const dovetail_tensor *tensor, int is_written, cl_mem *buffer,
                    uint64_t *offset)
{
    size_t bytes = tensor_bytes(tensor);
    if (!bytes) {               /* nothing is read there: any buffer does */
        *buffer = queue->reports;
        *offset = 0;
        return CL_SUCCESS;
    }
    queue->imports.commands = queue->commands;
    queue->keeps_imports = (call->flags & DOVETAIL_CALL_BOUND) != 0;
    return imports_find(&queue->imports, (char *)tensor->data + tensor->byte_offset, bytes, is_written, buffer, offset);
}

cl_int queue_enqueued(queue *queue, cl_int status)
{
    if (queue->commands_made++ == queue->fail_at && status == CL_SUCCESS && queue->failed == CL_SUCCESS) {
        queue->failed = CL_EXEC_STATUS_ERROR;
    }
    queue->enqueued++;
    queue->since_mark++;
    return status;
}

int queue_admit(queue *queue, const dovetail_call *call)
{
    const opencl *cl = queue->device->cl;
    if (queue->since_mark < MARK_EVERY) {
        return DOVETAIL_OK;
    }
    queue->since_mark = 0;
    drop_event(cl, &queue->older);
    queue->older = queue->newer;
    queue->newer = NULL;
    if (cl->clEnqueueMarkerWithWaitList(queue->commands, 0, NULL, &queue->newer) != CL_SUCCESS) {
        queue->newer = NULL;
    }
    cl->clFlush(queue->commands);
    while (queue->older) {
        cl_int status = CL_COMPLETE;
        if (cl->clGetEventInfo(queue->older, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, NULL) != CL_SUCCESS ||
            status <= CL_COMPLETE) {
            if (status < CL_COMPLETE && queue->failed == CL_SUCCESS) {
                queue->failed = status;
            }
            drop_event(cl, &queue->older);
            break;
        }
        if (queue_is_aborted(queue) || call->host->is_cancelled(call)) {
            return DOVETAIL_CANCELLED;
        }
        nanosleep(&(struct timespec){0, 100000}, NULL);  /* the newer half keeps the device busy */
    }
    return DOVETAIL_OK;
}

static int create(void *state, int32_t number, void **made)
{
    const queue_source *source = state;
    device_handle *device = source->device;
    const opencl *cl = device->cl;
    cl_int code = CL_SUCCESS, zeros[REPORT_WORDS] = {0};
    (void)number;  /* a context has one device */
    if (device->process != getpid()) {
        return DOVETAIL_FORKED;
    }
    queue *queue = calloc(1, sizeof(*queue));
    if (!queue) {
        return DOVETAIL_OUT_OF_MEMORY;
    }
    queue->device = device;
    queue->fail_at = source->fail_at;
    queue->commands = queue->plain = cl->clCreateCommandQueue(device->context, device->device, 0, &code);
    if (queue->commands) {
        queue->reports =
            cl->clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof(zeros), zeros, &code);
    }
    if (!queue->commands || !queue->reports) {
        if (queue->commands) {
            cl->clReleaseCommandQueue(queue->commands);
        }
        free(queue);
        return code == CL_OUT_OF_HOST_MEMORY || code == CL_MEM_OBJECT_ALLOCATION_FAILURE ? DOVETAIL_OUT_OF_MEMORY
                                                                                         : DOVETAIL_FAILED;
    }
    queue->imports = (imports){.cl = cl, .context = device->context};
    queue->imports.is_coherent = device->is_coherent;
    queue->imports.page = device->is_coherent ? 1 : PAGE;
    *made = queue;
    return DOVETAIL_OK;
}

static void abort_rest(void *handle)
{
    /* What was submitted cannot be taken back; nothing more is submitted. */
    atomic_store(&((queue *)handle)->is_aborted, 1);
}

static void destroy(void *handle)
{
    queue *queue = handle;
    const opencl *cl = queue->device->cl;
    if (queue->device->process == getpid()) {
        queue_end_wait(queue);
        times_forget(queue);
        imports_release(&queue->imports);
        cl->clReleaseMemObject(queue->reports);
        cl->clReleaseCommandQueue(queue->plain);
        if (queue->timed) {
            cl->clReleaseCommandQueue(queue->timed);
        }
    }
    free(queue->leaving);
    free(queue->noted);
    free(queue);
}

static const char *error_text(void *handle)
{
    return ((queue *)handle)->text;
}

int queue_table(device_handle *device, int32_t fail_at, dovetail_queues *table)
{
    queue_source *source = calloc(1, sizeof(*source));
    if (!source) {
        return -1;
    }
    source->device = device;
    source->fail_at = fail_at;
    table->size = sizeof(*table);
    table->abi_major = DOVETAIL_ABI_MAJOR;
    table->abi_minor = DOVETAIL_ABI_MINOR;
    table->state = source;
    table->queue_create = create;
    table->queue_wait = queue_wait;
    table->queue_abort = abort_rest;
    table->queue_destroy = destroy;
    table->queue_error = error_text;
    table->queue_profile = queue_profile;
    table->queue_span = queue_span;
    table->queue_clock = queue_clock;
    return 0;
}
