"""2,800 random layers: the model against the vendor's simulator, bit for bit.

Opt-in: DOVETAIL_VSI_SDK names the folder of the SDK. Layers are compiled many to a program, which
the simulator compiles and runs in a process of its own.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import large_sums
import numpy as np
import pytest
from programs import ZERO_POINTS, of_one, random_bytes, random_convolution, random_weights, run, tensor

from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.chips import CHIPS
from dovetail_npu_vsi.errors import VsiError
from dovetail_npu_vsi.ovx.driver import OvxDriver

pytestmark = [
    pytest.mark.skipif(not os.environ.get("DOVETAIL_VSI_SDK"), reason="DOVETAIL_VSI_SDK names no SDK of VeriSilicon"),
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]

IN_A_PROGRAM = 10
"""The vendor's compiler takes 32 inputs."""
OF_THE_SHADER = 30
"""In one program: the shader takes half a minute to be compiled, for one layer or for many."""


def zero(rng):
    return int(rng.choice(ZERO_POINTS))


def scale(rng, low=0.005, high=0.1):
    return float(rng.choice([2.0**-5, rng.uniform(low, high)]))


def convolution(rng):
    program = random_convolution(rng)
    if program.operations[0].is_depthwise:
        return depthwise(rng)
    return by_one_scale(program, rng)


def depthwise(rng):
    return by_one_scale(random_convolution(rng, depthwise=True), rng)


def by_one_scale(program, rng):
    """Leave out weights with a scale for each channel, which run on the shader."""
    (operation,) = program.operations
    if operation.weights.is_per_channel:
        program = replace(
            program, operations=(replace(operation, weights=random_weights(rng, operation.weights.values.shape)),)
        )
    return of_one_image(program)


def of_one_image(program):
    """Return a convolution of a batch of one, without clamp."""
    (operation,) = program.operations
    # A fused clamp is the driver's own, with its table: what saturates is enough here.
    batch = program.tensors[0].shape[0]
    if batch > 1:
        tensors = tuple(replace(one, shape=(1, *one.shape[1:])) for one in program.tensors)
        program = replace(program, tensors=tensors)
    return replace(program, operations=(replace(operation, low=0, high=255),))


def convolution_by_channel(rng):
    return by_scale_of_channel(random_convolution(rng), rng)


def depthwise_by_channel(rng):
    return by_scale_of_channel(random_convolution(rng, depthwise=True), rng)


def by_scale_of_channel(program, rng):
    """Return a convolution with a scale for each channel, clamp and batch included."""
    (operation,) = program.operations
    weights = random_weights(rng, operation.weights.values.shape, per_channel=True)
    return replace(program, operations=(replace(operation, weights=weights),))


def fully_connected_by_channel(rng):
    return fully_connected(rng, per_channel=True)


def fully_connected(rng, *, per_channel=False):
    rows, columns, depth = (int(one) for one in (rng.choice([1, 1, 2, 5]), rng.integers(1, 130), rng.integers(1, 700)))
    weights = random_weights(rng, (columns, depth), per_channel=per_channel)
    operation = p.FullyConnected(name="fc", inputs=(0,), output=1, weights=weights, low=0, high=255)
    x = tensor((rows, depth), scale(rng), zero(rng))
    factor = float(rng.choice([256.0, 1024.0, rng.uniform(30, 300) * depth**0.5]))
    return of_one(operation, x, tensor((rows, columns), x.scale * weights.scale[0] * factor, zero(rng)))


