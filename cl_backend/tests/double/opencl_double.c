/* A double of libOpenCL, for what goes wrong in drivers: one platform with one device, which has
 * its memory in the host's and carries out every command when it is enqueued.
 *
 * A kernel copies its first buffer to its last one: as many elements of 4 bytes as its last number
 * says. That is what ReLU does to positive numbers.
 *
 * Faults are words in the environment variable DOVETAIL_DOUBLE, or in what was last given to
 * double_set. Commands and buffers are counted from there, from 0.
 *
 *   no_platform, no_device, no_compiler
 *   build_error          the compiler refuses everything; with =WORD: sources that hold the word
 *   driver=VERSION       another version of the driver
 *   stale                binaries are refused
 *   memory=N             buffer N cannot be had
 *   lost=N               the context is lost with command N; a new one works
 *   late=N               command N fails on the device: the next event says so
 *   hang=N               command N never ends, nor do those behind it, until double_go_on
 *   slow                 events complete a little later, on a thread of the driver
 *   unified              device and host share memory
 *   no_queued            events do not know when they were enqueued
 *   shadow               buffers of the host's memory are copies, which mapping brings up to date
 *   refused              no buffer can be made of the host's memory
 *   handlers             building sets handlers for signals
 */
#include "opencl.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NO_TIMES = -7 };         /* CL_PROFILING_INFO_NOT_AVAILABLE */
enum { CONTEXT, QUEUE, BUFFER, PROGRAM, KERNEL, EVENT, KINDS };
static const char *const names[KINDS] = {"context", "queue", "buffer", "program", "kernel", "event"};

typedef struct {
    int kind;
    int references;
} object;

struct _cl_context {
    object base;
    int is_lost;
};

struct _cl_command_queue {
    object base;
    cl_context context;
    int takes_times;
    int is_hanging;
    cl_int late;                /* status that the next event gets */
};

struct _cl_mem {
    object base;
    struct _cl_mem *next;
    size_t size;
    unsigned char *bytes;
    int is_owned;
    unsigned char *shown;       /* the host's memory, where `bytes` is a copy of it */
    size_t mapped_at, mapped;
    cl_bitfield mapped_for;
    int in_flight;              /* commands that use it and hang */
};

struct _cl_program {
    object base;
    char *source;
    int is_built;
    const char *log;
};

typedef struct {
    size_t size;
    unsigned char value[256];
} argument;

struct _cl_kernel {
    object base;
    cl_program program;
    argument arguments[32];
    cl_uint n_arguments;
};

