#include "opencl.h"

#include <dlfcn.h>
#include <stdio.h>

int opencl_load(opencl *table, const char *const *libraries, char *why, size_t room)
{
    size_t used = 0;
    void *library = NULL;
    for (; *libraries && !library; libraries++) {
        library = dlopen(*libraries, RTLD_NOW | RTLD_LOCAL);
        if (!library && used < room) {
            used += (size_t)snprintf(why + used, room - used, "%s%s", used ? "; " : "", dlerror());
        }
    }
    if (!library) {
        return -1;
    }
#define FIND(type, name, parameters)                                                            \
    *(void **)&table->name = dlsym(library, #name);                                             \
    if (!table->name) {                                                                         \
        snprintf(why, room, "the OpenCL library lacks " #name ", which OpenCL 1.2 has");        \
        return -1;                                                                              \
    }
    OPENCL_FUNCTIONS(FIND)
#undef FIND
#define FIND(type, name, parameters) *(void **)&table->name = dlsym(library, #name);
    OPENCL_LATER_FUNCTIONS(FIND)
#undef FIND
    return 0;
}

int host_multiplies_bytes(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw");
#else
    return 0;
#endif
}

const char *opencl_error_name(cl_int code)
{
    static const char *const errors[] = {
        "CL_SUCCESS", "CL_DEVICE_NOT_FOUND", "CL_DEVICE_NOT_AVAILABLE", "CL_COMPILER_NOT_AVAILABLE",
        "CL_MEM_OBJECT_ALLOCATION_FAILURE", "CL_OUT_OF_RESOURCES", "CL_OUT_OF_HOST_MEMORY",
        "CL_PROFILING_INFO_NOT_AVAILABLE", "CL_MEM_COPY_OVERLAP", "CL_IMAGE_FORMAT_MISMATCH",
        "CL_IMAGE_FORMAT_NOT_SUPPORTED", "CL_BUILD_PROGRAM_FAILURE", "CL_MAP_FAILURE",
        "CL_MISALIGNED_SUB_BUFFER_OFFSET", "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
        "CL_COMPILE_PROGRAM_FAILURE", "CL_LINKER_NOT_AVAILABLE", "CL_LINK_PROGRAM_FAILURE",
        "CL_DEVICE_PARTITION_FAILED", "CL_KERNEL_ARG_INFO_NOT_AVAILABLE",
    };
    static const char *const misuses[] = {
        "CL_INVALID_VALUE", "CL_INVALID_DEVICE_TYPE", "CL_INVALID_PLATFORM", "CL_INVALID_DEVICE", "CL_INVALID_CONTEXT",
        "CL_INVALID_QUEUE_PROPERTIES", "CL_INVALID_COMMAND_QUEUE", "CL_INVALID_HOST_PTR", "CL_INVALID_MEM_OBJECT",
        "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR", "CL_INVALID_IMAGE_SIZE", "CL_INVALID_SAMPLER", "CL_INVALID_BINARY",
        "CL_INVALID_BUILD_OPTIONS", "CL_INVALID_PROGRAM", "CL_INVALID_PROGRAM_EXECUTABLE", "CL_INVALID_KERNEL_NAME",
        "CL_INVALID_KERNEL_DEFINITION", "CL_INVALID_KERNEL", "CL_INVALID_ARG_INDEX", "CL_INVALID_ARG_VALUE",
        "CL_INVALID_ARG_SIZE", "CL_INVALID_KERNEL_ARGS", "CL_INVALID_WORK_DIMENSION", "CL_INVALID_WORK_GROUP_SIZE",
        "CL_INVALID_WORK_ITEM_SIZE", "CL_INVALID_GLOBAL_OFFSET", "CL_INVALID_EVENT_WAIT_LIST", "CL_INVALID_EVENT",
        "CL_INVALID_OPERATION", "CL_INVALID_GL_OBJECT", "CL_INVALID_BUFFER_SIZE", "CL_INVALID_MIP_LEVEL",
        "CL_INVALID_GLOBAL_WORK_SIZE",
    };
    if (code <= 0 && code > -(cl_int)(sizeof(errors) / sizeof(*errors))) {
        return errors[-code];
    }
    if (code <= -30 && code > -30 - (cl_int)(sizeof(misuses) / sizeof(*misuses))) {
        return misuses[-30 - code];
    }
    switch (code) {
    case CL_PLATFORM_NOT_FOUND:
        return "CL_PLATFORM_NOT_FOUND_KHR";
    case CL_NVIDIA_ILLEGAL_ACCESS:
        return "NVIDIA's error for a kernel that left its memory";
    default:
        return "an unknown error";
    }
}
