/* Transfers between arrays of the host and a device with memory of its own, through memory that the
 * driver has pinned.
 *
 * A driver reaches pageable memory by copying it piece by piece itself, and many block meanwhile.
 * Here the host's threads copy one chunk while the device fetches the other. */
#ifndef DOVETAIL_CL_STAGING_H
#define DOVETAIL_CL_STAGING_H

#include "queue.h"

/* What staging_in and staging_out return beside codes of OpenCL: the run ends early. */
enum { STAGING_CANCELLED = 1 };

typedef struct {
    cl_mem pinned;
    char *memory;               /* where the host sees it: two chunks, or one that holds all */
    size_t chunk;               /* bytes */
} staging;

/* Whether a tensor is worth it. */
int staging_pays(const device_handle *device, size_t bytes, int is_in);
/* The memory that this takes, in each run that is in flight. */
size_t staging_bytes(const device_handle *device, size_t bytes);
/* Get memory for tensors of a size; left zeroed where the driver has none. */
void staging_make(staging *staging, const device_handle *device, queue *queue, size_t bytes);
void staging_release(staging *staging, const device_handle *device, queue *queue);

/* Enqueue a transfer; `name` is the step's. A result of one chunk is copied to its place when the
 * queue is waited for; the last chunk of a larger one arrives before this returns. */
cl_int staging_in(const staging *staging, queue *queue, const dovetail_call *call, const char *name, size_t bytes);
cl_int staging_out(const staging *staging, queue *queue, const dovetail_call *call, const char *name, size_t bytes);

#endif
