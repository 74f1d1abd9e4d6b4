#include "queue.h"

#include "imports.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Commands between two marks, of which two may be in flight: what a run that was given up still
 * waits for. */
#define MARK_EVERY 128
#define SPIN_NS 30000
#define MIN_PAUSE_NS 100000   /* between two looks at a mark, where the driver does not call */
#define MAX_PAUSE_NS 1000000
#define CLOCK_LOOKS 3
#define PATIENCE_NS INT64_C(1000000000)
#define MAX_STEPS 4096
#define MAX_TEXT 768
/* Of every system that drivers exist for, at least: what a device may take memory over by. */
#define PAGE 4096

/* Told by the driver, on a thread of its own, that a mark was reached. It may come when the queue
 * is gone: after a device hung. So the last of the two frees it. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t reached;
    int holders;
    int is_reached;
    cl_int status;
} signal_box;

/* What queues are made by. */
typedef struct {
    device_handle *device;
    int32_t fail_at;
} queue_source;

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
    signal_box *box;            /* of the wait that goes on, else NULL */
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

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void let_go(signal_box *box)
{
    pthread_mutex_lock(&box->lock);
    int holders = --box->holders;
    pthread_mutex_unlock(&box->lock);
    if (!holders) {
        pthread_cond_destroy(&box->reached);
        pthread_mutex_destroy(&box->lock);
        free(box);
    }
}

static void reached(cl_event event, cl_int status, void *arg)
{
    signal_box *box = arg;
    (void)event;
    pthread_mutex_lock(&box->lock);
    box->is_reached = 1;
    box->status = status;
    pthread_cond_signal(&box->reached);
    pthread_mutex_unlock(&box->lock);
    let_go(box);
}

static signal_box *new_box(void)
{
    signal_box *box = calloc(1, sizeof(*box));
    if (box) {
        pthread_condattr_t attributes;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_mutex_init(&box->lock, NULL);
        pthread_cond_init(&box->reached, &attributes);
        pthread_condattr_destroy(&attributes);
        box->holders = 1;
    }
    return box;
}

int is_loss(device_handle *device, cl_int code)
{
    switch (code) {
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_DEVICE:
    case CL_INVALID_CONTEXT:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_NVIDIA_ILLEGAL_ACCESS:
        atomic_store(&device->is_lost, 1);
        return 1;
    default:
        return 0;
    }
}

int explain(device_handle *device, char *text, size_t room, const char *what, cl_int code)
{
    const char *name = opencl_error_name(code);
    if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY) {
        snprintf(text, room, "%s: out of memory (%s)", what, name);
        return DOVETAIL_OUT_OF_MEMORY;
    }
    if (code == CL_OUT_OF_RESOURCES) {  /* which some drivers say of a device that they lost */
        atomic_store(&device->is_lost, 1);
    }
    if (code == CL_OUT_OF_RESOURCES || is_loss(device, code)) {
        snprintf(text, room, "%s: the device is lost, or out of resources (%s); load the network again", what, name);
    } else {
        snprintf(text, room, "%s: %s (%d)", what, name, code);
    }
    return DOVETAIL_FAILED;
}

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

