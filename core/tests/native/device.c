/* A device with queues of its own, each a thread, and memories whose addresses are handles: float32
 * additions of equal shapes, ReLU.
 *
 * Memory 0 is its own. Memory 1, the window, the host can map: it sees a copy, so that nothing is
 * seen too early. With the option `window` additions read there, and ReLU writes there. With
 * `scratch` additions work in a workspace of their own.
 *
 * -DDEVICES=n, -DNO_CONTEXT, -DSYNCHRONOUS (no queues: work is done as it comes), -DOLD_QUEUES
 * (which tell no spans). The functions `count_alive`, `set_device`, `set_open` and
 * `longest_wait` are for the tests.
 */
#define _GNU_SOURCE
#include <layer_view.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifndef DEVICES
#define DEVICES 2
#endif

/* Not canonical on any 64-bit machine of today: who follows it, or adds to it, is caught. */
#define HANDLE_BASE UINT64_C(0x6dead00000000000)
#define HANDLE_STEP UINT64_C(0x100000000)
#define ANY_DEVICE -1
#ifndef SHARES
#define SHARES 0                /* whether steps read and write the host's memory in place */
#endif
enum { MAX_HANDLES = 256 };
enum { CONTEXTS, MEMORIES, QUEUES, QUEUE_TABLES, WORKLOADS, OPEN_TABLES, MAPPINGS, KINDS_OF_THINGS };
enum { HOST = DOVETAIL_HOST_MEMORY, OWN = 0, WINDOW = 1 };

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static int alive[KINDS_OF_THINGS];
static int device_states[DEVICES];
static char open_code[32];
static int context_threads, workload_threads;
static struct {
    char *bytes;
    size_t count;
    int device;
    int memory;
    char *mapped;           /* what the host sees */
    size_t offset, length;
    int access;
} memories[MAX_HANDLES];
static int copies_made, maps_made, refuse_maps;
static int profiles, refuse_profiles;

struct context {
    int device;
    int64_t delay_us;
    int fail;
    int hang;
};

enum operation { ADD, RELU, COPY };

struct workload {
    enum operation operation;
    int from, to;           /* memories */
    struct context context;
};

struct job {
    struct job *next;
    const dovetail_call *call;
    const struct workload *workload;
    const char *in[2];
    char *out, *scratch;
    size_t bytes;
};

struct queue {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first, **last;
    int device, busy, ending, aborted, failed;
    int notes;              /* spans, of the first that there is room for */
    dovetail_span spans[64];
    int32_t n_spans;
};

int count_alive(int what)
{
    pthread_mutex_lock(&guard);
    int count = alive[what];
    pthread_mutex_unlock(&guard);
    return count;
}

void set_device(int device, int state) { device_states[device] = state; }
void set_open(const char *code) { snprintf(open_code, sizeof open_code, "%s", code); }

int count_copies(void) { return copies_made; }
int count_maps(void) { return maps_made; }
void set_refuse_maps(int refuse) { refuse_maps = refuse; }
int count_profiles(void) { return profiles; }
void set_refuse_profiles(int refuse) { refuse_profiles = refuse; }
int threads_of_context(void) { return context_threads; }
int threads_of_workload(void) { return workload_threads; }

static void change(int what, int by)
{
    pthread_mutex_lock(&guard);
    alive[what] += by;
    pthread_mutex_unlock(&guard);
}

/* Where bytes of the device are, of a memory of it. NULL: they are not there. */
static char *find(const void *handle, uint64_t offset, uint64_t bytes, int device, int memory)
{
    const uint64_t data = (uint64_t)(uintptr_t)handle;
    const uint64_t slot = (data - HANDLE_BASE) / HANDLE_STEP;
    if (data < HANDLE_BASE || data % HANDLE_STEP || slot >= MAX_HANDLES || memories[slot].bytes == NULL ||
        (device != ANY_DEVICE && memories[slot].device != ANY_DEVICE && memories[slot].device != device) ||
        memories[slot].memory != memory || memories[slot].mapped != NULL || offset + bytes > memories[slot].count)
        return NULL;
    return memories[slot].bytes + offset;
}

static uint64_t bytes_of(const dovetail_tensor *tensor)
{
    return dovetail_elements(tensor->ndim, tensor->shape) * tensor->dtype.bits / 8;
}