struct _cl_event {
    object base;
    struct _cl_event *next;     /* of those that hang */
    cl_int status;
    int64_t queued, began, ended;       /* on the device's clock; 0: its queue takes no times */
    opencl_event_callback callback;
    void *given;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char faults[256];
static long live[KINDS], commands, buffers, builds, restores, violations, bytes_in, bytes_out;
static cl_mem first_buffer;
static cl_event hanging;

static void wrong(const char *what)
{
    fprintf(stderr, "the double of OpenCL: %s\n", what);
    abort();
}

/* The text behind a word, empty if there is none; NULL if the word was not given. */
static const char *fault(const char *word)
{
    static _Thread_local char value[64];
    const char *at = faults;
    size_t length = strlen(word);
    while (*at) {
        size_t whole = strcspn(at, " ");
        if (!strncmp(at, word, length) && (whole == length || at[length] == '=')) {
            size_t rest = whole > length ? whole - length - 1 : 0;
            memcpy(value, at + whole - rest, rest);
            value[rest] = 0;
            return value;
        }
        at += whole + (at[whole] == ' ');
    }
    return NULL;
}

static int is_due(const char *word, long number)
{
    const char *value = fault(word);
    return value && atol(value) == number;
}

void double_set(const char *text)
{
    snprintf(faults, sizeof(faults), "%s", text);
    commands = buffers = 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("DOVETAIL_DOUBLE");
    double_set(text ? text : "");
}

/* How many objects of a kind there are; else "builds", "restores", "bytes_in" and "bytes_out",
 * which crossed to the device and back, or "violations": buffers that were released while a command
 * that hangs used them. */
long double_count(const char *what)
{
    for (int i = 0; i < KINDS; i++) {
        if (!strcmp(what, names[i])) {
            return live[i];
        }
    }
    if (!strncmp(what, "bytes", 5)) {
        return strcmp(what, "bytes_in") ? bytes_out : bytes_in;
    }
    return !strcmp(what, "builds") ? builds : !strcmp(what, "restores") ? restores : violations;
}

static void *made(int kind, size_t size)
{
    object *one = calloc(1, size);
    if (!one) {
        wrong("no memory");
    }
    one->kind = kind;
    one->references = 1;
    pthread_mutex_lock(&lock);
    live[kind]++;
    pthread_mutex_unlock(&lock);
    return one;
}

static void retain(void *handle, int kind)
{
    object *one = handle;
    pthread_mutex_lock(&lock);
    if (!one || one->kind != kind || one->references++ < 1) {
        wrong("something was retained that is not there");
    }
    pthread_mutex_unlock(&lock);
}

/* Whether it was the last reference; the caller frees what it owns, then the object. */
static int is_last(void *handle, int kind)
{
    object *one = handle;
    pthread_mutex_lock(&lock);
    if (!one || one->kind != kind || one->references < 1) {
        wrong("something was released that is not there");
    }
    int references = --one->references;
    live[kind] -= !references;
    pthread_mutex_unlock(&lock);
    return !references;
}

static cl_int told(const void *content, size_t length, size_t size, void *value, size_t *needed)
{
    if (needed) {
        *needed = length;
    }
    if (value) {
        if (size < length) {
            return CL_INVALID_BUFFER_SIZE;
        }
        memset(value, 0, size);
        memcpy(value, content, length);
    }
    return CL_SUCCESS;
}

static cl_int text(const char *content, size_t size, void *value, size_t *needed)
{
    return told(content, strlen(content) + 1, size, value, needed);
}

static cl_int number(uint64_t content, size_t size, void *value, size_t *needed)
{
    return told(&content, sizeof(content), size, value, needed);
}

/* -- platforms and devices -------------------------------------------------------------------- */

cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *found, cl_uint *count)
{
    if (fault("no_platform")) {
        *count = 0;
        return CL_PLATFORM_NOT_FOUND;
    }
    if (room && found) {
        found[0] = (cl_platform_id)&live;
    }
    *count = 1;
    return CL_SUCCESS;
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_uint name, size_t size, void *value, size_t *needed)
{
    (void)platform;
    return text(name == CL_PLATFORM_NAME ? "Double" : "OpenCL 1.2 Double", size, value, needed);
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_bitfield kind, cl_uint room, cl_device_id *found, cl_uint *count)
{
    (void)platform, (void)kind;
    if (fault("no_device")) {
        *count = 0;
        return CL_DEVICE_NOT_FOUND;
    }
    if (room && found) {
        found[0] = (cl_device_id)&faults;
    }
    *count = 1;
    return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_uint name, size_t size, void *value, size_t *needed)
{
    (void)device;
    const char *version = fault("driver");
    switch (name) {
    case CL_DEVICE_NAME:
        return text("double", size, value, needed);
    case CL_DRIVER_VERSION:
        return text(version ? version : "1.0", size, value, needed);
    case CL_DEVICE_VERSION:
        return text("OpenCL 1.2 double", size, value, needed);
    case CL_DEVICE_VENDOR:
    case CL_DEVICE_EXTENSIONS:
        return text("", size, value, needed);
    case CL_DEVICE_TYPE:
        return number(CL_DEVICE_TYPE_GPU, size, value, needed);
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_LOCAL_MEM_TYPE:
        return number(1, size, value, needed);
    case CL_DEVICE_COMPILER_AVAILABLE:
        return number(!fault("no_compiler"), size, value, needed);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return number(fault("unified") != NULL, size, value, needed);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return number(1u << 30, size, value, needed);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        return number(4, size, value, needed);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return number(256, size, value, needed);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return number(32768, size, value, needed);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        return number(1024, size, value, needed);
    default:
        return name == CL_DEVICE_SINGLE_FP_CONFIG ? number(0, size, value, needed) : CL_INVALID_DEVICE;
    }
}

/* -- contexts and queues ---------------------------------------------------------------------- */

