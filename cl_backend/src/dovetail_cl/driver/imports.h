/* Memory of the host as buffers of a device that shares it.
 *
 * An import begins when a command first uses some bytes, and ends with the wait behind it, so that
 * no address is known longer than what lies there. Bound arrays last: their imports are kept. */
#ifndef DOVETAIL_CL_IMPORTS_H
#define DOVETAIL_CL_IMPORTS_H

#include "opencl.h"

#include <stdint.h>

typedef struct {
    char *address;
    size_t bytes;
    cl_mem buffer;
    size_t start;               /* bytes of the buffer in front of `address` */
    void *mapped;               /* where the host sees it between runs, else NULL */
    int is_used;                /* since the last wait */
    int is_written;             /* likewise */
    int is_retired;             /* its bytes are in another one: it lives to the wait, and is not found */
    int is_copy;                /* the driver refuses this memory: the buffer is a copy of it */
} import;

typedef struct {
    const opencl *cl;
    cl_context context;
    cl_command_queue commands;
    size_t page;                /* bytes, to whose multiples imports are widened; 1: as they are */
    int is_coherent;            /* what the device writes the host sees without mapping */
    import *all;
    int32_t count, room;
} imports;

/* Find or make the buffer of some bytes, one or more, for the next command. */
cl_int imports_find(imports *imports, void *address, size_t bytes, int is_written, cl_mem *buffer, uint64_t *offset);
/* Enqueue what lets the host see what was written; a wait follows. */
cl_int imports_show(imports *imports, int keeps);
/* End them after the wait, or keep them for the next run. */
void imports_end(imports *imports, int keeps);
/* End all; no command uses one any more. */
void imports_release(imports *imports);

#endif
