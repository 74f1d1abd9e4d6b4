#include "double.h"

/* Of which only the addresses are used. */
static const char the_platform, the_device;

cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *found, cl_uint *count)
{
    if (fault("no_platform")) {
        *count = 0;
        return CL_PLATFORM_NOT_FOUND;
    }
    if (room && found) {
        found[0] = (cl_platform_id)&the_platform;
    }
    *count = 1;
    return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_uint name, size_t size, void *value, size_t *needed)
{
    (void)platform;
    return text(name == CL_PLATFORM_NAME ? "Double" : "OpenCL 1.2 Double", size, value, needed);
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_bitfield kind, cl_uint room, cl_device_id *found, cl_uint *count)
{
    (void)platform, (void)kind;
    if (fault("no_device")) {
        *count = 0;
        return CL_DEVICE_NOT_FOUND;
    }
    if (room && found) {
        found[0] = (cl_device_id)&the_device;
    }
    *count = 1;
    return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_uint name, size_t size, void *value, size_t *needed)
{
    (void)device;
    const char *version = fault("driver");
    switch (name) {
    case CL_DEVICE_NAME:
        return text("double", size, value, needed);
    case CL_DRIVER_VERSION:
        return text(version ? version : "1.0", size, value, needed);
    case CL_DEVICE_VERSION:
        return text("OpenCL 1.2 double", size, value, needed);
    case CL_DEVICE_VENDOR:
    case CL_DEVICE_EXTENSIONS:
        return text("", size, value, needed);
    case CL_DEVICE_TYPE:
        return number(CL_DEVICE_TYPE_GPU, size, value, needed);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_LOCAL_MEM_TYPE:
        return number(1, size, value, needed);
    case CL_DEVICE_COMPILER_AVAILABLE:
        return number(!fault("no_compiler"), size, value, needed);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return number(fault("unified") != NULL, size, value, needed);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return number(1u << 30, size, value, needed);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        return number(4, size, value, needed);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return number(256, size, value, needed);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return number(32768, size, value, needed);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        return number(1024, size, value, needed);
    default:
        return name == CL_DEVICE_SINGLE_FP_CONFIG ? number(0, size, value, needed) : CL_INVALID_DEVICE;
    }
}
