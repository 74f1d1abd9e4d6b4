"""Widen 16-bit floats, run the float32 workload, and round the outputs to nearest even.

The wrapped workload sees a call of its own, whose 16-bit tensors are replaced by float32 ones in
the workspace; tensors of other dtypes (indices, booleans) pass through. Conversions: `half.h`.
"""

from cpython.mem cimport PyMem_RawFree
from cpython.pycapsule cimport PyCapsule_SetName
from libc.stdint cimport int32_t, int64_t, uint16_t
from libc.string cimport memcpy, memset

from dovetail.abi cimport DOVETAIL_CANCELLED, DOVETAIL_OK, DOVETAIL_USED_WORKLOAD_CAPSULE
from dovetail.abi cimport dovetail_call, dovetail_tensor, dovetail_workload, tensor_data, tensor_elements
from dovetail_reference.workloads.elements cimport cancelled
from dovetail_reference.workloads.half cimport float_of_half, half_of_float
from dovetail_reference.workloads.workload cimport free_state, new_workload, state_of, workload_of

from dovetail import DType


cdef enum:
    MAX_TENSORS = 16    # inputs and outputs of a layer that computes; the variadic kinds only move bytes
    FLOAT_CODE = 2      # DLPack
    BFLOAT_CODE = 4


cdef struct State:
    dovetail_workload inner     # released with this state
    int n_inputs
    int n_outputs


cdef bint is_half(const dovetail_tensor *tensor) noexcept nogil:
    return tensor.dtype.bits == 16 and (tensor.dtype.code == FLOAT_CODE or tensor.dtype.code == BFLOAT_CODE)


cdef size_t wide_bytes(const dovetail_tensor *tensor) noexcept nogil:
    """Bytes of the float32 copy, a multiple of 64 so that the next one is aligned too."""
    return ((<size_t>tensor_elements(tensor) * sizeof(float) + 63) // 64) * 64


cdef void convert_elements(const dovetail_tensor *half, const dovetail_tensor *wide, bint widens) noexcept nogil:
    """Fill in a tensor's float32 twin, or else the tensor from its twin."""
    cdef uint16_t *narrow_at = <uint16_t *>tensor_data(half)
    cdef float *wide_at = <float *>tensor_data(wide)
    cdef bint brain = half.dtype.code == BFLOAT_CODE
    cdef int64_t i, count = tensor_elements(half)
    if widens:
        for i in range(count):
            wide_at[i] = float_of_half(narrow_at[i], brain)
    else:
        for i in range(count):
            narrow_at[i] = half_of_float(wide_at[i], brain)


cdef char *place(const dovetail_tensor *tensors, int count, dovetail_tensor *wide, char *room) noexcept nogil:
    """Describe the float32 twins of 16-bit tensors in turn from `room`; return where they end."""
    cdef int i
    for i in range(count):
        wide[i] = tensors[i]
        if is_half(&tensors[i]):
            wide[i].dtype.code = FLOAT_CODE
            wide[i].dtype.bits = 32
            wide[i].data = room
            wide[i].byte_offset = 0
            room += wide_bytes(&tensors[i])
    return room


cdef int execute(void *opaque, const dovetail_call *call) noexcept nogil:
    cdef State *state = <State *>opaque
    cdef dovetail_tensor inputs[MAX_TENSORS]
    cdef dovetail_tensor outputs[MAX_TENSORS]
    cdef dovetail_call inner
    cdef char *room = place(call.inputs, call.n_inputs, inputs, <char *>call.workspace)
    cdef int i, code
    memset(&inner, 0, sizeof(inner))
    memcpy(&inner, call, min(call.size, sizeof(inner)))     # the core's may end earlier, or have fields that follow
    inner.size = min(call.size, sizeof(inner))
    room = place(call.outputs, call.n_outputs, outputs, room)
    for i in range(call.n_inputs):
        if is_half(&call.inputs[i]) and call.inputs[i].data != NULL:
            convert_elements(&call.inputs[i], &inputs[i], True)
            if cancelled(call):
                return DOVETAIL_CANCELLED
    inner.inputs, inner.outputs, inner.workspace = inputs, outputs, room
    code = state.inner.execute(state.inner.state, &inner)
    if code != DOVETAIL_OK:
        return code
    for i in range(call.n_outputs):
        if is_half(&call.outputs[i]):
            convert_elements(&call.outputs[i], &outputs[i], False)
    return DOVETAIL_OK


cdef int workspace(
    void *opaque, const dovetail_tensor *inputs, const dovetail_tensor *outputs, int32_t workers,
    size_t *shared, size_t *per_worker,
) noexcept nogil:
    cdef State *state = <State *>opaque
    cdef dovetail_tensor wide_inputs[MAX_TENSORS]
    cdef dovetail_tensor wide_outputs[MAX_TENSORS]
    cdef char *room = NULL
    cdef int code
    room = place(inputs, state.n_inputs, wide_inputs, room)
    room = place(outputs, state.n_outputs, wide_outputs, room)
    shared[0] = per_worker[0] = 0
    if state.inner.workspace != NULL:
        code = state.inner.workspace(state.inner.state, wide_inputs, wide_outputs, workers, shared, per_worker)
        if code != DOVETAIL_OK:
            return code
    shared[0] += <size_t>room
    return DOVETAIL_OK


cdef void release(void *opaque) noexcept nogil:
    cdef State *state = <State *>opaque
    if state.inner.release != NULL:
        state.inner.release(state.inner.state)
    free_state(state)


def widen(layer, create):
    """Return the workload capsule of a layer of 16-bit floats.

    Args:
        layer: The layer.
        create: The family's `create(layer, dtype)`; called for float32.
    """
    if len(layer.inputs) > MAX_TENSORS or len(layer.outputs) > MAX_TENSORS:
        raise ValueError(f"layer {layer.name!r} has more than {MAX_TENSORS} inputs or outputs")
    capsule = create(layer, DType.FLOAT32)
    result = new_workload(execute, sizeof(State), release)
    cdef dovetail_workload *taken = workload_of(capsule)
    cdef dovetail_workload *outer = workload_of(result)
    cdef State *state = <State *>state_of(result)
    state.n_inputs, state.n_outputs = len(layer.inputs), len(layer.outputs)
    # From here on the wrapper owns the inner state, as the core would.
    PyCapsule_SetName(capsule, DOVETAIL_USED_WORKLOAD_CAPSULE)
    state.inner = taken[0]
    outer.workspace, outer.flags = workspace, taken.flags
    # All inputs are read before an output is written, so what the inner one may do in place the
    # outer one may too.
    outer.aliases, outer.n_aliases = taken.aliases, taken.n_aliases
    outer.private_bytes = taken.private_bytes
    PyMem_RawFree(taken)
    return result
