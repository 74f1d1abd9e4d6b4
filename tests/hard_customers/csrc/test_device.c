#include "test_device.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Not canonical on any 64-bit machine of today: who follows it, or adds an offset to it, is caught.
 * */
#define HANDLE_BASE UINT64_C(0x6dead00000000000)
#define HANDLE_STEP UINT64_C(0x100000000)
#define POISON 0xcd
#define HEADER 64
#define CANARY UINT64_C(0x0123456789abcdef)
enum { MAX_HANDLES = 4096, MAX_OPERANDS = 9 };

typedef struct {
    char *bytes;
    size_t nbytes;
} td_memory;

struct td_device {
    pthread_mutex_t lock;
    td_settings settings;
    td_counts counts;
    td_memory memory[MAX_HANDLES];
    uint64_t random;
    pid_t pid;
    int closed;
    char violation[256];
};

/* Bytes that a command reads or writes. On the host `begin` is an address; on the device it is a
 * handle plus an offset, which cannot run into the next handle. */
typedef struct {
    uint64_t begin, end;
    int host;
    int written;
    char *bytes;                /* where they really are */
} td_range;

typedef struct td_command {
    struct td_command *next;
    const td_workload *workload;
    td_range operands[MAX_OPERANDS];    /* the inputs, then the output */
    int n_operands;
    int64_t elements;                   /* of the output */
    float **registers;                  /* of a program */
    uint64_t checksum;                  /* of a host source; 0: not known, an earlier command writes it */
    int number;
    const dovetail_call *call;
} td_command;

typedef struct {
    td_device *device;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    td_command *first, **last;
    int busy, aborted, stopping, enqueued, status;
    td_range *in_flight;
    int n_in_flight, room;
    char error[256];
    int notes;                          /* spans */
    dovetail_span *spans;
    int n_spans, span_room;
} td_queue;

struct td_workload {
    td_device *device;
    char name[64];
    int operation, blocked, n_instructions, n_inputs;
    td_instruction instructions[TD_MAX_STEPS];
    dovetail_alias aliases[2];
    int n_aliases;
    size_t weight_bytes;
};

typedef struct {
    const td_workload *workload;
    uint64_t canary;
    float *registers[TD_MAX_STEPS];
} td_run;

static void violate(td_device *device, const char *what, const char *where)
{
    pthread_mutex_lock(&device->lock);
    if (!device->violation[0]) {
        snprintf(device->violation, sizeof device->violation, "%s: %s", where, what);
    }
    pthread_mutex_unlock(&device->lock);
}

static void count(td_device *device, int64_t *what, int64_t by)
{
    pthread_mutex_lock(&device->lock);
    *what += by;
    pthread_mutex_unlock(&device->lock);
}

static int64_t setting(const int64_t *which)
{
    return __atomic_load_n(which, __ATOMIC_RELAXED);
}

td_device *td_open(uint64_t seed)
{
    td_device *device = calloc(1, sizeof *device);
    if (device) {
        pthread_mutex_init(&device->lock, NULL);
        device->settings = (td_settings){.fail_at = -1, .hang_at = -1, .limit = INT64_MAX};
        device->random = seed * 2 + 1;
        device->pid = getpid();
    }
    return device;
}

td_settings *td_settings_of(td_device *device)
{
    return &device->settings;
}

static int in_use(const td_device *device)
{
    return device->counts.allocations || device->counts.queues || device->counts.workloads || device->counts.runs;
}

void td_close(td_device *device)
{
    pthread_mutex_lock(&device->lock);
    device->closed = 1;
    int leaked = in_use(device);
    pthread_mutex_unlock(&device->lock);
    if (leaked) {
        violate(device, "it was closed while memory, queues or workloads were in use", "device");
    }
    /* Never freed: a test asks it for violations when all is over. */
}

void td_count(td_device *device, td_counts *counts)
{
    pthread_mutex_lock(&device->lock);
    *counts = device->counts;
    pthread_mutex_unlock(&device->lock);
}

const char *td_violation(td_device *device)
{
    return device->violation;
}

/* -- memory
 * -------------------------------------------------------------------------------------------------
 * */

