"""Cython declarations of abi.h, plus the few lines that every workload needs.

Externs and inline helpers only.
"""

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef extern from "abi.h" nogil:
    const int DOVETAIL_ABI_MAJOR
    const int DOVETAIL_ABI_MINOR
    const char *DOVETAIL_WORKLOAD_CAPSULE
    const char *DOVETAIL_USED_WORKLOAD_CAPSULE
    const char *DOVETAIL_QUEUES_CAPSULE
    const char *DOVETAIL_USED_QUEUES_CAPSULE

    enum:
        DOVETAIL_OK
        DOVETAIL_FAILED
        DOVETAIL_CANCELLED
        DOVETAIL_OUT_OF_MEMORY
        DOVETAIL_PENDING
        DOVETAIL_FORKED

    enum:
        DOVETAIL_ALIAS_VIEW
        DOVETAIL_ALIAS_IN_PLACE
        DOVETAIL_ALIAS_PART

    enum:
        DOVETAIL_ON_HOST
        DOVETAIL_ON_DEVICE

    enum:
        DOVETAIL_CALL_BOUND

    enum:
        DOVETAIL_WORKLOAD_ASYNC
        DOVETAIL_WORKLOAD_ELIDABLE
        DOVETAIL_WORKLOAD_NONDETERMINISTIC

    enum:
        DOVETAIL_CONCURRENCY_ANY
        DOVETAIL_CONCURRENCY_NETWORK
        DOVETAIL_CONCURRENCY_DEVICE

    ctypedef struct dovetail_device:
        int32_t device_type
        int32_t device_id

    ctypedef struct dovetail_dtype:
        uint8_t code
        uint8_t bits
        uint16_t lanes

    ctypedef struct dovetail_tensor:
        void *data
        dovetail_device device
        int32_t ndim
        dovetail_dtype dtype
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset

    ctypedef void (*dovetail_body)(int64_t begin, int64_t end, int32_t worker, void *arg) noexcept nogil

    ctypedef struct dovetail_host:
        size_t size
        uint32_t abi_major
        uint32_t abi_minor
        int (*parallel_for)(const dovetail_call *call, int64_t range, int64_t grain, dovetail_body body, void *arg) noexcept nogil
        int (*is_cancelled)(const dovetail_call *call) noexcept nogil
        int (*fail)(const dovetail_call *call, int code, const char *message) noexcept nogil
        void (*profile_mark)(const dovetail_call *call, const char *name) noexcept nogil
        const void *(*extension)(const char *name) noexcept nogil

    ctypedef struct dovetail_call:
        size_t size
        const dovetail_host *host
        void *context
        const dovetail_tensor *inputs
        const dovetail_tensor *outputs
        int32_t n_inputs
        int32_t n_outputs
        void *workspace
        void *worker_workspace
        size_t worker_stride
        void *run_data
        void *queue
        int32_t workers
        int32_t flags
        size_t workspace_offset

    ctypedef struct dovetail_alias:
        int32_t relation
        int32_t output
        int32_t input
        int32_t reserved
        int64_t offset

    ctypedef int (*dovetail_execute)(void *state, const dovetail_call *call) noexcept nogil
    ctypedef void (*dovetail_release)(void *state) noexcept nogil
    ctypedef int (*dovetail_workspace)(
        void *state, const dovetail_tensor *inputs, const dovetail_tensor *outputs, int32_t workers,
        size_t *shared, size_t *per_worker) noexcept nogil
    ctypedef int (*dovetail_create_run)(void *state, void *queue, void **run_data) noexcept nogil
    ctypedef void (*dovetail_release_run)(void *state, void *run_data) noexcept nogil

    ctypedef struct dovetail_workload:
        size_t size
        uint32_t abi_major
        uint32_t abi_minor
        uint32_t flags
        uint32_t concurrency
        void *state
        dovetail_execute execute
        dovetail_release release
        dovetail_workspace workspace
        dovetail_create_run create_run
        dovetail_release_run release_run
        const dovetail_alias *aliases
        int32_t n_aliases
        int32_t workspace_memory
        size_t private_bytes
        size_t (*snapshot)(const dovetail_workload *self, void *into, size_t room) noexcept nogil

    ctypedef struct dovetail_span:
        size_t size
        const dovetail_call *call
        const char *name
        int64_t begin
        int64_t end

    ctypedef struct dovetail_queues:
        size_t size
        uint32_t abi_major
        uint32_t abi_minor
        void *state
        int (*queue_create)(void *state, int32_t device, void **queue) noexcept nogil
        int (*queue_wait)(void *queue, int64_t deadline) noexcept nogil
        void (*queue_abort)(void *queue) noexcept nogil
        void (*queue_destroy)(void *queue) noexcept nogil
        const char *(*queue_error)(void *queue) noexcept nogil
        void (*release)(void *state) noexcept nogil
        int (*queue_profile)(void *queue, int32_t wanted) noexcept nogil
        int (*queue_span)(void *queue, int32_t index, dovetail_span *span) noexcept nogil
        int (*queue_clock)(void *queue, int64_t *device, int64_t *host) noexcept nogil

    const char *DOVETAIL_OPEN_BACKEND_SYMBOL
    const char *DOVETAIL_MANIFEST_SECTION

    ctypedef struct dovetail_answer:
        size_t size
        char code[32]
        char subject[96]
        char text[1024]

    enum:
        DOVETAIL_ATTRIBUTE_NONE
        DOVETAIL_ATTRIBUTE_BOOL
        DOVETAIL_ATTRIBUTE_INT
        DOVETAIL_ATTRIBUTE_FLOAT
        DOVETAIL_ATTRIBUTE_STRING
        DOVETAIL_ATTRIBUTE_INTS
        DOVETAIL_ATTRIBUTE_FLOATS
        DOVETAIL_ATTRIBUTE_STRINGS
        DOVETAIL_ATTRIBUTE_TENSOR

    ctypedef struct dovetail_attribute:
        size_t size
        const char *name
        int32_t type
        int32_t since
        int64_t count
        const int64_t *integers
        const double *reals
        const char *const *strings
        const dovetail_tensor *tensor

    ctypedef struct dovetail_attributes:
        size_t size
        const dovetail_attribute *const *items
        int32_t count
        int32_t reserved

    ctypedef struct dovetail_tensor_info:
        size_t size
        int32_t id
        int32_t ndim
        dovetail_dtype dtype
        int32_t axis
        const int64_t *shape
        const double *scales
        const int64_t *zero_points
        int32_t n_scales
        int32_t reserved
        const void *constant

    ctypedef struct dovetail_layer:
        size_t size
        const char *kind
        const char *name
        int32_t version
        int32_t n_inputs
        int32_t n_outputs
        int32_t reserved
        const dovetail_tensor_info *const *inputs
        const dovetail_tensor_info *const *outputs
        dovetail_attributes attributes

    ctypedef struct dovetail_subgraph:
        size_t size
        const dovetail_layer *const *layers
        const dovetail_tensor_info *const *inputs
        const dovetail_tensor_info *const *outputs
        int32_t n_layers
        int32_t n_inputs
        int32_t n_outputs
        int32_t reserved

    ctypedef struct dovetail_option:
        size_t size
        const dovetail_attribute *value
        const char *description

    ctypedef struct dovetail_kind_version:
        size_t size
        const char *kind
        int32_t version
        int32_t reserved

    enum:
        DOVETAIL_BACKEND_DETERMINISTIC
        DOVETAIL_BACKEND_ASYNC
        DOVETAIL_BACKEND_FLOAT16
        DOVETAIL_BACKEND_BFLOAT16
        DOVETAIL_BACKEND_INTEGERS

    enum:
        DOVETAIL_DEVICE_READY
        DOVETAIL_DEVICE_DRIVER_MISSING
        DOVETAIL_DEVICE_ABSENT
        DOVETAIL_DEVICE_BUSY

    enum:
        DOVETAIL_ARTEFACT_OK
        DOVETAIL_ARTEFACT_RECOMPILE
        DOVETAIL_ARTEFACT_UNUSABLE

    enum:
        DOVETAIL_HOST_MEMORY

    enum:
        DOVETAIL_MAP_READ
        DOVETAIL_MAP_WRITE

    ctypedef struct dovetail_device_info:
        size_t size
        int32_t index
        int32_t half_precision
        uint64_t memory_bytes
        const char *name
        const char *revision
        dovetail_attributes facts

    ctypedef struct dovetail_memory:
        size_t size
        const char *kind
        size_t alignment
        int32_t offsets
        int32_t host_visible
        int32_t images
        int32_t imports_host

    ctypedef struct dovetail_resources:
        size_t size
        int32_t threads
        int32_t reserved

    ctypedef struct dovetail_progress:
        size_t size
        void *context
        int (*report)(void *context, double fraction, const char *what) noexcept nogil

    ctypedef int (*dovetail_write)(void *sink, const void *bytes, size_t count) noexcept nogil

    ctypedef struct dovetail_backend_host:
        size_t size
        uint32_t abi_major
        uint32_t abi_minor
        const char *library
        void (*log)(int32_t level, const char *text) noexcept nogil
        const void *(*extension)(const char *name) noexcept nogil

    ctypedef struct dovetail_backend:
        size_t size
        uint32_t abi_major
        uint32_t abi_minor
        const char *id
        const char *version
        uint32_t capabilities
        int32_t n_options
        int32_t n_kind_versions
        int32_t n_devices
        const dovetail_option *const *options
        const dovetail_kind_version *const *kind_versions
        void *state
        int (*device_info)(void *state, int32_t device, dovetail_device_info *info, dovetail_answer *why) noexcept nogil
        int (*device_state)(void *state, int32_t device, dovetail_answer *why) noexcept nogil
        int (*supports)(
            void *state, const dovetail_device_info *device, const dovetail_layer *layer, const dovetail_attributes *options,
            dovetail_answer *why) noexcept nogil
        int (*claim_subgraph)(
            void *state, const dovetail_device_info *device, const dovetail_subgraph *subgraph,
            const dovetail_attributes *options, dovetail_answer *answer) noexcept nogil
        int (*compile_subgraph)(
            void *state, const dovetail_device_info *device, const dovetail_subgraph *subgraph,
            const dovetail_resources *resources, const dovetail_attributes *options, const dovetail_progress *progress,
            void **compiled, dovetail_answer *why) noexcept nogil
        void (*compiled_release)(void *state, void *compiled) noexcept nogil
        int (*artefact_save)(
            void *state, void *compiled, dovetail_write write, void *sink, dovetail_answer *why) noexcept nogil
        int (*artefact_check)(
            void *state, const dovetail_device_info *device, const void *bytes, size_t count, dovetail_answer *why) noexcept nogil
        int (*artefact_load)(
            void *state, const dovetail_device_info *device, const dovetail_resources *resources, const void *bytes, size_t count,
            void **compiled, dovetail_answer *why) noexcept nogil
        int (*context_open)(
            void *state, int32_t device, const dovetail_resources *resources, const dovetail_attributes *options,
            void **context, dovetail_answer *why) noexcept nogil
        void (*context_close)(void *state, void *context) noexcept nogil
        int (*create_workload)(
            void *state, void *context, const dovetail_layer *layer, const dovetail_resources *resources,
            const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why) noexcept nogil
        int (*create_compiled_workload)(
            void *state, void *context, void *compiled, const dovetail_resources *resources,
            const dovetail_attributes *options, dovetail_workload *workload, dovetail_answer *why) noexcept nogil
        int (*queues)(void *state, void *context, dovetail_queues *queues, dovetail_answer *why) noexcept nogil
        int (*memory)(
            void *state, int32_t device, int32_t index, dovetail_memory *memory, dovetail_answer *why) noexcept nogil
        int32_t (*tensor_memory)(
            void *state, const dovetail_device_info *device, const dovetail_layer *layer, const dovetail_tensor_info *tensor,
            int32_t slot, int32_t is_output, const dovetail_attributes *options) noexcept nogil
        int (*memory_allocate)(
            void *state, void *context, int32_t memory, size_t bytes, size_t alignment, void **data,
            dovetail_answer *why) noexcept nogil
        void (*memory_release)(void *state, void *context, int32_t memory, void *data) noexcept nogil
        int (*memory_map)(
            void *state, void *context, int32_t memory, void *data, size_t offset, size_t bytes, int32_t access,
            void **address, dovetail_answer *why) noexcept nogil
        int (*memory_unmap)(void *state, void *context, int32_t memory, void *data) noexcept nogil
        int (*create_copy)(
            void *state, void *context, int32_t source, int32_t target, const dovetail_tensor_info *tensor,
            dovetail_workload *workload, dovetail_answer *why) noexcept nogil
        void (*close)(void *state) noexcept nogil
        const void *(*extension)(void *state, const char *name) noexcept nogil
        int (*image_allocate)(
            void *state, void *context, int32_t memory, const dovetail_tensor_info *tensor, void **data,
            dovetail_answer *why) noexcept nogil

    ctypedef int (*dovetail_open_backend)(
        const dovetail_backend_host *host, dovetail_backend *table, dovetail_answer *why) noexcept nogil


