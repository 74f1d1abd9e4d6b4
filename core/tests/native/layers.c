/* A backend of single layers: ReLU and the sum of two tensors, float32, in host memory. With -DFAULT_... one thing is wrong. */
#include "layer_view.h"
#include <stdlib.h>

DOVETAIL_MANIFEST("{\"id\": \"NativeLayers\", \"abi\": [0, 2], \"device\": \"cpu\", \"rank\": 1, \"description\": \"test\"}");

static int relu(void *state, const dovetail_call *call) {
    const float *x = dovetail_data(&call->inputs[0]);
    float *y = dovetail_data(&call->outputs[0]);
    int64_t n = dovetail_elements(call->outputs[0].ndim, call->outputs[0].shape);
    (void)state;
    for (int64_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : 0;
    return DOVETAIL_OK;
}

static int add(void *state, const dovetail_call *call) {
    const float *a = dovetail_data(&call->inputs[0]), *b = dovetail_data(&call->inputs[1]);
    float *y = dovetail_data(&call->outputs[0]);
    int64_t n = dovetail_elements(call->outputs[0].ndim, call->outputs[0].shape);
    (void)state;
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
    return DOVETAIL_OK;
}

static int supports(void *state, const dovetail_layer *layer, const dovetail_attributes *options, dovetail_answer *why) {
    (void)state;
    const dovetail_tensor_info *x = layer->n_inputs > 0 ? layer->inputs[0] : NULL;
    if (dovetail_is_kind(layer, "dovetail.Activation")) {
        if (strcmp(dovetail_string(&layer->attributes, "function", ""), "relu") != 0)
            return dovetail_refuse(why, "attribute", "function", "only relu, found %s", dovetail_string(&layer->attributes, "function", "?"));
    } else if (dovetail_is_kind(layer, "dovetail.ElementwiseBinary")) {
        const dovetail_tensor_info *b = layer->inputs[1];
        if (strcmp(dovetail_string(&layer->attributes, "operation", ""), "add") != 0 || !dovetail_is_none(&layer->attributes, "activation"))
            return dovetail_refuse(why, "attribute", "operation", "only a plain add");
        if (!dovetail_same_shape(x, b))
            return dovetail_refuse(why, "shape", "b", "shapes must be equal");
    } else {
#ifdef FAULT_SILENT_REFUSAL
        return 0;
#endif
        return dovetail_refuse(why, "kind", "", "no workload for %s", layer->kind);
    }
    if (!dovetail_is_dtype(x, 2, 32))
        return dovetail_refuse(why, "dtype", "input", "only float32, found %s%d", x->dtype.code == 2 ? "float" : "type ", x->dtype.bits);
    return dovetail_integer(options, "refuse_all", 0, 0) ? dovetail_refuse(why, "option", "refuse_all", "told to refuse") : 1;
}

static int create_workload(void *state, void *context, const dovetail_layer *layer, const dovetail_attributes *options,
                           dovetail_workload *workload, dovetail_answer *why) {
    (void)state; (void)context; (void)options; (void)why;
#ifdef FAULT_CREATE
    return dovetail_fail(why, "memory", "", "no room for %s", layer->name);
#endif
    dovetail_begin_workload(workload);
#ifndef FAULT_NO_EXECUTE
    workload->execute = dovetail_is_kind(layer, "dovetail.Activation") ? relu : add;
#else
    (void)relu; (void)add; (void)layer;
#endif
#ifdef FAULT_WORKLOAD_SIZE
    workload->size = 8;
#endif
    return DOVETAIL_OK;
}

static const int64_t zero = 0;
static const dovetail_attribute refuse_all = {sizeof refuse_all, "refuse_all", DOVETAIL_ATTRIBUTE_BOOL, 1, 1, &zero, NULL, NULL, NULL};
static const dovetail_option option = {sizeof option, &refuse_all, "Refuse every layer."};
static const dovetail_option *const all_options[] = {&option};

#ifndef FAULT_NO_SYMBOL
__attribute__((visibility("default")))
#else
static
#endif
int DOVETAIL_OPEN_BACKEND(const dovetail_backend_host *host, dovetail_backend *table, dovetail_answer *why) {
    (void)why;
#ifdef FAULT_REFUSES
    return dovetail_fail(why, "license", "", "the licence has expired");
#endif
    host->log(10, "opened");
    table->size = sizeof *table;
    table->abi_major = DOVETAIL_ABI_MAJOR;
    table->abi_minor = DOVETAIL_ABI_MINOR;
#ifdef FAULT_MAJOR
    table->abi_major = 7;
#endif
#ifdef FAULT_MINOR
    table->abi_minor = 99;
#endif
#ifdef FAULT_SIZE
    table->size = FAULT_SIZE;
#endif
    table->id = "NativeLayers";
    table->version = "1.0";
    table->capabilities = DOVETAIL_BACKEND_DETERMINISTIC;
    table->n_devices = 1;
    table->n_options = 1;
    table->options = all_options;
#ifndef FAULT_NO_SUPPORTS
    table->supports = supports;
#else
    (void)supports;
#endif
    table->create_workload = create_workload;
    return DOVETAIL_OK;
}
