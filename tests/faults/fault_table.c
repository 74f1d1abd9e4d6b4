/* A backend in a plain library that adds float32, and a way to fail that -DFAULT_... chooses. */

#include "layer_view.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef MANIFEST
DOVETAIL_MANIFEST(MANIFEST);
#endif

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static int add(void *state, const dovetail_call *call)
{
    const float *a = dovetail_data(&call->inputs[0]), *b = dovetail_data(&call->inputs[1]);
    float *y = dovetail_data(&call->outputs[0]);
    int64_t n = dovetail_elements(call->outputs[0].ndim, call->outputs[0].shape);
    (void)state;
    for (int64_t i = 0; i < n; i++) {
#if defined FAULT_WRONG
        y[i] = a[i] - b[i];
#else
        y[i] = a[i] + b[i];
#endif
    }
#ifdef FAULT_RUN
    *(volatile int *)8 = 1;
#endif
    return DOVETAIL_OK;
}

static int supports(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                    const dovetail_attributes *options, dovetail_answer *why)
{
    (void)state;
    (void)device;
    (void)options;
    if (!dovetail_is_kind(layer, "dovetail.ElementwiseBinary") || strcmp(dovetail_string(&layer->attributes, "operation", ""), "add"))
        return dovetail_refuse(why, "kind", "", "it only adds");
    if (!dovetail_is_dtype(layer->inputs[0], 2, 32) || !dovetail_same_shape(layer->inputs[0], layer->inputs[1]))
        return dovetail_refuse(why, "dtype", "", "only float32 of equal shapes");
    return 1;
}

static int create_workload(void *state, void *context, const dovetail_layer *layer, const dovetail_resources *resources,
                           const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why)
{
    (void)state, (void)context, (void)layer, (void)resources, (void)options, (void)why;
    dovetail_begin_workload(workload);
    workload->execute = add;
    return DOVETAIL_OK;
}

static int context_open(void *state, int32_t device, const dovetail_resources *resources, const dovetail_attributes *options,
                        void **context, dovetail_answer *why)
{
    (void)state, (void)device, (void)resources, (void)options, (void)context, (void)why;
#ifdef FAULT_BUSY
    const char *marker = getenv("DOVETAIL_FAULT_BUSY");
    if (marker != NULL && access(marker, F_OK) == 0) return dovetail_fail(why, "device_busy", "", "somebody else has the device");
#endif
    return DOVETAIL_OK;
}

static void context_close(void *state, void *context) { (void)state, (void)context; }

#ifndef FAULT_NO_SYMBOL
__attribute__((visibility("default")))
#else
static
#endif
int DOVETAIL_OPEN_BACKEND(const dovetail_backend_host *host, dovetail_backend *table, dovetail_answer *why)
{
    (void)host, (void)why;
#if defined FAULT_DRIVER
    return dovetail_fail(why, "driver_missing", "", "libacme.so.3 is missing");
#elif defined FAULT_CRASH
    raise(SIGSEGV);
#elif defined FAULT_HANG
    for (;;) pause();
#elif defined FAULT_EXIT
    exit(0);
#endif
    dovetail_begin_backend(table, TEXT(ID), "1.0");
    table->capabilities = DOVETAIL_BACKEND_DETERMINISTIC;
    table->supports = supports;
    table->create_workload = create_workload;
    table->context_open = context_open;
    table->context_close = context_close;
    return DOVETAIL_OK;
}