/* Where the bytes of a tensor are: in a memory of the device, which must be the one, or on the
 * host. NULL: not there. */
static char *resolve(const dovetail_tensor *tensor, int device, int memory)
{
    if (tensor->device.device_type == DOVETAIL_ON_HOST)
        return memory == HOST || SHARES ? dovetail_data(tensor) : NULL;
    return find(tensor->data, tensor->byte_offset, bytes_of(tensor), device, memory);
}

static void carry_out(const struct job *job)
{
    const float *a = (const float *)job->in[0], *b = (const float *)job->in[1];
    float *out = (float *)job->out;
    const size_t n = job->bytes / sizeof(float);
    if (job->scratch != NULL)
        a = memcpy(job->scratch, a, job->bytes);
    switch (job->workload->operation) {
    case ADD:
        for (size_t i = 0; i < n; ++i)
            out[i] = a[i] + b[i];
        break;
    case RELU:
        for (size_t i = 0; i < n; ++i)
            out[i] = a[i] > 0 ? a[i] : 0;
        break;
    default:
        memmove(out, a, job->bytes);
    }
}

static const char *const operation_names[] = {"addition", "rectifier", "transfer"};

/* The device's clock runs a day behind the host's. */
static int64_t host_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t device_now(void) { return host_now() - INT64_C(86400000000000); }

static void *serve(void *argument)
{
    struct queue *queue = argument;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (queue->first == NULL && !queue->ending)
            pthread_cond_wait(&queue->changed, &queue->lock);
        struct job *job = queue->first;
        if (job == NULL)
            break;
        queue->first = job->next;
        if (queue->first == NULL)
            queue->last = &queue->first;
        queue->busy = 1;
        const struct context *how = &job->workload->context;
        const int computes = job->workload->operation == ADD || job->workload->operation == RELU;
        pthread_mutex_unlock(&queue->lock);
        usleep(how->delay_us);
        pthread_mutex_lock(&queue->lock);
        while (computes && how->hang && !queue->aborted)
            pthread_cond_wait(&queue->changed, &queue->lock);
        const int skip = queue->aborted || queue->failed;
        pthread_mutex_unlock(&queue->lock);
        const int64_t begin = device_now();
        if (!skip)
            carry_out(job);
        pthread_mutex_lock(&queue->lock);
        if (!skip && queue->notes && queue->n_spans < 64)
            queue->spans[queue->n_spans++] =
                (dovetail_span){.call = job->call, .name = operation_names[job->workload->operation], .begin = begin, .end = device_now()};
        if (computes && how->fail)
            queue->failed = 1;
        queue->busy = 0;
        pthread_cond_broadcast(&queue->changed);
        free(job);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static int queue_create(void *state, int32_t device, void **made)
{
    (void)state;
    struct queue *queue = calloc(1, sizeof *queue);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, &attributes);
    queue->last = &queue->first;
    queue->device = device;
    pthread_create(&queue->thread, NULL, serve, queue);
    change(QUEUES, 1);
    *made = queue;
    return DOVETAIL_OK;
}

static _Atomic int64_t longest;

/* The longest that a queue was asked to wait since the last call, in nanoseconds, while nothing was
 * aborted. */
int64_t longest_wait(void)
{
    int64_t asked = longest;
    longest = 0;
    return asked;
}

static void note_wait(const struct queue *queue, int64_t deadline)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t asked = deadline - (now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
    if (!queue->aborted && asked > longest)
        longest = asked;
}

