/* An opened device, as the C code sees it, and what its errors mean. */
#ifndef DOVETAIL_CL_DEVICE_HANDLE_H
#define DOVETAIL_CL_DEVICE_HANDLE_H

#include "opencl.h"

#include <stdatomic.h>

/* It outlives the queues and workloads that are made for it. */
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

/* Remember that a device is lost, if that is what a code of it says. */
int is_loss(device_handle *device, cl_int code);

/* Explain a code of a device, with what happened; returns a status of the core. */
int explain(device_handle *device, char *text, size_t room, const char *what, cl_int code);

#endif
