/* The core's own copies: within host memory, and of memory that the host can map. */
#pragma once

#include "abi.h"

/* execute() of a workload without a state: sizes come from the tensors. */
int dvt_copy_execute(void *state, const dovetail_call *call);

/* How the host gets to see memory: as memory_map and memory_unmap of a table; map NULL: it is the
 * host's. */
typedef struct {
    int (*map)(void *state, void *context, int32_t memory, void *data, size_t offset, size_t bytes, int32_t access, void **address,
               dovetail_answer *why);
    int (*unmap)(void *state, void *context, int32_t memory, void *data);
    void *state, *context;
    int32_t memory;
} dvt_mapping;

typedef struct {
    dvt_mapping source, target;
} dvt_mapped_copy;

/* execute() of a copy whose state is a dvt_mapped_copy. */
int dvt_mapped_copy_execute(void *state, const dovetail_call *call);
