#include "double.h"

#include <stdlib.h>
#include <string.h>

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *code)
{
    *code = strstr(program->source, name) ? CL_SUCCESS : CL_INVALID_BINARY;
    if (*code != CL_SUCCESS) {
        return NULL;
    }
    cl_kernel kernel = made(KERNEL, sizeof(struct _cl_kernel));
    retain(program, PROGRAM);
    kernel->program = program;
    return kernel;
}

cl_int clReleaseKernel(cl_kernel kernel)
{
    if (is_last(kernel, KERNEL)) {
        clReleaseProgram(kernel->program);
        free(kernel);
    }
    return CL_SUCCESS;
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    if (index >= 32 || (value && size > 256)) {
        wrong("an argument of this kind was not expected");
    }
    kernel->arguments[index].size = size;
    if (value) {
        memcpy(kernel->arguments[index].value, value, size);
    }
    if (index >= kernel->n_arguments) {
        kernel->n_arguments = index + 1;
    }
    return CL_SUCCESS;
}

/* The buffer that an argument is, and the offset in the next one; NULL if it is no buffer. */
static cl_mem buffer_of(const cl_kernel kernel, cl_uint index, uint64_t *offset)
{
    cl_mem buffer = NULL;
    if (kernel->arguments[index].size == sizeof(cl_mem)) {
        void *given;
        memcpy(&given, kernel->arguments[index].value, sizeof(given));
        pthread_mutex_lock(&lock);
        for (buffer = first_buffer; buffer && (void *)buffer != given; buffer = buffer->next) {
        }
        pthread_mutex_unlock(&lock);
        memcpy(offset, kernel->arguments[index + 1].value, sizeof(*offset));
    }
    return buffer;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *start,
                              const size_t *global, const size_t *local, cl_uint count, const cl_event *events, cl_event *event)
{
    (void)dimensions, (void)start, (void)global, (void)local, (void)count, (void)events;
    cl_mem from = NULL, to = NULL;
    uint64_t at = 0, from_offset = 0, to_offset = 0;
    uint32_t elements;
    for (cl_uint i = 0; i + 1 < kernel->n_arguments; i++) {
        cl_mem buffer = buffer_of(kernel, i, &at);
        if (buffer && !from) {
            from = buffer;
            from_offset = at;
        } else if (buffer) {
            to = buffer;
            to_offset = at;
        }
    }
    if (!to || kernel->arguments[kernel->n_arguments - 1].size != sizeof(elements)) {
        wrong("a kernel of this kind was not expected");
    }
    memcpy(&elements, kernel->arguments[kernel->n_arguments - 1].value, sizeof(elements));
    cl_int code;
    if (begins(queue, from, to, &code)) {
        memmove(place(to, to_offset, 4ul * elements), place(from, from_offset, 4ul * elements), 4ul * elements);
    }
    return code == CL_SUCCESS ? put_event(queue, event) : code;
}
