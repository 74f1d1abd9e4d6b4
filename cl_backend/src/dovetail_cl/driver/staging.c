#include "staging.h"

#include "events.h"

#include <string.h>

#define PIECE (INT64_C(256) << 10)      /* bytes that one thread copies at a time */
#define PATIENCE_NS INT64_C(10000000000)
#define SLICE_NS INT64_C(2000000)       /* of waiting, between two looks whether the run still goes on */

int staging_pays(const device_handle *device, size_t bytes, int is_in)
{
    /* Drivers take a small tensor along with its command. Results are always worth it: a driver
     * that fetches into pageable memory waits for the kernels before. */
    return device->chunk && bytes && (!is_in || bytes >= device->staged_from);
}

size_t staging_bytes(const device_handle *device, size_t bytes)
{
    return bytes > device->chunk ? 2 * device->chunk : bytes;
}

void staging_make(staging *staging, const device_handle *device, queue *queue, size_t bytes)
{
    const opencl *cl = device->cl;
    const size_t chunk = bytes < device->chunk ? bytes : device->chunk;
    const size_t whole = staging_bytes(device, bytes);
    cl_int code = CL_SUCCESS;
    cl_event mapped = NULL;
    cl_mem pinned = cl->clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, whole, NULL, &code);
    if (!pinned || code != CL_SUCCESS) {
        return;
    }
    char *memory = cl->clEnqueueMapBuffer(queue_commands(queue), pinned, 0, CL_MAP_READ | CL_MAP_WRITE, 0, whole, 0, NULL,
                                          &mapped, &code);
    if (code == CL_SUCCESS) {
        cl->clFlush(queue_commands(queue));
        code = await_event(cl, mapped, PATIENCE_NS);
        cl->clReleaseEvent(mapped);
    }
    if (code == CL_SUCCESS) {
        staging->pinned = pinned;
        staging->memory = memory;
        staging->chunk = chunk;
    } else {
        cl->clReleaseMemObject(pinned);
    }
}

void staging_release(staging *staging, const device_handle *device, queue *queue)
{
    if (staging->pinned) {
        device->cl->clEnqueueUnmapMemObject(queue_commands(queue), staging->pinned, staging->memory, 0, NULL, NULL);
        device->cl->clReleaseMemObject(staging->pinned);
        staging->pinned = NULL;
    }
}

struct pieces {
    const char *from;
    char *to;
    size_t bytes;
};

static void copy_pieces(int64_t begin, int64_t end, int32_t worker, void *arg)
{
    const struct pieces *all = arg;
    (void)worker;
    size_t first = (size_t)(begin * PIECE), last = (size_t)(end * PIECE);
    last = last < all->bytes ? last : all->bytes;
    memcpy(all->to + first, all->from + first, last - first);
}

static int copy(const dovetail_call *call, void *to, const void *from, size_t bytes)
{
    struct pieces all = {from, to, bytes};
    return call->host->parallel_for(call, ((int64_t)bytes + PIECE - 1) / PIECE, 1, copy_pieces, &all);
}

/* Enqueue what the transfer of the next command can be waited for by. */
static cl_int mark(const opencl *cl, queue *queue, cl_event *event)
{
    cl_int code = cl->clEnqueueMarkerWithWaitList(queue_commands(queue), 0, NULL, event);
    return code == CL_SUCCESS ? cl->clFlush(queue_commands(queue)) : code;
}

/* Wait for an event, and drop it. */
static cl_int await(const opencl *cl, queue *queue, const dovetail_call *call, cl_event *event)
{
    cl_int status = CL_COMPLETE;
    if (!*event) {
        return CL_SUCCESS;
    }
    do {
        status = await_event(cl, *event, SLICE_NS);
        if (status > CL_COMPLETE && (queue_is_aborted(queue) || call->host->is_cancelled(call))) {
            return STAGING_CANCELLED;
        }
    } while (status > CL_COMPLETE);
    drop_event(cl, event);
    return status;
}

cl_int staging_in(const staging *staging, queue *queue, const dovetail_call *call, const char *name, size_t bytes)
{
    const opencl *cl = queue_api(queue);
    const dovetail_tensor *source = &call->inputs[0], *target = &call->outputs[0];
    const char *from = (const char *)source->data + source->byte_offset;
    cl_event events[2] = {NULL, NULL};
    cl_int code = CL_SUCCESS;
    for (size_t done = 0, turn = 0; done < bytes && code == CL_SUCCESS; done += staging->chunk, turn ^= 1) {
        size_t part = bytes - done < staging->chunk ? bytes - done : staging->chunk;
        char *memory = staging->memory + turn * staging->chunk;
        code = await(cl, queue, call, &events[turn]);
        if (code == CL_SUCCESS && copy(call, memory, from + done, part) != DOVETAIL_OK) {
            code = STAGING_CANCELLED;
        }
        if (code == CL_SUCCESS) {
            code = queue_enqueued(queue, cl->clEnqueueWriteBuffer(queue_commands(queue), (cl_mem)target->data, 0,
                                                                  target->byte_offset + done, part, memory, 0, NULL,
                                                                  queue_event(queue, call, name)));
        }
        if (code == CL_SUCCESS && bytes - done > 2 * staging->chunk) {  /* another chunk comes here */
            code = mark(cl, queue, &events[turn]);
        }
    }
    drop_event(cl, &events[0]);
    drop_event(cl, &events[1]);
    return code;
}

/* Enqueue the way of a chunk to pinned memory. */
static cl_int fetch(const staging *staging, queue *queue, const dovetail_call *call, const char *name, size_t bytes,
                    size_t number)
{
    const dovetail_tensor *source = &call->inputs[0];
    const size_t done = number * staging->chunk;
    const size_t part = bytes - done < staging->chunk ? bytes - done : staging->chunk;
    return queue_enqueued(queue, queue_api(queue)->clEnqueueReadBuffer(
                                     queue_commands(queue), (cl_mem)source->data, 0, source->byte_offset + done, part,
                                     staging->memory + number % 2 * staging->chunk, 0, NULL, queue_event(queue, call, name)));
}

cl_int staging_out(const staging *staging, queue *queue, const dovetail_call *call, const char *name, size_t bytes)
{
    const opencl *cl = queue_api(queue);
    const dovetail_tensor *target = &call->outputs[0];
    char *to = (char *)target->data + target->byte_offset;
    const size_t count = (bytes + staging->chunk - 1) / staging->chunk;
    cl_event events[2] = {NULL, NULL};
    cl_int code = CL_SUCCESS;
    if (count == 1) {
        code = fetch(staging, queue, call, name, bytes, 0);
        return code == CL_SUCCESS ? queue_leave(queue, staging->memory, to, bytes) : code;
    }
    for (size_t next = 0, number = 0; number < count && code == CL_SUCCESS; number++) {
        for (; next < count && next < number + 2 && code == CL_SUCCESS; next++) {
            code = fetch(staging, queue, call, name, bytes, next);
            code = code == CL_SUCCESS ? mark(cl, queue, &events[next % 2]) : code;
        }
        code = code == CL_SUCCESS ? await(cl, queue, call, &events[number % 2]) : code;
        const size_t done = number * staging->chunk, part = bytes - done < staging->chunk ? bytes - done : staging->chunk;
        if (code == CL_SUCCESS && copy(call, to + done, staging->memory + number % 2 * staging->chunk, part) != DOVETAIL_OK) {
            code = STAGING_CANCELLED;
        }
    }
    drop_event(cl, &events[0]);
    drop_event(cl, &events[1]);
    return code;
}
