/* A device whose only memory holds images: each allocation is made for one shape and element type,
 * as in OpenCL, and a kernel refuses an image of another shape than its tensor's. Runs ReLU, which
 * may work in place, and reshapes, which would be views elsewhere. */
#include <abi.h>
#include <layer_view.h>
#include <stdlib.h>
#include <string.h>

#ifndef OFFSETS
#define OFFSETS 0
#endif
#define MAX_SEEN 64

struct image {
    int ndim;
    int64_t shape[8];
    float *values;
};

static int seen;
static int ranks[MAX_SEEN];     /* of what was asked for, in order */
static int64_t first_sizes[MAX_SEEN];
static int alive;

int count_images(void) { return seen; }
int count_alive(void) { return alive; }
int rank_of(int number) { return ranks[number]; }
int64_t first_size_of(int number) { return first_sizes[number]; }

static int64_t elements(int ndim, const int64_t *shape)
{
    int64_t count = 1;
    for (int i = 0; i < ndim; i++)
        count *= shape[i];
    return count;
}

static float *in_image(const dovetail_tensor *tensor)
{
    const struct image *image = tensor->data;
    if (tensor->byte_offset != 0 || image->ndim != tensor->ndim)
        return NULL;
    for (int i = 0; i < tensor->ndim; i++)
        if (image->shape[i] != tensor->shape[i])
            return NULL;
    return image->values;
}

static float *on_host(const dovetail_tensor *tensor) { return (float *)((char *)tensor->data + tensor->byte_offset); }

static int run(const dovetail_call *call, const float *from, float *to, int is_relu)
{
    const int64_t count = elements(call->outputs->ndim, call->outputs->shape);
    if (from == NULL || to == NULL)
        return call->host->fail(call, 7, "a tensor lies in an image of another shape");
    for (int64_t i = 0; i < count; i++)
        to[i] = is_relu && from[i] < 0 ? 0 : from[i];
    return DOVETAIL_OK;
}

static int relu(void *state, const dovetail_call *call)
{
    (void)state;
    return run(call, in_image(call->inputs), in_image(call->outputs), 1);
}

static int reshape(void *state, const dovetail_call *call)
{
    (void)state;
    return run(call, in_image(call->inputs), in_image(call->outputs), 0);
}

static int upload(void *state, const dovetail_call *call)
{
    (void)state;
    return run(call, on_host(call->inputs), in_image(call->outputs), 0);
}

static int download(void *state, const dovetail_call *call)
{
    (void)state;
    return run(call, in_image(call->inputs), on_host(call->outputs), 0);
}

static int supports(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                    const dovetail_attributes *options, dovetail_answer *why)
{
    (void)state, (void)device, (void)options;
    if (dovetail_is_kind(layer, "dovetail.Activation") || dovetail_is_kind(layer, "dovetail.Reshape"))
        return 1;
    return dovetail_refuse(why, "kind", "", "only ReLU and reshape are run");
}

static int create_workload(void *state, void *context, const dovetail_layer *layer, const dovetail_resources *resources,
                           const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why)
{
    static const dovetail_alias in_place = {.relation = DOVETAIL_ALIAS_IN_PLACE};
    static const dovetail_alias view = {.relation = DOVETAIL_ALIAS_VIEW};
    const int is_relu = dovetail_is_kind(layer, "dovetail.Activation");
    (void)state, (void)context, (void)resources, (void)options, (void)why;
    workload->size = sizeof *workload;
    workload->execute = is_relu ? relu : reshape;
    workload->aliases = is_relu ? &in_place : &view;
    workload->n_aliases = 1;
    workload->flags = is_relu ? 0 : DOVETAIL_WORKLOAD_ELIDABLE;
#ifdef SCRATCH
    workload->workspace_memory = 1;
#endif
    return DOVETAIL_OK;
}

static int memory(void *state, int32_t device, int32_t index, dovetail_memory *memory, dovetail_answer *why)
{
    (void)state, (void)device, (void)why;
    if (index > 0)
        return 1;
    memory->size = sizeof *memory;
    memory->kind = "image";
    memory->alignment = 1;
    memory->offsets = OFFSETS;
    memory->images = 1;
    return DOVETAIL_OK;
}

__attribute__((unused)) static int image_allocate(void *state, void *context, int32_t memory, const dovetail_tensor_info *tensor, void **data,
                          dovetail_answer *why)
{
    (void)state, (void)context, (void)memory;
    if (tensor->dtype.code != 2 || tensor->dtype.bits != 32 || tensor->scales != NULL || tensor->constant != NULL)
        return dovetail_fail(why, "dtype", "", "images are of float32");
    struct image *image = calloc(1, sizeof *image);
    image->ndim = tensor->ndim;
    memcpy(image->shape, tensor->shape, (size_t)tensor->ndim * sizeof *tensor->shape);
    image->values = calloc((size_t)elements(tensor->ndim, tensor->shape) + 1, sizeof(float));
    if (seen < MAX_SEEN) {
        ranks[seen] = tensor->ndim;
        first_sizes[seen] = tensor->ndim ? tensor->shape[0] : 1;
    }
    seen++;
    alive++;
    *data = image;
    return DOVETAIL_OK;
}

static void memory_release(void *state, void *context, int32_t memory, void *data)
{
    struct image *image = data;
    (void)state, (void)context, (void)memory;
    free(image->values);
    free(image);
    alive--;
}

static int create_copy(void *state, void *context, int32_t source, int32_t target, const dovetail_tensor_info *tensor,
                       dovetail_workload *workload, dovetail_answer *why)
{
    (void)state, (void)context, (void)target, (void)tensor, (void)why;
    workload->size = sizeof *workload;
    workload->execute = source == DOVETAIL_HOST_MEMORY ? upload : download;
    return DOVETAIL_OK;
}

int DOVETAIL_OPEN_BACKEND(const dovetail_backend_host *host, dovetail_backend *table, dovetail_answer *why)
{
    (void)host, (void)why;
    table->size = sizeof *table;
    table->abi_major = DOVETAIL_ABI_MAJOR;
    table->abi_minor = DOVETAIL_ABI_MINOR;
    table->id = "TableImages";
    table->version = "1";
    table->capabilities = DOVETAIL_BACKEND_DETERMINISTIC;
    table->n_devices = 1;
    table->supports = supports;
    table->create_workload = create_workload;
    table->memory = memory;
    table->memory_release = memory_release;
    table->create_copy = create_copy;
#ifndef NO_ALLOCATE
    table->image_allocate = image_allocate;
#endif
    return DOVETAIL_OK;
}