def pooling(rng):
    function = str(rng.choice(["max", "average"]))
    size = int(rng.choice([2, 2, 3, 3, 5, 7]))
    stride = int(rng.choice([1, 2])) if function == "max" or rng.integers(0, 4) else 3
    image = [int(one) for one in rng.integers(size, 24, 2)]
    padded = int(rng.integers(0, 2)) if size == 3 else 0
    results = [(side + 2 * padded - size) // stride + 1 for side in image]
    channels, one = int(rng.integers(1, 20)), tensor((1,), scale(rng), zero(rng))
    operation = p.Pooling(
        name="pool",
        inputs=(0,),
        output=1,
        function=function,
        size=(size, size),
        stride=(stride, stride),
        padding=(padded,) * 4,
        count_padding=False,
        low=0,
        high=255,
    )
    return of_one(operation, replace(one, shape=(1, channels, *image)), replace(one, shape=(1, channels, *results)))


def product(rng):
    shape = tuple(int(one) for one in rng.integers(1, 17, 4))[: int(rng.integers(2, 5))]
    shape = (1, *shape[1:])
    a, b = tensor(shape, scale(rng), zero(rng)), tensor(shape, scale(rng), zero(rng))
    y = tensor(shape, a.scale * b.scale * float(rng.uniform(20, 300)), zero(rng))
    return of_one(p.Binary(name="product", inputs=(0, 1), output=2, function="multiply", low=0, high=255), a, b, y)


def addition(rng):
    """Of inputs, or of results: another engine."""
    shape = (1, *(int(one) for one in rng.integers(1, 17, 3)))
    a = tensor(shape, scale(rng), zero(rng))
    b = tensor(shape, a.scale * float(rng.uniform(0.25, 4)), zero(rng))
    y = tensor(shape, a.scale * float(rng.uniform(0.7, 3)), zero(rng))
    function = str(rng.choice(["add", "subtract"]))
    if rng.integers(0, 2):
        return of_one(p.Binary(name="sum", inputs=(0, 1), output=2, function=function, low=0, high=255), a, b, y)
    made = [replace(one, scale=one.scale * 1.01) for one in (a, b)]
    before = [p.Requantize(name=f"before {n}", inputs=(n,), output=n + 2, low=0, high=255) for n in range(2)]
    last = p.Binary(name="sum", inputs=(2, 3), output=4, function=function, low=0, high=255)
    return p.Program("sums", (a, b, *made, y), (*before, last), (0, 1), (4,))


def requantization(rng):
    shape = (1, *(int(one) for one in rng.integers(1, 30, 2)))
    x = tensor(shape, scale(rng), zero(rng))
    y = tensor(shape, x.scale * float(rng.choice([0.5, 2.0, rng.uniform(0.3, 3)])), zero(rng))
    return of_one(p.Requantize(name="scaled", inputs=(0,), output=1, low=0, high=255), x, y)


def softmax(rng):
    shape = (1, int(rng.integers(2, 300)))
    operation = p.Softmax(name="softmax", inputs=(0,), output=1, axis=1, beta=1.0)
    return of_one(operation, tensor(shape, scale(rng), zero(rng)), tensor(shape, 1 / 256, 0))


def nearest(rng):
    """Sizes at random, or by whole factors: other engines."""
    channels, *image = (int(one) for one in rng.integers(1, [65, 25, 25]))
    factor = int(rng.integers(2, 7))
    larger = [side * factor for side in image]
    before, after = [(image, larger), (larger, image), (image, [int(one) for one in rng.integers(1, 60, 2)])][
        rng.integers(0, 3)
    ]
    align_corners, half_pixel = [(False, False), (False, True), (True, False)][rng.integers(0, 3)]
    operation = p.Resize(
        name="resized", inputs=(0,), output=1, mode="nearest", align_corners=align_corners, half_pixel=half_pixel
    )
    x = tensor((int(rng.integers(1, 4)), channels, *before), scale(rng), zero(rng))
    return of_one(operation, x, replace(x, shape=(*x.shape[:2], *after)))


def bilinear(rng):
    """By factors whose bits are known."""
    channels, *image = (int(one) for one in rng.integers(1, [65, 25, 25]))
    enlarges, half_pixel = rng.integers(0, 2, 2).astype(bool)
    factor = int(rng.choice([2, 2, 3, 4, 8])) if enlarges else int(rng.integers(2, 9))
    larger = [side * factor for side in image]
    before, after = (image, larger) if enlarges else (larger, image)
    operation = p.Resize(
        name="resized", inputs=(0,), output=1, mode="bilinear", align_corners=False, half_pixel=bool(half_pixel)
    )
    x = tensor((int(rng.integers(1, 4)), channels, *before), scale(rng), zero(rng))
    return of_one(operation, x, replace(x, shape=(*x.shape[:2], *after)))


def function(rng):
    name = str(rng.choice(["sigmoid", "tanh", "swish", "hard_swish", "leaky_relu"]))
    operation = p.Function(name="f", inputs=(0,), output=1, function=name, alpha=1.0 if name == "swish" else 0.1, beta=0.0)
    shape = (1, 256)
    return of_one(operation, tensor(shape, scale(rng), zero(rng)), tensor(shape, float(rng.uniform(0.005, 0.05)), zero(rng)))


def joined(programs):
    """Return one program of all layers of several."""
    tensors: list[Any] = []
    operations: list[Any] = []
    inputs: list[int] = []
    outputs: list[int] = []
    for number, one in enumerate(programs):
        first = len(tensors)
        tensors += [replace(made, name=f"{number} {made.name}") for made in one.tensors]
        for operation in one.operations:
            moved = tuple(first + at for at in operation.inputs)
            operations.append(
                replace(operation, name=f"{number} {operation.name}", inputs=moved, output=first + operation.output)
            )
        inputs += [first + at for at in one.inputs]
        outputs += [first + at for at in one.outputs]
    return p.Program("layers", tuple(tensors), tuple(operations), tuple(inputs), tuple(outputs))


def simulated(program, inputs, chip):
    driver = OvxDriver()
    executable = driver.load(driver.compile(program, chip, lambda *_: None), chip)
    outputs = [np.full(program.tensors[number].shape, 0xA5, np.uint8) for number in program.outputs]
    executable.bind([array.ctypes.data for array in (*inputs, *outputs)])
    executable.submit()
    executable.wait(lambda: False)
    executable.close()
    return outputs


COUNTS = {
    convolution: 600,
    depthwise: 300,
    fully_connected: 300,
    pooling: 200,
    product: 100,
    requantization: 200,
    softmax: 60,
    addition: 200,
    function: 100,
    nearest: 120,
    bilinear: 120,
    convolution_by_channel: 240,
    depthwise_by_channel: 120,
    fully_connected_by_channel: 120,
}
BY_CHANNEL = (convolution_by_channel, depthwise_by_channel, fully_connected_by_channel)


def declared(program):
    """Return by how much results may differ, where they may; README.md says why."""
    return int(isinstance(program.operations[-1], p.Function))


def judge(programs, rng, chip):
    """Compare layers, and return how many of them the vendor's libraries end on.

    Where they end on a program of several, each half is tried by itself.
    """
    program = joined(programs)
    inputs = [random_bytes(rng, program.tensors[number].shape) for number in program.inputs]
    try:
        expected = simulated(program, inputs, chip)
    except VsiError:
        if len(programs) == 1:
            return 1
        middle = len(programs) // 2
        return judge(programs[:middle], rng, chip) + judge(programs[middle:], rng, chip)
    for number, (one, other) in enumerate(zip(run(program, inputs, chip), expected, strict=True)):
        far = np.abs(one.astype(int) - other)
        assert far.max() <= declared(programs[number]), (programs[number].operations[-1], programs[number].tensors)
    return 0


def in_a_program(kind):
    return OF_THE_SHADER if kind in BY_CHANNEL else IN_A_PROGRAM


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize(
    ("kind", "batch"),
    [(kind, batch) for kind, count in COUNTS.items() for batch in range(count // in_a_program(kind))],
    ids=lambda one: one.__name__ if callable(one) else str(one),
)
def test_layers(kind, batch, chip):
    rng = np.random.default_rng([batch, *kind.__name__.encode()])
    programs = [kind(rng) for _ in range(in_a_program(kind))]
    assert judge(programs, rng, chip) <= len(programs) // 5, "they end on some programs, seldom on one layer"


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("seed", range(2))
def test_sums_beyond_what_floats_have(seed, chip):
    rng = np.random.default_rng(seed)
    programs, inputs = zip(*(large_sums.program_of(layer, rng) for layer in large_sums.LAYERS.values()), strict=True)
    program = joined(programs)
    for name, made, expected in zip(
        large_sums.LAYERS, run(program, inputs, chip), simulated(program, inputs, chip), strict=True
    ):
        np.testing.assert_array_equal(made, expected, name)


@pytest.mark.parametrize("per_channel", [False, True], ids=["one scale", "a scale each"])
@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_an_average_before_a_kernel_of_one_pixel_is_rounded_and_kept(chip, per_channel):
    """The driver would make one convolution of both; see `places`."""
    rng = np.random.default_rng(per_channel)
    x, mean, y = tensor((1, 96, 3, 3), 0.02, 0), tensor((1, 96, 1, 1), 0.02, 0), tensor((1, 40, 1, 1), 0.02, 127)
    whole = {"stride": (1, 1), "padding": (0, 0, 0, 0), "low": 0, "high": 255}
    average = p.Pooling(name="mean", inputs=(0,), output=1, function="average", size=(3, 3), count_padding=False, **whole)
    weights = random_weights(rng, (40, 96, 1, 1), per_channel=per_channel)
    product = p.Convolution(name="product", inputs=(1,), output=2, weights=weights, dilation=(1, 1), groups=1, **whole)
    program = p.Program("both", (x, mean, y), (average, product), (0,), (1, 2))
    inputs = [random_bytes(rng, x.shape) // 8]
    for made, expected in zip(run(program, inputs, chip), simulated(program, inputs, chip), strict=True):
        assert expected.any()
        np.testing.assert_array_equal(made, expected)