uint64_t td_allocate(td_device *device, size_t nbytes)
{
    uint64_t handle = 0;
    char *bytes = malloc(nbytes ? nbytes : 1);
    if (!bytes) {
        return 0;
    }
    memset(bytes, 0xff, nbytes);        /* every float is a NaN */
    pthread_mutex_lock(&device->lock);
    if (!device->closed && device->counts.bytes + (int64_t)nbytes <= device->settings.limit) {
        for (int i = 0; i < MAX_HANDLES && !handle; i++) {
            if (!device->memory[i].bytes) {
                device->memory[i] = (td_memory){bytes, nbytes};
                device->counts.allocations++;
                device->counts.bytes += (int64_t)nbytes;
                handle = HANDLE_BASE + (uint64_t)i * HANDLE_STEP;
            }
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (!handle) {
        free(bytes);
    }
    return handle;
}

void td_free(td_device *device, uint64_t handle)
{
    td_memory *memory = &device->memory[(handle - HANDLE_BASE) / HANDLE_STEP];
    pthread_mutex_lock(&device->lock);
    memset(memory->bytes, 0xff, memory->nbytes);
    device->counts.allocations--;
    device->counts.bytes -= (int64_t)memory->nbytes;
    free(memory->bytes);
    memory->bytes = NULL;
    pthread_mutex_unlock(&device->lock);
}

static char *resolve(td_device *device, uint64_t handle, uint64_t offset, size_t nbytes)
{
    char *bytes = NULL;
    uint64_t index = (handle - HANDLE_BASE) / HANDLE_STEP;
    if (handle >= HANDLE_BASE && index < MAX_HANDLES && (handle - HANDLE_BASE) % HANDLE_STEP == 0 && offset % 128 == 0) {
        pthread_mutex_lock(&device->lock);
        const td_memory *memory = &device->memory[index];
        if (memory->bytes && offset + nbytes <= memory->nbytes) {
            bytes = memory->bytes + offset;
        }
        pthread_mutex_unlock(&device->lock);
    }
    return bytes;
}

/* -- arithmetic
 * -------------------------------------------------------------------------------------------------
 * */

size_t td_blocked_bytes(int64_t elements)
{
    return HEADER + (size_t)((elements + 3) / 4) * 4 * sizeof(float);
}

static void add(const float *a, const float *b, float *c, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        c[i] = a[i] + b[i];
    }
}

static void relu(const float *a, float *c, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        c[i] = a[i] > 0 ? a[i] : 0;
    }
}

static void fully_connected(const td_instruction *layer, const float *x, float *y, int64_t n)
{
    for (int64_t row = 0; row < n / layer->units; row++) {
        for (int64_t unit = 0; unit < layer->units; unit++) {
            float sum = layer->bias ? layer->bias[unit] : 0;
            for (int64_t k = 0; k < layer->depth; k++) {
                sum += x[row * layer->depth + k] * layer->weights[unit * layer->depth + k];
            }
            y[row * layer->units + unit] = sum;
        }
    }
}

static void block(const float *plain, char *blocked, int64_t n)
{
    uint64_t header[HEADER / 8] = {CANARY, (uint64_t)n};
    float *blocks = (float *)(blocked + HEADER);
    memcpy(blocked, header, HEADER);
    for (int64_t i = 0; i < (n + 3) / 4 * 4; i++) {
        blocks[i / 4 * 4 + 3 - i % 4] = i < n ? plain[i] : -1e30f;
    }
}

static int has_header(const char *blocked, int64_t n)
{
    uint64_t header[2];
    memcpy(header, blocked, sizeof header);
    return header[0] == CANARY && header[1] == (uint64_t)n;
}

static void unblock(const char *blocked, float *plain, int64_t n)
{
    const float *blocks = (const float *)(blocked + HEADER);
    for (int64_t i = 0; i < n; i++) {
        plain[i] = blocks[i / 4 * 4 + 3 - i % 4];
    }
}

