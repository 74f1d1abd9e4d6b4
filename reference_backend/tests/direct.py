"""Run one layer's workload without a runtime: ctypes structures that mirror abi.h.

    def test_add(run_layer):
        [y] = run_layer(lambda net, a, b: net.addition(a, b), a, b)

`run_layer(build, *arrays)` makes a network whose inputs are the arrays, calls `build(net, *slots)`,
takes the layer of the output slot (or slots, or layer) that `build` returns, asks CpuRef whether it
supports it, creates the workload, executes it once, releases it, and returns one array per output.
bfloat16 goes in and comes out as `ml_dtypes.bfloat16`. Constants are made inside `build`. Keywords:
`quantizations` (one per array, or None), `in_place` (the output shares the buffer of that input),
`cancel` (the host says so from the start or, if it is a number, once it was asked so often before;
`Cancelled` is raised if the workload obeys).

It is nastier than a runtime: input buffers end where the array ends (a guard stands behind), data
starts at a byte offset and is only element-aligned, workspace and outputs are filled with garbage
first, guards behind outputs and workspace are checked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p

import ml_dtypes
import numpy as np

from dovetail import Constant, Device, DType, Layer, Network, Quantization
from dovetail.graph.layer import OutputSlot
from dovetail_reference import ReferenceBackend

GARBAGE = 0xA5
GUARD = 64


class Tensor(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Call(Structure):
    pass


BODY = CFUNCTYPE(None, c_int64, c_int64, c_int32, c_void_p)
PARALLEL_FOR = CFUNCTYPE(c_int, POINTER(Call), c_int64, c_int64, BODY, c_void_p)
IS_CANCELLED = CFUNCTYPE(c_int, POINTER(Call))
FAIL = CFUNCTYPE(c_int, POINTER(Call), c_int, c_char_p)
PROFILE_MARK = CFUNCTYPE(None, POINTER(Call), c_char_p)
EXTENSION = CFUNCTYPE(c_void_p, c_char_p)


class Host(Structure):
    _fields_ = (
        ("size", c_size_t),
        ("abi_major", c_uint32),
        ("abi_minor", c_uint32),
        ("parallel_for", PARALLEL_FOR),
        ("is_cancelled", IS_CANCELLED),
        ("fail", FAIL),
        ("profile_mark", PROFILE_MARK),
        ("extension", EXTENSION),
    )


# Ends before `workspace_offset`, as a core of an earlier minor version has it.
Call._fields_ = (
    ("size", c_size_t),
    ("host", POINTER(Host)),
    ("context", c_void_p),
    ("inputs", POINTER(Tensor)),
    ("outputs", POINTER(Tensor)),
    ("n_inputs", c_int32),
    ("n_outputs", c_int32),
    ("workspace", c_void_p),
    ("worker_workspace", c_void_p),
    ("worker_stride", c_size_t),
    ("run_data", c_void_p),
    ("queue", c_void_p),
    ("workers", c_int32),
)

EXECUTE = CFUNCTYPE(c_int, c_void_p, POINTER(Call))
RELEASE = CFUNCTYPE(None, c_void_p)
WORKSPACE = CFUNCTYPE(c_int, c_void_p, POINTER(Tensor), POINTER(Tensor), c_int32, POINTER(c_size_t), POINTER(c_size_t))


class Alias(Structure):
    _fields_ = (("relation", c_int32), ("output", c_int32), ("input", c_int32), ("reserved", c_int32), ("offset", c_int64))


class Workload(Structure):
    _fields_ = (
        ("size", c_size_t),
        ("abi_major", c_uint32),
        ("abi_minor", c_uint32),
        ("flags", c_uint32),
        ("concurrency", c_uint32),
        ("state", c_void_p),
        ("execute", EXECUTE),
        ("release", RELEASE),
        ("workspace", WORKSPACE),
        ("create_run", c_void_p),
        ("release_run", c_void_p),
        ("aliases", POINTER(Alias)),
        ("n_aliases", c_int32),
        ("reserved", c_int32),
        ("private_bytes", c_size_t),
    )


assert [ctypes.sizeof(s) for s in (Tensor, Host, Call, Alias, Workload)] == [48, 56, 96, 24, 96]


class Cancelled(Exception):
    """The workload returned DOVETAIL_CANCELLED."""


class Failed(Exception):
    """The workload returned another code; carries it and the message of `fail`."""


class Buffer:
    """Memory of a tensor, a guard behind it; element 0 lies at an odd multiple of its size."""

    def __init__(self, nbytes: int, itemsize: int = 64) -> None:
        self.nbytes = nbytes
        self.offset = itemsize
        self.raw = np.full(64 + itemsize + nbytes + GUARD, GARBAGE, np.uint8)
        self.base = self.raw.ctypes.data + -self.raw.ctypes.data % 64
        self.start = self.base - self.raw.ctypes.data + itemsize

    @property
    def bytes(self) -> np.ndarray:
        return self.raw[self.start : self.start + self.nbytes]

    def check(self, what: str) -> None:
        assert (self.raw[self.start + self.nbytes :] == GARBAGE).all(), f"{what} was written past its end"
        assert (self.raw[: self.start] == GARBAGE).all(), f"{what} was written before its start"


def _tensor(buffer: Buffer | None, shape: Sequence[int], dtype: DType, keep: list) -> Tensor:
    sizes = (c_int64 * max(len(shape), 1))(*shape)
    strides = (c_int64 * max(len(shape), 1))()
    step = 1
    for axis in reversed(range(len(shape))):
        strides[axis], step = step, step * shape[axis]
    keep += [sizes, strides]
    return Tensor(
        buffer.base if buffer else None,
        1,
        0,
        len(shape),
        dtype.dlpack_code,
        dtype.bits,
        1,
        sizes,
        strides,
        buffer.offset if buffer else 0,
    )


def storage(dtype: DType) -> np.dtype:
    """NumPy dtype of what `run_layer` returns."""
    return np.dtype(ml_dtypes.bfloat16) if dtype is DType.BFLOAT16 else dtype.numpy


def build_layer(build, *arrays, quantizations=None) -> tuple[Layer, dict[str, np.ndarray]]:
    """Return the layer that `build` makes, and the array of each input by name."""
    net = Network()
    feeds, slots = {}, []
    for i, array in enumerate(arrays):
        name = f"x{i}"
        feeds[name] = np.ascontiguousarray(array).reshape(np.shape(array))
        quantization = quantizations[i] if quantizations else None
        slots.append(net.input(name, feeds[name].shape, DType.of(feeds[name].dtype), quantization))
    made = build(net, *slots)
    if isinstance(made, tuple | list):
        made = made[0]
    return (made.layer if isinstance(made, OutputSlot) else made), feeds


def create(layer: Layer):
    """Return the workload's capsule, having asked `supports` first."""
    backend = ReferenceBackend()
    support = backend.supports(layer, backend.options_type(), Device())
    assert support.supported, f"{layer.kind} refused: {support.code}: {support.reason}"
    return backend.create_workload_factory(None, None, None).create_workload(layer)


