#include "launch.h"

#include "staging.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernels of one run, and what their arguments are set to: a kernel object must not be used by
 * two threads, and most arguments are the same in the next run. */
typedef struct {
    cl_mem buffer;
    uint64_t offset;
} place;

typedef struct {
    cl_kernel *kernels;
    place *places;              /* of all arguments of all launches, in order */
    size_t n_places;
    long long freed;            /* buffers, when they were last set */
    staging staging;            /* of a copy between host and device */
    queue *queue;
} run;

static int fail(const dovetail_call *call, const launch_list *list, const char *what, cl_int code)
{
    char text[1024], said[700];
    snprintf(text, sizeof(text), "%s: %s", list->name, what);
    int status = explain(list->device, said, sizeof(said), text, code);
    return call->host->fail(call, status, said);
}

/* Set an argument that is a buffer and an offset, where they changed; returns how many it is. */
static cl_int set_place(const opencl *cl, cl_kernel kernel, cl_uint *at, place *known, cl_mem buffer, uint64_t offset)
{
    cl_int code = CL_SUCCESS;
    if (known->buffer != buffer) {
        code = cl->clSetKernelArg(kernel, *at, sizeof(buffer), &buffer);
        known->buffer = code == CL_SUCCESS ? buffer : NULL;
    }
    if (code == CL_SUCCESS && known->offset != offset) {
        code = cl->clSetKernelArg(kernel, *at + 1, sizeof(offset), &offset);
        known->offset = code == CL_SUCCESS ? offset : UINT64_MAX;
    }
    *at += 2;
    return code;
}

static int is_on_host(const dovetail_tensor *tensor)
{
    return tensor->device.device_type == DOVETAIL_ON_HOST && tensor->data;
}

static cl_int set_tensor(queue *queue, const dovetail_call *call, const opencl *cl, cl_kernel kernel, cl_uint *at, place *known,
                         const dovetail_tensor *tensor, int is_written)
{
    cl_mem buffer = (cl_mem)tensor->data;
    uint64_t offset = tensor->byte_offset;
    if (is_on_host(tensor)) {
        cl_int code = queue_import(queue, call, tensor, is_written, &buffer, &offset);
        if (code != CL_SUCCESS) {
            return code;
        }
        known->buffer = NULL;   /* it may have the address of the import of an earlier run */
    }
    cl_int code = set_place(cl, kernel, at, known, buffer, offset);
    if (is_on_host(tensor)) {
        known->buffer = NULL;
    }
    return code;
}

/* The same for the buffer of reports, and the number of a step. */
static cl_int set_reports(const opencl *cl, cl_kernel kernel, cl_uint *at, place *known, cl_mem reports, int32_t step)
{
    cl_int code = CL_SUCCESS;
    if (known->buffer != reports || known->offset != (uint64_t)step) {
        code = cl->clSetKernelArg(kernel, *at, sizeof(reports), &reports);
        if (code == CL_SUCCESS) {
            code = cl->clSetKernelArg(kernel, *at + 1, sizeof(step), &step);
        }
        *known = code == CL_SUCCESS ? (place){reports, (uint64_t)step} : (place){NULL, UINT64_MAX};
    }
    *at += 2;
    return code;
}

/* Whether two tensors share the bytes that an alias says. */
static int is_taken_up(const dovetail_alias *alias, const dovetail_call *call)
{
    const dovetail_tensor *input = &call->inputs[alias->input], *output = &call->outputs[alias->output];
    const dovetail_tensor *outer = alias->relation == DOVETAIL_ALIAS_PART ? output : input;
    const dovetail_tensor *inner = outer == output ? input : output;
    if (is_on_host(outer) && is_on_host(inner)) {
        return (char *)outer->data + outer->byte_offset + alias->offset == (char *)inner->data + inner->byte_offset;
    }
    return outer->data == inner->data && outer->byte_offset + (uint64_t)alias->offset == inner->byte_offset;
}

/* Have all arguments set again. */
static void forget(run *run)
{
    for (size_t i = 0; i < run->n_places; i++) {
        run->places[i] = (place){NULL, UINT64_MAX};
    }
}

