/* The kernel protocol: the one binary promise between the core and a backend.
 *
 * Rules of evolution
 *   - Every struct begins with its own size in bytes, as the side that filled it in knew it. Fields
 *     are only ever appended; a reader checks DOVETAIL_HAS before it touches a field that is
 *     younger than the struct.
 *   - Majors must match; a backend's minor is at most the core's. Both stand in the error
 *     otherwise.
 *   - While the major is 0 a minor may break; the majors freeze once several backends have lived on
 *     them.
 *
 * Rules of calling
 *   - The functions of the host table take the very `call` that execute was given, not a copy.
 *   - execute() runs without the GIL, on any thread, never raises and never blocks on Python.
 *   - Nothing here is freed by the side that did not create it.
 *   - Tensors are C-contiguous. Tensors planned by the core are 64-byte aligned, but for views into
 *     others (DOVETAIL_ALIAS_VIEW with an offset); those, and a caller's own arrays, are aligned to
 *     their element only. No kernel reads or writes past an end.
 *   - Constant inputs are always host memory, valid and unchanged for the life of the workload.
 *   - An optional input that is left out in the middle has data NULL and ndim -1; left-out ones at
 *     the end are not counted.
 *   - A workload's capsule holds a dovetail_workload allocated with PyMem_RawMalloc or
 *     PyMem_RawCalloc: whoever ends up with it (the core once it took it, else the capsule's
 *     destructor) calls release(state) and then PyMem_RawFree on the struct. dovetail_queues is
 *     freed by its own release(state), or by the capsule's owner if that is NULL.
 */
#ifndef DOVETAIL_ABI_H
#define DOVETAIL_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DOVETAIL_ABI_MAJOR 0
#define DOVETAIL_ABI_MINOR 2

#define DOVETAIL_WORKLOAD_CAPSULE "dovetail.workload.v0"
#define DOVETAIL_USED_WORKLOAD_CAPSULE "used_dovetail.workload.v0"
#define DOVETAIL_QUEUES_CAPSULE "dovetail.queues.v0"
#define DOVETAIL_USED_QUEUES_CAPSULE "used_dovetail.queues.v0"

/* True if the struct that p points at is recent enough to have the field. */
#define DOVETAIL_HAS(p, field) ((p)->size >= offsetof(__typeof__(*(p)), field) + sizeof((p)->field))

/* Status codes of execute, parallel_for, queue_wait and create_run. Positive codes are the
 * backend's own. */
enum {
    DOVETAIL_OK = 0,
    DOVETAIL_FAILED = -1,       /* fail() was called, or the cause is unknown */
    DOVETAIL_CANCELLED = -2,    /* the run was cancelled or timed out: return at once */
    DOVETAIL_OUT_OF_MEMORY = -3,
    DOVETAIL_PENDING = -4,      /* queue_wait: the deadline passed, work is still in flight */
    DOVETAIL_FORKED = -5        /* the device does not survive fork() */
};

/* A tensor, laid out exactly as DLPack's DLTensor (dmlc/dlpack, ABI 1): the address is data +
 * byte_offset. */
typedef struct {
    int32_t device_type;        /* DLPack DLDeviceType: DOVETAIL_ON_HOST or DOVETAIL_ON_DEVICE */
    int32_t device_id;
} dovetail_device;

enum {
    DOVETAIL_ON_HOST = 1,       /* data is an address */
    DOVETAIL_ON_DEVICE = 12     /* data is what the backend said when the memory was allocated */
};

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

/* One chunk [begin, end) of a parallel range. `worker` is below call->workers and is held by one
 * thread at a time. */
typedef void (*dovetail_body)(int64_t begin, int64_t end, int32_t worker, void *arg);