cl_mem queue_reports(queue *queue)
{
    queue->is_reporting = 1;
    return queue->reports;
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

int32_t queue_step(queue *queue, const char *text)
{
    int32_t at = queue->n_steps < MAX_STEPS ? queue->n_steps++ : MAX_STEPS - 1;
    queue->steps[at] = text;
    return at + 1;
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

static void drop(const opencl *cl, cl_event *event)
{
    if (*event) {
        cl->clReleaseEvent(*event);
        *event = NULL;
    }
}

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

static void forget_noted(queue *queue)
{
    for (size_t i = 0; i < queue->n_noted; i++) {
        drop(queue->device->cl, &queue->noted[i].event);
    }
    queue->n_noted = 0;
}

int queue_admit(queue *queue, const dovetail_call *call)
{
    const opencl *cl = queue->device->cl;
    if (queue->since_mark < MARK_EVERY) {
        return DOVETAIL_OK;
    }
    queue->since_mark = 0;
    drop(cl, &queue->older);
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
            drop(cl, &queue->older);
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

/* Mark the end of what is in flight; 0 if there is something to wait for. */
static int begin_wait(queue *queue)
{
    const opencl *cl = queue->device->cl;
    cl_int code = imports_show(&queue->imports, queue->keeps_imports);
    if (code != CL_SUCCESS) {
        /* answered below */
    } else if (queue->is_reporting) {
        code = cl->clEnqueueReadBuffer(queue->commands, queue->reports, 0, 0, sizeof(queue->words), queue->words, 0, NULL,
                                       &queue->mark);
    } else {
        code = cl->clEnqueueMarkerWithWaitList(queue->commands, 0, NULL, &queue->mark);
    }
    if (code == CL_SUCCESS) {
        code = cl->clFlush(queue->commands);
    }
    if (code != CL_SUCCESS) {
        drop(cl, &queue->mark);
        if (queue->failed == CL_SUCCESS) {
            queue->failed = code;
        }
        cl->clFinish(queue->commands);  /* fails too on a device that is lost; else nothing may be in flight */
        return -1;
    }
    queue->box = new_box();
    if (queue->box) {
        queue->box->holders++;
        queue->is_called_back = cl->clSetEventCallback(queue->mark, CL_COMPLETE, reached, queue->box) == CL_SUCCESS;
        if (!queue->is_called_back) {
            queue->box->holders--;
        }
    }
    return 0;
}

/* Wait for the driver's call, or that long where it makes none; whether it came. */
static int was_called(queue *queue, int64_t until_ns, cl_int *status)
{
    if (!queue->is_called_back) {
        const int64_t left = until_ns - now_ns();
        nanosleep(&(struct timespec){0, left > 0 ? left : 0}, NULL);
        return 0;
    }
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    pthread_mutex_lock(&queue->box->lock);
    while (!queue->box->is_reached && pthread_cond_timedwait(&queue->box->reached, &queue->box->lock, &until) == 0) {
    }
    const int is_reached = queue->box->is_reached;
    *status = queue->box->status;
    pthread_mutex_unlock(&queue->box->lock);
    return is_reached;
}

/* Whether the mark was reached by then; its status in *status. Drivers of GPUs may call tens of
 * milliseconds late: the mark is looked at again after a sixteenth of what the wait took so far. */
static int is_done(queue *queue, int64_t deadline, cl_int *status)
{
    const opencl *cl = queue->device->cl;
    const int64_t begin = now_ns(), spin_until = begin + (queue->device->spins ? SPIN_NS : 0);
    for (;;) {
        if (cl->clGetEventInfo(queue->mark, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(*status), status, NULL) != CL_SUCCESS) {
            *status = CL_OUT_OF_RESOURCES;
            return 1;
        }
        if (*status <= CL_COMPLETE) {
            return 1;
        }
        const int64_t now = now_ns();
        if (now >= deadline) {
            return 0;
        }
        if (now >= spin_until) {
            int64_t pause = (now - begin) / 16;
            pause = pause < MIN_PAUSE_NS ? MIN_PAUSE_NS : pause > MAX_PAUSE_NS ? MAX_PAUSE_NS : pause;
            if (was_called(queue, now + pause < deadline ? now + pause : deadline, status)) {
                return 1;
            }
        }
    }
}

static void end_wait(queue *queue)
{
    const opencl *cl = queue->device->cl;
    drop(cl, &queue->mark);
    drop(cl, &queue->older);
    drop(cl, &queue->newer);
    if (queue->box) {
        let_go(queue->box);
        queue->box = NULL;
    }
    imports_end(&queue->imports, queue->keeps_imports && queue->failed == CL_SUCCESS);
    queue->is_called_back = 0;
    queue->enqueued = queue->since_mark = 0;
}

/* Zero what kernels reported, on the device too, for the next run. */
static void clear_reports(queue *queue)
{
    static const cl_int zeros[REPORT_WORDS] = {0};
    if (queue->is_reporting) {
        queue->device->cl->clEnqueueWriteBuffer(queue->commands, queue->reports, 0, 0, sizeof(zeros), zeros, 0, NULL, NULL);
        memset(queue->words, 0, sizeof(queue->words));
    }
    queue->is_reporting = 0;
    queue->n_steps = 0;
}

/* Turn what a kernel reported into a sentence. */
static int read_reports(queue *queue)
{
    if (!queue->words[0]) {
        queue->is_reporting = 0;
        queue->n_steps = 0;
        return DOVETAIL_OK;
    }
    int32_t step = queue->words[0] - 1;
    snprintf(queue->text, sizeof(queue->text), "%s: index %d is out of range",
             step >= 0 && step < queue->n_steps ? queue->steps[step] : "a layer", queue->words[1]);
    clear_reports(queue);
    return DOVETAIL_FAILED;
}

/* A command that fails tells its own event, and not every driver the marks behind it too. */
static cl_int failed_of_noted(const queue *queue)
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

static int wait_until(void *handle, int64_t deadline)
{
    queue *queue = handle;
    cl_int status = CL_COMPLETE;
    if (queue->device->process != getpid()) {
        return DOVETAIL_FORKED;
    }
    if (!queue->mark && queue->enqueued && begin_wait(queue) != 0) {
        status = queue->failed;  /* nothing can be waited for on a queue that takes no marker */
    } else if (queue->mark && !is_done(queue, deadline, &status)) {
        return DOVETAIL_PENDING;
    }
    end_wait(queue);
    if (queue->failed == CL_SUCCESS) {
        queue->failed = failed_of_noted(queue);
    }
    cl_int failed = queue->failed != CL_SUCCESS ? queue->failed : status < 0 ? status : CL_SUCCESS;
    int was_aborted = queue_is_aborted(queue);
    int32_t n_leaving = queue->n_leaving;
    queue->n_leaving = 0;
    queue->failed = CL_SUCCESS;
    atomic_store(&queue->is_aborted, 0);
    if (failed != CL_SUCCESS) {
        clear_reports(queue);
        return explain(queue->device, queue->text, sizeof(queue->text), "a command that was enqueued failed on the device", failed);
    }
    for (int32_t i = 0; i < n_leaving && !was_aborted; i++) {
        memcpy(queue->leaving[i].to, queue->leaving[i].from, queue->leaving[i].bytes);
    }
    int code = read_reports(queue);
    return was_aborted ? DOVETAIL_OK : code;
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
        end_wait(queue);
        forget_noted(queue);
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
static int profile(void *handle, int32_t wanted)
{
    queue *queue = handle;
    device_handle *device = queue->device;
    forget_noted(queue);
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

static int span(void *handle, int32_t index, dovetail_span *told)
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
static int read_clock(void *handle, int64_t *device_time, int64_t *host_time)
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

cl_int await_event(const opencl *cl, cl_event event, int64_t nanoseconds)
{
    int64_t deadline = now_ns() + nanoseconds;
    for (;;) {
        cl_int status = CL_COMPLETE;
        cl_int code = cl->clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, NULL);
        if (code != CL_SUCCESS || status <= CL_COMPLETE || now_ns() >= deadline) {
            return code == CL_SUCCESS ? status : code;
        }
        nanosleep(&(struct timespec){0, 20000}, NULL);
    }
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
    table->queue_wait = wait_until;
    table->queue_abort = abort_rest;
    table->queue_destroy = destroy;
    table->queue_error = error_text;
    table->queue_profile = profile;
    table->queue_span = span;
    table->queue_clock = read_clock;
    return 0;
}
