#include "double.h"

#include <stdlib.h>
#include <time.h>

enum { NO_TIMES = -7 };         /* CL_PROFILING_INFO_NOT_AVAILABLE */

cl_event hanging;

static void complete(cl_event event, cl_int status)
{
    pthread_mutex_lock(&lock);
    event->status = status;
    opencl_event_callback callback = event->callback;
    event->callback = NULL;
    pthread_mutex_unlock(&lock);
    if (callback) {
        callback(event, status, event->given);
    }
    clReleaseEvent(event);
}

void double_go_on(void)
{
    pthread_mutex_lock(&lock);
    cl_event event = hanging;
    hanging = NULL;
    faults[0] = 0;
    for (cl_mem one = first_buffer; one; one = one->next) {
        one->in_flight = 0;
    }
    pthread_mutex_unlock(&lock);
    while (event) {
        cl_event next = event->next;
        complete(event, CL_COMPLETE);
        event = next;
    }
}

static void *completing(void *event)
{
    nanosleep(&(struct timespec){0, 3000000}, NULL);
    complete(event, CL_COMPLETE);
    return NULL;
}

/* The device's own clock, which began an hour before the host's. */
static int64_t device_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec + 3600) * INT64_C(1000000000) + now.tv_nsec;
}

cl_int clGetEventProfilingInfo(cl_event event, cl_uint name, size_t size, void *value, size_t *needed)
{
    int64_t time = name == CL_PROFILING_COMMAND_QUEUED ? event->queued
        : name == CL_PROFILING_COMMAND_START ? event->began : event->ended;
    time = name == CL_PROFILING_COMMAND_QUEUED && fault("no_queued") ? 0 : time;
    return time && event->status == CL_COMPLETE ? told(&time, sizeof(time), size, value, needed) : NO_TIMES;
}

cl_int put_event(cl_command_queue queue, cl_event *made_event)
{
    if (!made_event) {
        return CL_SUCCESS;
    }
    cl_event event = made(EVENT, sizeof(struct _cl_event));
    if (queue->takes_times) {
        event->queued = event->began = device_ns();
        event->ended = event->began + 1000;
    }
    event->status = 2;          /* CL_SUBMITTED */
    retain(event, EVENT);       /* by the driver, until it completes */
    *made_event = event;
    pthread_t thread;
    if (queue->is_hanging) {
        pthread_mutex_lock(&lock);
        event->next = hanging;
        hanging = event;
        pthread_mutex_unlock(&lock);
    } else if (fault("slow") && !pthread_create(&thread, NULL, completing, event)) {
        pthread_detach(thread);
    } else {
        complete(event, queue->late);
        queue->late = CL_COMPLETE;
    }
    return CL_SUCCESS;
}

cl_int clGetEventInfo(cl_event event, cl_uint name, size_t size, void *value, size_t *needed)
{
    (void)name;
    pthread_mutex_lock(&lock);
    cl_int status = event->status;
    pthread_mutex_unlock(&lock);
    return told(&status, sizeof(status), size, value, needed);
}

cl_int clSetEventCallback(cl_event event, cl_int when, opencl_event_callback callback, void *given)
{
    (void)when;
    pthread_mutex_lock(&lock);
    int is_over = event->status <= CL_COMPLETE;
    if (!is_over) {
        event->callback = callback;
        event->given = given;
    }
    pthread_mutex_unlock(&lock);
    if (is_over) {
        callback(event, event->status, given);
    }
    return CL_SUCCESS;
}

cl_int clReleaseEvent(cl_event event)
{
    if (is_last(event, EVENT)) {
        free(event);
    }
    return CL_SUCCESS;
}
