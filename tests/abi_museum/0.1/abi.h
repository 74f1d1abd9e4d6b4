/* The kernel protocol: the one binary promise between the core and a backend.
 *
 * Rules of evolution
 *   - Every struct begins with its own size in bytes, as the side that filled it in knew it. Fields are only ever appended;
 *     a reader checks DOVETAIL_HAS before it touches a field that is younger than the struct.
 *   - Majors must match; a backend's minor is at most the core's. Both stand in the error otherwise.
 *   - While the major is 0 a minor may break; the majors freeze once several backends have lived on them.
 *
 * Rules of calling
 *   - The functions of the host table take the very `call` that execute was given, not a copy of it.
 *   - execute() runs without the GIL, on any thread, never raises and never blocks on Python.
 *   - Nothing here is freed by the side that did not create it.
 *   - Tensors are C-contiguous. Tensors planned by the core are 64-byte aligned, but for views into others (DOVETAIL_ALIAS_VIEW
 *     with an offset); those, and a caller's own arrays, are aligned to their element only. No kernel reads or writes past an end.
 *   - Constant inputs are always host memory, valid and unchanged for the life of the workload.
 *   - An optional input that is left out in the middle has data NULL and ndim -1; left-out ones at the end are not counted.
 *   - A workload's capsule holds a dovetail_workload allocated with PyMem_RawMalloc or PyMem_RawCalloc: whoever ends up with it
 *     (the core once it took it, else the capsule's destructor) calls release(state) and then PyMem_RawFree on the struct.
 *     dovetail_queues is freed by its own release(state), or by the capsule's owner if that is NULL.
 */
#ifndef DOVETAIL_ABI_H
#define DOVETAIL_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DOVETAIL_ABI_MAJOR 0
#define DOVETAIL_ABI_MINOR 1

#define DOVETAIL_WORKLOAD_CAPSULE "dovetail.workload.v0"
#define DOVETAIL_USED_WORKLOAD_CAPSULE "used_dovetail.workload.v0"
#define DOVETAIL_QUEUES_CAPSULE "dovetail.queues.v0"
#define DOVETAIL_USED_QUEUES_CAPSULE "used_dovetail.queues.v0"

/* True if the struct that p points at is recent enough to have the field. */
#define DOVETAIL_HAS(p, field) ((p)->size >= offsetof(__typeof__(*(p)), field) + sizeof((p)->field))

/* Status codes of execute, parallel_for, queue_wait and create_run. Positive codes are the backend's own. */
enum {
    DOVETAIL_OK = 0,
    DOVETAIL_FAILED = -1,       /* fail() was called, or the cause is unknown */
    DOVETAIL_CANCELLED = -2,    /* the run was cancelled or timed out: return at once */
    DOVETAIL_OUT_OF_MEMORY = -3,
    DOVETAIL_PENDING = -4,      /* queue_wait: the deadline passed, work is still in flight */
    DOVETAIL_FORKED = -5        /* the device does not survive fork() */
};

/* A tensor, laid out exactly as DLPack's DLTensor (dmlc/dlpack, ABI 1): the address is data + byte_offset. */
typedef struct {
    int32_t device_type;        /* DLPack DLDeviceType: 1 is the CPU */
    int32_t device_id;
} dovetail_device;

typedef struct {
    uint8_t code;               /* DLPack DLDataTypeCode: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool */
    uint8_t bits;
    uint16_t lanes;
} dovetail_dtype;

typedef struct {
    void *data;
    dovetail_device device;
    int32_t ndim;
    dovetail_dtype dtype;
    int64_t *shape;
    int64_t *strides;           /* in elements; never NULL in a call */
    uint64_t byte_offset;
} dovetail_tensor;

struct dovetail_call;

/* One chunk [begin, end) of a parallel range. `worker` is below call->workers and is held by one thread at a time. */
typedef void (*dovetail_body)(int64_t begin, int64_t end, int32_t worker, void *arg);

/* What the core lends to a running workload. Every function may be called from pool threads too. */
typedef struct {
    size_t size;
    uint32_t abi_major;         /* negotiated: what both sides use */
    uint32_t abi_minor;
    /* Run body over [0, range) in chunks of `grain` (the last may be shorter); the chunks depend on these two numbers
     * alone, never on the number of threads. Nested, or with the pool busy, it runs inline. Returns once every chunk is
     * done, or DOVETAIL_CANCELLED / DOVETAIL_FAILED when the run ended early: return that code from execute. */
    int (*parallel_for)(const struct dovetail_call *call, int64_t range, int64_t grain, dovetail_body body, void *arg);
    /* Non-zero once the run should end: poll it every millisecond or so inside a long kernel. Costs about one load. */
    int (*is_cancelled)(const struct dovetail_call *call);
    /* Record why the step fails; the first one wins, its message is copied. Returns `code`, so that `return host->fail(...)` reads well. */
    int (*fail)(const struct dovetail_call *call, int code, const char *message);
    /* Name a moment inside a step for the profile; `name` must outlive the run. Free when profiling is off. */
    void (*profile_mark)(const struct dovetail_call *call, const char *name);
    /* A named table beyond this one, or NULL: how new services arrive without a new major. */
    const void *(*extension)(const char *name);
} dovetail_host;

