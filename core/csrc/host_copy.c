#include "host_copy.h"

#include <string.h>

/* Bytes between two looks at the stop word: ten milliseconds or two, where the system has to make the pages first. Smaller pieces
 * would be copied through the caches, as one large copy is not. */
#define PIECE ((size_t)1 << 25)

int dvt_copy_execute(void *state, const dovetail_call *call)
{
    const dovetail_tensor *from = call->inputs, *to = call->outputs;
    size_t bytes = to->dtype.bits / 8;
    (void)state;
    for (int32_t i = 0; i < to->ndim; i++) {
        bytes *= (size_t)to->shape[i];
    }
    const char *source = (const char *)from->data + from->byte_offset;
    char *target = (char *)to->data + to->byte_offset;
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
