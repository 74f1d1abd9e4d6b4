#include "events.h"
#include "queue_state.h"

#include <stdlib.h>

#define CLOCK_LOOKS 3
#define PATIENCE_NS INT64_C(1000000000)

cl_event *queue_event(queue *queue, const dovetail_call *call, const char *name)
{
    if (queue->commands != queue->timed) {
        return NULL;
    }
    if (queue->n_noted == queue->noted_room) {
        size_t room = queue->noted_room ? 2 * queue->noted_room : 256;
        noted *more = realloc(queue->noted, room * sizeof(*more));
        if (!more) {
            return NULL;
        }
        queue->noted = more;
        queue->noted_room = room;
    }
    noted *one = &queue->noted[queue->n_noted++];
    *one = (noted){call, name, NULL};
    return &one->event;
}

void times_forget(queue *queue)
{
    for (size_t i = 0; i < queue->n_noted; i++) {
        drop_event(queue->device->cl, &queue->noted[i].event);
    }
    queue->n_noted = 0;
}

/* A command that fails tells its own event, and not every driver the marks behind it too. */
cl_int times_failed(const queue *queue)
{
    for (size_t i = 0; i < queue->n_noted; i++) {
        cl_int status = CL_COMPLETE;
        if (queue->noted[i].event) {
            queue->device->cl->clGetEventInfo(queue->noted[i].event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
                                              NULL);
        }
        if (status < CL_COMPLETE) {
            return status;
        }
    }
    return CL_SUCCESS;
}

/* Enqueue on another command queue from now on. What was enqueued behind the last wait, such as
 * unmapping, is not in the order of that one. */
static int change_to(queue *queue, cl_command_queue commands)
{
    const opencl *cl = queue->device->cl;
    cl_event marker = NULL;
    cl_int status = cl->clEnqueueMarkerWithWaitList(queue->commands, 0, NULL, &marker);
    if (status == CL_SUCCESS) {
        cl->clFlush(queue->commands);
        status = await_event(cl, marker, PATIENCE_NS);
        cl->clReleaseEvent(marker);
    }
    queue->commands = commands;
    return status == CL_COMPLETE ? DOVETAIL_OK : DOVETAIL_FAILED;
}

/* Only a command queue that was made for it takes times, and each command is slower on it. */
int queue_profile(void *handle, int32_t wanted)
{
    queue *queue = handle;
    device_handle *device = queue->device;
    times_forget(queue);
    if (!wanted) {
        return change_to(queue, queue->plain);
    }
    if (!queue->timed) {
        cl_int code = CL_SUCCESS;
        queue->timed = device->cl->clCreateCommandQueue(device->context, device->device, CL_QUEUE_PROFILING_ENABLE, &code);
        if (code != CL_SUCCESS) {
            queue->timed = NULL;
            return DOVETAIL_FAILED;
        }
    }
    if (change_to(queue, queue->timed) != DOVETAIL_OK) {
        queue->commands = queue->plain;
        return DOVETAIL_FAILED;
    }
    return DOVETAIL_OK;
}

static int time_of(const opencl *cl, cl_event event, cl_uint what, int64_t *nanoseconds)
{
    cl_ulong value = 0;
    cl_int code = cl->clGetEventProfilingInfo(event, what, sizeof(value), &value, NULL);
    *nanoseconds = (int64_t)value;
    return code == CL_SUCCESS ? DOVETAIL_OK : DOVETAIL_FAILED;
}

int queue_span(void *handle, int32_t index, dovetail_span *told)
{
    queue *queue = handle;
    const opencl *cl = queue->device->cl;
    if ((size_t)index >= queue->n_noted || !queue->noted[index].event) {
        return 1;
    }
    const noted *one = &queue->noted[index];
    told->size = sizeof(*told);
    told->call = one->call;
    told->name = one->name;
    if (time_of(cl, one->event, CL_PROFILING_COMMAND_START, &told->begin) != DOVETAIL_OK) {
        return DOVETAIL_FAILED;
    }
    return time_of(cl, one->event, CL_PROFILING_COMMAND_END, &told->end);
}

/* Enqueue a marker, and read when that was on both clocks: on the host's within *took of *host. A
 * driver that does not tell when a command was enqueued tells when it ended. */
static int mark_time(queue *queue, int64_t *device_time, int64_t *host_time, int64_t *took)
{
    const opencl *cl = queue->device->cl;
    cl_event marker = NULL;
    int64_t before = now_ns();
    if (cl->clEnqueueMarkerWithWaitList(queue->commands, 0, NULL, &marker) != CL_SUCCESS) {
        return DOVETAIL_FAILED;
    }
    int64_t enqueued = now_ns();
    cl->clFlush(queue->commands);
    int status = await_event(cl, marker, PATIENCE_NS) == CL_COMPLETE ? DOVETAIL_OK : DOVETAIL_FAILED;
    int64_t ended = now_ns();
    if (status == DOVETAIL_OK) {
        int is_told = time_of(cl, marker, CL_PROFILING_COMMAND_QUEUED, device_time) == DOVETAIL_OK && *device_time > 0;
        status = is_told ? DOVETAIL_OK : time_of(cl, marker, CL_PROFILING_COMMAND_END, device_time);
        *took = (is_told ? enqueued : ended) - before;
        *host_time = before + *took / 2;
    }
    cl->clReleaseEvent(marker);
    return status;
}

/* The best of a few looks, as a thread may be interrupted. */
int queue_clock(void *handle, int64_t *device_time, int64_t *host_time)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < CLOCK_LOOKS; i++) {
        int64_t device, host, took;
        int status = mark_time(handle, &device, &host, &took);
        if (status != DOVETAIL_OK) {
            return status;
        }
        if (took < best) {
            best = took;
            *device_time = device;
            *host_time = host;
        }
    }
    return DOVETAIL_OK;
}
