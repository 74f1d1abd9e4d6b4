#include "device_handle.h"

#include "abi.h"

#include <stdio.h>

int is_loss(device_handle *device, cl_int code)
{
    switch (code) {
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_DEVICE:
    case CL_INVALID_CONTEXT:
    case CL_INVALID_COMMAND_QUEUE:
    case CL_NVIDIA_ILLEGAL_ACCESS:
        atomic_store(&device->is_lost, 1);
        return 1;
    default:
        return 0;
    }
}

int explain(device_handle *device, char *text, size_t room, const char *what, cl_int code)
{
    const char *name = opencl_error_name(code);
    if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY) {
        snprintf(text, room, "%s: out of memory (%s)", what, name);
        return DOVETAIL_OUT_OF_MEMORY;
    }
    if (code == CL_OUT_OF_RESOURCES) {  /* which some drivers say of a device that they lost */
        atomic_store(&device->is_lost, 1);
    }
    if (code == CL_OUT_OF_RESOURCES || is_loss(device, code)) {
        snprintf(text, room, "%s: the device is lost, or out of resources (%s); load the network again", what, name);
    } else {
        snprintf(text, room, "%s: %s (%d)", what, name, code);
    }
    return DOVETAIL_FAILED;
}
