/* The OpenCL library that is installed, but with a device that shares no memory with the host, and
 * with a count of the bytes that cross. What is not defined here is found in the library behind. */
#include "entries.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#define BEHIND(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

static atomic_long bytes_in, bytes_out;

/* Bytes that crossed to the device, or back, since they were last asked for. */
long counter_take(const char *direction)
{
    return atomic_exchange(strcmp(direction, "in") ? &bytes_out : &bytes_in, 0);
}

cl_int clGetDeviceInfo(cl_device_id device, cl_uint name, size_t size, void *value, size_t *needed)
{
    cl_int code = BEHIND(clGetDeviceInfo)(device, name, size, value, needed);
    if (code == CL_SUCCESS && value && (name == CL_DEVICE_HOST_UNIFIED_MEMORY || name == CL_DEVICE_SVM_CAPABILITIES)) {
        memset(value, 0, size);
    }
    return code;
}

cl_mem clCreateBuffer(cl_context context, cl_bitfield flags, size_t size, void *content, cl_int *code)
{
    bytes_in += content ? (long)size : 0;
    return BEHIND(clCreateBuffer)(context, flags, size, content, code);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking, size_t offset, size_t bytes, void *target,
                           cl_uint count, const cl_event *events, cl_event *event)
{
    bytes_out += (long)bytes;
    return BEHIND(clEnqueueReadBuffer)(queue, buffer, is_blocking, offset, bytes, target, count, events, event);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking, size_t offset, size_t bytes,
                            const void *source, cl_uint count, const cl_event *events, cl_event *event)
{
    bytes_in += (long)bytes;
    return BEHIND(clEnqueueWriteBuffer)(queue, buffer, is_blocking, offset, bytes, source, count, events, event);
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking, cl_bitfield access, size_t offset,
                         size_t bytes, cl_uint count, const cl_event *events, cl_event *event, cl_int *code)
{
    *(access & CL_MAP_READ ? &bytes_out : &bytes_in) += (long)bytes;
    return BEHIND(clEnqueueMapBuffer)(queue, buffer, is_blocking, access, offset, bytes, count, events, event, code);
}
