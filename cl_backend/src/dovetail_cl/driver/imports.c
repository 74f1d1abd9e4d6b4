#include "imports.h"

#include <stdlib.h>

static void drop(imports *imports, import *one)
{
    if (one->mapped) {
        imports->cl->clEnqueueUnmapMemObject(imports->commands, one->buffer, one->mapped, 0, NULL, NULL);
    }
    imports->cl->clReleaseMemObject(one->buffer);
    *one = imports->all[--imports->count];
}

/* Enqueue what brings the bytes of an import to the host; it may stay mapped. */
static cl_int show(imports *imports, import *one, int stays_mapped)
{
    const opencl *cl = imports->cl;
    cl_int code = CL_SUCCESS;
    if (one->is_copy) {
        return one->is_written ? cl->clEnqueueReadBuffer(imports->commands, one->buffer, 0, one->start, one->bytes,
                                                         one->address, 0, NULL, NULL)
                               : CL_SUCCESS;
    }
    if (imports->is_coherent || one->mapped || !(one->is_written || stays_mapped)) {
        return CL_SUCCESS;
    }
    void *mapped = cl->clEnqueueMapBuffer(imports->commands, one->buffer, 0,
                                          stays_mapped ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_READ, one->start, one->bytes, 0,
                                          NULL, NULL, &code);
    if (code == CL_SUCCESS && stays_mapped) {
        one->mapped = mapped;
    } else if (code == CL_SUCCESS) {
        code = cl->clEnqueueUnmapMemObject(imports->commands, one->buffer, mapped, 0, NULL, NULL);
    }
    return code;
}

/* Retire what else holds some of these bytes, where either is written: two buffers of one memory
 * are undefined then, but where nothing is ever cached. It stays until the wait, as a kernel that
 * is not enqueued yet may read it. Commands are waited for, which is as rare as parts of a tensor
 * that were used by themselves before. */
static cl_int retire_others(imports *imports, const import *kept, const char *address, size_t bytes, int is_written)
{
    for (int32_t i = 0; i < imports->count; i++) {
        import *one = &imports->all[i];
        if (one == kept || one->is_retired || !(is_written || one->is_written) || address >= one->address + one->bytes ||
            one->address >= address + bytes) {
            continue;
        }
        cl_int code = one->is_used ? show(imports, one, 0) : CL_SUCCESS;
        if (code == CL_SUCCESS) {
            code = imports->cl->clFinish(imports->commands);
        }
        if (code != CL_SUCCESS) {
            return code;
        }
        one->is_retired = 1;
    }
    return CL_SUCCESS;
}

static cl_int add(imports *imports, char *address, size_t bytes)
{
    const opencl *cl = imports->cl;
    if (imports->count == imports->room) {
        int32_t room = imports->room ? 2 * imports->room : 8;
        import *larger = realloc(imports->all, (size_t)room * sizeof(*larger));
        if (!larger) {
            return CL_OUT_OF_HOST_MEMORY;
        }
        imports->all = larger;
        imports->room = room;
    }
    cl_int code = CL_SUCCESS;
    import made = {.address = address, .bytes = bytes, .start = (uintptr_t)address % imports->page};
    size_t whole = (made.start + bytes + imports->page - 1) / imports->page * imports->page;
    made.buffer = cl->clCreateBuffer(imports->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, whole, address - made.start, &code);
    if (!made.buffer || code != CL_SUCCESS) {
        made.start = 0;         /* pages that cannot be written are refused by some drivers */
        made.is_copy = 1;
        made.buffer = cl->clCreateBuffer(imports->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, address, &code);
    }
    if (made.buffer && code == CL_SUCCESS) {
        imports->all[imports->count++] = made;
    }
    return code;
}

cl_int imports_find(imports *imports, void *memory, size_t bytes, int is_written, cl_mem *buffer, uint64_t *offset)
{
    char *address = memory;
    import *one = NULL;
    cl_int code = CL_SUCCESS;
    for (int32_t i = 0; i < imports->count && !one; i++) {
        import *known = &imports->all[i];
        if (!known->is_retired && address >= known->address && address + bytes <= known->address + known->bytes) {
            one = known;
        }
    }
    if (!imports->is_coherent) {
        code = retire_others(imports, one, address, bytes, is_written);
    }
    if (!one && code == CL_SUCCESS) {
        code = add(imports, address, bytes);
        one = code == CL_SUCCESS ? &imports->all[imports->count - 1] : NULL;
    }
    if (code != CL_SUCCESS) {
        return code;
    }
    if (one->mapped) {
        code = imports->cl->clEnqueueUnmapMemObject(imports->commands, one->buffer, one->mapped, 0, NULL, NULL);
        one->mapped = NULL;
    }
    one->is_used = 1;
    one->is_written |= is_written;
    *buffer = one->buffer;
    *offset = one->start + (uint64_t)(address - one->address);
    return code;
}

cl_int imports_show(imports *imports, int keeps)
{
    cl_int code = CL_SUCCESS;
    for (int32_t i = 0; i < imports->count && code == CL_SUCCESS; i++) {
        if (!imports->all[i].is_retired) {
            code = show(imports, &imports->all[i], keeps);
        }
    }
    return code;
}

void imports_end(imports *imports, int keeps)
{
    for (int32_t i = imports->count - 1; i >= 0; i--) {
        import *one = &imports->all[i];
        if (keeps && !one->is_copy && !one->is_retired) {
            one->is_used = one->is_written = 0;
        } else {
            drop(imports, one);
        }
    }
}

void imports_release(imports *imports)
{
    while (imports->count) {
        drop(imports, &imports->all[imports->count - 1]);
    }
    free(imports->all);
    imports->all = NULL;
    imports->room = 0;
}
