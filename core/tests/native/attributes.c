/* A backend that runs nothing: it logs what it sees of a layer's attributes, one per line, its
 * fields apart by tabs. */
#include <layer_view.h>
#include <stdlib.h>

static const dovetail_backend_host *host;

static int supports(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                    const dovetail_attributes *options, dovetail_answer *why)
{
    (void)state, (void)device, (void)options;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    fprintf(out, "%s\t%d", layer->kind, layer->version);
    for (int32_t i = 0; i < layer->attributes.count; ++i) {
        const dovetail_attribute *one = layer->attributes.items[i];
        fprintf(out, "\n%s\t%d\t%d", one->name, one->type, one->since);
        for (int64_t k = 0; k < one->count && one->type != DOVETAIL_ATTRIBUTE_TENSOR; ++k) {
            if (one->integers)
                fprintf(out, "\t%lld", (long long)one->integers[k]);
            else if (one->reals)
                fprintf(out, "\t%a", one->reals[k]);
            else
                fprintf(out, "\t%s", one->strings[k]);
        }
        if (one->type == DOVETAIL_ATTRIBUTE_TENSOR) {
            const dovetail_tensor *tensor = one->tensor;
            const int64_t bytes = dovetail_elements(tensor->ndim, tensor->shape) * tensor->dtype.bits / 8;
            fprintf(out, "\t%d\t%d\t%d", tensor->dtype.code, tensor->dtype.bits, tensor->ndim);
            for (int32_t k = 0; k < tensor->ndim; ++k)
                fprintf(out, "\t%lld", (long long)tensor->shape[k]);
            fprintf(out, "\t");
            for (int64_t k = 0; k < bytes; ++k)
                fprintf(out, "%02x", ((const unsigned char *)dovetail_data(tensor))[k]);
        }
    }
    fclose(out);
    host->log(20, text);
    free(text);
    return dovetail_refuse(why, "kind", "", "nothing is run");
}

static int create_workload(void *state, void *context, const dovetail_layer *layer, const dovetail_resources *resources,
                           const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why)
{
    (void)state, (void)context, (void)layer, (void)resources, (void)options, (void)workload;
    return dovetail_fail(why, "kind", "", "nothing is run");
}

int DOVETAIL_OPEN_BACKEND(const dovetail_backend_host *given, dovetail_backend *table, dovetail_answer *why)
{
    (void)why;
    host = given;
    dovetail_begin_backend(table, "TableAttributes", "1");
    table->supports = supports;
    table->create_workload = create_workload;
    return DOVETAIL_OK;
}
