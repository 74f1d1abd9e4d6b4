/* A backend that runs ReLU on a device of its own, and one fault, which the variable HOSTILE names
 * when the library is opened. */
#include <layer_view.h>
#include <stdlib.h>

static char fault[64];
static const char *const terminal = "red \033[31m \001 \377";

static int is(const char *name) { return !strcmp(fault, name); }

static int begins(const char *name) { return !strncmp(fault, name, strlen(name)); }

static int refuse(dovetail_answer *why, const char *text)
{
    return dovetail_fail(why, "broken", "", text);
}

static int execute(void *state, const dovetail_call *call)
{
    (void)state;
    if (is("execute cancelled")) return DOVETAIL_CANCELLED;
    if (is("execute text")) return call->host->fail(call, 5, terminal);
    const float *x = dovetail_data(&call->inputs[0]);
    float *y = dovetail_data(&call->outputs[0]);
    const int64_t count = dovetail_elements(call->outputs[0].ndim, call->outputs[0].shape);
    for (int64_t i = 0; i < count; ++i)
        y[i] = x[i] > 0 ? x[i] : 0;
    return DOVETAIL_OK;
}

static int supports(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                    const dovetail_attributes *options, dovetail_answer *why)
{
    (void)state, (void)device, (void)options;
    if (is("refusal text") || !dovetail_is_kind(layer, "dovetail.Activation"))
        return dovetail_refuse(why, "kind", "", terminal);
    return 1;
}

static int create_run(void *state, void *queue, void **run)
{
    (void)state, (void)queue, (void)run;
    return 9;
}

static int create_workload(void *state, void *context, const dovetail_layer *layer, const dovetail_resources *resources,
                           const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why)
{
    (void)state, (void)context, (void)layer, (void)resources, (void)options;
    if (is("workload")) return refuse(why, terminal);
    dovetail_begin_workload(workload);
    workload->execute = execute;
    if (begins("queue")) workload->flags = DOVETAIL_WORKLOAD_ASYNC;
    if (is("run")) workload->create_run = create_run;
    return DOVETAIL_OK;
}

static int device_info(void *state, int32_t index, dovetail_device_info *info, dovetail_answer *why)
{
    static int64_t one[1] = {1};
    static dovetail_attribute fact = {.size = sizeof fact, .name = "lanes", .type = DOVETAIL_ATTRIBUTE_INT, .count = 1,
                                      .integers = one};
    static const dovetail_attribute *facts[2] = {&fact, &fact};
    (void)state, (void)index, (void)why;
    if (is("half precision")) info->half_precision = 7;
    info->facts.size = sizeof info->facts;
    info->facts.items = facts;
    info->facts.count = is("fact twice") ? 2 : 1;
    return DOVETAIL_OK;
}

static int memory(void *state, int32_t device, int32_t index, dovetail_memory *filled, dovetail_answer *why)
{
    (void)state, (void)device, (void)why;
    if (index) return 1;
    filled->kind = "sram";
    filled->alignment = is("memory alignment") ? (size_t)1 << 63 : 64;
    filled->host_visible = !is("memory unseen");
    return DOVETAIL_OK;
}

static int allocate(void *state, void *context, int32_t number, size_t bytes, size_t alignment, void **data,
                    dovetail_answer *why)
{
    (void)state, (void)context, (void)number, (void)why;
    *data = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    return DOVETAIL_OK;
}

static void give_back(void *state, void *context, int32_t number, void *data)
{
    (void)state, (void)context, (void)number;
    free(data);
}

static int map(void *state, void *context, int32_t number, void *data, size_t offset, size_t bytes, int32_t write,
               void **address, dovetail_answer *why)
{
    (void)state, (void)context, (void)number, (void)bytes, (void)write;
    if (is("memory map")) return refuse(why, terminal);
    *address = (char *)data + offset;
    return DOVETAIL_OK;
}

static int unmap(void *state, void *context, int32_t number, void *data)
{
    (void)state, (void)context, (void)number, (void)data;
    return is("memory unmap") ? 5 : DOVETAIL_OK;
}

static int queue_create(void *state, int32_t device, void **queue)
{
    (void)device;
    *queue = state;
    return is("queue create") ? 5 : DOVETAIL_OK;
}

static int queue_wait(void *queue, int64_t timeout)
{
    (void)queue, (void)timeout;
    return is("queue wait cancelled") ? DOVETAIL_CANCELLED : DOVETAIL_OK;
}

static void nothing(void *queue) { (void)queue; }

static int queues(void *state, void *context, dovetail_queues *filled, dovetail_answer *why)
{
    (void)state, (void)context, (void)why;
    filled->size = sizeof *filled;
    filled->queue_create = queue_create;
    filled->queue_wait = queue_wait;
    filled->queue_abort = filled->queue_destroy = nothing;
    return DOVETAIL_OK;
}

int DOVETAIL_OPEN_BACKEND(const dovetail_backend_host *host, dovetail_backend *table, dovetail_answer *why)
{
    static int64_t number[1] = {1};
    static const char *words[1] = {"x"};
    static dovetail_attribute tile, label;
    static dovetail_option tile_option = {sizeof tile_option, &tile, "size of a tile"};
    static dovetail_option label_option = {sizeof label_option, &label, "for people"};
    static const dovetail_option *options[2] = {&tile_option, &label_option};
    (void)host, (void)why;
    snprintf(fault, sizeof fault, "%s", getenv("HOSTILE") ? getenv("HOSTILE") : "");
    tile = (dovetail_attribute){.size = sizeof tile, .name = "tile", .type = DOVETAIL_ATTRIBUTE_INT, .count = 1,
                                .integers = number};
    label = (dovetail_attribute){.size = sizeof label, .name = "label", .type = DOVETAIL_ATTRIBUTE_STRING, .count = 1,
                                 .strings = words};
    number[0] = is("option bool") ? 2 : 1;
    if (is("option bool")) tile.type = DOVETAIL_ATTRIBUTE_BOOL;
    if (is("option type")) tile.type = 99;
    if (begins("option named ")) tile.name = fault + strlen("option named ");
    dovetail_begin_backend(table, "Hostile", "1");
    table->options = options;
    table->n_options = 2;
    table->supports = supports;
    table->create_workload = create_workload;
    table->device_info = device_info;
    if (begins("memory")) {
        table->memory = memory;
        table->memory_allocate = allocate;
        table->memory_release = give_back;
        table->memory_map = map;
        table->memory_unmap = unmap;
    }
    if (begins("queue")) {
        table->capabilities = DOVETAIL_BACKEND_ASYNC;
        table->queues = queues;
    }
    return DOVETAIL_OK;
}