/* All that one execution of a step sees. */
typedef struct dovetail_call {
    size_t size;
    const dovetail_host *host;
    void *context;              /* the core's own */
    const dovetail_tensor *inputs;
    const dovetail_tensor *outputs;
    int32_t n_inputs;
    int32_t n_outputs;
    void *workspace;            /* shared part: 64-byte aligned, uninitialised, or NULL if none was asked for */
    void *worker_workspace;     /* part of worker w: (char *)worker_workspace + w * worker_stride */
    size_t worker_stride;
    void *run_data;             /* from create_run */
    void *queue;                /* of an asynchronous backend */
    int32_t workers;            /* parallel_for never uses more */
} dovetail_call;

/* Where an output may share bytes with an input. All are permissions: execute works either way and sees from the addresses
 * whether the core took them up. */
enum {
    DOVETAIL_ALIAS_VIEW = 1,    /* output is the bytes of input from `offset`, unchanged: reshape, split */
    DOVETAIL_ALIAS_IN_PLACE = 2,/* output may overwrite input (same size), which dies here: elementwise */
    DOVETAIL_ALIAS_PART = 3     /* input may already lie inside output at `offset`: concat along the outermost axis */
};

typedef struct {
    int32_t relation;
    int32_t output;
    int32_t input;
    int32_t reserved;
    int64_t offset;             /* bytes */
} dovetail_alias;

enum {
    DOVETAIL_WORKLOAD_ASYNC = 1,        /* execute only enqueues on call->queue */
    DOVETAIL_WORKLOAD_ELIDABLE = 2,     /* nothing to do once every alias was taken up: the step disappears */
    DOVETAIL_WORKLOAD_NONDETERMINISTIC = 4
};

enum {
    DOVETAIL_CONCURRENCY_ANY = 0,       /* any number of runs at once */
    DOVETAIL_CONCURRENCY_NETWORK = 1,   /* one run of this network at a time */
    DOVETAIL_CONCURRENCY_DEVICE = 2     /* one run on this backend's device at a time */
};

typedef int (*dovetail_execute)(void *state, const dovetail_call *call);
typedef void (*dovetail_release)(void *state);
/* Bytes of scratch for these tensors (data is NULL): shared, and per worker. */
typedef int (*dovetail_workspace)(void *state, const dovetail_tensor *inputs, const dovetail_tensor *outputs, int32_t workers,
                                  size_t *shared, size_t *per_worker);
typedef int (*dovetail_create_run)(void *state, void *queue, void **run_data);
typedef void (*dovetail_release_run)(void *state, void *run_data);

/* The work horse of one layer: a function and its state. Zero-fill, set `size` and the versions, fill in what applies. */
typedef struct {
    size_t size;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t flags;
    uint32_t concurrency;
    void *state;                                                /* read-only while running */
    dovetail_execute execute;
    dovetail_release release;           /* (optional) free state; called once, by the core alone */
    dovetail_workspace workspace;       /* (optional) default: none; always host memory */
    dovetail_create_run create_run;     /* (optional) what one run needs for itself; pooled, never shared by two runs at once */
    dovetail_release_run release_run;
    const dovetail_alias *aliases;                              /* owned by state */
    int32_t n_aliases;
    int32_t reserved;
    size_t private_bytes;                                       /* memory this workload holds beyond what the core plans */
} dovetail_workload;

/* The queues of an asynchronous backend: one per run in flight, each carrying out its work in order (in-place aliases rely on it).
 * Called without the GIL. */
typedef struct {
    size_t size;
    uint32_t abi_major;
    uint32_t abi_minor;
    void *state;
    int (*queue_create)(void *state, int32_t device, void **queue);
    /* Wait until all enqueued work is done, or until CLOCK_MONOTONIC nanoseconds `deadline` (DOVETAIL_PENDING). A failure of
     * enqueued work is returned here, once. */
    int (*queue_wait)(void *queue, int64_t deadline);
    /* Give up what has not started; a queue_wait afterwards ends soon, whatever it answers, and then no memory of the run is
     * touched any more. */
    void (*queue_abort)(void *queue);
    void (*queue_destroy)(void *queue);
    const char *(*queue_error)(void *queue);                    /* (optional) text of the last failed wait */
    void (*release)(void *state);                               /* (optional) */
} dovetail_queues;

#ifdef __cplusplus
}
#define DOVETAIL_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define DOVETAIL_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

#if UINTPTR_MAX == UINT64_MAX
DOVETAIL_STATIC_ASSERT(sizeof(dovetail_tensor) == 48, "dovetail_tensor must match DLTensor");
DOVETAIL_STATIC_ASSERT(sizeof(dovetail_host) == 56, "dovetail_host");
DOVETAIL_STATIC_ASSERT(sizeof(dovetail_call) == 96, "dovetail_call");
DOVETAIL_STATIC_ASSERT(sizeof(dovetail_alias) == 24, "dovetail_alias");
DOVETAIL_STATIC_ASSERT(sizeof(dovetail_workload) == 96, "dovetail_workload");
DOVETAIL_STATIC_ASSERT(sizeof(dovetail_queues) == 72, "dovetail_queues");
#endif

#endif