static void compute(int operation, const td_instruction *layer, const float *a, const float *b, float *c, int64_t n)
{
    if (operation == TD_ADD) {
        add(a, b, c, n);
    } else if (operation == TD_RELU) {
        relu(a, c, n);
    } else if (operation == TD_FULLY_CONNECTED) {
        fully_connected(layer, a, c, n);
    } else if (a != c) {
        memmove(c, a, (size_t)n * sizeof(float));
    }
}

static void run_program(const td_command *command)
{
    const td_workload *workload = command->workload;
    for (int i = 0; i < workload->n_instructions; i++) {
        const td_instruction *step = &workload->instructions[i];
        const float *sources[2] = {NULL, NULL};
        for (int k = 0; k < 2; k++) {
            int index = k ? step->b : step->a;
            if (index >= 0) {
                sources[k] = index < workload->n_inputs ? (const float *)command->operands[index].bytes
                                                        : command->registers[index - workload->n_inputs];
            }
        }
        compute(step->operation, step, sources[0], sources[1], command->registers[i], step->elements);
    }
    const td_instruction *result = &workload->instructions[workload->n_instructions - 1];
    memcpy(command->operands[workload->n_inputs].bytes, command->registers[workload->n_instructions - 1],
           (size_t)result->elements * sizeof(float));
}

static uint64_t checksum_of(const char *bytes, size_t n)
{
    uint64_t hash = UINT64_C(1469598103934665603);
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
    }
    return hash | 1;
}

static size_t size_of(const td_range *range)
{
    return (size_t)(range->end - range->begin);
}

/* -- commands
 * -------------------------------------------------------------------------------------------------
 * */

/* Returns what is wrong, or NULL. */
static const char *carry_out(const td_command *command)
{
    const td_workload *workload = command->workload;
    const td_range *source = &command->operands[0], *target = &command->operands[command->n_operands - 1];
    int64_t n = command->elements;
    if (workload->blocked) {
        for (const td_range *range = source; range < target; range++) {
            if (!has_header(range->bytes, n)) {
                return "its input has no blocked layout";
            }
        }
    }
    switch (workload->operation) {
    case TD_COPY_IN:
        if (command->checksum && command->checksum != checksum_of(source->bytes, size_of(source))) {
            return "the host memory that it copies changed while the copy was in flight";
        }
        memcpy(target->bytes, source->bytes, size_of(target));
        return NULL;
    case TD_COPY_OUT:
        for (size_t i = 0; i < size_of(target); i++) {
            if ((unsigned char)target->bytes[i] != POISON) {
                return "the host memory that it copies to was written while the copy was in flight";
            }
        }
        memcpy(target->bytes, source->bytes, size_of(target));
        return NULL;
    case TD_BLOCK:
        block((const float *)source->bytes, target->bytes, n);
        return NULL;
    case TD_UNBLOCK:
        if (!has_header(source->bytes, n)) {
            return "its input has no blocked layout";
        }
        unblock(source->bytes, (float *)target->bytes, n);
        return NULL;
    case TD_PROGRAM:
        run_program(command);
        return NULL;
    default:
        break;
    }
    size_t header = workload->blocked ? HEADER : 0;
    if (header && source->bytes != target->bytes) {
        memcpy(target->bytes, source->bytes, header);
    }
    const float *second = command->n_operands > 2 ? (const float *)(command->operands[1].bytes + header) : NULL;
    compute(workload->operation, workload->instructions, (const float *)(source->bytes + header), second,
            (float *)(target->bytes + header), header ? (n + 3) / 4 * 4 : n);
    return NULL;
}

static int range_of(td_device *device, const dovetail_tensor *tensor, int host, int written, size_t nbytes, td_range *range)
{
    uint64_t base = (uint64_t)(uintptr_t)tensor->data;
    *range = (td_range){base + tensor->byte_offset, base + tensor->byte_offset + nbytes, host, written, NULL};
    int looks_like_handle = base >= HANDLE_BASE && base < HANDLE_BASE + MAX_HANDLES * HANDLE_STEP;
    if (host == looks_like_handle) {
        return 0;
    }
    range->bytes = host ? (char *)tensor->data + tensor->byte_offset : resolve(device, base, tensor->byte_offset, nbytes);
    return range->bytes != NULL;
}

