/* Events of OpenCL, one at a time: what a command is waited for by. */
#ifndef DOVETAIL_CL_EVENTS_H
#define DOVETAIL_CL_EVENTS_H

#include "opencl.h"

/* The host's clock, in nanoseconds. */
int64_t now_ns(void);

/* Release an event, if there is one, and forget it. */
void drop_event(const opencl *cl, cl_event *event);

/* Wait for an event some time at most; its status, where above CL_COMPLETE it is still awaited. */
cl_int await_event(const opencl *cl, cl_event event, int64_t nanoseconds);

#endif