cl_context clCreateContext(const intptr_t *properties, cl_uint count, const cl_device_id *devices, void *callback, void *given,
                           cl_int *code)
{
    (void)properties, (void)count, (void)devices, (void)callback, (void)given;
    *code = CL_SUCCESS;
    return made(CONTEXT, sizeof(struct _cl_context));
}

cl_int clReleaseContext(cl_context context)
{
    if (is_last(context, CONTEXT)) {
        free(context);
    }
    return CL_SUCCESS;
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device, cl_bitfield properties, cl_int *code)
{
    (void)device;
    *code = context->is_lost ? CL_INVALID_CONTEXT : CL_SUCCESS;
    if (context->is_lost) {
        return NULL;
    }
    cl_command_queue queue = made(QUEUE, sizeof(struct _cl_command_queue));
    retain(context, CONTEXT);
    queue->context = context;
    queue->takes_times = properties == CL_QUEUE_PROFILING_ENABLE;
    return queue;
}

cl_int clReleaseCommandQueue(cl_command_queue queue)
{
    if (is_last(queue, QUEUE)) {
        clReleaseContext(queue->context);
        free(queue);
    }
    return CL_SUCCESS;
}

cl_int clFlush(cl_command_queue queue)
{
    return queue->context->is_lost ? CL_DEVICE_NOT_AVAILABLE : CL_SUCCESS;
}

cl_int clFinish(cl_command_queue queue)
{
    while (queue->is_hanging) {
        nanosleep(&(struct timespec){1, 0}, NULL);
    }
    return clFlush(queue);
}

/* -- events ----------------------------------------------------------------------------------- */

cl_int clReleaseEvent(cl_event event);

static void complete(cl_event event, cl_int status)
{
    pthread_mutex_lock(&lock);
    event->status = status;
    opencl_event_callback callback = event->callback;
    event->callback = NULL;
    pthread_mutex_unlock(&lock);
    if (callback) {
        callback(event, status, event->given);
    }
    clReleaseEvent(event);
}

void double_go_on(void)
{
    pthread_mutex_lock(&lock);
    cl_event event = hanging;
    hanging = NULL;
    faults[0] = 0;
    for (cl_mem one = first_buffer; one; one = one->next) {
        one->in_flight = 0;
    }
    pthread_mutex_unlock(&lock);
    while (event) {
        cl_event next = event->next;
        complete(event, CL_COMPLETE);
        event = next;
    }
}

static void *completing(void *event)
{
    nanosleep(&(struct timespec){0, 3000000}, NULL);
    complete(event, CL_COMPLETE);
    return NULL;
}

/* The device's own clock, which began an hour before the host's. */
static int64_t device_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec + 3600) * INT64_C(1000000000) + now.tv_nsec;
}

cl_int clGetEventProfilingInfo(cl_event event, cl_uint name, size_t size, void *value, size_t *needed)
{
    int64_t time = name == CL_PROFILING_COMMAND_QUEUED ? event->queued
        : name == CL_PROFILING_COMMAND_START ? event->began : event->ended;
    time = name == CL_PROFILING_COMMAND_QUEUED && fault("no_queued") ? 0 : time;
    return time && event->status == CL_COMPLETE ? told(&time, sizeof(time), size, value, needed) : NO_TIMES;
}

static cl_int put_event(cl_command_queue queue, cl_event *made_event)
{
    if (!made_event) {
        return CL_SUCCESS;
    }
    cl_event event = made(EVENT, sizeof(struct _cl_event));
    if (queue->takes_times) {
        event->queued = event->began = device_ns();
        event->ended = event->began + 1000;
    }
    event->status = 2;          /* CL_SUBMITTED */
    retain(event, EVENT);       /* by the driver, until it completes */
    *made_event = event;
    pthread_t thread;
    if (queue->is_hanging) {
        pthread_mutex_lock(&lock);
        event->next = hanging;
        hanging = event;
        pthread_mutex_unlock(&lock);
    } else if (fault("slow") && !pthread_create(&thread, NULL, completing, event)) {
        pthread_detach(thread);
    } else {
        complete(event, queue->late);
        queue->late = CL_COMPLETE;
    }
    return CL_SUCCESS;
}