static int overlap(const td_range *a, const td_range *b)
{
    return a->host == b->host && a->begin < b->end && b->begin < a->end;
}

static int64_t elements_of(const dovetail_tensor *tensor)
{
    int64_t n = 1;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        n *= tensor->shape[i];
    }
    return n;
}

/* A range that is written while an earlier command still uses it is only right if this command
 * reads it too: in place. */
static const char *reuse_of(const td_queue *queue, const td_command *command)
{
    const td_range *target = &command->operands[command->n_operands - 1];
    for (int i = 0; i < command->n_operands - 1; i++) {
        if (overlap(&command->operands[i], target)) {
            return NULL;
        }
    }
    for (int i = 0; i < queue->n_in_flight; i++) {
        if (overlap(&queue->in_flight[i], target)) {
            return "its output lies in memory that a command in flight still uses";
        }
    }
    return NULL;
}

static int remember(td_queue *queue, const td_command *command)
{
    if (queue->n_in_flight + MAX_OPERANDS > queue->room) {
        int room = 2 * queue->room + 64;
        td_range *grown = realloc(queue->in_flight, (size_t)room * sizeof *grown);
        if (!grown) {
            return 0;
        }
        queue->in_flight = grown;
        queue->room = room;
    }
    for (int i = 0; i < command->n_operands; i++) {
        queue->in_flight[queue->n_in_flight++] = command->operands[i];
    }
    return 1;
}

static void watch_host_memory(const td_queue *queue, td_command *command)
{
    td_range *source = &command->operands[0], *target = &command->operands[command->n_operands - 1];
    if (command->workload->operation == TD_COPY_OUT) {
        memset(target->bytes, POISON, size_of(target));
    }
    if (command->workload->operation == TD_COPY_IN) {
        for (int i = 0; i < queue->n_in_flight; i++) {
            if (queue->in_flight[i].written && overlap(&queue->in_flight[i], source)) {
                return;
            }
        }
        command->checksum = checksum_of(source->bytes, size_of(source));
    }
}

static int refuse(const dovetail_call *call, td_device *device, const td_workload *workload, const char *what)
{
    violate(device, what, workload->name);
    return call->host->fail(call, DOVETAIL_FAILED, what);
}

