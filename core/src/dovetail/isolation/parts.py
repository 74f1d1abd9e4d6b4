"""Parts of a network on their way to another process: flat, and their arrays copied once.

A part is a list of layers in order, each with the numbers of what it reads; its arrays lie apart
from the pickle, in a file in memory that nobody can write to any more. The process reads them where
they lie, and the host keeps the file for the process that takes its place.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..contract.subgraph import SubgraphView
from ..graph.descriptor import Constant, Descriptor, Input
from ..graph.layer import Layer, OutputSlot
from ..graph.tensor import Quantization, TensorInfo
from ..ground.records import NamedTuple
from ..layers.network import Network
from .channel import SharedBytes

_HEAD = struct.Struct("<QQ")  # bytes of the pickle, number of arrays
_ALIGNMENT = 64


class FlatLayer(NamedTuple):
    """One layer of a flat part.

    Attributes:
        name: For people.
        descriptor: Kind and attributes.
        reads: For each input the number of the layer and of its output; None for one left out.
        quantizations: Of the outputs.
    """

    name: str
    descriptor: Descriptor
    reads: tuple[tuple[int, int] | None, ...]
    quantizations: tuple[Quantization | None, ...]


class FlatPart(NamedTuple):
    """A part without references between its layers, so that any depth can be pickled.

    Attributes:
        layers: Inputs and constants first, then those that compute, producers before consumers.
        members: The numbers of those that compute, in the order of the view.
        outputs: The numbers of the layer and of its output.
    """

    layers: tuple[FlatLayer, ...]
    members: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]


def flattened(layers: Sequence[Layer], inputs: Sequence[OutputSlot], outputs: Sequence[OutputSlot]) -> FlatPart:
    """Return layers of a graph as a flat part; constants that they read become part of it.

    Args:
        layers: Producers before consumers.
        inputs: What feeds them from outside, constants apart.
        outputs: What is read outside.
    """
    flat: list[FlatLayer] = []
    place: dict[OutputSlot, tuple[int, int]] = {}
    for number, slot in enumerate(inputs):
        place[slot] = (number, 0)
        flat.append(FlatLayer(f"input {number}", Input(info=slot.known_info), (), (None,)))
    for source in dict.fromkeys(slot.source for layer in layers for slot in layer.inputs):
        if source is not None and source not in place and isinstance(source.layer.descriptor, Constant):
            place[source] = (len(flat), 0)
            flat.append(FlatLayer(source.layer.name, _own(source.layer.descriptor), (), (source.quantization,)))
    members = tuple(range(len(flat), len(flat) + len(layers)))
    for layer in layers:
        reads = tuple(None if slot.source is None else place[slot.source] for slot in layer.inputs)
        for slot in layer.outputs:
            place[slot] = (len(flat), slot.index)
        flat.append(FlatLayer(layer.name, layer.descriptor, reads, tuple(slot.quantization for slot in layer.outputs)))
    return FlatPart(tuple(flat), members, tuple(place[slot] for slot in outputs))


def flattened_view(view: SubgraphView) -> FlatPart:
    """Return a view as a flat part."""
    return flattened(view.layers, view.inputs, view.outputs)


def flattened_layer(layer: Layer) -> FlatPart:
    """Return a single layer as a flat part."""
    sources = dict.fromkeys(slot.source for slot in layer.inputs)
    inputs = [one for one in sources if one is not None and not isinstance(one.layer.descriptor, Constant)]
    return flattened([layer], inputs, layer.outputs)


def network_of(part: FlatPart, name: str) -> tuple[Network, list[Layer]]:
    """Build the network of a flat part; its inputs and outputs are in the part's order.

    Returns:
        The network, and the layers that compute.
    """
    network = Network(name)
    made: list[Layer] = []
    for one in part.layers:
        sources = [None if read is None else made[read[0]].outputs[read[1]] for read in one.reads]
        first = one.quantizations[0] if one.quantizations else None
        layer = network.add(one.descriptor, *sources, name=one.name, quantization=first)
        for slot, quantization in zip(layer.outputs[1:], one.quantizations[1:], strict=True):
            slot.quantization = quantization
        made.append(layer)
    for number, (layer_number, index) in enumerate(part.outputs):
        network.output(made[layer_number].outputs[index], f"output {number}")
    return network, [made[number] for number in part.members]


def input_infos(part: FlatPart) -> list[TensorInfo]:
    """Return the infos of the inputs, in order."""
    return [layer.descriptor.info for layer in part.layers if isinstance(layer.descriptor, Input)]


def _own(constant: Constant) -> Constant:
    """Return a constant whose array is a plain one: a mapped file would be pickled as such."""
    value: Any = constant.value
    return constant if type(value) is np.ndarray else Constant(value=np.asarray(value), dtype=constant.dtype)


def written(content: object, name: str) -> int:
    """Pickle something into a file in memory, its large arrays as they are; return its descriptor.

    Nobody can change the file afterwards, whoever has the descriptor.

    Raises:
        OSError: There is no memory for it.
        Exception: It cannot be pickled.
    """
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    arrays = [buffer.raw() for buffer in buffers]
    sizes = np.array([array.nbytes for array in arrays], np.uint64).tobytes()
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        end = 0
        for chunk in (_HEAD.pack(len(pickled), len(arrays)), sizes, pickled):
            end = _write(descriptor, chunk, end)
        for array in arrays:
            end = _write(descriptor, array, _aligned(end))
        os.ftruncate(descriptor, max(end, 1))
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read(descriptor: int) -> Any:
    """Return what `written` wrote; arrays lie in the file. For the host's processes alone."""
    nbytes = os.fstat(descriptor).st_size
    memory = memoryview(SharedBytes(descriptor, nbytes, False))
    length, count = _HEAD.unpack(memory[: _HEAD.size])
    begin = _HEAD.size + 8 * count
    sizes = np.frombuffer(memory[_HEAD.size : begin], np.uint64)
    end, buffers = begin + length, []
    for size in map(int, sizes):
        at = _aligned(end)
        end = at + size
        buffers.append(memory[at:end])
    return pickle.loads(memory[begin : begin + length], buffers=buffers)


def _write(descriptor: int, chunk: bytes | memoryview, at: int) -> int:
    rest = memoryview(chunk)
    while len(rest):
        done = os.pwrite(descriptor, rest[: 1 << 30], at)
        rest, at = rest[done:], at + done
    return at


def _aligned(place: int) -> int:
    return -(-place // _ALIGNMENT) * _ALIGNMENT


class Places(NamedTuple):
    """Where tensors lie in shared memory.

    Attributes:
        places: Offset and size of each, in bytes.
        nbytes: Of all.
    """

    places: list[tuple[int, int]]
    nbytes: int


def placed(infos: Sequence[TensorInfo]) -> Places:
    """Lay tensors out one behind the other, aligned to 64 bytes."""
    end, places = 0, []
    for info in infos:
        nbytes = int(np.prod(info.sizes, dtype=np.int64)) * info.dtype.itemsize
        places.append((end, nbytes))
        end = _aligned(end + nbytes)
    return Places(places, end)


def shared_memory(nbytes: int, name: str) -> int:
    """Return the descriptor of a file in memory of this size, which stays as large as it is.

    Raises:
        OSError: There is no memory for it.
    """
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(descriptor, 0, max(nbytes, 1))  # memory that is missing is missing now, not by SIGBUS
        # A process that cut it short would end the host by SIGBUS.
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