cdef inline void *tensor_data(const dovetail_tensor *tensor) noexcept nogil:
    """Address of the first element of a tensor in memory that the host may follow."""
    return <char *>tensor.data + tensor.byte_offset


cdef inline int64_t tensor_elements(const dovetail_tensor *tensor) noexcept nogil:
    """Number of elements."""
    cdef int64_t n = 1
    cdef int32_t i
    for i in range(tensor.ndim):
        n *= tensor.shape[i]
    return n


cdef inline void drop_workload(object capsule) noexcept:
    """Destroy a capsule: free what nobody took.

    The core renames a capsule that it takes, and releases the state itself.
    """
    cdef dovetail_workload *workload
    if PyCapsule_IsValid(capsule, DOVETAIL_WORKLOAD_CAPSULE):
        workload = <dovetail_workload *>PyCapsule_GetPointer(capsule, DOVETAIL_WORKLOAD_CAPSULE)
        if workload.release != NULL:
            workload.release(workload.state)
        PyMem_RawFree(workload)


cdef inline object workload_capsule(dovetail_execute execute, void *state, dovetail_release release, dovetail_workload **out=NULL):
    """Make the capsule of a workload, whose optional fields can be set through `out` before use.

    If this raises, `state` still belongs to the caller.
    """
    cdef dovetail_workload *workload = <dovetail_workload *>PyMem_RawCalloc(1, sizeof(dovetail_workload))
    if workload == NULL:
        raise MemoryError()
    workload.size = sizeof(dovetail_workload)
    workload.abi_major, workload.abi_minor = DOVETAIL_ABI_MAJOR, DOVETAIL_ABI_MINOR
    workload.state, workload.execute, workload.release = state, execute, release
    if out != NULL:
        out[0] = workload
    try:
        return PyCapsule_New(workload, DOVETAIL_WORKLOAD_CAPSULE, drop_workload)
    except BaseException:
        PyMem_RawFree(workload)
        raise


cdef inline void free_state(void *state) noexcept nogil:
    """Free a state that is plain memory of `PyMem_RawMalloc`."""
    PyMem_RawFree(state)


cdef inline object workload_with_state(dovetail_execute execute, const void *state, size_t size):
    """Make the capsule of a workload whose state is a copy of this struct.

    The struct holds plain values, nothing to be released on its own.
    """
    cdef void *copy = PyMem_RawMalloc(size)
    if copy == NULL:
        raise MemoryError()
    memcpy(copy, state, size)
    try:
        return workload_capsule(execute, copy, free_state)
    except BaseException:
        PyMem_RawFree(copy)
        raise