def workload_of(capsule) -> Workload:
    """The structure inside a capsule."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c_void_p, (ctypes.py_object, c_char_p)
    return Workload.from_address(pointer(capsule, b"dovetail.workload.v0"))


def run_layer(build, *arrays, quantizations=None, in_place: int | None = None, cancel: bool | int = False) -> list[np.ndarray]:
    """Run one layer; see the module's text."""
    layer, feeds = build_layer(build, *arrays, quantizations=quantizations)
    capsule = create(layer)
    try:
        return _execute(layer, feeds, workload_of(capsule), in_place, cancel)
    finally:
        del capsule  # nobody took it: its destructor releases the state


def pool_bytes(run, pooling, length: int) -> None:
    """Pool a row of so many bytes in a run that is to stop when it asks a second time."""
    quantization = Quantization.per_tensor(1.0)
    row = np.zeros((1, 1, 1, length), np.int8)
    run(lambda net, x: net.add(pooling, x, quantization=quantization).output, row, quantizations=[quantization], cancel=1)


def _input_buffers(layer: Layer, feeds: dict[str, np.ndarray], keep: list) -> tuple[list[Buffer | None], list[Tensor]]:
    buffers, tensors = [], []
    for slot in layer.inputs:
        if slot.source is None:
            buffers.append(None)
            tensors.append(Tensor(ndim=-1))  # how the core shows an input that is left out: no data, no axes
            continue
        producer, info = slot.source.layer, slot.source.known_info
        value = producer.descriptor.value if isinstance(producer.descriptor, Constant) else feeds[producer.name]
        buffer = Buffer(value.nbytes, info.dtype.itemsize)
        buffer.bytes[:] = np.frombuffer(value.tobytes(), np.uint8)
        buffers.append(buffer)
        tensors.append(_tensor(buffer, info.sizes, info.dtype, keep))
    return buffers, tensors