int td_execute(void *state, const dovetail_call *call)
{
    const td_workload *workload = state;
    td_device *device = workload->device;
    td_queue *queue = call->queue;
    td_run *run = call->run_data;
    int n_inputs = workload->operation == TD_FULLY_CONNECTED ? 1 : workload->operation == TD_ADD ? 2 : workload->n_inputs;
    if (!queue || !run || run->workload != workload || run->canary != CANARY) {
        return refuse(call, device, workload, "it was called without the queue or the run data that it asked for");
    }
    td_command *command = calloc(1, sizeof *command);
    if (!command) {
        return call->host->fail(call, DOVETAIL_OUT_OF_MEMORY, "no memory for a command");
    }
    command->workload = workload;
    command->n_operands = n_inputs + 1;
    command->elements = elements_of(&call->outputs[0]);
    command->registers = run->registers;
    for (int i = 0; i <= n_inputs; i++) {
        const dovetail_tensor *tensor = i < n_inputs ? &call->inputs[i] : &call->outputs[0];
        int host = i < n_inputs ? workload->operation == TD_COPY_IN : workload->operation == TD_COPY_OUT;
        int blocked = workload->blocked || (i < n_inputs ? workload->operation == TD_UNBLOCK : workload->operation == TD_BLOCK);
        size_t nbytes = blocked ? td_blocked_bytes(elements_of(tensor)) : (size_t)elements_of(tensor) * sizeof(float);
        if (!range_of(device, tensor, host, i == n_inputs, nbytes, &command->operands[i])) {
            free(command);
            return refuse(call, device, workload, "it got an address that does not lie where it should");
        }
    }
    pthread_mutex_lock(&queue->lock);
    const char *reuse = reuse_of(queue, command);
    int kept = 1;
    if (!reuse) {
        watch_host_memory(queue, command);
        kept = remember(queue, command);
        command->number = queue->enqueued++;
        command->call = call;
        *queue->last = command;
        queue->last = &command->next;
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    if (reuse) {
        free(command);
        return refuse(call, device, workload, reuse);
    }
    return kept ? DOVETAIL_OK : call->host->fail(call, DOVETAIL_OUT_OF_MEMORY, "no memory for a range");
}

/* -- queues
 * -------------------------------------------------------------------------------------------------
 * */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* With the lock held; returns 0 once the deadline passed. */
static int wait_change(td_queue *queue, int64_t deadline)
{
    struct timespec until = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    return pthread_cond_timedwait(&queue->changed, &queue->lock, &until) != ETIMEDOUT;
}

static int64_t random_delay_ns(td_device *device)
{
    pthread_mutex_lock(&device->lock);
    device->random = device->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    int64_t range = 2 * setting(&device->settings.delay_us) * 1000;
    int64_t delay = range > 0 ? (int64_t)(device->random >> 33) % (range + 1) : 0;
    pthread_mutex_unlock(&device->lock);
    return delay;
}

/* With the lock held. Aborted commands are dropped by the caller. */
static void pause_before(td_queue *queue, const td_command *command)
{
    td_settings *settings = &queue->device->settings;
    int64_t begin = now_ns() + random_delay_ns(queue->device);
    while (!queue->aborted && !queue->stopping && now_ns() < begin) {
        wait_change(queue, begin);
    }
    while (!queue->stopping && setting(&settings->hang_at) == command->number
           && (!queue->aborted || setting(&settings->deaf))) {
        wait_change(queue, now_ns() + 1000000);
    }
}

static void carry_out_next(td_queue *queue, td_command *command)
{
    td_device *device = queue->device;
    pause_before(queue, command);
    if (queue->aborted || queue->status != DOVETAIL_OK) {
        return;
    }
    if (setting(&device->settings.fail_at) == command->number) {
        queue->status = 7;
        snprintf(queue->error, sizeof queue->error, "command %d of layer %s failed on the device", command->number,
                 command->workload->name);
        return;
    }
    pthread_mutex_unlock(&queue->lock);
    int64_t busy_us = setting(&device->settings.busy_us);
    nanosleep(&(struct timespec){busy_us / 1000000, busy_us % 1000000 * 1000}, NULL);
    const char *wrong = carry_out(command);
    if (wrong) {
        violate(device, wrong, command->workload->name);
    }
    count(device, &device->counts.commands, 1);
    pthread_mutex_lock(&queue->lock);
    if (wrong) {
        queue->status = 8;
        snprintf(queue->error, sizeof queue->error, "%s: %s", command->workload->name, wrong);
    }
}

/* The device's clock began before the host's. */
static int64_t device_ns(void)
{
    return now_ns() + INT64_C(7200000000000);
}

/* With the lock held. */
static void note(td_queue *queue, const td_command *command, int64_t begin)
{
    if (queue->n_spans == queue->span_room) {
        int room = 2 * queue->span_room + 64;
        dovetail_span *grown = realloc(queue->spans, (size_t)room * sizeof *grown);
        if (!grown) {
            return;
        }
        queue->spans = grown;
        queue->span_room = room;
    }
    queue->spans[queue->n_spans++] = (dovetail_span){.size = sizeof(dovetail_span), .call = command->call,
                                                     .name = command->workload->name, .begin = begin, .end = device_ns()};
}

static int queue_profile(void *handle, int32_t wanted)
{
    td_queue *queue = handle;
    pthread_mutex_lock(&queue->lock);
    if (queue->first || queue->busy) {
        violate(queue->device, "it was told to take times with work in flight", "queue");
    }
    queue->notes = wanted;
    queue->n_spans = 0;
    pthread_mutex_unlock(&queue->lock);
    return wanted && setting(&queue->device->settings.lie) == TD_LIE_REFUSES ? DOVETAIL_FAILED : DOVETAIL_OK;
}

static int queue_span(void *handle, int32_t index, dovetail_span *told)
{
    td_queue *queue = handle;
    int64_t lie = setting(&queue->device->settings.lie);
    if (queue->first || queue->busy) {
        violate(queue->device, "it was asked for times with work in flight", "queue");
    }
    if (index >= queue->n_spans || lie == TD_LIE_NONE) {
        return 1;
    }
    *told = queue->spans[lie == TD_LIE_ORDER ? queue->n_spans - 1 - index : index];
    switch (lie) {
    case TD_LIE_ENDS:
        told->end = told->begin - 1;
        break;
    case TD_LIE_EMPTY:
        told->end = told->begin;
        break;
    case TD_LIE_LONG:
        told->end = queue->spans[queue->n_spans - 1].end;
        break;
    }
    return DOVETAIL_OK;
}

static int queue_clock(void *handle, int64_t *device, int64_t *host)
{
    td_queue *queue = handle;
    *host = now_ns();
    *device = setting(&queue->device->settings.lie) == TD_LIE_CLOCK ? *host : device_ns();
    return DOVETAIL_OK;
}

static void *serve(void *arg)
{
    td_queue *queue = arg;
    pthread_mutex_lock(&queue->lock);
    while (!queue->stopping || queue->first) {
        td_command *command = queue->first;
        if (!command) {
            wait_change(queue, now_ns() + 1000000000);
            continue;
        }
        queue->first = command->next;
        if (!queue->first) {
            queue->last = &queue->first;
        }
        queue->busy = 1;
        int64_t begin = device_ns();
        carry_out_next(queue, command);
        if (queue->notes && queue->status == DOVETAIL_OK) {
            note(queue, command, begin);
        }
        queue->busy = 0;
        free(command);
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

static int queue_create(void *state, int32_t index, void **out)
{
    td_device *device = state;
    pthread_condattr_t monotonic;
    (void)index;
    if (getpid() != device->pid) {
        return DOVETAIL_FORKED;
    }
    td_queue *queue = calloc(1, sizeof *queue);
    if (!queue) {
        return DOVETAIL_OUT_OF_MEMORY;
    }
    queue->device = device;
    queue->last = &queue->first;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&queue->thread, NULL, serve, queue)) {
        free(queue);
        return DOVETAIL_OUT_OF_MEMORY;
    }
    count(device, &device->counts.queues, 1);
    *out = queue;
    return DOVETAIL_OK;
}

static int queue_wait(void *handle, int64_t deadline)
{
    td_queue *queue = handle;
    int status = DOVETAIL_PENDING;
    count(queue->device, &queue->device->counts.waits, 1);
    pthread_mutex_lock(&queue->lock);
    while ((queue->first || queue->busy) && wait_change(queue, deadline)) {
    }
    if (!queue->first && !queue->busy) {
        status = queue->status;
        if (queue->aborted && status == DOVETAIL_OK) {
            status = (int)setting(&queue->device->settings.abort_status);
        }
        queue->status = queue->aborted = queue->enqueued = queue->n_in_flight = 0;
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

static void queue_abort(void *handle)
{
    td_queue *queue = handle;
    pthread_mutex_lock(&queue->lock);
    queue->aborted = 1;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static void queue_destroy(void *handle)
{
    td_queue *queue = handle;
    pthread_mutex_lock(&queue->lock);
    int in_flight = queue->first != NULL || queue->busy;
    queue->stopping = queue->aborted = 1;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    pthread_join(queue->thread, NULL);
    if (in_flight) {
        violate(queue->device, "it was destroyed with work in flight", "queue");
    }
    count(queue->device, &queue->device->counts.queues, -1);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue->in_flight);
    free(queue->spans);
    free(queue);
}

static const char *queue_error(void *handle)
{
    return ((td_queue *)handle)->error;
}

void td_queues(td_device *device, dovetail_queues *table)
{
    *table = (dovetail_queues){
        .size = sizeof *table, .abi_major = DOVETAIL_ABI_MAJOR, .abi_minor = DOVETAIL_ABI_MINOR, .state = device,
        .queue_create = queue_create, .queue_wait = queue_wait, .queue_abort = queue_abort, .queue_destroy = queue_destroy,
        .queue_error = queue_error, .queue_profile = queue_profile, .queue_span = queue_span, .queue_clock = queue_clock,
    };
}

/* -- workloads
 * -------------------------------------------------------------------------------------------------
 * */

static int copy_floats(const float **where, int64_t n, size_t *total)
{
    if (!*where) {
        return 1;
    }
    size_t nbytes = (size_t)n * sizeof(float);
    float *copy = malloc(nbytes);
    if (copy) {
        memcpy(copy, *where, nbytes);
        *total += nbytes;
    }
    *where = copy;
    return copy != NULL;
}

td_workload *td_workload_create(td_device *device, int operation, int blocked, const char *name, const td_instruction *program,
                                int n_instructions, int n_inputs)
{
    td_workload *workload = calloc(1, sizeof *workload);
    if (!workload || n_instructions > TD_MAX_STEPS || n_inputs >= MAX_OPERANDS) {
        free(workload);
        return NULL;
    }
    workload->device = device;
    workload->operation = operation;
    workload->blocked = blocked;
    workload->n_inputs = n_inputs;
    snprintf(workload->name, sizeof workload->name, "%s", name);
    count(device, &device->counts.workloads, 1);
    for (int i = 0; i < n_instructions; i++) {
        td_instruction *step = &workload->instructions[workload->n_instructions++];
        *step = program[i];
        int copied = copy_floats(&step->weights, step->units * step->depth, &workload->weight_bytes);
        if (!copy_floats(&step->bias, step->units, &workload->weight_bytes) || !copied) {
            td_release(workload);
            return NULL;
        }
    }
    if (operation == TD_ADD || operation == TD_RELU) {
        for (int i = 0; i < n_inputs; i++) {
            workload->aliases[workload->n_aliases++] = (dovetail_alias){DOVETAIL_ALIAS_IN_PLACE, 0, i, 0, 0};
        }
    } else if (operation == TD_MOVE) {
        workload->aliases[workload->n_aliases++] = (dovetail_alias){DOVETAIL_ALIAS_VIEW, 0, 0, 0, 0};
    }
    return workload;
}

void td_release(void *state)
{
    td_workload *workload = state;
    for (int i = 0; i < workload->n_instructions; i++) {
        free((void *)workload->instructions[i].weights);
        free((void *)workload->instructions[i].bias);
    }
    count(workload->device, &workload->device->counts.workloads, -1);
    free(workload);
}

static void release_run(void *state, void *data)
{
    td_run *run = data;
    const td_workload *workload = state;
    if (run->workload != workload || run->canary != CANARY) {
        violate(workload->device, "it was given run data of another workload to release", workload->name);
        return;
    }
    for (int i = 0; i < workload->n_instructions; i++) {
        free(run->registers[i]);
    }
    run->canary = 0;
    free(run);
    count(workload->device, &workload->device->counts.runs, -1);
}

static int create_run(void *state, void *queue, void **data)
{
    const td_workload *workload = state;
    td_run *run = calloc(1, sizeof *run);
    if (!run || !queue) {
        free(run);
        return DOVETAIL_OUT_OF_MEMORY;
    }
    run->workload = workload;
    run->canary = CANARY;
    count(workload->device, &workload->device->counts.runs, 1);
    for (int i = 0; workload->operation == TD_PROGRAM && i < workload->n_instructions; i++) {
        run->registers[i] = malloc((size_t)workload->instructions[i].elements * sizeof(float) + 1);
        if (!run->registers[i]) {
            release_run(state, run);
            return DOVETAIL_OUT_OF_MEMORY;
        }
    }
    *data = run;
    return DOVETAIL_OK;
}

void td_workload_describe(td_workload *workload, dovetail_workload *table)
{
    table->flags = DOVETAIL_WORKLOAD_ASYNC | (workload->operation == TD_MOVE ? DOVETAIL_WORKLOAD_ELIDABLE : 0);
    table->create_run = create_run;
    table->release_run = release_run;
    table->aliases = workload->aliases;
    table->n_aliases = workload->n_aliases;
    table->private_bytes = workload->weight_bytes;
}
