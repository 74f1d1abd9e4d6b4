#include "double.h"

#include <stdlib.h>
#include <time.h>

long commands;

cl_context clCreateContext(const intptr_t *properties, cl_uint count, const cl_device_id *devices, void *callback, void *given,
                           cl_int *code)
{
    (void)properties, (void)count, (void)devices, (void)callback, (void)given;
    *code = CL_SUCCESS;
    return made(CONTEXT, sizeof(struct _cl_context));
}

cl_int clReleaseContext(cl_context context)
{
    if (is_last(context, CONTEXT)) {
        free(context);
    }
    return CL_SUCCESS;
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device, cl_bitfield properties, cl_int *code)
{
    (void)device;
    *code = context->is_lost ? CL_INVALID_CONTEXT : CL_SUCCESS;
    if (context->is_lost) {
        return NULL;
    }
    cl_command_queue queue = made(QUEUE, sizeof(struct _cl_command_queue));
    retain(context, CONTEXT);
    queue->context = context;
    queue->takes_times = properties == CL_QUEUE_PROFILING_ENABLE;
    return queue;
}

cl_int clReleaseCommandQueue(cl_command_queue queue)
{
    if (is_last(queue, QUEUE)) {
        clReleaseContext(queue->context);
        free(queue);
    }
    return CL_SUCCESS;
}

cl_int clFlush(cl_command_queue queue)
{
    return queue->context->is_lost ? CL_DEVICE_NOT_AVAILABLE : CL_SUCCESS;
}

cl_int clFinish(cl_command_queue queue)
{
    while (queue->is_hanging) {
        nanosleep(&(struct timespec){1, 0}, NULL);
    }
    return clFlush(queue);
}

int begins(cl_command_queue queue, cl_mem one, cl_mem other, cl_int *code)
{
    *code = CL_SUCCESS;
    if (queue->context->is_lost) {
        *code = CL_DEVICE_NOT_AVAILABLE;
        return 0;
    }
    pthread_mutex_lock(&lock);
    long command = commands++;
    if (!hanging && !fault("hang")) {
        queue->is_hanging = 0;
    }
    if (is_due("lost", command)) {
        queue->context->is_lost = 1;
        *code = CL_DEVICE_NOT_AVAILABLE;
    }
    if (is_due("late", command)) {
        queue->late = CL_OUT_OF_RESOURCES;
    }
    if (is_due("hang", command)) {
        queue->is_hanging = 1;
    }
    for (int i = 0; queue->is_hanging && i < 2; i++) {
        cl_mem used = i ? other : one;
        if (used) {
            used->in_flight++;
        }
    }
    pthread_mutex_unlock(&lock);
    return *code == CL_SUCCESS && !queue->is_hanging;
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count, const cl_event *events, cl_event *event)
{
    (void)count, (void)events;
    return queue->context->is_lost ? CL_DEVICE_NOT_AVAILABLE : put_event(queue, event);
}
