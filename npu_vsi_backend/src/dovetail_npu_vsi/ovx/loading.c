#define _GNU_SOURCE /* dladdr */
#include "loading.h"

#include <dlfcn.h>
#include <stdio.h>

static void *opened(const char *path, char *why, size_t room)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        snprintf(why, room, "%s", dlerror());
    }
    return library;
}

#define FIND(type, name, parameters)                                                    \
    *(void **)&table->name = dlsym(library, #name);                                     \
    if (!table->name) {                                                                 \
        snprintf(why, room, "%s lacks the function " #name, path);                      \
        return -1;                                                                      \
    }
#define FIND_OPTIONAL(type, name, parameters) *(void **)&table->name = dlsym(library, #name);

int loading_openvx(openvx *table, const char *path, char *why, size_t room)
{
    void *library = opened(path, why, room);
    if (!library) {
        return -1;
    }
    OPENVX_FUNCTIONS(FIND)
    OPENVX_OPTIONAL_FUNCTIONS(FIND_OPTIONAL)
    return 0;
}

int loading_ovxlib(ovxlib *table, const char *path, char *why, size_t room)
{
    void *library = opened(path, why, room);
    if (!library) {
        return -1;
    }
    OVXLIB_FUNCTIONS(FIND)
    return 0;
}

const char *loading_file(const void *function)
{
    Dl_info found;
    return dladdr(function, &found) && found.dli_fname ? found.dli_fname : "";
}

const char *openvx_status_name(vx_status status)
{
    static const char *const names[] = {
        "VX_SUCCESS", "VX_FAILURE", "VX_ERROR_NOT_IMPLEMENTED", "VX_ERROR_NOT_SUPPORTED", "VX_ERROR_NOT_SUFFICIENT",
        "VX_ERROR_NOT_ALLOCATED", "VX_ERROR_NOT_COMPATIBLE", "VX_ERROR_NO_RESOURCES", "VX_ERROR_NO_MEMORY",
        "VX_ERROR_OPTIMIZED_AWAY", "VX_ERROR_INVALID_PARAMETERS", "VX_ERROR_INVALID_MODULE", "VX_ERROR_INVALID_REFERENCE",
        "VX_ERROR_INVALID_LINK", "VX_ERROR_INVALID_FORMAT", "VX_ERROR_INVALID_DIMENSION", "VX_ERROR_INVALID_VALUE",
        "VX_ERROR_INVALID_TYPE", "VX_ERROR_INVALID_GRAPH", "VX_ERROR_INVALID_NODE", "VX_ERROR_INVALID_SCOPE",
        "VX_ERROR_GRAPH_SCHEDULED", "VX_ERROR_GRAPH_ABANDONED", "VX_ERROR_MULTIPLE_WRITERS", "VX_ERROR_REFERENCE_NONZERO",
    };
    if (status <= 0 && status > -(vx_status)(sizeof(names) / sizeof(*names))) {
        return names[-status];
    }
    return status == -1001 ? "VX_ERROR_CANCEL_JOB" : "an unknown error";
}