/* What the core lends to a running workload. Every function may be called from pool threads too. */
typedef struct {
    size_t size;
    uint32_t abi_major;         /* negotiated: what both sides use */
    uint32_t abi_minor;
    /* Run body over [0, range) in chunks of `grain` (the last may be shorter); the chunks depend on
     * these two numbers alone, never on the number of threads. Nested, or with the pool busy, it
     * runs inline. Returns once every chunk is done, or DOVETAIL_CANCELLED / DOVETAIL_FAILED when
     * the run ended early: return that code from execute. */
    int (*parallel_for)(const struct dovetail_call *call, int64_t range, int64_t grain, dovetail_body body, void *arg);
    /* Non-zero once the run should end: poll it every millisecond or so inside a long kernel. Costs
     * about one load. */
    int (*is_cancelled)(const struct dovetail_call *call);
    /* Record why the step fails; the first one wins, its message is copied. Returns `code`, so that
     * `return host->fail(...)` reads well. */
    int (*fail)(const struct dovetail_call *call, int code, const char *message);
    /* Name a moment inside a step for the profile; `name` must outlive the run. Free when profiling
     * is off. */
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
    void *workspace;            /* shared part: uninitialised, or NULL if none was asked for. 64-byte
                                 * aligned in host memory, else what memory_allocate gave, and
                                 * workspace_offset bytes behind it */
    void *worker_workspace;     /* part of worker w: (char *)worker_workspace + w * worker_stride */
    size_t worker_stride;
    void *run_data;             /* from create_run */
    void *queue;                /* of an asynchronous backend */
    int32_t workers;            /* parallel_for never uses more */
    int32_t flags;              /* DOVETAIL_CALL_... */
    size_t workspace_offset;    /* of a workspace in memory of the backend, else 0 */
} dovetail_call;

enum {
    /* The tensors in host memory lie in the same place in every run of call->queue, and live until
     * queue_destroy: what a backend makes of their addresses may be kept that long. Without it,
     * until the wait behind the step. */
    DOVETAIL_CALL_BOUND = 1
};

/* Where an output may share bytes with an input. All are permissions: execute works either way and
 * sees from the addresses whether the core took them up. */
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

/* The work horse of one layer: a function and its state. Zero-fill, set `size` and the versions,
 * fill in what applies. */
typedef struct dovetail_workload {
    size_t size;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t flags;
    uint32_t concurrency;
    void *state;                                                /* read-only while running */
    dovetail_execute execute;
    dovetail_release release;           /* (optional) free state; called once, by the core alone */
    dovetail_workspace workspace;       /* (optional) default: none */
    dovetail_create_run create_run;     /* (optional) what one run needs for itself; pooled, never shared by two runs at once */
    dovetail_release_run release_run;
    const dovetail_alias *aliases;                              /* owned by state */
    int32_t n_aliases;
    /* Where the workspace lies. 0: host memory; n: number n - 1 of the backend's memories, where
     * there are no parts of workers. */
    int32_t workspace_memory;
    size_t private_bytes;                                       /* memory this workload holds beyond what the core plans */
    /* (optional) Write what a later process needs to have this workload again without making it:
     * what IWorkloadFactory.restore_workload takes. Return how many bytes that is, and write
     * nothing if `room` is less; 0: this one has to be made. `into` is aligned to 64 bytes. `self`
     * is as it was handed over. */
    size_t (*snapshot)(const struct dovetail_workload *self, void *into, size_t room);
} dovetail_workload;

/* A piece of work of a device, such as a kernel or a transfer; a step has any number of them. */
typedef struct {
    size_t size;
    const dovetail_call *call;  /* of the step: what execute was given */
    const char *name;           /* (optional) what it is; lives as long as the workload */
    int64_t begin;              /* when the device began with it, and when it was done: nanoseconds on the device's clock */
    int64_t end;
} dovetail_span;

/* The queues of an asynchronous backend: one per run in flight, each carrying out its work in order
 * (in-place aliases rely on it). Called without the GIL. */
typedef struct {
    size_t size;
    uint32_t abi_major;
    uint32_t abi_minor;
    void *state;
    int (*queue_create)(void *state, int32_t device, void **queue);
    /* Wait until all enqueued work is done, or until CLOCK_MONOTONIC nanoseconds `deadline`
     * (DOVETAIL_PENDING). A failure of enqueued work is returned here, once. */
    int (*queue_wait)(void *queue, int64_t deadline);
    /* Give up what has not started; a queue_wait afterwards ends soon, whatever it answers, and
     * then no memory of the run is touched any more. */
    void (*queue_abort)(void *queue);
    void (*queue_destroy)(void *queue);
    const char *(*queue_error)(void *queue);                    /* (optional) text of the last failed wait */
    void (*release)(void *state);                               /* (optional) */
    /* (optional, with queue_span) Begin, or where `wanted` is 0 end, to note when the device works:
     * for profiles. Nothing is in flight. A new queue notes nothing, and is not slower than one
     * that cannot. */
    int (*queue_profile)(void *queue, int32_t wanted);
    /* Fill in span number `index`, counted from 0 in the order of enqueueing, of what was enqueued
     * since queue_profile: it comes zeroed, with the core's `size`; set `size` to yours. 1: there
     * are no more. Everything was waited for. */
    int (*queue_span)(void *queue, int32_t index, dovetail_span *span);
    /* (optional) default: the device's clock is CLOCK_MONOTONIC. Read both at one moment, as nearly
     * as can be: nanoseconds. Nothing is in flight, and spans are noted. */
    int (*queue_clock)(void *queue, int64_t *device, int64_t *host);
} dovetail_queues;

