#include "host_copy.h"

#include <string.h>

/* Bytes between two looks at the stop word: ten milliseconds or two, where the system has to make
 * the pages first. Smaller pieces would be copied through the caches, as one large copy is not. */
#define PIECE ((size_t)1 << 25)

static size_t bytes_of(const dovetail_tensor *tensor)
{
    size_t bytes = tensor->dtype.bits / 8;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        bytes *= (size_t)tensor->shape[i];
    }
    return bytes;
}

static int copy_bytes(const dovetail_call *call, const char *source, char *target, size_t bytes)
{
    if (!bytes || source == target) {
        return DOVETAIL_OK;
    }
    if (source < target && target < source + bytes) {   /* what is read later would be overwritten */
        memmove(target, source, bytes);
        return DOVETAIL_OK;
    }
    for (size_t done = 0; done < bytes; done += PIECE) {
        if (done && call->host->is_cancelled(call)) {
            return DOVETAIL_CANCELLED;
        }
        memmove(target + done, source + done, bytes - done < PIECE ? bytes - done : PIECE);
    }
    return DOVETAIL_OK;
}

int dvt_copy_execute(void *state, const dovetail_call *call)
{
    const dovetail_tensor *from = call->inputs, *to = call->outputs;
    (void)state;
    return copy_bytes(call, (const char *)from->data + from->byte_offset, (char *)to->data + to->byte_offset, bytes_of(to));
}

/* Find the bytes of a tensor, by mapping them where they are not the host's. Returns a status. */
static int begin(const dovetail_call *call, const dvt_mapping *mapping, const dovetail_tensor *tensor, int writes, size_t bytes,
                 char **address)
{
    void *mapped = NULL;
    dovetail_answer why;
    if (!mapping->map) {
        *address = (char *)tensor->data + tensor->byte_offset;
        return DOVETAIL_OK;
    }
    memset(&why, 0, sizeof why);
    why.size = sizeof why;
    int code = mapping->map(mapping->state, mapping->context, mapping->memory, tensor->data, tensor->byte_offset, bytes,
                            writes ? DOVETAIL_MAP_WRITE : DOVETAIL_MAP_READ, &mapped, &why);
    if (code == DOVETAIL_OK && mapped == NULL) {
        code = DOVETAIL_FAILED;
    }
    if (code != DOVETAIL_OK) {
        why.text[sizeof why.text - 1] = '\0';
        return call->host->fail(call, code, why.text[0] ? why.text : "memory of the device could not be mapped");
    }
    *address = mapped;
    return DOVETAIL_OK;
}

static int end(const dovetail_call *call, const dvt_mapping *mapping, const dovetail_tensor *tensor)
{
    int code = mapping->unmap ? mapping->unmap(mapping->state, mapping->context, mapping->memory, tensor->data) : DOVETAIL_OK;
    return code == DOVETAIL_OK ? code : call->host->fail(call, code, "memory of the device could not be unmapped");
}

int dvt_mapped_copy_execute(void *state, const dovetail_call *call)
{
    const dvt_mapped_copy *copy = state;
    const dovetail_tensor *from = call->inputs, *to = call->outputs;
    const size_t bytes = bytes_of(to);
    char *source, *target;
    if (!bytes) {
        return DOVETAIL_OK;
    }
    int code = begin(call, &copy->source, from, 0, bytes, &source);
    if (code != DOVETAIL_OK) {
        return code;
    }
    code = begin(call, &copy->target, to, 1, bytes, &target);
    if (code == DOVETAIL_OK) {
        code = copy_bytes(call, source, target, bytes);
        const int ended = end(call, &copy->target, to);
        code = code == DOVETAIL_OK ? ended : code;
    }
    const int ended = end(call, &copy->source, from);
    return code == DOVETAIL_OK ? ended : code;
}
