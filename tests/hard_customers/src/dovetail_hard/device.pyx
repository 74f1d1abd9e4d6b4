"""Define the test device: device, memory, workloads and queues as capsules."""

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from dovetail.abi cimport (
    DOVETAIL_QUEUES_CAPSULE,
    DOVETAIL_USED_QUEUES_CAPSULE,
    dovetail_call,
    dovetail_queues,
    dovetail_workload,
    workload_capsule,
)

cdef extern from "test_device.h" nogil:
    ctypedef struct td_device
    ctypedef struct td_workload
    ctypedef struct td_settings:
        int64_t delay_us, fail_at, hang_at, deaf, abort_status, limit, busy_us, lie
    ctypedef struct td_counts:
        int64_t allocations, bytes, queues, workloads, runs, commands, waits
    ctypedef struct td_instruction:
        int operation, a, b
        int64_t elements
        const float *weights
        const float *bias
        int64_t units, depth
    int TD_COPY_IN, TD_COPY_OUT, TD_MOVE, TD_ADD, TD_RELU, TD_FULLY_CONNECTED, TD_BLOCK, TD_UNBLOCK, TD_PROGRAM
    int TD_MAX_STEPS
    td_device *td_open(uint64_t seed)
    td_settings *td_settings_of(td_device *device)
    void td_close(td_device *device)
    void td_count(td_device *device, td_counts *counts)
    const char *td_violation(td_device *device)
    uint64_t td_allocate(td_device *device, size_t nbytes)
    void td_free(td_device *device, uint64_t handle)
    size_t td_blocked_bytes(int64_t elements)
    td_workload *td_workload_create(
        td_device *device, int operation, int blocked, const char *name, const td_instruction *program, int n_instructions, int n_inputs)
    void td_workload_describe(td_workload *workload, dovetail_workload *table)
    int td_execute(void *state, const dovetail_call *call) noexcept
    void td_release(void *state) noexcept
    void td_queues(td_device *device, dovetail_queues *table)

OPERATIONS = {
    "copy_in": TD_COPY_IN, "copy_out": TD_COPY_OUT, "move": TD_MOVE, "add": TD_ADD, "relu": TD_RELU,
    "fully_connected": TD_FULLY_CONNECTED, "block": TD_BLOCK, "unblock": TD_UNBLOCK, "program": TD_PROGRAM,
}
MAX_STEPS = TD_MAX_STEPS


def blocked_bytes(int64_t elements):
    """Bytes of a tensor in the blocked layout."""
    return td_blocked_bytes(elements)


cdef void drop_queues(object capsule) noexcept:
    cdef const char *name = DOVETAIL_QUEUES_CAPSULE
    if not PyCapsule_IsValid(capsule, name):
        name = DOVETAIL_USED_QUEUES_CAPSULE
    PyMem_RawFree(PyCapsule_GetPointer(capsule, name))


cdef class Device:
    """One opened device, never freed: what outlives it is reported and does not crash."""

    cdef td_device *device

    def __cinit__(self, uint64_t seed=0):
        self.device = td_open(seed)
        if self.device == NULL:
            raise MemoryError()

    def set(self, str name, int64_t value):
        """Change a setting; see `td_settings`."""
        cdef td_settings *settings = td_settings_of(self.device)
        if name == "delay_us":
            settings.delay_us = value
        elif name == "fail_at":
            settings.fail_at = value
        elif name == "hang_at":
            settings.hang_at = value
        elif name == "deaf":
            settings.deaf = value
        elif name == "abort_status":
            settings.abort_status = value
        elif name == "limit":
            settings.limit = value
        elif name == "busy_us":
            settings.busy_us = value
        elif name == "lie":
            settings.lie = value
        else:
            raise KeyError(name)

    @property
    def counts(self):
        """What exists, and what was done, by name."""
        cdef td_counts counts
        td_count(self.device, &counts)
        return counts

    @property
    def violation(self):
        """The first rule that the core broke, or an empty string."""
        return (<bytes>td_violation(self.device)).decode()

    def close(self):
        """Give the device back: nothing may be in use."""
        td_close(self.device)

    def allocate(self, size_t nbytes):
        """Return a handle, which is no address."""
        cdef uint64_t handle = td_allocate(self.device, nbytes)
        if handle == 0:
            raise MemoryError(f"the test device has no {nbytes} bytes")
        return handle

    def free(self, uint64_t handle):
        """Give memory back."""
        with nogil:
            td_free(self.device, handle)

    def queues(self):
        """Return the capsule of the queue functions."""
        cdef dovetail_queues *table = <dovetail_queues *>PyMem_RawCalloc(1, sizeof(dovetail_queues))
        if table == NULL:
            raise MemoryError()
        td_queues(self.device, table)
        return PyCapsule_New(table, DOVETAIL_QUEUES_CAPSULE, drop_queues)

    def workload(self, str operation, str name, int inputs, *, bint blocked=False, list program=None):
        """Return the capsule of a workload.

        Args:
            operation: One of `OPERATIONS`.
            name: Of the layer, for errors.
            inputs: How many of the layer's inputs lie in memory that this workload is given.
            blocked: The tensors are in the blocked layout.
            program: (operation, a, b, elements, weights, bias) per instruction; the arrays are
                copied.
        """
        cdef td_instruction steps[64]
        cdef const float[:, ::1] weights
        cdef const float[::1] bias
        cdef td_workload *workload
        cdef dovetail_workload *table
        cdef int i
        kept = []
        memset(steps, 0, sizeof(steps))
        if len(program or ()) > TD_MAX_STEPS:
            raise ValueError("the program is too long")
        for i, (kind, a, b, elements, layer_weights, layer_bias) in enumerate(program or ()):
            steps[i].operation, steps[i].a, steps[i].b, steps[i].elements = OPERATIONS[kind], a, b, elements
            if layer_weights is not None:
                weights = layer_weights
                kept.append(weights)
                steps[i].weights, steps[i].units, steps[i].depth = &weights[0, 0], weights.shape[0], weights.shape[1]
            if layer_bias is not None:
                bias = layer_bias
                kept.append(bias)
                steps[i].bias = &bias[0]
        workload = td_workload_create(
            self.device, OPERATIONS[operation], blocked, name.encode(), steps, len(program or ()), inputs)
        if workload == NULL:
            raise MemoryError()
        try:
            capsule = workload_capsule(td_execute, workload, td_release, &table)
        except BaseException:
            td_release(workload)
            raise
        td_workload_describe(workload, table)
        return capsule