/* ---- The backend table: a backend in a plain shared library, without Python ---------------------
 *
 * A library exports one function, DOVETAIL_OPEN_BACKEND, and carries its manifest in an ELF section
 * (DOVETAIL_MANIFEST), so that it can be listed and refused without being opened. The core makes an
 * `IBackend` of the table; `interfaces.py` says what the parts are for.
 *
 *   - The core calls into one table from one thread at a time (workloads and queues apart: see
 *     above), without the GIL.
 *   - What the core hands in is valid during the call only, but for constants
 *     (`dovetail_tensor_info.constant`), the host table and what a struct says lives longer. What
 *     the backend hands out lives until the function that ends it, else until close.
 *   - Texts are UTF-8 and end with NUL. A function that fails fills in `why` and returns a negative
 *     status; its other outputs stay as they were.
 *   - No exception leaves the library; no function here calls into Python.
 *   - A pointer that is NULL means: not there, the default that stands beside it holds.
 */

#define DOVETAIL_OPEN_BACKEND dovetail_open_backend_v0
#define DOVETAIL_OPEN_BACKEND_SYMBOL "dovetail_open_backend_v0"
#define DOVETAIL_MANIFEST_SECTION ".dovetail"

/* Put the manifest, a JSON text as in `dovetail-backend.json`, into the library: once, at file
 * scope. */
#define DOVETAIL_MANIFEST(json) \
    __attribute__((section(DOVETAIL_MANIFEST_SECTION), used)) static const char dovetail_manifest_text[] = json

/* Why something was refused or failed. The core hands it in empty; see dovetail_refuse and
 * dovetail_fail in layer_view.h. */
typedef struct {
    size_t size;
    char code[32];              /* stable word: "dtype", "attribute", "shape", "kind", "memory", "device", ... */
    char subject[96];           /* the attribute or input to blame, or empty */
    char text[1024];            /* a sentence: what was found, what would be taken */
} dovetail_answer;

enum {
    DOVETAIL_ATTRIBUTE_NONE = 0,        /* an optional attribute that is not given */
    DOVETAIL_ATTRIBUTE_BOOL = 1,        /* integers[0] is 0 or 1 */
    DOVETAIL_ATTRIBUTE_INT = 2,
    DOVETAIL_ATTRIBUTE_FLOAT = 3,
    DOVETAIL_ATTRIBUTE_STRING = 4,      /* enums cross as their value, which is a string */
    DOVETAIL_ATTRIBUTE_INTS = 5,
    DOVETAIL_ATTRIBUTE_FLOATS = 6,
    DOVETAIL_ATTRIBUTE_STRINGS = 7,
    DOVETAIL_ATTRIBUTE_TENSOR = 8
};

/* One attribute of a layer, or one option. Of the four pointers the one of its type is set; scalars
 * are lists of one. An attribute that is a quantization crosses as three: name.scale (FLOATS),
 * name.zero_point (INTS), name.axis (INT, or NONE: one for all). */
typedef struct {
    size_t size;
    const char *name;
    int32_t type;
    int32_t since;                      /* version of the kind that brought it */
    int64_t count;                      /* elements of the list; 0 for NONE */
    const int64_t *integers;            /* BOOL, INT, INTS */
    const double *reals;                /* FLOAT, FLOATS */
    const char *const *strings;         /* STRING, STRINGS */
    const dovetail_tensor *tensor;      /* TENSOR: in host memory */
} dovetail_attribute;

typedef struct {
    size_t size;
    const dovetail_attribute *const *items;
    int32_t count;
    int32_t reserved;
} dovetail_attributes;

/* What is known of a tensor beforehand: real = scale * (q - zero_point). */
typedef struct {
    size_t size;
    int32_t id;                         /* equal for the same tensor within one subgraph */
    int32_t ndim;
    dovetail_dtype dtype;
    int32_t axis;                       /* of per-axis quantization; -1: one scale for all */
    const int64_t *shape;
    const double *scales;               /* NULL: not quantized */
    const int64_t *zero_points;         /* as many as there are scales */
    int32_t n_scales;
    int32_t reserved;
    const void *constant;               /* value of a constant, C-contiguous, else NULL; see each function for how long it lives */
} dovetail_tensor_info;

