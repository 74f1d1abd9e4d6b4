/* A backend that compiles whole subgraphs of float32 additions of two fed inputs of one shape: its
 * workload adds up all inputs. */
#include <layer_view.h>
#include <stdlib.h>
#include <string.h>

struct compiled {
    int inputs;
};
static int alive, verdict, loaded;

static int threads_lent;

int threads_of_compiler(void) { return threads_lent; }

static int supports(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                    const dovetail_attributes *options, dovetail_answer *why)
{
    (void)state, (void)device, (void)options;
    if (!dovetail_is_kind(layer, "dovetail.ElementwiseBinary") || strcmp(dovetail_string(&layer->attributes, "operation", ""), "add"))
        return dovetail_refuse(why, "kind", "", "%s is not compiled", layer->kind);
    if (!dovetail_is_none(&layer->attributes, "activation"))
        return dovetail_refuse(why, "attribute", "activation", "no activation is fused");
    return 1;
}

static int compilations;

static int claim_subgraph(void *state, const dovetail_device_info *device, const dovetail_subgraph *part,
                          const dovetail_attributes *options, dovetail_answer *answer)
{
    (void)state, (void)device;
    if (dovetail_integer(options, "leave", 0, 0))
        return dovetail_fail(answer, "shape", "", "%d layers are not claimed", part->n_layers);
    snprintf(answer->text, sizeof answer->text, "sum of %d tensors", part->n_inputs);
    return DOVETAIL_OK;
}

static int compile_subgraph(void *state, const dovetail_device_info *device, const dovetail_subgraph *part,
                            const dovetail_resources *resources, const dovetail_attributes *options,
                            const dovetail_progress *progress, void **compiled, dovetail_answer *why)
{
    (void)state, (void)device;
    threads_lent = resources->threads;
    ++compilations;
    for (int i = 0; i < 4; ++i)
        if (progress->report(progress->context, i / 4.0, "packing"))
            return DOVETAIL_CANCELLED;
    if (dovetail_integer(options, "fail", 0, 0))
        return dovetail_fail(why, "shape", "", "%d layers are too many", part->n_layers);
    struct compiled *made = malloc(sizeof *made);
    made->inputs = part->n_inputs;
    *compiled = made;
    ++alive;
    return DOVETAIL_OK;
}

static void compiled_release(void *state, void *compiled)
{
    (void)state;
    --alive;
    free(compiled);
}

static int artefact_save(void *state, void *compiled, dovetail_write write, void *sink, dovetail_answer *why)
{
    (void)state, (void)why;
    return write(sink, compiled, sizeof(struct compiled));
}

static int artefact_check(void *state, const dovetail_device_info *device, const void *bytes, size_t count,
                          dovetail_answer *why)
{
    (void)state, (void)device, (void)bytes;
    if (verdict != DOVETAIL_ARTEFACT_OK) {
        snprintf(why->text, sizeof why->text, "the test says %d", verdict);
        return verdict;
    }
    return count == sizeof(struct compiled) ? DOVETAIL_ARTEFACT_OK : DOVETAIL_ARTEFACT_UNUSABLE;
}

static int artefact_load(void *state, const dovetail_device_info *device, const dovetail_resources *resources,
                         const void *bytes, size_t count, void **compiled, dovetail_answer *why)
{
    (void)state, (void)device, (void)why;
    threads_lent = resources->threads;
    ++loaded;
    *compiled = memcpy(malloc(count), bytes, count);
    ++alive;
    return DOVETAIL_OK;
}

static int add_up(void *state, const dovetail_call *call)
{
    const struct compiled *compiled = state;
    float *out = dovetail_data(&call->outputs[0]);
    for (int64_t i = 0; i < dovetail_elements(call->outputs[0].ndim, call->outputs[0].shape); ++i) {
        float sum = 0;
        for (int k = 0; k < compiled->inputs; ++k)
            sum += ((const float *)dovetail_data(&call->inputs[k]))[i];
        out[i] = sum;
    }
    return DOVETAIL_OK;
}

static int create_compiled_workload(void *state, void *context, void *compiled, const dovetail_resources *resources,
                                    const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why)
{
    (void)state, (void)context, (void)resources, (void)options, (void)why;
    workload->execute = add_up;
    workload->state = compiled;
    return DOVETAIL_OK;
}

static const int64_t zero = 0;
static const dovetail_attribute fail = {
    .size = sizeof fail, .name = "fail", .type = DOVETAIL_ATTRIBUTE_BOOL, .since = 1, .count = 1, .integers = &zero};
static const dovetail_option option = {.size = sizeof option, .value = &fail, .description = "refuse to compile"};
static const dovetail_attribute leave = {
    .size = sizeof leave, .name = "leave", .type = DOVETAIL_ATTRIBUTE_BOOL, .since = 1, .count = 1, .integers = &zero};
static const dovetail_option second = {.size = sizeof second, .value = &leave, .description = "claim nothing"};
static const dovetail_option *const options[] = {&option, &second};

static const void *extension(void *state, const char *name)
{
    (void)state;
    return strcmp(name, "test.compilations") == 0 ? &compilations : NULL;
}

void set_verdict(int what) { verdict = what; }
int artefacts_loaded(void) { return loaded; }

int compiled_alive(void)
{
    return alive;
}

int DOVETAIL_OPEN_BACKEND(const dovetail_backend_host *host, dovetail_backend *table, dovetail_answer *why)
{
    (void)host, (void)why;
    dovetail_begin_backend(table, "TableCompiler", "1");
    table->options = options;
    table->n_options = 2;
    table->supports = supports;
    table->claim_subgraph = claim_subgraph;
    table->compile_subgraph = compile_subgraph;
    table->extension = extension;
    table->compiled_release = compiled_release;
    table->create_compiled_workload = create_compiled_workload;
    table->artefact_save = artefact_save;
    table->artefact_check = artefact_check;
    table->artefact_load = artefact_load;
    return DOVETAIL_OK;
}