/* Whether a command is carried out: else *code is what it answers, or it hangs with its buffers. */
static int begins(cl_command_queue queue, cl_mem one, cl_mem other, cl_int *code)
{
    *code = CL_SUCCESS;
    if (queue->context->is_lost) {
        *code = CL_DEVICE_NOT_AVAILABLE;
        return 0;
    }
    pthread_mutex_lock(&lock);
    long command = commands++;
    if (!hanging && !fault("hang")) {
        queue->is_hanging = 0;
    }
    if (is_due("lost", command)) {
        queue->context->is_lost = 1;
        *code = CL_DEVICE_NOT_AVAILABLE;
    }
    if (is_due("late", command)) {
        queue->late = CL_OUT_OF_RESOURCES;
    }
    if (is_due("hang", command)) {
        queue->is_hanging = 1;
    }
    for (int i = 0; queue->is_hanging && i < 2; i++) {
        cl_mem used = i ? other : one;
        if (used) {
            used->in_flight++;
        }
    }
    pthread_mutex_unlock(&lock);
    return *code == CL_SUCCESS && !queue->is_hanging;
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count, const cl_event *events, cl_event *event)
{
    (void)count, (void)events;
    return queue->context->is_lost ? CL_DEVICE_NOT_AVAILABLE : put_event(queue, event);
}

cl_int clGetEventInfo(cl_event event, cl_uint name, size_t size, void *value, size_t *needed)
{
    (void)name;
    pthread_mutex_lock(&lock);
    cl_int status = event->status;
    pthread_mutex_unlock(&lock);
    return told(&status, sizeof(status), size, value, needed);
}

cl_int clSetEventCallback(cl_event event, cl_int when, opencl_event_callback callback, void *given)
{
    (void)when;
    pthread_mutex_lock(&lock);
    int is_over = event->status <= CL_COMPLETE;
    if (!is_over) {
        event->callback = callback;
        event->given = given;
    }
    pthread_mutex_unlock(&lock);
    if (is_over) {
        callback(event, event->status, given);
    }
    return CL_SUCCESS;
}

cl_int clReleaseEvent(cl_event event)
{
    if (is_last(event, EVENT)) {
        free(event);
    }
    return CL_SUCCESS;
}

/* -- buffers ---------------------------------------------------------------------------------- */

cl_mem clCreateBuffer(cl_context context, cl_bitfield flags, size_t size, void *content, cl_int *code)
{
    (void)context;
    pthread_mutex_lock(&lock);
    int is_refused = is_due("memory", buffers++);
    pthread_mutex_unlock(&lock);
    int is_import = (flags & CL_MEM_USE_HOST_PTR) != 0;
    is_refused |= is_import && fault("refused");
    *code = is_refused ? CL_MEM_OBJECT_ALLOCATION_FAILURE : CL_SUCCESS;
    if (is_refused) {
        return NULL;
    }
    cl_mem buffer = made(BUFFER, sizeof(struct _cl_mem));
    buffer->size = size;
    buffer->is_owned = !is_import || fault("shadow");
    buffer->bytes = buffer->is_owned ? calloc(1, size) : content;
    buffer->shown = is_import && buffer->is_owned ? content : NULL;
    if (buffer->shown) {
        memcpy(buffer->bytes, content, size);
    } else if (flags & CL_MEM_COPY_HOST_PTR) {
        memcpy(buffer->bytes, content, size);
        bytes_in += (long)size;
    }
    pthread_mutex_lock(&lock);
    buffer->next = first_buffer;
    first_buffer = buffer;
    pthread_mutex_unlock(&lock);
    return buffer;
}

cl_int clRetainMemObject(cl_mem buffer)
{
    retain(buffer, BUFFER);
    return CL_SUCCESS;
}