def _execute(
    layer: Layer,
    feeds: dict,
    workload: Workload,
    in_place: int | None,
    cancel: bool | int,
    workers: int = 1,
    loops: list[tuple[int, int]] | None = None,
) -> list[np.ndarray]:
    """Execute a workload.

    `loops` takes (range, grain) of the parallel loops, whose bodies are then not run.
    """
    keep: list = []
    inputs, input_tensors = _input_buffers(layer, feeds, keep)
    before = [b.raw.copy() if b else None for b in inputs]
    infos = layer.output_infos
    outputs = [Buffer(info.nbytes, info.dtype.itemsize) for info in infos]
    if in_place is not None:
        relations = [(a.relation, a.output, a.input) for a in workload.aliases[: workload.n_aliases]]
        assert any(r in (1, 2) and o == 0 and i == in_place for r, o, i in relations), f"no such alias: {relations}"
        outputs[0] = inputs[in_place]
    output_tensors = [_tensor(b, i.sizes, i.dtype, keep) for b, i in zip(outputs, infos, strict=True)]
    ins = (Tensor * max(len(input_tensors), 1))(*input_tensors)
    outs = (Tensor * max(len(output_tensors), 1))(*output_tensors)

    messages: list[bytes] = []

    asked = 0

    def is_cancelled(call):
        nonlocal asked
        asked += 1
        return int(cancel is not False and (cancel is True or asked > cancel))

    def parallel_for(call, count, grain, body, arg):
        if loops is not None:
            loops.append((count, grain))
            return 0
        for begin in range(0, count, grain):
            body(begin, min(begin + grain, count), 0, arg)
        return 0

    def fail(call, code, message):
        messages.append(message)
        return code

    host = Host(
        ctypes.sizeof(Host),
        0,
        1,
        PARALLEL_FOR(parallel_for),
        IS_CANCELLED(is_cancelled),
        FAIL(fail),
        PROFILE_MARK(lambda call, name: None),
        EXTENSION(lambda name: None),
    )
    shared, per_worker = c_size_t(0), c_size_t(0)
    if workload.workspace:
        assert workload.workspace(workload.state, ins, outs, 1, ctypes.byref(shared), ctypes.byref(per_worker)) == 0
    scratch, worker_scratch = Buffer(shared.value), Buffer(per_worker.value)
    call = Call(
        size=ctypes.sizeof(Call),
        host=ctypes.pointer(host),
        inputs=ins,
        outputs=outs,
        n_inputs=len(input_tensors),
        n_outputs=len(output_tensors),
        workspace=scratch.base + scratch.offset if shared.value else None,
        worker_workspace=worker_scratch.base + worker_scratch.offset if per_worker.value else None,
        worker_stride=per_worker.value,
        workers=workers,
    )
    code = workload.execute(workload.state, ctypes.byref(call))
    for i, buffer in enumerate(outputs):
        buffer.check(f"output {i}")
    scratch.check("workspace")
    worker_scratch.check("worker workspace")
    for i, (buffer, old) in enumerate(zip(inputs, before, strict=True)):
        if buffer is not None and i != in_place:
            assert (buffer.raw == old).all(), f"input {i} was written to"
    if code == -2:
        raise Cancelled
    if code != 0:
        raise Failed(code, *messages)
    return [
        np.frombuffer(b.bytes.tobytes(), storage(i.dtype)).reshape(i.sizes if i.opaque is None else -1)
        for b, i in zip(outputs, infos, strict=True)
    ]