static int queue_wait(void *handle, int64_t deadline)
{
    struct queue *queue = handle;
    const struct timespec until = {deadline / 1000000000, deadline % 1000000000};
    int status = DOVETAIL_OK;
    pthread_mutex_lock(&queue->lock);
    note_wait(queue, deadline);
    while ((queue->busy || queue->first != NULL) && status == DOVETAIL_OK)
        if (pthread_cond_timedwait(&queue->changed, &queue->lock, &until) && (queue->busy || queue->first != NULL))
            status = DOVETAIL_PENDING;
    if (status == DOVETAIL_OK) {
        status = queue->failed ? DOVETAIL_FAILED : DOVETAIL_OK;
        queue->failed = queue->aborted = 0;
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

static void tell(struct queue *queue, int *what)
{
    pthread_mutex_lock(&queue->lock);
    *what = 1;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static void queue_abort(void *handle)
{
    struct queue *queue = handle;
    tell(queue, &queue->aborted);
}

static void queue_destroy(void *handle)
{
    struct queue *queue = handle;
    tell(queue, &queue->ending);
    pthread_join(queue->thread, NULL);
    free(queue);
    change(QUEUES, -1);
}

static const char *queue_error(void *queue)
{
    (void)queue;
    return "the multiplier caught fire";
}

static int queue_profile(void *handle, int32_t wanted)
{
    struct queue *queue = handle;
    profiles += wanted ? 1 : -1;
    queue->notes = wanted;
    queue->n_spans = 0;
    return refuse_profiles ? DOVETAIL_FAILED : DOVETAIL_OK;
}

static int queue_span(void *handle, int32_t index, dovetail_span *span)
{
    struct queue *queue = handle;
    if (index >= queue->n_spans)
        return 1;
    *span = queue->spans[index];
    span->size = sizeof *span;
    return DOVETAIL_OK;
}

static int queue_clock(void *queue, int64_t *device, int64_t *host)
{
    (void)queue;
    *host = host_now();
    *device = device_now();
    return DOVETAIL_OK;
}

static void queues_release(void *state)
{
    (void)state;
    change(QUEUE_TABLES, -1);
}

static int bound_calls;

/* How often a step was told that the tensors stay where they are. */
int count_bound(void)
{
    return bound_calls;
}

static int execute(void *state, const dovetail_call *call)
{
    const struct workload *workload = state;
    struct queue *queue = call->queue;
    struct job *job = calloc(1, sizeof *job);
    const int device = queue != NULL ? queue->device : workload->context.device;
    job->workload = workload;
    job->call = call;
    for (int i = 0; i < call->n_inputs; ++i) {
        job->in[i] = resolve(&call->inputs[i], device, workload->from);
        if (job->in[i] == NULL && workload->operation != COPY)
            job->in[i] = resolve(&call->inputs[i], device, HOST);       /* a constant */
        if (job->in[i] == NULL)
            return free(job), call->host->fail(call, DOVETAIL_FAILED, "an input is not where it must be");
    }
    job->out = resolve(&call->outputs[0], device, workload->to);
    if (job->out == NULL)
        return free(job), call->host->fail(call, DOVETAIL_FAILED, "the output is not where it must be");
    job->bytes = bytes_of(&call->outputs[0]);
    if (call->flags & DOVETAIL_CALL_BOUND)
        bound_calls++;
    if (call->workspace != NULL) {
        job->scratch = find(call->workspace, call->workspace_offset, job->bytes, device, OWN);
        if (job->scratch == NULL || call->workspace_offset % 256)
            return free(job), call->host->fail(call, DOVETAIL_FAILED, "the workspace is not where it must be");
    }
    if (queue == NULL) {
        carry_out(job);
        free(job);
        return DOVETAIL_OK;
    }
    pthread_mutex_lock(&queue->lock);
    *queue->last = job;
    queue->last = &job->next;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return DOVETAIL_OK;
}

static void workload_release(void *state)
{
    free(state);
    change(WORKLOADS, -1);
}

static int workspace_of(void *state, const dovetail_tensor *inputs, const dovetail_tensor *outputs, int32_t workers,
                        size_t *shared, size_t *per_worker)
{
    (void)state, (void)inputs, (void)workers, (void)per_worker;
    *shared = bytes_of(outputs);
    return DOVETAIL_OK;
}

static int make(dovetail_workload *workload, enum operation operation, int from, int to, const struct context *context)
{
    struct workload *made = calloc(1, sizeof *made);
    made->operation = operation;
    made->from = from;
    made->to = to;
    if (context != NULL)
        made->context = *context;
    dovetail_begin_workload(workload);
#ifndef SYNCHRONOUS
    workload->flags = DOVETAIL_WORKLOAD_ASYNC;
#endif
    workload->execute = execute;
    workload->release = workload_release;
    workload->state = made;
    change(WORKLOADS, 1);
    return DOVETAIL_OK;
}

static int create_workload(void *state, void *context, const dovetail_layer *layer, const dovetail_resources *resources,
                           const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why)
{
    (void)state, (void)why;
    const int window = dovetail_integer(options, "window", 0, 0) ? WINDOW : OWN;
    workload_threads = resources->threads;
    if (dovetail_is_kind(layer, "dovetail.Activation"))
        return make(workload, RELU, OWN, window, context);
    const int status = make(workload, ADD, window, OWN, context);
    const int scratch = (int)dovetail_integer(options, "scratch", 0, 0);
    if (scratch) {
        workload->workspace = workspace_of;
        workload->workspace_memory = scratch;
    }
    return status;
}

static int32_t tensor_memory(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                             const dovetail_tensor_info *tensor, int32_t slot, int32_t is_output,
                             const dovetail_attributes *options)
{
    (void)state, (void)device, (void)tensor, (void)slot;
    if (!dovetail_integer(options, "window", 0, 0))
        return OWN;
    return dovetail_is_kind(layer, "dovetail.Activation") == is_output ? WINDOW : OWN;
}

static int create_copy(void *state, void *context, int32_t source, int32_t target, const dovetail_tensor_info *tensor,
                       dovetail_workload *workload, dovetail_answer *why)
{
    ++copies_made;
    (void)state;
    if (dovetail_info_bytes(tensor) > 1 << 20)
        return dovetail_fail(why, "memory", "", "the window of the bus takes 1 MiB, not %lld bytes", (long long)dovetail_info_bytes(tensor));
    return make(workload, COPY, source, target, context);
}

static int supports(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                    const dovetail_attributes *options, dovetail_answer *why)
{
    (void)state, (void)options;
    if (dovetail_is_kind(layer, "dovetail.Softmax"))
        return dovetail_refuse(why, "kind", "", "device %d (%s, revision %s) with %d cores has no Softmax", device->index, device->name,
                               device->revision, (int)dovetail_integer(&device->facts, "cores", 0, 0));
    if (!dovetail_is_kind(layer, "dovetail.ElementwiseBinary") && !dovetail_is_kind(layer, "dovetail.Activation"))
        return dovetail_refuse(why, "kind", "", "%s is not run", layer->kind);
    if (strcmp(dovetail_string(&layer->attributes, "operation", "add"), "add") ||
        strcmp(dovetail_string(&layer->attributes, "function", "relu"), "relu") ||
        !dovetail_is_none(&layer->attributes, "activation"))
        return dovetail_refuse(why, "attribute", "operation", "only additions and ReLU are run");
    for (int i = 0; i < layer->n_inputs; ++i)
        if (!dovetail_is_dtype(layer->inputs[i], 2, 32) || !dovetail_same_shape(layer->inputs[i], layer->outputs[0]))
            return dovetail_refuse(why, "shape", "", "only float32 of equal shapes");
    return 1;
}

/* The first device says all there is to say, the second no more than its name, others nothing. */
static int device_info(void *state, int32_t device, dovetail_device_info *info, dovetail_answer *why)
{
    (void)state, (void)why;
    static const char *const names[] = {"first", "second", NULL};
    static const int64_t cores = 4, lossless = 1;
    static const double clock = 1.5;
    static const char *const firmware = "7b";
    static const dovetail_attribute facts[] = {
        {.size = sizeof(dovetail_attribute), .name = "cores", .type = DOVETAIL_ATTRIBUTE_INT, .count = 1, .integers = &cores},
        {.size = sizeof(dovetail_attribute), .name = "lossless", .type = DOVETAIL_ATTRIBUTE_BOOL, .count = 1, .integers = &lossless},
        {.size = sizeof(dovetail_attribute), .name = "clock", .type = DOVETAIL_ATTRIBUTE_FLOAT, .count = 1, .reals = &clock},
        {.size = sizeof(dovetail_attribute), .name = "firmware", .type = DOVETAIL_ATTRIBUTE_STRING, .count = 1, .strings = &firmware},
    };
    static const dovetail_attribute *const items[] = {&facts[0], &facts[1], &facts[2], &facts[3]};
    info->size = sizeof *info;
    info->name = names[device];
    if (device == 0) {
        info->memory_bytes = 1 << 20;
        info->half_precision = -1;
        info->revision = "B1";
        info->facts = (dovetail_attributes){.size = sizeof info->facts, .items = items, .count = 4};
    }
    return DOVETAIL_OK;
}

static int device_state(void *state, int32_t device, dovetail_answer *why)
{
    (void)state;
    if (device_states[device])
        snprintf(why->text, sizeof why->text, "device %d of the test is away", device);
    return device_states[device];
}

#ifndef NO_CONTEXT
static int context_open(void *state, int32_t device, const dovetail_resources *resources, const dovetail_attributes *options,
                        void **context, dovetail_answer *why)
{
    (void)state;
    if (open_code[0])
        return dovetail_fail(why, open_code, "", "opening gave %s", open_code);
    struct context *made = calloc(1, sizeof *made);
    context_threads = resources->threads;
    made->device = device;
    made->delay_us = dovetail_integer(options, "delay_us", 0, 0);
    made->fail = (int)dovetail_integer(options, "fail", 0, 0);
    made->hang = (int)dovetail_integer(options, "hang", 0, 0);
    change(CONTEXTS, 1);
    *context = made;
    return DOVETAIL_OK;
}

static void context_close(void *state, void *context)
{
    (void)state;
    free(context);
    change(CONTEXTS, -1);
}
#endif

static int queues(void *state, void *context, dovetail_queues *table, dovetail_answer *why)
{
    (void)state, (void)context, (void)why;
    table->size = sizeof *table;
    table->queue_create = queue_create;
    table->queue_wait = queue_wait;
    table->queue_abort = queue_abort;
    table->queue_destroy = queue_destroy;
    table->queue_error = queue_error;
    table->release = queues_release;
    table->queue_profile = queue_profile;
    table->queue_span = queue_span;
    table->queue_clock = queue_clock;
#ifdef OLD_QUEUES
    table->size = offsetof(dovetail_queues, queue_profile);
#endif
    change(QUEUE_TABLES, 1);
    return DOVETAIL_OK;
}

static int memory(void *state, int32_t device, int32_t index, dovetail_memory *memory, dovetail_answer *why)
{
    (void)state, (void)why;
    if (index > WINDOW)
        return 1;
    memory->size = sizeof *memory;
    memory->kind = index == WINDOW ? "window" : device == 0 ? "sram" : "dram";
    memory->alignment = device == 0 ? 256 : 1024;
    memory->offsets = index == OWN;
    memory->host_visible = index == WINDOW;
    memory->imports_host = index == OWN && SHARES;
    return DOVETAIL_OK;
}

static int memory_allocate(void *state, void *context, int32_t memory, size_t bytes, size_t alignment, void **data,
                           dovetail_answer *why)
{
    (void)state, (void)alignment;
    const int device = context == NULL ? ANY_DEVICE : ((struct context *)context)->device;
    if (bytes > 1 << 20)
        return dovetail_fail(why, "memory", "", "%zu bytes of 1048576", bytes);
    pthread_mutex_lock(&guard);
    for (int i = 0; i < MAX_HANDLES; ++i)
        if (memories[i].bytes == NULL) {
            memories[i].bytes = malloc(bytes + 1);
            memories[i].count = bytes;
            memories[i].device = device;
            memories[i].memory = memory;
            *data = (void *)(uintptr_t)(HANDLE_BASE + (uint64_t)i * HANDLE_STEP);
            ++alive[MEMORIES];
            pthread_mutex_unlock(&guard);
            return DOVETAIL_OK;
        }
    pthread_mutex_unlock(&guard);
    return dovetail_fail(why, "memory", "", "no handles are left");
}

static int memory_map(void *state, void *context, int32_t memory, void *data, size_t offset, size_t bytes, int32_t access,
                      void **address, dovetail_answer *why)
{
    (void)state;
    const int device = context == NULL ? ANY_DEVICE : ((struct context *)context)->device;
    char *found = find(data, offset, bytes, device, memory);
    if (found == NULL || memory != WINDOW || refuse_maps)
        return dovetail_fail(why, "memory", "", "the window cannot show these bytes");
    const uint64_t slot = ((uint64_t)(uintptr_t)data - HANDLE_BASE) / HANDLE_STEP;
    char *mapped = malloc(bytes + 1);
    memcpy(mapped, found, access & DOVETAIL_MAP_READ ? bytes : 0);
    memories[slot].mapped = mapped;
    memories[slot].offset = offset;
    memories[slot].length = bytes;
    memories[slot].access = access;
    change(MAPPINGS, 1);
    ++maps_made;
    *address = mapped;
    return DOVETAIL_OK;
}

static int memory_unmap(void *state, void *context, int32_t memory, void *data)
{
    (void)state, (void)context, (void)memory;
    const uint64_t slot = ((uint64_t)(uintptr_t)data - HANDLE_BASE) / HANDLE_STEP;
    if (memories[slot].access & DOVETAIL_MAP_WRITE)
        memcpy(memories[slot].bytes + memories[slot].offset, memories[slot].mapped, memories[slot].length);
    free(memories[slot].mapped);
    memories[slot].mapped = NULL;
    change(MAPPINGS, -1);
    return DOVETAIL_OK;
}

static void memory_release(void *state, void *context, int32_t memory, void *data)
{
    (void)state;
    const uint64_t slot = ((uint64_t)(uintptr_t)data - HANDLE_BASE) / HANDLE_STEP;
    if (memories[slot].memory != memory || (context != NULL && memories[slot].device != ((struct context *)context)->device))
        abort();
    free(memories[slot].bytes);
    memories[slot].bytes = NULL;
    change(MEMORIES, -1);
}

static void close_table(void *state)
{
    (void)state;
    change(OPEN_TABLES, -1);
}

static const int64_t zero = 0;
static const dovetail_attribute delay = {
    .size = sizeof delay, .name = "delay_us", .type = DOVETAIL_ATTRIBUTE_INT, .since = 1, .count = 1, .integers = &zero};
static const dovetail_attribute fail = {
    .size = sizeof fail, .name = "fail", .type = DOVETAIL_ATTRIBUTE_BOOL, .since = 1, .count = 1, .integers = &zero};
static const dovetail_attribute hang = {
    .size = sizeof hang, .name = "hang", .type = DOVETAIL_ATTRIBUTE_BOOL, .since = 1, .count = 1, .integers = &zero};
static const dovetail_attribute window = {
    .size = sizeof window, .name = "window", .type = DOVETAIL_ATTRIBUTE_BOOL, .since = 1, .count = 1, .integers = &zero};
static const dovetail_attribute scratch = {
    .size = sizeof scratch, .name = "scratch", .type = DOVETAIL_ATTRIBUTE_INT, .since = 1, .count = 1, .integers = &zero};
static const dovetail_option choices[] = {
    {.size = sizeof(dovetail_option), .value = &delay, .description = "microseconds that each job takes"},
    {.size = sizeof(dovetail_option), .value = &fail, .description = "computing fails, after it was enqueued"},
    {.size = sizeof(dovetail_option), .value = &hang, .description = "computing takes until the queue is aborted"},
    {.size = sizeof(dovetail_option), .value = &window, .description = "additions read in the window, and ReLU writes there"},
    {.size = sizeof(dovetail_option), .value = &scratch, .description = "workspace_memory of additions; 0: they need none"},
};
static const dovetail_option *const options[] = {&choices[0], &choices[1], &choices[2], &choices[3], &choices[4]};

int DOVETAIL_OPEN_BACKEND(const dovetail_backend_host *host, dovetail_backend *table, dovetail_answer *why)
{
    (void)host, (void)why;
    dovetail_begin_backend(table, "TableDevice", "1");
    table->capabilities = DOVETAIL_BACKEND_DETERMINISTIC;
#ifndef SYNCHRONOUS
    table->capabilities |= DOVETAIL_BACKEND_ASYNC;
#endif
    table->n_devices = DEVICES;
    table->device_info = device_info;
    table->device_state = device_state;
    table->supports = supports;
#ifndef NO_CONTEXT
    table->options = options;
    table->n_options = 5;
    table->context_open = context_open;
    table->context_close = context_close;
#else
    (void)options;
#endif
    table->create_workload = create_workload;
    table->queues = queues;
    table->memory = memory;
    table->memory_allocate = memory_allocate;
    table->memory_release = memory_release;
    table->tensor_memory = tensor_memory;
    table->memory_map = memory_map;
    table->memory_unmap = memory_unmap;
    table->create_copy = create_copy;
    table->close = close_table;
    change(OPEN_TABLES, 1);
    return DOVETAIL_OK;
}
