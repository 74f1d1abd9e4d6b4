"""Random programs for tests, and their run by the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.chips import CHIPS, Chip
from dovetail_npu_vsi.model import ModelDriver

ZERO_POINTS = (0, 1, 127, 128, 255)


def tensor(shape: Any, scale: float = 0.05, zero_point: int = 128, name: str = "t") -> p.Tensor:
    return p.Tensor(name, tuple(shape), "uint8", scale, zero_point)


def of_one(operation: Any, *tensors: p.Tensor) -> p.Program:
    """Return a program of one operation, whose tensors are its inputs and then its output."""
    count = len(tensors)
    return p.Program("one", tensors, (operation,), tuple(range(count - 1)), (count - 1,))


def run(program: p.Program, inputs: Any, chip: Chip = CHIPS[0]) -> list[Any]:
    """Compile and run a program by the model."""
    driver = ModelDriver()
    binary = driver.compile(program, chip, lambda fraction, what: None)
    executable = driver.load(binary, chip)
    arrays = [np.ascontiguousarray(array, np.uint8) for array in inputs]
    outputs = [np.full(program.tensors[number].shape, 0xA5, np.uint8) for number in program.outputs]
    executable.bind([array.ctypes.data for array in (*arrays, *outputs)])
    executable.submit()
    executable.wait(lambda: False)
    executable.close()
    return outputs


def random_bytes(rng: np.random.Generator, shape: Any) -> Any:
    return rng.integers(0, 256, shape).astype(np.uint8)


def random_weights(rng: np.random.Generator, shape: Any, *, per_channel: bool = False) -> p.Weights:
    """Weights of a shape, output channels first, with biases of the size of their sums."""
    bias = rng.integers(-30000, 30000, shape[0]).astype(np.int32)
    if per_channel:
        values = rng.integers(-127, 128, shape).astype(np.int8)
        return p.Weights(values, tuple(rng.uniform(1e-3, 2e-2, shape[0])), (0,) * shape[0], bias)
    return p.Weights(random_bytes(rng, shape), (float(rng.uniform(1e-3, 2e-2)),), (int(rng.choice(ZERO_POINTS)),), bias)


def random_convolution(rng: np.random.Generator, *, depthwise: bool = False) -> p.Program:
    """A program of one convolution of random sizes, odd ones among them."""
    kernel = [int(size) for size in rng.integers(1, 6, 2)]
    stride, dilation = ([int(size) for size in rng.integers(1, 4, 2)] for _ in range(2))
    padding = [int(size) for size in rng.integers(0, 4, 4)]
    reach = [(kernel[i] - 1) * dilation[i] + 1 for i in range(2)]
    size = [
        int(rng.integers(max(reach[i] - padding[i] - padding[i + 2], 1), 24)) if reach[i] < 20 else reach[i] for i in range(2)
    ]
    groups = int(rng.choice([1, 1, 2, 3]))
    channels, filters = (int(count) * groups for count in rng.integers(1, 12, 2))
    if depthwise:
        groups = channels
        filters = channels * int(rng.integers(1, 3))
    batch = int(rng.choice([1, 1, 2]))
    results = [(size[i] + padding[i] + padding[i + 2] - reach[i]) // stride[i] + 1 for i in range(2)]
    weights = random_weights(rng, (filters, channels // groups, *kernel), per_channel=bool(rng.integers(0, 4) == 0))
    low, high = sorted(int(bound) for bound in rng.integers(0, 256, 2)) if rng.integers(0, 3) == 0 else (0, 255)
    operation = p.Convolution(
        name="conv",
        inputs=(0,),
        output=1,
        weights=weights,
        stride=(stride[0], stride[1]),
        padding=(padding[0], padding[1], padding[2], padding[3]),
        dilation=(dilation[0], dilation[1]),
        groups=groups,
        low=low,
        high=high,
    )
    x_scale = float(rng.choice([0.5, 0.25, rng.uniform(0.001, 0.1)]))
    y_scale = float(x_scale * weights.scale[0] * rng.choice([64, 1024, rng.uniform(100, 8000)]))
    x = tensor((batch, channels, *size), x_scale, int(rng.choice(ZERO_POINTS)))
    return of_one(operation, x, tensor((batch, filters, *results), y_scale, int(rng.choice(ZERO_POINTS))))
