/* A backend without workloads of single layers: it compiles one addition of equal shapes, or one
 * layer normalization of the last axis, and reads constants where the description shows them. */
#include <layer_view.h>
#include <math.h>
#include <stdlib.h>

struct compiled {
    int normalizes, n_inputs;
    double epsilon;
    const float *constants[8];
    int position[8];            /* among the inputs of the part; -1 for a constant, -2 for one that is left out */
};

static int supports(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                    const dovetail_attributes *options, dovetail_answer *why)
{
    (void)state, (void)device, (void)options;
    if (dovetail_is_kind(layer, "dovetail.LayerNormalization"))
        return 1;
    if (!dovetail_is_kind(layer, "dovetail.ElementwiseBinary") || strcmp(dovetail_string(&layer->attributes, "operation", ""), "add"))
        return dovetail_refuse(why, "kind", "", "%s is not compiled", layer->kind);
    return 1;
}

static int compile_subgraph(void *state, const dovetail_device_info *device, const dovetail_subgraph *part,
                            const dovetail_resources *resources, const dovetail_attributes *options,
                            const dovetail_progress *progress, void **compiled, dovetail_answer *why)
{
    (void)state, (void)device, (void)resources, (void)options, (void)progress;
    const dovetail_layer *layer = part->layers[0];
    if (part->n_layers != 1 || part->n_outputs != 1)
        return dovetail_fail(why, "shape", "", "%d layers with %d outputs", part->n_layers, part->n_outputs);
    struct compiled *made = calloc(1, sizeof *made);
    made->normalizes = dovetail_is_kind(layer, "dovetail.LayerNormalization");
    made->epsilon = dovetail_real(&layer->attributes, "epsilon", 0, 0);
    made->n_inputs = part->n_inputs;
    for (int i = 0; i < layer->n_inputs; ++i) {
        made->position[i] = layer->inputs[i] == NULL ? -2 : -1;
        made->constants[i] = layer->inputs[i] == NULL ? NULL : layer->inputs[i]->constant;
        for (int k = 0; k < part->n_inputs; ++k)
            if (layer->inputs[i] != NULL && layer->inputs[i]->id == part->inputs[k]->id)
                made->position[i] = k;
    }
    for (int i = layer->n_inputs; i < 8; ++i)
        made->position[i] = -2;
    *compiled = made;
    return DOVETAIL_OK;
}

static void compiled_release(void *state, void *compiled)
{
    (void)state;
    free(compiled);
}

static int execute(void *state, const dovetail_call *call)
{
    const struct compiled *compiled = state;
    const float *in[8] = {NULL};
    float *out = dovetail_data(&call->outputs[0]);
    const int64_t n = dovetail_elements(call->outputs[0].ndim, call->outputs[0].shape);
    if (call->n_inputs != compiled->n_inputs)
        return call->host->fail(call, DOVETAIL_FAILED, "another number of inputs than was compiled for");
    for (int i = 0; i < 8; ++i)
        in[i] = compiled->position[i] >= 0 ? dovetail_data(&call->inputs[compiled->position[i]]) : compiled->constants[i];
    if (!compiled->normalizes) {
        for (int64_t i = 0; i < n; ++i)
            out[i] = in[0][i] + in[1][i];
        return DOVETAIL_OK;
    }
    const int64_t row = call->outputs[0].shape[call->outputs[0].ndim - 1];
    for (int64_t begin = 0; begin < n; begin += row) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < row; ++i)
            sum += in[0][begin + i];
        for (int64_t i = 0; i < row; ++i)
            squares += (in[0][begin + i] - sum / row) * (in[0][begin + i] - sum / row);
        for (int64_t i = 0; i < row; ++i) {
            const double value = (in[0][begin + i] - sum / row) / sqrt(squares / row + compiled->epsilon);
            out[begin + i] = (float)(value * (in[1] ? in[1][i] : 1) + (in[2] ? in[2][i] : 0));
        }
    }
    return DOVETAIL_OK;
}

static int create_compiled_workload(void *state, void *context, void *compiled, const dovetail_resources *resources,
                                    const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why)
{
    (void)state, (void)context, (void)resources, (void)options, (void)why;
    dovetail_begin_workload(workload);
    workload->execute = execute;
    workload->state = compiled;
    return DOVETAIL_OK;
}

int DOVETAIL_OPEN_BACKEND(const dovetail_backend_host *host, dovetail_backend *table, dovetail_answer *why)
{
    (void)host, (void)why;
    dovetail_begin_backend(table, "TableCompileOnly", "1");
    table->supports = supports;
    table->compile_subgraph = compile_subgraph;
    table->compiled_release = compiled_release;
    table->create_compiled_workload = create_compiled_workload;
    return DOVETAIL_OK;
}