static int execute_launches(const launch_list *list, const dovetail_call *call, queue *queue)
{
    const opencl *cl = list->device->cl;
    run *run = call->run_data;
    place *known = run->places;
    long long freed = atomic_load_explicit(&list->device->freed, memory_order_relaxed);
    int32_t step = 0;
    if (run->freed != freed) {
        forget(run);
        run->freed = freed;
    }
    for (int32_t i = 0; i < list->n_launches; i++) {
        const launch *one = &list->launches[i];
        cl_kernel kernel = run->kernels[i];
        cl_uint at = 0;
        if (one->alias >= 0 && is_taken_up(&list->aliases[one->alias], call)) {
            known += one->n_arguments;
            continue;
        }
        for (int32_t j = 0; j < one->n_arguments; j++, known++) {
            const argument *given = &one->arguments[j];
            cl_int code = CL_SUCCESS;
            switch (given->kind) {
            case ARGUMENT_INPUT:
                code = set_tensor(queue, call, cl, kernel, &at, known, &call->inputs[given->index], 0);
                break;
            case ARGUMENT_OUTPUT:
                code = set_tensor(queue, call, cl, kernel, &at, known, &call->outputs[given->index], 1);
                break;
            case ARGUMENT_SCRATCH:
                code = set_place(cl, kernel, &at, known, (cl_mem)call->workspace, call->workspace_offset + given->offset);
                break;
            case ARGUMENT_REPORTS:
                step = step ? step : queue_step(queue, list->name);
                code = set_reports(cl, kernel, &at, known, queue_reports(queue), step);
                break;
            case ARGUMENT_CONSTANT:  /* set by launch_create_run, as are these */
                at += 2;
                break;
            default:
                at++;
            }
            if (code != CL_SUCCESS) {
                return fail(call, list, "an argument of its kernel cannot be set", code);
            }
        }
        cl_int code = cl->clEnqueueNDRangeKernel(queue_commands(queue), kernel, one->dimensions, NULL, one->global,
                                                 one->local[0] ? one->local : NULL, 0, NULL,
                                                 queue_event(queue, call, one->name));
        if (queue_enqueued(queue, code) != CL_SUCCESS) {
            return fail(call, list, "its kernel cannot be enqueued", code);
        }
    }
    return DOVETAIL_OK;
}

static int execute_copy(const launch_list *list, const dovetail_call *call, queue *queue)
{
    const opencl *cl = list->device->cl;
    const dovetail_tensor *from = &call->inputs[0], *to = &call->outputs[0];
    size_t bytes = tensor_bytes(from);
    cl_command_queue commands = queue_commands(queue);
    cl_int code = CL_SUCCESS;
    if (!bytes) {
        return DOVETAIL_OK;
    }
    const run *run = call->run_data;
    if (run->staging.pinned) {
        code = list->work == WORK_COPY_IN ? staging_in(&run->staging, queue, call, list->name, bytes)
                                          : staging_out(&run->staging, queue, call, list->name, bytes);
        return code == CL_SUCCESS          ? DOVETAIL_OK
               : code == STAGING_CANCELLED ? DOVETAIL_CANCELLED
                                           : fail(call, list, "its copy cannot be enqueued", code);
    }
    cl_event *event = queue_event(queue, call, list->name);
    switch (list->work) {
    case WORK_COPY_IN:
        code = cl->clEnqueueWriteBuffer(commands, (cl_mem)to->data, 0, to->byte_offset, bytes,
                                        (const char *)from->data + from->byte_offset, 0, NULL, event);
        break;
    case WORK_COPY_OUT:
        code = cl->clEnqueueReadBuffer(commands, (cl_mem)from->data, 0, from->byte_offset, bytes,
                                       (char *)to->data + to->byte_offset, 0, NULL, event);
        break;
    default:
        code = cl->clEnqueueCopyBuffer(commands, (cl_mem)from->data, (cl_mem)to->data, from->byte_offset, to->byte_offset,
                                       bytes, 0, NULL, event);
    }
    if (queue_enqueued(queue, code) != CL_SUCCESS) {
        return fail(call, list, "its copy cannot be enqueued", code);
    }
    return DOVETAIL_OK;
}

int launch_execute(void *state, const dovetail_call *call)
{
    const launch_list *list = state;
    queue *queue = call->queue;
    if (list->device->process != getpid()) {
        return DOVETAIL_FORKED;
    }
    if (queue_is_aborted(queue)) {
        return DOVETAIL_CANCELLED;
    }
    int code = queue_admit(queue, call);
    if (code != DOVETAIL_OK) {
        return code;
    }
    return list->work == WORK_LAUNCHES ? execute_launches(list, call, queue) : execute_copy(list, call, queue);
}