typedef struct {
    size_t size;
    const char *kind;                   /* such as "dovetail.Convolution2d" */
    const char *name;
    int32_t version;                    /* schema version of the kind that the core speaks */
    int32_t n_inputs;
    int32_t n_outputs;
    int32_t reserved;
    const dovetail_tensor_info *const *inputs;  /* an entry is NULL for an optional input that is left out */
    const dovetail_tensor_info *const *outputs;
    dovetail_attributes attributes;
} dovetail_layer;

/* A convex part of the graph. Tensors are told apart by their id. In a network that is loaded
 * without optimization each layer is a part of its own. */
typedef struct {
    size_t size;
    const dovetail_layer *const *layers;        /* producers before consumers */
    const dovetail_tensor_info *const *inputs;  /* from outside, constants apart: the inputs of the compiled workload */
    const dovetail_tensor_info *const *outputs; /* read outside: the outputs of the compiled workload */
    int32_t n_layers;
    int32_t n_inputs;
    int32_t n_outputs;
    int32_t reserved;
} dovetail_subgraph;

/* An option that users may give by name, with its type and default. */
typedef struct {
    size_t size;
    const dovetail_attribute *value;
    const char *description;
} dovetail_option;

/* The newest schema version that the backend knows of a kind; kinds that are not listed count as
 * version 1. */
typedef struct {
    size_t size;
    const char *kind;
    int32_t version;
    int32_t reserved;
} dovetail_kind_version;

enum {
    DOVETAIL_BACKEND_DETERMINISTIC = 1,         /* the same input gives the same bits, whatever else runs */
    DOVETAIL_BACKEND_ASYNC = 2,                 /* workloads may enqueue: `queues` must be there */
    DOVETAIL_BACKEND_FLOAT16 = 4,               /* layers may be converted to float16 for it */
    DOVETAIL_BACKEND_BFLOAT16 = 8,
    DOVETAIL_BACKEND_INTEGERS = 16              /* dequantize - compute - quantize becomes one layer of bytes where it takes that */
};

enum {
    DOVETAIL_DEVICE_READY = 0,
    DOVETAIL_DEVICE_DRIVER_MISSING = 1,
    DOVETAIL_DEVICE_ABSENT = 2,
    DOVETAIL_DEVICE_BUSY = 3
};

enum {
    DOVETAIL_ARTEFACT_OK = 0,
    DOVETAIL_ARTEFACT_RECOMPILE = 1,            /* of another compiler or driver: compile again */
    DOVETAIL_ARTEFACT_UNUSABLE = 2              /* damaged, or of another backend or device */
};

enum {
    DOVETAIL_HOST_MEMORY = -1           /* where the number of a memory of the backend may stand */
};

enum {
    DOVETAIL_MAP_READ = 1,              /* the host reads what the device wrote */
    DOVETAIL_MAP_WRITE = 2              /* the host writes all of it, and reads nothing */
};

/* A device, as its backend states it: what is known without opening it. Texts and facts stay where
 * they are until close. Every question about a layer, a part or an artefact is handed the device
 * that it is asked for. */
typedef struct {
    size_t size;
    int32_t index;                      /* set by the core */
    int32_t half_precision;             /* 1: it computes in float16; -1: it does not; 0: not said */
    uint64_t memory_bytes;              /* of its own; 0: not said */
    const char *name;                   /* for people; NULL: "device N" */
    const char *revision;               /* of the chip and what else decides; NULL: not said */
    dovetail_attributes facts;          /* (optional) whatever else its own code asks for: BOOL, INT, FLOAT, STRING */
} dovetail_device_info;

/* A memory of the backend's own: one of several, each known by its number. */
typedef struct {
    size_t size;
    const char *kind;                   /* its own name for it, such as "sram" */
    size_t alignment;                   /* every planned offset is a multiple of it: a power of two */
    int32_t offsets;                    /* non-zero: tensors may lie at offsets in one allocation */
    int32_t host_visible;               /* non-zero: the host can map it: the core copies by memory_map, not by create_copy */
    int32_t images;                     /* non-zero: image_allocate allocates, for each tensor */
    /* Non-zero, in any of them: the device shares memory with the host, and every step reads and
     * writes tensors there in place as well. See DOVETAIL_ON_HOST and DOVETAIL_CALL_BOUND. */
    int32_t imports_host;
} dovetail_memory;

