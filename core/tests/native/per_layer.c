/* A backend that runs float32 additions of equal shapes, and ReLU, one workload per layer. */
#include <abi.h>
#include <stdio.h>
#include <string.h>

#ifndef ID
#define ID "TableCpu"
#endif
#ifndef MAJOR
#define MAJOR DOVETAIL_ABI_MAJOR
#endif
#ifndef MINOR
#define MINOR DOVETAIL_ABI_MINOR
#endif
#ifndef SIZE
#define SIZE sizeof(*table)
#endif

static int refuse(dovetail_answer *why, const char *code, const char *text)
{
#ifndef SILENT
    snprintf(why->code, sizeof why->code, "%s", code);
    snprintf(why->text, sizeof why->text, "%s", text);
#endif
    return 0;
}

static int supports(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                    const dovetail_attributes *options, dovetail_answer *why)
{
    (void)state, (void)device, (void)options;
    const dovetail_dtype dtype = layer->outputs[0]->dtype;
    if (strcmp(layer->kind, "dovetail.ElementwiseBinary") && strcmp(layer->kind, "dovetail.Activation"))
        return refuse(why, "kind", "only additions and ReLU are run");
    if (dtype.code != 2 || dtype.bits != 32)
        return refuse(why, "dtype", "only float32 is run");
    for (int i = 0; i < layer->attributes.count; ++i) {
        const dovetail_attribute *one = layer->attributes.items[i];
        if ((!strcmp(one->name, "operation") && strcmp(one->strings[0], "add")) ||
            (!strcmp(one->name, "function") && strcmp(one->strings[0], "relu")))
            return refuse(why, "attribute", "only additions and ReLU are run");
        if (!strcmp(one->name, "activation") && one->type != DOVETAIL_ATTRIBUTE_NONE)
            return refuse(why, "attribute", "no activation is fused");
    }
    return 1;
}

static int64_t elements(const dovetail_tensor *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->ndim; ++i)
        count *= tensor->shape[i];
    return count;
}

static const float *values(const dovetail_tensor *tensor)
{
    return (const float *)((const char *)tensor->data + tensor->byte_offset);
}

static int add(void *state, const dovetail_call *call)
{
    (void)state;
    const int64_t n = elements(&call->outputs[0]), n_a = elements(&call->inputs[0]), n_b = elements(&call->inputs[1]);
    float *out = (float *)values(&call->outputs[0]);
    for (int64_t i = 0; i < n; ++i)
        out[i] = values(&call->inputs[0])[i % n_a] + values(&call->inputs[1])[i % n_b];
    return DOVETAIL_OK;
}

static int relu(void *state, const dovetail_call *call)
{
    (void)state;
    float *out = (float *)values(&call->outputs[0]);
    for (int64_t i = 0; i < elements(&call->outputs[0]); ++i)
        out[i] = values(&call->inputs[0])[i] > 0 ? values(&call->inputs[0])[i] : 0;
    return DOVETAIL_OK;
}

static int create_workload(void *state, void *context, const dovetail_layer *layer, const dovetail_resources *resources,
                           const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why)
{
    (void)state, (void)context, (void)resources, (void)options, (void)why;
    workload->size = sizeof *workload;
    workload->execute = strcmp(layer->kind, "dovetail.ElementwiseBinary") ? relu : add;
    return DOVETAIL_OK;
}

int DOVETAIL_OPEN_BACKEND(const dovetail_backend_host *host, dovetail_backend *table, dovetail_answer *why)
{
    (void)why;
    host->log(20, "opening " ID);
    table->size = SIZE;
    table->abi_major = MAJOR;
    table->abi_minor = MINOR;
    table->id = ID;
    table->version = "1.2.3";
    table->capabilities = DOVETAIL_BACKEND_DETERMINISTIC;
    table->n_devices = 1;
#ifndef NO_SUPPORTS
    table->supports = supports;
#endif
#ifndef NO_WORKLOADS
    table->create_workload = create_workload;
#endif
#ifdef UNDEFINED
    extern int defined_by_nobody(void);
    table->n_devices = defined_by_nobody();
#endif
#ifdef GARBAGE      /* what lies behind an older table is none of the core's business */
    memset((char *)table + SIZE, 0xee, sizeof *table - (SIZE));
#endif
    return DOVETAIL_OK;
}