static cl_int set_fixed(const opencl *cl, const launch_list *list, const launch *one, cl_kernel kernel)
{
    static const uint64_t start = 0;
    cl_uint at = 0;
    for (int32_t j = 0; j < one->n_arguments; j++) {
        const argument *given = &one->arguments[j];
        cl_int code = CL_SUCCESS;
        switch (given->kind) {
        case ARGUMENT_CONSTANT:
            code = cl->clSetKernelArg(kernel, at, sizeof(cl_mem), &list->constants[given->index]);
            if (code == CL_SUCCESS) {
                code = cl->clSetKernelArg(kernel, at + 1, sizeof(start), &start);
            }
            at += 2;
            break;
        case ARGUMENT_VALUE:
            code = cl->clSetKernelArg(kernel, at++, given->size, given->value);
            break;
        case ARGUMENT_LOCAL:
            code = cl->clSetKernelArg(kernel, at++, given->size, NULL);
            break;
        default:
            at += 2;
        }
        if (code != CL_SUCCESS) {
            return code;
        }
    }
    return CL_SUCCESS;
}

static int is_staged(const launch_list *list)
{
    return (list->work == WORK_COPY_IN || list->work == WORK_COPY_OUT) &&
           staging_pays(list->device, list->copied, list->work == WORK_COPY_IN);
}

int launch_create_run(void *state, void *queue, void **made)
{
    const launch_list *list = state;
    const opencl *cl = list->device->cl;
    size_t count = 1;
    cl_int code = CL_SUCCESS;
    for (int32_t i = 0; i < list->n_launches; i++) {
        count += (size_t)list->launches[i].n_arguments;
    }
    run *run = calloc(1, sizeof(*run));
    if (!run) {
        return DOVETAIL_OUT_OF_MEMORY;
    }
    run->kernels = calloc((size_t)list->n_launches + 1, sizeof(*run->kernels));
    run->places = calloc(count, sizeof(*run->places));
    if (!run->kernels || !run->places) {
        code = CL_OUT_OF_HOST_MEMORY;
    }
    run->n_places = run->places ? count : 0;
    forget(run);
    for (int32_t i = 0; code == CL_SUCCESS && i < list->n_launches; i++) {
        run->kernels[i] = cl->clCreateKernel(list->launches[i].program, list->launches[i].name, &code);
        if (run->kernels[i] && code == CL_SUCCESS) {
            code = set_fixed(cl, list, &list->launches[i], run->kernels[i]);
        }
    }
    if (code != CL_SUCCESS) {
        launch_release_run(state, run);
        return code == CL_OUT_OF_HOST_MEMORY || code == CL_MEM_OBJECT_ALLOCATION_FAILURE ? DOVETAIL_OUT_OF_MEMORY
                                                                                         : DOVETAIL_FAILED;
    }
    run->queue = queue;
    if (is_staged(list)) {
        staging_make(&run->staging, list->device, queue, list->copied);
    }
    *made = run;
    return DOVETAIL_OK;
}

void launch_release_run(void *state, void *made)
{
    const launch_list *list = state;
    run *run = made;
    for (int32_t i = 0; run->kernels && i < list->n_launches && list->device->process == getpid(); i++) {
        if (run->kernels[i]) {
            list->device->cl->clReleaseKernel(run->kernels[i]);
        }
    }
    if (list->device->process == getpid()) {
        staging_release(&run->staging, list->device, run->queue);
    }
    free(run->kernels);
    free(run->places);
    free(run);
}

int launch_workspace(void *state, const dovetail_tensor *inputs, const dovetail_tensor *outputs, int32_t workers,
                     size_t *shared, size_t *per_worker)
{
    (void)inputs;
    (void)outputs;
    (void)workers;
    *shared = ((const launch_list *)state)->scratch;
    *per_worker = 0;
    return DOVETAIL_OK;
}

void launch_release(void *state)
{
    launch_list *list = state;
    const opencl *cl = list->device->cl;
    int is_ours = list->device->process == getpid();
    for (int32_t i = 0; i < list->n_launches; i++) {
        if (is_ours && list->launches[i].program) {
            cl->clReleaseProgram(list->launches[i].program);
        }
        free(list->launches[i].arguments);
    }
    for (int32_t i = 0; i < list->n_constants; i++) {
        if (is_ours && list->constants[i]) {
            cl->clReleaseMemObject(list->constants[i]);
        }
    }
    free(list->launches);
    free(list->constants);
    free(list->aliases);
    free(list);
}

void launch_describe(launch_list *list, dovetail_workload *workload)
{
    workload->flags |= DOVETAIL_WORKLOAD_ASYNC | (list->is_elidable ? DOVETAIL_WORKLOAD_ELIDABLE : 0);
    workload->create_run = launch_create_run;
    workload->release_run = launch_release_run;
    workload->aliases = list->aliases;
    workload->n_aliases = list->n_aliases;
    workload->private_bytes = is_staged(list) ? staging_bytes(list->device, list->copied) : 0;  /* of one run */
    if (list->scratch) {
        workload->workspace = launch_workspace;
        workload->workspace_memory = 1;
    }
}