/* What the user lets a backend have of the host: known wherever something is made that lasts. */
typedef struct {
    size_t size;
    /* CPU threads that may work for it at a time, the caller's included. parallel_for keeps this
     * limit anyway; a library whose threads are fixed when a session is made gets this number. */
    int32_t threads;
    int32_t reserved;
} dovetail_resources;

/* How far a compilation is. */
typedef struct {
    size_t size;
    void *context;                      /* the core's own */
    /* Tell the fraction done, 0 to 1, and what is being done. Non-zero: the caller gave up, return
     * DOVETAIL_CANCELLED soon. */
    int (*report)(void *context, double fraction, const char *what);
} dovetail_progress;

/* Takes the bytes of an artefact, in order. Returns a status. */
typedef int (*dovetail_write)(void *sink, const void *bytes, size_t count);

/* What the core lends to a table; valid until close has returned. */
typedef struct {
    size_t size;
    uint32_t abi_major;                 /* the core's while the backend opens, then the negotiated ones */
    uint32_t abi_minor;
    const char *library;                /* path of the library, so that it finds the files beside it */
    void (*log)(int32_t level, const char *text);       /* levels as Python's logging: 10 debug, 20 info, 30 warning, 40 error */
    const void *(*extension)(const char *name);         /* a named table beyond this one, or NULL */
} dovetail_backend_host;

