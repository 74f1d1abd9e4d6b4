#include "double.h"

#include <stdlib.h>
#include <string.h>

cl_mem first_buffer;
long buffers, violations, bytes_in, bytes_out;

cl_mem clCreateBuffer(cl_context context, cl_bitfield flags, size_t size, void *content, cl_int *code)
{
    (void)context;
    pthread_mutex_lock(&lock);
    int is_refused = is_due("memory", buffers++);
    pthread_mutex_unlock(&lock);
    int is_import = (flags & CL_MEM_USE_HOST_PTR) != 0;
    is_refused |= is_import && fault("refused");
    *code = is_refused ? CL_MEM_OBJECT_ALLOCATION_FAILURE : CL_SUCCESS;
    if (is_refused) {
        return NULL;
    }
    cl_mem buffer = made(BUFFER, sizeof(struct _cl_mem));
    buffer->size = size;
    buffer->is_owned = !is_import || fault("shadow");
    buffer->bytes = buffer->is_owned ? calloc(1, size) : content;
    buffer->shown = is_import && buffer->is_owned ? content : NULL;
    if (buffer->shown) {
        memcpy(buffer->bytes, content, size);
    } else if (flags & CL_MEM_COPY_HOST_PTR) {
        memcpy(buffer->bytes, content, size);
        bytes_in += (long)size;
    }
    pthread_mutex_lock(&lock);
    buffer->next = first_buffer;
    first_buffer = buffer;
    pthread_mutex_unlock(&lock);
    return buffer;
}

cl_int clRetainMemObject(cl_mem buffer)
{
    retain(buffer, BUFFER);
    return CL_SUCCESS;
}

cl_int clReleaseMemObject(cl_mem buffer)
{
    if (!is_last(buffer, BUFFER)) {
        return CL_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    violations += buffer->in_flight > 0;
    for (cl_mem *at = &first_buffer; *at; at = &(*at)->next) {
        if (*at == buffer) {
            *at = buffer->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (buffer->is_owned) {
        free(buffer->bytes);
    }
    free(buffer);
    return CL_SUCCESS;
}

unsigned char *place(cl_mem buffer, size_t offset, size_t bytes)
{
    if (buffer->base.references < 1 || offset > buffer->size || bytes > buffer->size - offset) {
        wrong("a command leaves its buffer");
    }
    return buffer->bytes + offset;
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking, size_t offset, size_t bytes, void *target,
                           cl_uint count, const cl_event *events, cl_event *event)
{
    (void)is_blocking, (void)count, (void)events;
    cl_int code;
    if (begins(queue, buffer, NULL, &code)) {
        memcpy(target, place(buffer, offset, bytes), bytes);
        bytes_out += (long)bytes;
    }
    return code == CL_SUCCESS ? put_event(queue, event) : code;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking, size_t offset, size_t bytes,
                            const void *source, cl_uint count, const cl_event *events, cl_event *event)
{
    (void)is_blocking, (void)count, (void)events;
    cl_int code;
    if (begins(queue, buffer, NULL, &code)) {
        memcpy(place(buffer, offset, bytes), source, bytes);
        bytes_in += (long)bytes;
    }
    return code == CL_SUCCESS ? put_event(queue, event) : code;
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem source, cl_mem target, size_t from, size_t to, size_t bytes,
                           cl_uint count, const cl_event *events, cl_event *event)
{
    (void)count, (void)events;
    cl_int code;
    if (begins(queue, source, target, &code)) {
        memmove(place(target, to, bytes), place(source, from, bytes), bytes);
    }
    return code == CL_SUCCESS ? put_event(queue, event) : code;
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking, cl_bitfield access, size_t offset,
                         size_t bytes, cl_uint count, const cl_event *events, cl_event *event, cl_int *code)
{
    (void)is_blocking, (void)count, (void)events;
    int is_done = begins(queue, buffer, NULL, code);
    if (*code != CL_SUCCESS) {
        return NULL;
    }
    *code = put_event(queue, event);
    unsigned char *seen = place(buffer, offset, bytes);
    if (buffer->shown && is_done) {
        if (buffer->mapped) {
            wrong("a buffer is mapped twice");
        }
        memcpy(buffer->shown + offset, seen, bytes);
        buffer->mapped_at = offset;
        buffer->mapped = bytes;
        buffer->mapped_for = access;
    }
    return buffer->shown ? buffer->shown + offset : seen;
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void *address, cl_uint count, const cl_event *events,
                               cl_event *event)
{
    (void)address, (void)count, (void)events;
    cl_int code;
    if (begins(queue, buffer, NULL, &code) && buffer->mapped) {
        if (buffer->mapped_for & ~(cl_bitfield)CL_MAP_READ) {
            memcpy(buffer->bytes + buffer->mapped_at, buffer->shown + buffer->mapped_at, buffer->mapped);
        }
        buffer->mapped = 0;
    }
    return code == CL_SUCCESS ? put_event(queue, event) : code;
}
