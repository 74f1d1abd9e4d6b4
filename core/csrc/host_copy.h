/* The core's own copy within host memory. */
#ifndef DVT_HOST_COPY_H
#define DVT_HOST_COPY_H

#include "abi.h"

/* execute() of a workload without a state: sizes come from the tensors. */
int dvt_copy_execute(void *state, const dovetail_call *call);

#endif
