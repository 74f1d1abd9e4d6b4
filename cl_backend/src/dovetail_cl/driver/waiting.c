#include "events.h"
#include "queue_state.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 30000
#define MIN_PAUSE_NS 100000   /* between two looks at a mark, where the driver does not call */
#define MAX_PAUSE_NS 1000000

/* Told by the driver, on a thread of its own, that a mark was reached. It may come when the queue
 * is gone: after a device hung. So the last of the two frees it. */
typedef struct signal_box {
    pthread_mutex_t lock;
    pthread_cond_t reached;
    int holders;
    int is_reached;
    cl_int status;
} signal_box;

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
        drop_event(cl, &queue->mark);
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

void queue_end_wait(queue *queue)
{
    const opencl *cl = queue->device->cl;
    drop_event(cl, &queue->mark);
    drop_event(cl, &queue->older);
    drop_event(cl, &queue->newer);
    if (queue->box) {
        let_go(queue->box);
        queue->box = NULL;
    }
    imports_end(&queue->imports, queue->keeps_imports && queue->failed == CL_SUCCESS);
    queue->is_called_back = 0;
    queue->enqueued = queue->since_mark = 0;
}

int queue_wait(void *handle, int64_t deadline)
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
    queue_end_wait(queue);
    if (queue->failed == CL_SUCCESS) {
        queue->failed = times_failed(queue);
    }
    cl_int failed = queue->failed != CL_SUCCESS ? queue->failed : status < 0 ? status : CL_SUCCESS;
    int was_aborted = atomic_load(&queue->is_aborted);
    int32_t n_leaving = queue->n_leaving;
    queue->n_leaving = 0;
    queue->failed = CL_SUCCESS;
    atomic_store(&queue->is_aborted, 0);
    if (failed != CL_SUCCESS) {
        reports_clear(queue);
        return explain(queue->device, queue->text, sizeof(queue->text), "a command that was enqueued failed on the device", failed);
    }
    for (int32_t i = 0; i < n_leaving && !was_aborted; i++) {
        memcpy(queue->leaving[i].to, queue->leaving[i].from, queue->leaving[i].bytes);
    }
    int code = reports_read(queue);
    return was_aborted ? DOVETAIL_OK : code;
}
