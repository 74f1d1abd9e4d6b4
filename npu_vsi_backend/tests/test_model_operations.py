"""Windows, sums, tables and movement of the model, bit for bit against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from program_reference import evaluate
from programs import ZERO_POINTS, of_one, random_bytes, run, tensor

from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.chips import CHIPS

CHIP = CHIPS[0]


def judge(program, rng, chip=CHIP):
    inputs = [random_bytes(rng, program.tensors[number].shape) for number in program.inputs]
    for made, expected in zip(run(program, inputs, chip), evaluate(program, chip, inputs), strict=True):
        np.testing.assert_array_equal(made, expected)


def zero(rng):
    return int(rng.choice(ZERO_POINTS))


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("function", ["max", "average"])
@pytest.mark.parametrize("seed", range(40))
def test_pooling(chip, function, seed):
    rng = np.random.default_rng([seed, len(function)])
    size, stride = ([int(one) for one in rng.integers(1, top, 2)] for top in (6, 4))
    if seed % 8 == 0:
        size = [3, 3]
        stride = [1, 1]
    padding = [int(rng.integers(0, size[i % 2])) for i in range(4)] if seed % 3 else [int(size[0] > 1), int(size[1] > 1)] * 2
    image = [int(rng.integers(size[i], 20)) for i in range(2)]
    results = [(image[i] + padding[i] + padding[i + 2] - size[i]) // stride[i] + 1 for i in range(2)]
    batch, channels = (int(one) for one in rng.integers(1, [3, 9]))
    scale, z = float(rng.uniform(0.01, 1)), zero(rng)
    operation = p.Pooling(
        name="pool",
        inputs=(0,),
        output=1,
        function=function,
        size=tuple(size),
        stride=tuple(stride),
        padding=tuple(padding),
        count_padding=bool(rng.integers(0, 2)),
        low=0,
        high=255,
    )
    x, y = tensor((batch, channels, *image), scale, z), tensor((batch, channels, *results), scale, z)
    judge(of_one(operation, x, y), rng, chip)
    judge(of_one(operation, x, y), rng, replace(chip, sram_bytes=512))


@pytest.mark.parametrize("function", ["add", "subtract", "multiply"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((7,), (7,)),
        ((2, 3, 5, 7), (2, 3, 5, 7)),
        ((2, 3, 5, 7), (1, 3, 1, 1)),
        ((1, 1, 1, 7), (2, 3, 5, 1)),
        ((1, 1), (4, 9)),
        ((1,), (1,)),
    ],
)
def test_binary(function, a, b):
    rng = np.random.default_rng([len(function), *a])
    for _ in range(5):
        shape = np.broadcast_shapes(a, b)
        scales = rng.uniform(0.005, 0.1, 3)
        if function == "multiply":
            scales[2] = scales[0] * scales[1] * 100
        low, high = (0, 255) if rng.integers(0, 2) else (20, 200)
        operation = p.Binary(name="sum", inputs=(0, 1), output=2, function=function, low=low, high=high)
        tensors = [tensor(size, float(scale), zero(rng)) for size, scale in zip((a, b, shape), scales, strict=True)]
        judge(of_one(operation, *tensors), rng)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
@pytest.mark.parametrize("function", ["add", "subtract"])
@pytest.mark.parametrize("seed", range(15))
def test_sums_of_results_are_products_of_bytes(chip, function, seed):
    """Neither summand is an input: all pairs of bytes."""
    rng = np.random.default_rng([seed, 3])
    scale = float(rng.uniform(0.01, 0.1))
    scales = (scale, scale * float(rng.uniform(1 / 5.9, 5.9) if seed % 5 else 1.0), scale * float(rng.uniform(0.5, 2)))
    tensors = [tensor((256, 256), one, zero(rng)) for one in (scales[0], scales[1], *scales)]
    copies = [p.Permute(name=f"copy {number}", inputs=(number,), output=number + 2, order=(0, 1)) for number in range(2)]
    operation = p.Binary(name="sum", inputs=(2, 3), output=4, function=function, low=0, high=255)
    for number in range(2):
        tensors[number + 2] = tensors[number]
    program = p.Program("sums", tuple(tensors), (*copies, operation), (0, 1), (4,))
    grid = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    np.testing.assert_array_equal(run(program, grid, chip)[0], evaluate(program, chip, grid)[0])


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1,), 0), ((1, 1001), 1), ((3, 10), 1), ((3, 10), 0), ((2, 3, 4, 5), 1), ((2, 3, 4, 5), 3), ((300, 2), 0)],
)
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_softmax(shape, axis, beta):
    rng = np.random.default_rng([*shape, axis])
    for scale, y_scale, z in ((0.05, 1 / 256, 0), (0.2, 1 / 256, 0), (1.0, 0.01, 128)):
        operation = p.Softmax(name="softmax", inputs=(0,), output=1, axis=axis, beta=beta)
        judge(of_one(operation, tensor(shape, scale, zero(rng)), tensor(shape, y_scale, z)), rng)


def test_requantization_of_every_byte():
    rng = np.random.default_rng(5)
    every = np.arange(256, dtype=np.uint8)
    for _ in range(300):
        x = tensor((256,), float(np.exp(rng.uniform(-7, 1))), zero(rng))
        y = tensor((256,), float(x.scale * np.exp(rng.uniform(-3, 3))), zero(rng))
        program = of_one(p.Requantize(name="scaled", inputs=(0,), output=1, low=0, high=255), x, y)
        np.testing.assert_array_equal(run(program, [every])[0], evaluate(program, CHIP, [every])[0])


@pytest.mark.parametrize("function", ["sigmoid", "tanh", "swish", "hard_swish", "hard_sigmoid", "leaky_relu"])
def test_functions_of_every_byte(function):
    rng = np.random.default_rng(len(function))
    every = np.arange(256, dtype=np.uint8)
    for _ in range(40):
        x = tensor((256,), float(np.exp(rng.uniform(-6, 0))), zero(rng))
        y = tensor((256,), float(np.exp(rng.uniform(-6, -1))), zero(rng))
        operation = p.Function(name="f", inputs=(0,), output=1, function=function, alpha=0.2, beta=0.5)
        program = of_one(operation, x, y)
        np.testing.assert_array_equal(run(program, [every])[0], evaluate(program, CHIP, [every])[0])


def test_a_requantization_to_the_same_changes_nothing():
    every = np.arange(256, dtype=np.uint8)
    same = tensor((256,), 0.0173, 77)
    program = of_one(p.Requantize(name="scaled", inputs=(0,), output=1, low=0, high=255), same, same)
    np.testing.assert_array_equal(run(program, [every])[0], every)


@pytest.mark.parametrize(
    ("shape", "order"),
    [((5,), (0,)), ((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4, 5), (0, 3, 1, 2)), ((2, 3, 4, 5), (3, 2, 1, 0))],
)
def test_permute(shape, order):
    operation = p.Permute(name="turned", inputs=(0,), output=1, order=order)
    judge(of_one(operation, tensor(shape), tensor([shape[axis] for axis in order])), np.random.default_rng(0))


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_concat(axis):
    rng = np.random.default_rng(axis)
    shapes = [[2, 3, 4, 5] for _ in range(3)]
    for index, shape in enumerate(shapes):
        shape[axis] = index + 1
    result = [2, 3, 4, 5]
    result[axis] = 6
    tensors = [tensor(shape, 0.02 * (index + 1), 100 + index) for index, shape in enumerate(shapes)]
    operation = p.Concat(name="joined", inputs=(0, 1, 2), output=3, axis=axis)
    judge(of_one(operation, *tensors, tensor(result, 0.04, 101)), rng)


def test_pad():
    operation = p.Pad(name="padded", inputs=(0,), output=1, before=(0, 1, 2, 0), after=(1, 0, 3, 4), value=17)
    judge(of_one(operation, tensor((1, 2, 3, 4)), tensor((2, 3, 8, 8))), np.random.default_rng(0))


@pytest.mark.parametrize(("align_corners", "half_pixel"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("seed", range(20))
def test_nearest_pixels(align_corners, half_pixel, seed):
    rng = np.random.default_rng(seed)
    batch, channels, *sizes = (int(one) for one in rng.integers(1, [4, 20, 60, 60, 300, 300]))
    operation = p.Resize(
        name="resized", inputs=(0,), output=1, mode="nearest", align_corners=align_corners, half_pixel=half_pixel
    )
    x, y = tensor((batch, channels, *sizes[:2]), 0.05, zero(rng)), tensor((batch, channels, *sizes[2:]))
    judge(of_one(operation, x, replace(x, shape=y.shape)), rng)


@pytest.mark.parametrize("half_pixel", [False, True])
@pytest.mark.parametrize("factor", [(2, 1), (3, 1), (4, 1), (8, 1), (1, 2), (1, 3), (1, 4), (1, 7), (1, 8)])
@pytest.mark.parametrize("seed", range(3))
def test_mixed_pixels(half_pixel, factor, seed):
    rng = np.random.default_rng(seed)
    batch, channels, *image = (int(one) for one in rng.integers(1, [4, 10, 20, 20]))
    before, after = ([side * some for side in image] for some in reversed(factor))
    operation = p.Resize(name="resized", inputs=(0,), output=1, mode="bilinear", align_corners=False, half_pixel=half_pixel)
    x = tensor((batch, channels, *before), 0.05, zero(rng))
    judge(of_one(operation, x, replace(x, shape=(batch, channels, *after))), rng)


def test_nearest_pixels_of_large_images_are_several_commands():
    rng = np.random.default_rng(0)
    operation = p.Resize(name="resized", inputs=(0,), output=1, mode="nearest", align_corners=False, half_pixel=False)
    judge(of_one(operation, tensor((2, 3, 70, 90)), tensor((2, 3, 700, 810))), rng)


def chain(rng, length):
    """A program that branches and joins: sums of permuted and rescaled tensors of one shape."""
    shape = (1, 4, 6, 6)
    tensors, operations = [tensor(shape, 0.05, 128)], []
    for number in range(length):
        source = int(rng.integers(0, len(tensors)))
        other = int(rng.integers(0, len(tensors)))
        made = len(tensors)
        tensors.append(tensor(shape, 0.05, 128, f"t{made}"))
        kind = number % 4
        names = {"name": f"op{number}", "output": made}
        if kind == 0:
            operations.append(p.Binary(**names, inputs=(source, other), function="add", low=0, high=255))
        elif kind == 1:
            operations.append(p.Permute(**names, inputs=(source,), order=(0, 1, 3, 2)))
        elif kind == 2:
            operations.append(p.Reshape(**names, inputs=(source,)))
        else:
            operations.append(p.Requantize(**names, inputs=(source,), low=3, high=250))
    outputs = {len(tensors) - 1, *(int(one) for one in rng.integers(1, len(tensors), 2))}
    return p.Program("chain", tuple(tensors), tuple(operations), (0,), tuple(sorted(outputs)))


@pytest.mark.parametrize("sram_bytes", [2, 400, 900, 260096])
@pytest.mark.parametrize("seed", range(25))
def test_tensors_that_live_together_never_share_memory(seed, sram_bytes):
    """Whatever lies on the chip, in DDR or at the caller's, and whatever a reshape shares."""
    rng = np.random.default_rng(seed)
    judge(chain(rng, 14), rng, replace(CHIP, sram_bytes=sram_bytes))


def test_an_input_that_is_reshaped_to_an_output_is_copied():
    operation = p.Reshape(name="flat", inputs=(0,), output=1)
    judge(of_one(operation, tensor((2, 3)), tensor((6,))), np.random.default_rng(0))