typedef struct {
    size_t size;
    uint32_t abi_major;                 /* what the backend was built for: DOVETAIL_ABI_MAJOR, DOVETAIL_ABI_MINOR */
    uint32_t abi_minor;
    const char *id;                     /* equals the manifest's */
    const char *version;                /* of the backend */
    uint32_t capabilities;              /* DOVETAIL_BACKEND_... */
    int32_t n_options;
    int32_t n_kind_versions;
    int32_t n_devices;
    const dovetail_option *const *options;
    const dovetail_kind_version *const *kind_versions;
    void *state;                        /* first argument of what follows */

    /* Without a device: called on machines that have none, too. */

    /* (optional) default: a name and no facts. Fill in `info`: it comes zeroed, with the core's
     * `size`; set `size` to yours. */
    int (*device_info)(void *state, int32_t device, dovetail_device_info *info, dovetail_answer *why);
    int (*device_state)(void *state, int32_t device, dovetail_answer *why);     /* (optional) default: READY */
    /* (optional) default: the claims of the manifest decide. Asked about layers that are claimed,
     * for what claims cannot say. 1: yes; 0: no, with code, text and subject in `why`. The same
     * layer gets the same answer for the same device. Constants show their value. */
    int (*supports)(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                    const dovetail_attributes *options, dovetail_answer *why);
    /* (optional) default: with compile_subgraph, OK. Say whether a part of layers that `supports`
     * accepted will be compiled into one step. Compile nothing: users ask where layers would go.
     * OK: yes, and `answer->text` may say in words what the step is, for reports: "convolution +
     * ReLU, 3 x 3 in one pass". 1: leave the part to create_workload. Negative: the part is placed
     * on another backend, and `answer` is shown. */
    int (*claim_subgraph)(void *state, const dovetail_device_info *device, const dovetail_subgraph *subgraph,
                          const dovetail_attributes *options, dovetail_answer *answer);
    /* (optional) default: one workload per layer. Compile a part that was claimed; called when a
     * network is loaded. OK: *compiled is set. Negative: the part goes back, to the next backend
     * that the user named, and `why` is shown. Constants live as long as what was compiled. */
    int (*compile_subgraph)(void *state, const dovetail_device_info *device, const dovetail_subgraph *subgraph,
                            const dovetail_resources *resources, const dovetail_attributes *options,
                            const dovetail_progress *progress, void **compiled, dovetail_answer *why);
    void (*compiled_release)(void *state, void *compiled);      /* every workload made of it is gone */
    /* (optional, all three or none) An artefact is what was compiled, as bytes to keep. It holds no
     * pointers into constants, so that one that was loaded needs none of them. */
    int (*artefact_save)(void *state, void *compiled, dovetail_write write, void *sink, dovetail_answer *why);
    int (*artefact_check)(void *state, const dovetail_device_info *device, const void *bytes, size_t count,
                          dovetail_answer *why);        /* DOVETAIL_ARTEFACT_... */
    int (*artefact_load)(void *state, const dovetail_device_info *device, const dovetail_resources *resources, const void *bytes,
                         size_t count, void **compiled, dovetail_answer *why);

    /* With a device: a context is open for the life of a runtime. */

    /* (optional) default: context is NULL. Fails with the code "driver_missing", "no_device" or
     * "device_busy" where it applies. */
    int (*context_open)(void *state, int32_t device, const dovetail_resources *resources, const dovetail_attributes *options,
                        void **context, dovetail_answer *why);
    void (*context_close)(void *state, void *context);
    /* Fill in `workload`: it comes zeroed, with the core's `size`; set `size` to yours. Constants
     * live as long as the workload. */
    int (*create_workload)(void *state, void *context, const dovetail_layer *layer, const dovetail_resources *resources,
                           const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why);
    int (*create_compiled_workload)(void *state, void *context, void *compiled, const dovetail_resources *resources,
                                    const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why);
    /* Fill in `queues` likewise; needed with DOVETAIL_BACKEND_ASYNC. */
    int (*queues)(void *state, void *context, dovetail_queues *queues, dovetail_answer *why);
    /* (optional) default: plain host memory, shared with every CPU backend. Fill in `memory` number
     * `index`, counted from 0, likewise; 1: there are no more, number 0 apart. Needs no context.
     * Tensors lie in number 0 unless tensor_memory says otherwise. */
    int (*memory)(void *state, int32_t device, int32_t index, dovetail_memory *memory, dovetail_answer *why);
    /* (optional) default: 0. The number of the memory in which a layer reads input `slot`, or
     * writes output `slot`; a tensor that lies elsewhere is copied. `layer` is NULL for inputs and
     * outputs of what was compiled. DOVETAIL_HOST_MEMORY is one too. */
    int32_t (*tensor_memory)(void *state, const dovetail_device_info *device, const dovetail_layer *layer,
                             const dovetail_tensor_info *tensor, int32_t slot, int32_t is_output,
                             const dovetail_attributes *options);
    /* The device is the context's: with more than one device, memory needs context_open. Needed
     * with `memory`, but where all memories have images. */
    int (*memory_allocate)(void *state, void *context, int32_t memory, size_t bytes, size_t alignment, void **data,
                           dovetail_answer *why);
    void (*memory_release)(void *state, void *context, int32_t memory, void *data);
    /* Let the host see `bytes` bytes from `offset` on until memory_unmap, which makes what the host
     * wrote visible to everything that is enqueued later; needed where a memory is host_visible.
     * Called during a run, on its thread, beside other calls of the table; one mapping of an
     * allocation at a time, once the queue that wrote the tensor was waited for. */
    int (*memory_map)(void *state, void *context, int32_t memory, void *data, size_t offset, size_t bytes, int32_t access,
                      void **address, dovetail_answer *why);
    int (*memory_unmap)(void *state, void *context, int32_t memory, void *data);
    /* Fill in `workload` with a copy of a tensor from one memory to another, one of them
     * DOVETAIL_HOST_MEMORY or both the backend's; needed with `memory`, but between the host and
     * what is host_visible. */
    int (*create_copy)(void *state, void *context, int32_t source, int32_t target, const dovetail_tensor_info *tensor,
                       dovetail_workload *workload, dovetail_answer *why);

    void (*close)(void *state);         /* (optional) nothing of the backend is in use any more */
    const void *(*extension)(void *state, const char *name);    /* (optional) a named table beyond this one */
    /* Needed where a memory has `images`, in the place of memory_allocate: allocate what one tensor
     * lies in, such as an OpenCL image of its shape and element type. Tensors lie in the same one,
     * in turn or in place, only if they agree in both; `offsets` is 0, and no scratch lies there.
     * Neither quantization nor constant is shown; memory_release ends it. */
    int (*image_allocate)(void *state, void *context, int32_t memory, const dovetail_tensor_info *tensor, void **data,
                          dovetail_answer *why);
} dovetail_backend;

/* The one exported function. `table` comes zeroed, with the core's `size`; set `size` to yours.
 * Negative: refused, see `why`. */
typedef int (*dovetail_open_backend)(const dovetail_backend_host *host, dovetail_backend *table, dovetail_answer *why);

#ifdef __cplusplus
}
#define DOVETAIL_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define DOVETAIL_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

#include "abi_layout.h"

#endif
