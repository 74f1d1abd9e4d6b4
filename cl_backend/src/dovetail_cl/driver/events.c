#include "events.h"

#include <time.h>

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void drop_event(const opencl *cl, cl_event *event)
{
    if (*event) {
        cl->clReleaseEvent(*event);
        *event = NULL;
    }
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
