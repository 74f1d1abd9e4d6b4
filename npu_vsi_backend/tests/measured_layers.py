"""Layers, chains and networks that the vendor's driver was measured with, as programs.

`data/npu_layers.jsonl`, `data/npu_chains.jsonl` and `data/npu_networks.jsonl` have a line for each
of them, for each chip and bandwidth: what was compiled (sizes and windows innermost first, as the
driver has them), the entropy and the part of zeros of the weights, and the engines, cycles and
bytes that the driver printed. Own measurements: ovxlib 1.2.30, driver CL769531, in the vendor's
simulator for x86, 2026-11-26. Nothing of `estimate` was fitted to the layers: half are of networks,
half random. What is kept on the chip was fitted to the chains and networks.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.chips import Chip, chip_of

DATA = Path(__file__).parent / "data"

_FUNCTIONS = {
    "SIGMOID": "sigmoid",
    "TANH": "tanh",
    "HSWISH": "hard_swish",
    "SWISH": "swish",
    "LEAKY_RELU": "leaky_relu",
    "RELU": "relu",
}
_RELU6 = (6 / 255, 0)


class Measured(NamedTuple):
    """What the driver printed of one layer or chain.

    Attributes:
        name: What was compiled, in short.
        kind: Of the layer.
        chip: Where.
        bytes_per_cycle: Of external memory.
        program: The layer.
        engines: Of the operations that it became.
        cycles, bytes_read, bytes_written: Of all of them.
    """

    name: str
    kind: str
    chip: Chip
    bytes_per_cycle: float
    program: p.Program
    engines: tuple[str, ...]
    cycles: int
    bytes_read: int
    bytes_written: int


def measured(file: str) -> Iterator[Measured]:
    """Yield what a file of `DATA` has."""
    for line in (DATA / file).read_text().splitlines():
        row = json.loads(line)
        chip = chip_of(int(row["chip"], 16))
        assert chip is not None
        program = _Maker(row).program()
        name = row["spec"].get("name") or kind_of(row["spec"])
        yield Measured(
            name, kind_of(row["spec"]), chip, row["bandwidth"], program, tuple(row["engines"]), row["cycles"], *row["bytes"]
        )


def kind_of(spec: dict[str, Any]) -> str:
    """Return the kind of a layer, as tables of errors have it."""
    operation, strided = spec.get("op", "chain"), " with a stride" if spec.get("s", [1, 1]) != [1, 1] else ""
    if operation == "conv":
        if spec.get("m"):
            return f"depthwise{strided}"
        return f"convolution{strided}" if strided else f"convolution {'1x1' if spec['k'] == [1, 1] else 'of windows'}"
    if operation == "fc":
        return "fully connected" + (", rows" if len(spec["in"]) == 2 and spec["in"][1] > 1 else "")
    if operation == "pool":
        return "maximum" if spec["type"] == "max" else "average"
    if operation in ("ADD", "SUBTRACT", "MULTIPLY"):
        return "sum or product"
    return "function" if operation in _FUNCTIONS else operation.lower()


class _Maker:
    """Makes the program of one line."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._spec = row["spec"]
        self._statistics = list(zip(row.get("entropy", ()), row.get("zeros", ()), strict=True))
        self._tensors: list[p.Tensor] = []
        self._operations: list[p.Operation] = []

    def program(self) -> p.Program:
        sizes = self._spec["in"] if isinstance(self._spec["in"][0], list) else [self._spec["in"]]
        inputs = [self._tensor(_shape(one), 0.05, 128) for one in sizes]
        made = list(inputs)
        for spec in self._spec.get("chain", [self._spec]):
            chosen = spec.get("x", -1) if "chain" in self._spec else list(range(len(inputs)))
            made.append(self._add(spec, [made[at] for at in ([chosen] if isinstance(chosen, int) else chosen)]))
        read = {number for operation in self._operations for number in operation.inputs}
        outputs = tuple(operation.output for operation in self._operations if operation.output not in read)
        return p.Program("measured", tuple(self._tensors), tuple(self._operations), tuple(inputs), outputs)

    def _add(self, spec: dict[str, Any], inputs: list[int]) -> int:
        operation = spec["op"]
        if operation in _FUNCTIONS:
            return self._function(_FUNCTIONS[operation], inputs)
        if operation in ("ADD", "SUBTRACT", "MULTIPLY"):
            return self._pair(operation.lower(), inputs)
        make = {
            "conv": self._convolution,
            "fc": self._rows,
            "pool": self._pooling,
            "concat": self._concat,
            "pad": self._pad,
            "permute": self._permute,
            "reshape": self._reshape,
            "resize": self._resize,
            "SOFTMAX": self._softmax,
        }[operation]
        return make(spec, inputs)

    def _convolution(self, spec: dict[str, Any], inputs: list[int]) -> int:
        _, channels, height, width = self._tensors[inputs[0]].shape
        kernel, stride, dilation = (_pair_of(spec, key) for key in ("k", "s", "d"))
        multiplier = spec.get("m", 0)
        groups = channels if multiplier else spec.get("g", 1)
        filters = channels * multiplier if multiplier else spec["o"]
        down, across = (
            _padding(size, kernel[axis], stride[axis], dilation[axis], spec.get("p", "same"))
            for axis, size in enumerate((height, width))
        )
        sizes = [
            (size + sum(ends) - (kernel[axis] - 1) * dilation[axis] - 1) // stride[axis] + 1
            for axis, (size, ends) in enumerate(((height, down), (width, across)))
        ]
        output = self._tensor((1, filters, *sizes), *(_RELU6 if spec.get("relu") else (0.2, 128)))
        return self._made(
            p.Convolution(
                **self._names(inputs, output),
                weights=self._weights((filters, channels // groups, *kernel)),
                stride=stride,
                padding=(down[0], across[0], down[1], across[1]),
                dilation=dilation,
                groups=groups,
                low=0,
                high=255,
            )
        )

    def _rows(self, spec: dict[str, Any], inputs: list[int]) -> int:
        tensor = self._tensors[inputs[0]]
        if len(tensor.shape) != 2:
            output = self._tensor((1, tensor.elements), tensor.scale, tensor.zero_point)
            inputs = [self._made(p.Reshape(**self._names(inputs, output)))]
        rows, columns = self._tensors[inputs[0]].shape
        output = self._tensor((rows, spec["o"]), 0.2, 128)
        weights = self._weights((spec["o"], columns))
        return self._made(p.FullyConnected(**self._names(inputs, output), weights=weights, low=0, high=255))

    def _pooling(self, spec: dict[str, Any], inputs: list[int]) -> int:
        tensor = self._tensors[inputs[0]]
        size, stride = _pair_of(spec, "k"), _pair_of(spec, "s")
        ends = [_padding(tensor.shape[2 + axis], size[axis], stride[axis], 1, spec.get("p", "valid")) for axis in range(2)]
        sizes = [(tensor.shape[2 + axis] + sum(ends[axis]) - size[axis]) // stride[axis] + 1 for axis in range(2)]
        output = self._tensor((1, tensor.shape[1], *sizes), tensor.scale, tensor.zero_point)
        return self._made(
            p.Pooling(
                **self._names(inputs, output),
                function="max" if spec["type"] == "max" else "average",
                size=size,
                stride=stride,
                padding=(ends[0][0], ends[1][0], ends[0][1], ends[1][1]),
                count_padding=True,
                low=0,
                high=255,
            )
        )

    def _pair(self, function: str, inputs: list[int]) -> int:
        shapes = [self._tensors[number].shape for number in inputs]
        output = self._tensor(np.broadcast_shapes(*shapes), 0.11, 120)
        return self._made(p.Binary(**self._names(inputs, output), function=function, low=0, high=255))

    def _function(self, function: str, inputs: list[int]) -> int:
        output = self._tensor(self._tensors[inputs[0]].shape, 0.03, 100)
        return self._made(p.Function(**self._names(inputs, output), function=function, alpha=0.1, beta=0.0))

    def _softmax(self, spec: dict[str, Any], inputs: list[int]) -> int:
        output = self._tensor(self._tensors[inputs[0]].shape, 1 / 256, 0)
        return self._made(p.Softmax(**self._names(inputs, output), axis=1, beta=1.0))

    def _concat(self, spec: dict[str, Any], inputs: list[int]) -> int:
        shape = list(self._tensors[inputs[0]].shape)
        axis = len(shape) - 1 - spec.get("axis", 2)
        shape[axis] = sum(self._tensors[number].shape[axis] for number in inputs)
        output = self._tensor(shape, *((0.05, 128) if spec.get("same", 1) else (0.07, 120)))
        return self._made(p.Concat(**self._names(inputs, output), axis=axis))

    def _pad(self, spec: dict[str, Any], inputs: list[int]) -> int:
        before, after = tuple(spec["front"][::-1]), tuple(spec["back"][::-1])
        shape = [sum(sizes) for sizes in zip(self._tensors[inputs[0]].shape, before, after, strict=True)]
        output = self._tensor(shape, 0.05, 128)
        return self._made(p.Pad(**self._names(inputs, output), before=before, after=after, value=128))

    def _permute(self, spec: dict[str, Any], inputs: list[int]) -> int:
        rank = len(spec["perm"])
        order = tuple(rank - 1 - axis for axis in spec["perm"][::-1])
        shape = self._tensors[inputs[0]].shape
        output = self._tensor([shape[axis] for axis in order], 0.05, 128)
        return self._made(p.Permute(**self._names(inputs, output), order=order))

    def _reshape(self, spec: dict[str, Any], inputs: list[int]) -> int:
        output = self._tensor(spec["to"][::-1], 0.05, 128)
        return self._made(p.Reshape(**self._names(inputs, output)))

    def _resize(self, spec: dict[str, Any], inputs: list[int]) -> int:
        shape = (*self._tensors[inputs[0]].shape[:2], *spec["size"][::-1])
        output = self._tensor(shape, 0.05, 128)
        return self._made(p.Resize(**self._names(inputs, output), mode=spec["type"], align_corners=False, half_pixel=False))

    def _weights(self, shape: tuple[int, ...]) -> p.Weights:
        values = weights_like(math.prod(shape), *self._statistics.pop(0)).reshape(shape)
        return p.Weights(values, (0.01,), (128,), np.zeros(shape[0], np.int32))

    def _tensor(self, shape: Any, scale: float, zero_point: int) -> int:
        self._tensors.append(p.Tensor("t", tuple(int(size) for size in shape), "uint8", scale, zero_point))
        return len(self._tensors) - 1

    def _names(self, inputs: list[int], output: int) -> dict[str, Any]:
        return {"name": f"operation {len(self._operations)}", "inputs": tuple(inputs), "output": output}

    def _made(self, operation: p.Operation) -> int:
        self._operations.append(operation)
        return operation.output


def weights_like(count: int, entropy: float, zeros: float) -> Any:
    """Return weights around 128 with some entropy in bits and some part of zeros."""
    return np.repeat(np.arange(256, dtype=np.uint8), _counts(count, entropy, zeros))


@functools.lru_cache(maxsize=1024)
def _counts(count: int, entropy: float, zeros: float) -> Any:
    low, high = 0.05, 1e4
    for _ in range(50):  # more spread, more entropy
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _entropy(_shares(middle, zeros)) < entropy else (low, middle)
    steps = np.rint(np.cumsum(_shares(low, zeros)) * count).astype(int)
    return np.diff(steps, prepend=0)


def _shares(deviation: float, zeros: float) -> Any:
    values = np.arange(256) - 128.0
    shares = np.exp(-0.5 * (np.abs(values) - 1) ** 2 / deviation**2) * (values != 0)
    shares *= (1 - zeros) / shares.sum()
    shares[128] = zeros
    return shares


def _entropy(shares: Any) -> float:
    present = shares[shares > 0]
    return float(-(present * np.log2(present)).sum())


def _shape(sizes: list[int]) -> tuple[int, ...]:
    """Return a shape, outermost first; images have a batch of one."""
    filled = [*sizes, *(1,) * (4 - len(sizes))] if len(sizes) > 2 else sizes
    return tuple(filled[::-1])


def _pair_of(spec: dict[str, Any], key: str) -> tuple[int, int]:
    across, down = spec.get(key, [1, 1])
    return down, across


def _padding(size: int, kernel: int, stride: int, dilation: int, padding: Any) -> tuple[int, int]:
    if padding == "same":
        total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
        return total // 2, total - total // 2
    return (0, 0) if padding == "valid" else (padding, padding)
