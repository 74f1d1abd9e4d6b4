"""From layers to programs: axes, signs, folded layers, one scale for many."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail
from dovetail import DataLayout, DType, Network, Quantization, SubgraphView
from dovetail.layers import Activation, ActivationFunction, BinaryOperation, Concat, Convolution2d, ElementwiseBinary, Softmax
from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.lowering import lower

Q = Quantization.per_tensor
WORKING = ("dovetail.Input", "dovetail.Output", "dovetail.Constant")


def whole(network, **how):
    """Lower all layers of a network."""
    return lower(SubgraphView(network, [layer for layer in network.layers if layer.kind not in WORKING]), **how)


def kinds(program):
    return [type(operation).__name__ for operation in program.operations]


OUT = Q(0.1, 3)


def convolved(network, x, filters, rng, layout, *, dtype=DType.INT8, per_axis=False, out=OUT, activation=None):
    """Add a convolution of 3x3 with random weights."""
    channels = x.shape[layout.channel_axis]
    shape = (filters, channels, 3, 3) if layout is DataLayout.NCHW else (filters, 3, 3, channels)
    low, high = dtype.limits
    weights = rng.integers(low + per_axis, high + 1, shape).astype(dtype.numpy)
    unit = (
        out.scale[0] / x.known_info.quantization.scale[0] / (300 * channels)
    )  # so that a step of the input is less than one of the result
    scale = rng.uniform(unit / 2, unit, filters) if per_axis else [unit]
    quantization = Quantization.per_axis(scale, axis=0) if per_axis else Q(unit, 0 if dtype is DType.INT8 else 120)
    w = network.constant(weights, quantization=quantization)
    bias_scale = [0.05 * float(one) for one in scale]
    bias = network.constant(
        rng.integers(-3000, 3000, filters).astype(np.int32),
        quantization=Quantization.per_axis(bias_scale, axis=0) if per_axis else Q(bias_scale[0]),
    )
    descriptor = Convolution2d(padding=(1, 1, 1, 1), layout=layout, activation=activation and ActivationFunction(activation))
    return network.add(descriptor, x, w, bias, quantization=out).output


def softmax(network, x, axis, zero=-128):
    return network.add(Softmax(axis=axis), x, quantization=Q(1 / 256, zero)).output


def relu(network, x, out):
    return network.add(Activation(function=ActivationFunction.RELU), x, quantization=out).output


def combined(network, operation, a, b, out):
    return network.add(ElementwiseBinary(operation=BinaryOperation(operation)), a, b, quantization=out).output


def image(network, layout=DataLayout.NHWC, dtype=DType.INT8, channels=3, size=8):
    shape = (1, channels, size, size) if layout is DataLayout.NCHW else (1, size, size, channels)
    return network.input("x", shape, dtype, quantization=Q(0.05, 5))


def test_images_with_channels_last_are_turned_once_on_each_side():
    rng, network = np.random.default_rng(0), Network("net")
    x = image(network)
    for _ in range(3):
        x = convolved(network, x, 3, rng, DataLayout.NHWC)
    x = network.pooling2d(relu(network, x, Q(0.1, 3)), "max", 2, stride=2, layout=DataLayout.NHWC)
    network.output(x, "y")
    program = whole(network).program
    assert kinds(program) == ["Permute", *["Convolution"] * 3, "Pooling", "Permute"]
    assert (program.operations[3].low, program.operations[3].high) == (3 + 128, 255)
    assert program.operations[0].order == (0, 3, 1, 2)
    assert program.operations[-1].order == (0, 2, 3, 1)


def test_images_with_channels_first_are_not_turned():
    rng, network = np.random.default_rng(0), Network("net")
    x = convolved(network, image(network, DataLayout.NCHW), 4, rng, DataLayout.NCHW)
    network.output(softmax(network, x, 1), "y")
    assert kinds(whole(network).program) == ["Convolution", "Softmax"]


def test_axes_follow_the_order_in_which_they_are_stored():
    rng, network = np.random.default_rng(0), Network("net")
    x = convolved(network, image(network), 4, rng, DataLayout.NHWC)
    joined = network.concat([x, x], axis=-1)
    network.output(softmax(network, joined, 3), "y")
    program = whole(network).program
    assert kinds(program) == ["Permute", "Convolution", "Concat", "Softmax", "Permute"]
    assert (program.operations[2].axis, program.operations[3].axis) == (1, 1)


def test_rows_of_planes_are_read_by_reordered_weights():
    rng, network = np.random.default_rng(0), Network("net")
    x = convolved(network, image(network, size=4), 5, rng, DataLayout.NHWC)
    rows = network.reshape(x, (1, 80))
    weights = rng.integers(-127, 128, (6, 80)).astype(np.int8)
    w = network.constant(weights, quantization=Q(0.02))
    network.output(network.fully_connected(rows, w, quantization=Q(0.5)), "y")
    program = whole(network).program
    assert kinds(program) == ["Permute", "Convolution", "Reshape", "FullyConnected"]
    expected = weights.reshape(6, 4, 4, 5).transpose(0, 3, 1, 2).reshape(6, 80).astype(np.int16) + 128
    np.testing.assert_array_equal(program.operations[-1].weights.values, expected)


def test_rows_that_others_read_too_are_in_their_order():
    rng, network = np.random.default_rng(0), Network("net")
    x = convolved(network, image(network, size=4), 5, rng, DataLayout.NHWC)
    rows = network.reshape(x, (1, 80))
    w = network.constant(rng.integers(-127, 128, (6, 80)).astype(np.int8), quantization=Q(0.02))
    network.output(network.fully_connected(rows, w, quantization=Q(0.5)), "y")
    network.output(rows, "rows")
    assert kinds(whole(network).program) == ["Permute", "Convolution", "Permute", "Reshape", "FullyConnected"]


def test_an_image_of_one_pixel_is_turned_for_nothing():
    rng, network = np.random.default_rng(0), Network("net")
    x = convolved(network, image(network, size=1), 5, rng, DataLayout.NHWC)
    network.output(network.reshape(x, (1, 5)), "y")
    program = whole(network).program
    assert "Permute" not in kinds(program)


def test_int8_is_uint8_with_the_sign_bit_flipped():
    rng, network = np.random.default_rng(0), Network("net")
    network.output(convolved(network, image(network), 4, rng, DataLayout.NHWC, activation="relu"), "y")
    lowered = whole(network)
    assert (lowered.signed_inputs, lowered.signed_outputs) == ((True,), (True,))
    (convolution,) = (one for one in lowered.program.operations if isinstance(one, p.Convolution))
    assert lowered.program.tensors[0].zero_point == 5 + 128
    assert convolution.weights.values.dtype == np.uint8
    assert convolution.weights.zero_point == (128,)
    assert (convolution.low, convolution.high) == (3 + 128, 255)


def test_a_scale_for_each_channel_stays_unless_one_is_allowed():
    rng, network = np.random.default_rng(0), Network("net")
    network.output(convolved(network, image(network), 4, rng, DataLayout.NHWC, per_axis=True), "y")
    (kept,) = (one for one in whole(network).program.operations if isinstance(one, p.Convolution))
    (given,) = (one for one in whole(network, per_tensor=True).program.operations if isinstance(one, p.Convolution))
    assert kept.weights.is_per_channel
    assert kept.weights.values.dtype == np.int8
    assert given.weights.scale == (max(kept.weights.scale),)
    column = np.reshape(kept.weights.scale, (-1, 1, 1, 1))
    real = kept.weights.values * column
    np.testing.assert_allclose(
        (given.weights.values.astype(int) - 128) * given.weights.scale[0], real, atol=given.weights.scale[0] / 2
    )
    np.testing.assert_allclose(
        given.weights.bias * given.weights.scale[0],
        kept.weights.bias * np.array(kept.weights.scale),
        atol=given.weights.scale[0] / 2,
    )


def test_equal_scales_of_all_channels_are_one():
    network = Network("net")
    x = network.input("x", (1, 4), DType.INT8, quantization=Q(0.1))
    w = network.constant(np.ones((3, 4), np.int8), quantization=Quantization.per_axis([0.5] * 3, axis=0))
    network.output(network.fully_connected(x, w, quantization=Q(0.1)), "y")
    (layer,) = whole(network).program.operations
    assert not layer.weights.is_per_channel


def activated(network, function, x, out):
    return network.add(Activation(function=ActivationFunction(function)), x, quantization=out).output


def test_what_is_rescaled_behind_a_product_is_rounded_once():
    rng, network = np.random.default_rng(0), Network("net")
    x = convolved(network, image(network, DataLayout.NCHW), 4, rng, DataLayout.NCHW)
    network.output(activated(network, "relu", x, Q(0.07, -10)), "y")
    (operation,) = whole(network).program.operations
    tensors = whole(network).program.tensors
    assert isinstance(operation, p.Convolution)
    assert (tensors[operation.output].scale, operation.low, operation.high) == (0.07, -10 + 128, 255)
    assert operation.sources == ("convolution2d", "activation")


def test_what_others_read_too_is_not_folded():
    rng, network = np.random.default_rng(0), Network("net")
    x = convolved(network, image(network, DataLayout.NCHW), 4, rng, DataLayout.NCHW)
    network.output(activated(network, "relu", x, Q(0.07, -10)), "y")
    network.output(x, "before")
    assert kinds(whole(network).program) == ["Convolution", "Requantize"]


def test_x_times_its_sigmoid_is_one_function():
    network = Network("net")
    x = image(network, DataLayout.NCHW)
    gate = activated(network, "sigmoid", x, Q(1 / 256, -128))
    network.output(combined(network, "mul", gate, x, Q(0.05, -100)), "y")
    (operation,) = whole(network).program.operations
    assert (operation.function, operation.alpha) == ("swish", 1.0)
    assert len(whole(network).program.tensors) == 2


def network_of(seed):
    """A network of every kind that is taken, channels first or last, of int8 or uint8."""
    rng = np.random.default_rng(seed)
    layout = DataLayout.NHWC if seed % 2 else DataLayout.NCHW
    dtype = DType.INT8 if seed % 3 else DType.UINT8
    channels = layout.channel_axis
    network = Network(f"random {seed}")
    x = image(network, layout, dtype, channels=int(rng.integers(1, 5)), size=int(rng.integers(4, 10)))
    zero = 3 if dtype is DType.INT8 else 131
    out = Q(float(rng.uniform(0.2, 0.6)), zero)
    x = convolved(network, x, 6, rng, layout, dtype=dtype, per_axis=dtype is DType.INT8 and bool(rng.integers(0, 2)), out=out)
    branches = [x]
    for number in range(int(rng.integers(3, 9))):
        x = branches[int(rng.integers(0, len(branches)))]
        kind = int(rng.integers(0, 8))
        if kind == 0:
            branches.append(convolved(network, x, 6, rng, layout, dtype=dtype, out=out, activation=["relu", None][number % 2]))
        elif kind == 1:
            branches.append(combined(network, "add", x, branches[0], out))
        elif kind == 2:
            network.output(combined(network, "mul", x, x, Q(out.scale[0] * 100, zero)), f"square {number}")
        elif kind == 3:
            branches.append(network.pooling2d(x, ["max", "average"][number % 2], 3, padding=1, layout=layout))
        elif kind == 4:
            joined = network.add(Concat(axis=channels), x, branches[-1], quantization=out).output
            branches.append(convolved(network, joined, 6, rng, layout, dtype=dtype, out=out))
        elif kind == 5:
            branches.append(network.permute(network.permute(x, (3, 1, 2, 0)), (3, 1, 2, 0)))
        elif kind == 6:
            branches.append(relu(network, x, out))
        else:
            shape = x.shape
            branches.append(network.reshape(network.reshape(x, (int(np.prod(shape)),)), shape))
    for number, x in enumerate(branches[-2:]):
        network.output(x, f"image {number}")
    pooled = network.global_pooling(branches[-1], "average", layout=layout)
    rows = network.reshape(pooled, (1, 6))
    w = network.constant(rng.integers(-127, 128, (4, 6)).astype(np.int8), quantization=Q(0.002))
    classes = network.fully_connected(rows, w, quantization=Q(0.1, zero))
    network.output(softmax(network, classes, -1, dtype.limits[0]), "classes")
    return network


@pytest.mark.parametrize("seed", range(30))
def test_networks_compute_what_the_reference_computes(seed):
    """Up to a step for each layer: the NPU rounds ties to even, TensorFlow Lite does not."""
    network = network_of(seed)
    rng = np.random.default_rng(seed)
    info = network.inputs[0].output.known_info
    x = rng.integers(*info.dtype.limits, info.shape, endpoint=True).astype(info.dtype.numpy)
    with dovetail.load(network.copy(), ["VsiNpu"], fallback=False) as mine, dovetail.load(network, ["CpuRef"]) as theirs:
        made, expected = mine.run({"x": x}), theirs.run({"x": x})
    for name, array in made.items():
        far = np.abs(array.astype(int) - expected[name].astype(int))
        if name == "classes":  # exponentials of sums of differences
            assert far.max() <= 16
            continue
        assert far.max() <= 3, name
        assert np.mean(far > 1) <= 0.02, name
