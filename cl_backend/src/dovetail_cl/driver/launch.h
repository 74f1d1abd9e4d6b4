/* A workload as a list of kernels to launch, and copies between the host and a device. */
#ifndef DOVETAIL_CL_LAUNCH_H
#define DOVETAIL_CL_LAUNCH_H

#include "queue.h"

/* Bytes of a struct that is an argument: of all arguments OpenCL 1.2 promises 1024. */
enum { MAX_VALUE = 640 };

/* What an argument of a kernel is. Tensors, scratch and constants are two arguments: a buffer, and
 * a ulong, the bytes to the first element. */
typedef enum {
    ARGUMENT_INPUT,             /* of the layer, by index */
    ARGUMENT_OUTPUT,
    ARGUMENT_SCRATCH,           /* of the layer, `offset` bytes into it */
    ARGUMENT_CONSTANT,          /* a buffer of the workload, by index */
    ARGUMENT_VALUE,             /* a number or a struct */
    ARGUMENT_LOCAL,             /* `size` bytes of local memory */
    ARGUMENT_REPORTS            /* two arguments: the buffer for reports, and the number of the step */
} argument_kind;

typedef struct {
    argument_kind kind;
    int32_t index;
    uint64_t offset;
    size_t size;
    unsigned char value[MAX_VALUE];
} argument;

typedef struct {
    cl_program program;         /* retained */
    char name[64];
    cl_uint dimensions;
    size_t global[3];
    size_t local[3];            /* 0 first: the driver's choice */
    int32_t n_arguments;
    argument *arguments;
    int32_t alias;              /* of the layer, by index: where it was taken up nothing is left to do; -1: none */
} launch;

typedef enum { WORK_LAUNCHES, WORK_COPY_IN, WORK_COPY_OUT, WORK_COPY_INSIDE } work_kind;

typedef struct {
    device_handle *device;
    work_kind work;
    char name[256];             /* of the layer, for errors */
    int32_t n_launches;
    launch *launches;
    int32_t n_constants;
    cl_mem *constants;          /* owned */
    size_t scratch;             /* bytes */
    size_t copied;              /* bytes of the tensor that is copied */
    int is_elidable;            /* nothing is left to do where all aliases were taken up */
    int32_t n_aliases;
    dovetail_alias *aliases;
} launch_list;

int launch_execute(void *state, const dovetail_call *call);
int launch_create_run(void *state, void *queue, void **run);
void launch_release_run(void *state, void *run);
int launch_workspace(void *state, const dovetail_tensor *inputs, const dovetail_tensor *outputs, int32_t workers,
                     size_t *shared, size_t *per_worker);
/* Free the list and what it owns. */
void launch_release(void *state);
/* Fill in a workload whose state is `list`. */
void launch_describe(launch_list *list, dovetail_workload *workload);

#endif