cl_int clReleaseMemObject(cl_mem buffer)
{
    if (!is_last(buffer, BUFFER)) {
        return CL_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    violations += buffer->in_flight > 0;
    for (cl_mem *at = &first_buffer; *at; at = &(*at)->next) {
        if (*at == buffer) {
            *at = buffer->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (buffer->is_owned) {
        free(buffer->bytes);
    }
    free(buffer);
    return CL_SUCCESS;
}

static unsigned char *place(cl_mem buffer, size_t offset, size_t bytes)
{
    if (buffer->base.references < 1 || offset > buffer->size || bytes > buffer->size - offset) {
        wrong("a command leaves its buffer");
    }
    return buffer->bytes + offset;
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking, size_t offset, size_t bytes, void *target,
                           cl_uint count, const cl_event *events, cl_event *event)
{
    (void)is_blocking, (void)count, (void)events;
    cl_int code;
    if (begins(queue, buffer, NULL, &code)) {
        memcpy(target, place(buffer, offset, bytes), bytes);
        bytes_out += (long)bytes;
    }
    return code == CL_SUCCESS ? put_event(queue, event) : code;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking, size_t offset, size_t bytes,
                            const void *source, cl_uint count, const cl_event *events, cl_event *event)
{
    (void)is_blocking, (void)count, (void)events;
    cl_int code;
    if (begins(queue, buffer, NULL, &code)) {
        memcpy(place(buffer, offset, bytes), source, bytes);
        bytes_in += (long)bytes;
    }
    return code == CL_SUCCESS ? put_event(queue, event) : code;
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem source, cl_mem target, size_t from, size_t to, size_t bytes,
                           cl_uint count, const cl_event *events, cl_event *event)
{
    (void)count, (void)events;
    cl_int code;
    if (begins(queue, source, target, &code)) {
        memmove(place(target, to, bytes), place(source, from, bytes), bytes);
    }
    return code == CL_SUCCESS ? put_event(queue, event) : code;
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking, cl_bitfield access, size_t offset,
                         size_t bytes, cl_uint count, const cl_event *events, cl_event *event, cl_int *code)
{
    (void)is_blocking, (void)count, (void)events;
    int is_done = begins(queue, buffer, NULL, code);
    if (*code != CL_SUCCESS) {
        return NULL;
    }
    *code = put_event(queue, event);
    unsigned char *seen = place(buffer, offset, bytes);
    if (buffer->shown && is_done) {
        if (buffer->mapped) {
            wrong("a buffer is mapped twice");
        }
        memcpy(buffer->shown + offset, seen, bytes);
        buffer->mapped_at = offset;
        buffer->mapped = bytes;
        buffer->mapped_for = access;
    }
    return buffer->shown ? buffer->shown + offset : seen;
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void *address, cl_uint count, const cl_event *events,
                               cl_event *event)
{
    (void)address, (void)count, (void)events;
    cl_int code;
    if (begins(queue, buffer, NULL, &code) && buffer->mapped) {
        if (buffer->mapped_for & ~(cl_bitfield)CL_MAP_READ) {
            memcpy(buffer->bytes + buffer->mapped_at, buffer->shown + buffer->mapped_at, buffer->mapped);
        }
        buffer->mapped = 0;
    }
    return code == CL_SUCCESS ? put_event(queue, event) : code;
}

/* -- programs and kernels --------------------------------------------------------------------- */

static const char magic[] = "double's binary\n";

static cl_program new_program(const char *source, size_t length)
{
    cl_program program = made(PROGRAM, sizeof(struct _cl_program));
    program->source = calloc(1, length + 1);
    memcpy(program->source, source, length);
    program->log = "";
    return program;
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **sources, const size_t *lengths, cl_int *code)
{
    (void)context, (void)count;
    *code = CL_SUCCESS;
    return new_program(sources[0], lengths[0]);
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices, const size_t *lengths,
                                     const unsigned char **contents, cl_int *status, cl_int *code)
{
    (void)context, (void)count, (void)devices;
    size_t head = strlen(magic);
    if (fault("stale") || lengths[0] < head || memcmp(contents[0], magic, head) != 0) {
        *status = *code = CL_INVALID_BINARY;
        return NULL;
    }
    *status = *code = CL_SUCCESS;
    restores++;
    cl_program program = new_program((const char *)contents[0] + head, lengths[0] - head);
    program->is_built = 1;
    return program;
}

static void ignore(int number)
{
    (void)number;
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options, void *callback,
                      void *given)
{
    (void)count, (void)devices, (void)options, (void)callback, (void)given;
    if (fault("handlers")) {
        signal(SIGINT, ignore);
        signal(SIGSEGV, SIG_IGN);
    }
    if (program->is_built) {
        return CL_SUCCESS;
    }
    builds++;
    const char *refused = fault("build_error");
    if (refused && (!*refused || strstr(program->source, refused))) {
        program->log = "<source>:1:1: error: the double does not like it";
        return CL_BUILD_PROGRAM_FAILURE;
    }
    program->is_built = 1;
    return CL_SUCCESS;
}

cl_int clRetainProgram(cl_program program)
{
    retain(program, PROGRAM);
    return CL_SUCCESS;
}

cl_int clReleaseProgram(cl_program program)
{
    if (is_last(program, PROGRAM)) {
        free(program->source);
        free(program);
    }
    return CL_SUCCESS;
}

cl_int clGetProgramInfo(cl_program program, cl_uint name, size_t size, void *value, size_t *needed)
{
    size_t head = strlen(magic), length = head + strlen(program->source);
    if (name == CL_PROGRAM_BINARY_SIZES) {
        return told(&length, sizeof(length), size, value, needed);
    }
    unsigned char *target = *(unsigned char **)value;
    memcpy(target, magic, head);
    memcpy(target + head, program->source, length - head);
    return CL_SUCCESS;
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_uint name, size_t size, void *value, size_t *needed)
{
    (void)device, (void)name;
    return text(program->log, size, value, needed);
}

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *code)
{
    *code = strstr(program->source, name) ? CL_SUCCESS : CL_INVALID_BINARY;
    if (*code != CL_SUCCESS) {
        return NULL;
    }
    cl_kernel kernel = made(KERNEL, sizeof(struct _cl_kernel));
    retain(program, PROGRAM);
    kernel->program = program;
    return kernel;
}

cl_int clReleaseKernel(cl_kernel kernel)
{
    if (is_last(kernel, KERNEL)) {
        clReleaseProgram(kernel->program);
        free(kernel);
    }
    return CL_SUCCESS;
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    if (index >= 32 || (value && size > 256)) {
        wrong("an argument of this kind was not expected");
    }
    kernel->arguments[index].size = size;
    if (value) {
        memcpy(kernel->arguments[index].value, value, size);
    }
    if (index >= kernel->n_arguments) {
        kernel->n_arguments = index + 1;
    }
    return CL_SUCCESS;
}

/* The buffer that an argument is, and the offset in the next one; NULL if it is no buffer. */
static cl_mem buffer_of(const cl_kernel kernel, cl_uint index, uint64_t *offset)
{
    cl_mem buffer = NULL;
    if (kernel->arguments[index].size == sizeof(cl_mem)) {
        void *given;
        memcpy(&given, kernel->arguments[index].value, sizeof(given));
        pthread_mutex_lock(&lock);
        for (buffer = first_buffer; buffer && (void *)buffer != given; buffer = buffer->next) {
        }
        pthread_mutex_unlock(&lock);
        memcpy(offset, kernel->arguments[index + 1].value, sizeof(*offset));
    }
    return buffer;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t *start,
                              const size_t *global, const size_t *local, cl_uint count, const cl_event *events, cl_event *event)
{
    (void)dimensions, (void)start, (void)global, (void)local, (void)count, (void)events;
    cl_mem from = NULL, to = NULL;
    uint64_t at = 0, from_offset = 0, to_offset = 0;
    uint32_t elements;
    for (cl_uint i = 0; i + 1 < kernel->n_arguments; i++) {
        cl_mem buffer = buffer_of(kernel, i, &at);
        if (buffer && !from) {
            from = buffer;
            from_offset = at;
        } else if (buffer) {
            to = buffer;
            to_offset = at;
        }
    }
    if (!to || kernel->arguments[kernel->n_arguments - 1].size != sizeof(elements)) {
        wrong("a kernel of this kind was not expected");
    }
    memcpy(&elements, kernel->arguments[kernel->n_arguments - 1].value, sizeof(elements));
    cl_int code;
    if (begins(queue, from, to, &code)) {
        memmove(place(to, to_offset, 4ul * elements), place(from, from_offset, 4ul * elements), 4ul * elements);
    }
    return code == CL_SUCCESS ? put_event(queue, event) : code;
}

/* All that the backend asks of a library is here, with these types. */
#define ENTRY(type, name, parameters) .name = name,
extern const opencl double_table;
const opencl double_table = {OPENCL_FUNCTIONS(ENTRY)};
