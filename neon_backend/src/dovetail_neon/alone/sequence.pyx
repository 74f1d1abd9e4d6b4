"""One layer run as it stands, outside any part that was rewritten: its private layers one after the other, in scratch memory.

This is what a network that is loaded without optimization, or with one workload per layer, pays for: reorders on both sides of
every layer of images. The kernels are the same.
"""

from cpython.mem cimport PyMem_RawFree
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_SetName
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from dovetail.abi cimport (
    DOVETAIL_OK,
    DOVETAIL_USED_WORKLOAD_CAPSULE,
    DOVETAIL_WORKLOAD_CAPSULE,
    dovetail_call,
    dovetail_tensor,
    dovetail_workload,
    tensor_data,
    workload_capsule,
)
from dovetail_neon.workload.job cimport acc_job
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workload.workload cimport acc_state, run_phases

from dovetail import Constant
from dovetail.graph.descriptor import Input, Output

from dovetail_neon.fusion.rewriting import lower
from dovetail_neon.alone.lone_layer import LoneLayer

cdef enum:
    MAX_TENSORS = 64
    MAX_STEPS = 20     # sixteen phases of a transposed convolution, what interleaves them, reorders

cdef enum Home:
    INPUT
    OUTPUT
    SCRATCH

cdef struct Place:
    Home home
    int64_t at              # index of the tensor, or offset in the scratch

cdef struct Step:
    acc_state *state
    void (*release)(void *) noexcept nogil
    int32_t n_inputs
    int32_t n_outputs
    Place inputs[MAX_TENSORS]
    Place outputs[4]

cdef struct Sequence:
    int32_t n_steps
    int64_t scratch         # bytes of all tensors in between; the workspace of the steps follows
    size_t shared
    size_t per_worker
    Step steps[MAX_STEPS]


cdef inline void *address(const Place *place, const dovetail_call *call) noexcept nogil:
    if place.home == INPUT:
        return tensor_data(&call.inputs[place.at])
    if place.home == OUTPUT:
        return tensor_data(&call.outputs[place.at])
    return <char *>call.workspace + place.at


cdef int execute(void *state, const dovetail_call *call) noexcept nogil:
    cdef const Sequence *self = <const Sequence *>state
    cdef const void *inputs[MAX_TENSORS]
    cdef void *outputs[4]
    cdef acc_job job
    cdef int32_t i, k, stopped = 0
    cdef int status
    for i in range(self.n_steps):
        step = &self.steps[i]
        for k in range(step.n_inputs):
            inputs[k] = address(&step.inputs[k], call)
        for k in range(step.n_outputs):
            outputs[k] = address(&step.outputs[k], call)
        job.parameters, job.inputs, job.outputs = step.state.parameters, inputs, outputs
        job.workspace, job.worker_workspace = <char *>call.workspace + self.scratch, <char *>call.worker_workspace
        job.worker_stride = call.worker_stride
        job.call, job.stopped = call, &stopped
        status = run_phases(step.state, call, &job)
        if status != DOVETAIL_OK:
            return status
    return DOVETAIL_OK


cdef int workspace(void *state, const dovetail_tensor *inputs, const dovetail_tensor *outputs, int32_t workers, size_t *shared,
                   size_t *per_worker) noexcept nogil:
    cdef Sequence *self = <Sequence *>state
    shared[0], per_worker[0] = self.scratch + self.shared, self.per_worker
    return DOVETAIL_OK


cdef void release(void *state) noexcept nogil:
    cdef Sequence *self = <Sequence *>state
    cdef int32_t i
    for i in range(self.n_steps):
        self.steps[i].release(self.steps[i].state)
    free(self)


cdef size_t take(Step *step, object capsule) except? 0:
    """Take over the state of a workload of ours; answers with its private bytes."""
    cdef dovetail_workload *workload = <dovetail_workload *>PyCapsule_GetPointer(capsule, DOVETAIL_WORKLOAD_CAPSULE)
    step.state, step.release = <acc_state *>workload.state, workload.release
    private_bytes = workload.private_bytes
    PyCapsule_SetName(capsule, DOVETAIL_USED_WORKLOAD_CAPSULE)
    PyMem_RawFree(workload)
    return private_bytes


def create(layer, Kernels kernels, create_private):
    """Return the workload of a public layer; `create_private` makes those of the private layers that it is made of."""
    lone = LoneLayer(layer)
    graph = lower(lone, kernels.table.lanes, kernels.precision)
    places = {}
    for private, source in zip(graph.inputs, lone.inputs, strict=True):
        places[private.output] = (INPUT, [slot.source for slot in layer.inputs].index(source))
    for index, output in enumerate(graph.outputs):
        places[output.inputs[0].source] = (OUTPUT, index)
    steps = [private for private in graph.topological_order() if not isinstance(private.descriptor, Input | Output)]
    if len(steps) > MAX_STEPS or any(private.kind == layer.kind or isinstance(private.descriptor, Constant) for private in steps):
        raise ValueError(f"no workload for {layer.kind} {layer.name!r} as it stands")
    cdef Sequence *self = <Sequence *>calloc(1, sizeof(Sequence))
    cdef dovetail_workload *workload = NULL
    cdef size_t private_bytes = 0
    if self == NULL:
        raise MemoryError
    try:
        for private in steps:
            step = &self.steps[self.n_steps]
            private_bytes += take(step, create_private(private))
            self.n_steps += 1
            self.shared, self.per_worker = max(self.shared, step.state.shared), max(self.per_worker, step.state.per_worker)
            step.n_inputs, step.n_outputs = len(private.inputs), len(private.outputs)
            for k, slot in enumerate(private.inputs):
                step.inputs[k].home, step.inputs[k].at = places[slot.source]
            for k, slot in enumerate(private.outputs):
                if slot not in places:
                    places[slot] = (SCRATCH, self.scratch)
                    self.scratch += (slot.known_info.nbytes + 63) // 64 * 64
                step.outputs[k].home, step.outputs[k].at = places[slot]
        capsule = workload_capsule(execute, self, release, &workload)
    except BaseException:
        release(self)
        raise
    workload.workspace, workload.private_bytes = workspace, private_bytes
    return capsule
