"""Programs compiled and run by the vendor's own stack, against integer arithmetic.

They need VeriSilicon's SDK for x86-64, which is not part of this repository:
DOVETAIL_VSI_SDK=FOLDER names the unpacked one, with `lib` in it. The driver opens its libraries in
child processes alone.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from integer_arithmetic import EXPECTED, combined, convolved, single

from dovetail_npu_vsi.chips import CHIPS
from dovetail_npu_vsi.errors import VsiError
from dovetail_npu_vsi.ovx.binary import operands_of
from dovetail_npu_vsi.ovx.driver import OvxDriver
from dovetail_npu_vsi.ovx.places import Places
from dovetail_npu_vsi.program import (
    Binary,
    Concat,
    Convolution,
    FullyConnected,
    Function,
    Pad,
    Permute,
    Pooling,
    Program,
    Requantize,
    Reshape,
    Resize,
    Softmax,
    Tensor,
    Weights,
)

SDK = os.environ.get("DOVETAIL_VSI_SDK", "")

pytestmark = [
    pytest.mark.skipif(not SDK, reason="DOVETAIL_VSI_SDK names no folder of VeriSilicon's SDK"),
    pytest.mark.timeout(300),
]

IMAGE = (1, 8, 12, 16)


@pytest.fixture
def driver():
    """The driver of the simulator."""
    return OvxDriver(Places(sdk=SDK))


def results(driver, program, arrays, chip=CHIPS[0]):
    """Compile a program, run it twice, and return what the second run gives."""
    executable = driver.load(driver.compile(program, chip, lambda fraction, text: None), chip)
    outputs = [np.zeros(program.tensors[number].shape, program.tensors[number].dtype) for number in program.outputs]
    try:
        given = [(operand.shape, operand.dtype) for operand in (*executable.inputs, *executable.outputs)]
        assert given == [(array.shape or (1,), array.dtype.name) for array in (*arrays, *outputs)]
        rest = [np.zeros_like(array) for array in arrays]
        for group in (rest, arrays):
            executable.bind([array.ctypes.data for array in (*group, *outputs)])
            executable.submit()
            executable.wait(lambda: False)
    finally:
        executable.close()
    return outputs


# -- what results should be ----------------------------------------------------------------------


def tensor(shape, scale=0.05, zero_point=128):
    return Tensor("t", shape, "uint8", scale, zero_point)


def weights(shape, dtype="uint8", per_channel=False):
    source = np.random.default_rng(len(shape) + sum(shape))
    limits = np.iinfo(dtype)
    least = -127 if per_channel else limits.min
    scale = tuple(source.uniform(0.005, 0.02, shape[0])) if per_channel else (0.01,)
    zero_point = 130 if dtype == "uint8" else 0
    return Weights(
        source.integers(least, limits.max + 1, shape).astype(dtype),
        scale,
        (zero_point,) * len(scale),
        source.integers(-1000, 1000, shape[0]).astype(np.int32),
    )


def program(kind, *tensors, **attributes):
    if "low" in kind.__dataclass_fields__:
        low, high = tensors[-1].limits
        attributes = {"low": low, "high": high, **attributes}
    inputs = tuple(range(len(tensors) - 1))
    operation = kind(name="only", inputs=inputs, output=len(inputs), **attributes)
    return Program("net", tensors, (operation,), inputs, (len(inputs),))


def convolution(x, w, y, of="uint8", per_channel=False, **more):
    given = {"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1, **more}
    return program(Convolution, tensor(x, 0.02, 120), tensor(y, 0.5, 100), weights=weights(w, of, per_channel), **given)


def fully_connected(rows, of="uint8", per_channel=False, **more):
    x, y = tensor((rows, 64), 0.02, 120), tensor((rows, 32), 0.5)
    return program(FullyConnected, x, y, weights=weights((32, 64), of, per_channel), **more)


def pooling(function, size, stride, padding, y, x=(1, 8, 16, 16), count_padding=False, **more):
    given = {"function": function, "size": size, "stride": stride, "padding": padding, "count_padding": count_padding, **more}
    return program(Pooling, tensor(x), tensor(y), **given)


def binary(function, other=IMAGE, x=IMAGE, **more):
    tensors = (tensor(x, 0.05, 7), tensor(other, 0.03, 100), tensor(np.broadcast_shapes(x, other), 0.1))
    return program(Binary, *tensors, function=function, **more)


def function(name, alpha=0.0, beta=0.0, scale=0.05, zero_point=100):
    x = tensor((1, 4, 8, 16))
    return program(Function, x, tensor(x.shape, scale, zero_point), function=name, alpha=alpha, beta=beta)


def moved(kind, x, y, scale=0.05, **more):
    return program(kind, tensor(x), tensor(y, scale), **more)


def softmax(shape, axis, beta=1.0):
    return program(Softmax, tensor(shape), tensor(shape, 1 / 256, 0), axis=axis, beta=beta)


def concat(axis, *shapes, scales=(0.05, 0.02, 0.05)):
    shape = list(shapes[0])
    shape[axis] = sum(one[axis] for one in shapes)
    inputs = [tensor(one, scale) for one, scale in zip(shapes, scales, strict=False)]
    return program(Concat, *inputs, tensor(tuple(shape)), axis=axis)


def resize(mode, x, y, align_corners=False, half_pixel=False):
    return moved(Resize, (1, 4, *x), (1, 4, *y), mode=mode, align_corners=align_corners, half_pixel=half_pixel)


CONV = ((16, 8, 3, 3), (1, 16, 12, 16))
DEPTHWISE = ((8, 1, 3, 3), IMAGE)
# Of the convolution engine, of movement and of the shader's softmax all bits are known.
EXACT = {
    "convolution": convolution(IMAGE, *CONV),
    "of a batch": convolution((2, 8, 12, 16), CONV[0], (2, 16, 12, 16)),
    "with strides": convolution((1, 8, 13, 16), (16, 8, 3, 5), (1, 16, 7, 8), stride=(2, 2), padding=(1, 2, 1, 1)),
    "with other strides": convolution((1, 8, 13, 16), CONV[0], (1, 16, 13, 8), stride=(1, 2), padding=(1, 0, 1, 1)),
    "dilated": convolution(IMAGE, *CONV, dilation=(2, 2), padding=(2, 2, 2, 2)),
    "of pixels": convolution(IMAGE, (16, 8, 1, 1), CONV[1], padding=(0, 0, 0, 0)),
    "with relu": convolution(IMAGE, *CONV, low=100),
    "clamped": convolution(IMAGE, *CONV, low=60, high=140),
    "clamped below": convolution(IMAGE, *CONV, low=77),
    "clamped above": convolution(IMAGE, *CONV, high=131),
    "relu, clamped above": convolution(IMAGE, *CONV, low=100, high=131),
    "requantize and clamp": moved(Requantize, (1, 1, 16, 16), (1, 1, 16, 16), low=71, high=199),
    "max, clamped": pooling("max", (2, 2), (2, 2), (0, 0, 0, 0), (1, 8, 8, 8), low=120, high=140),
    "of int8 weights": convolution(IMAGE, *CONV, of="int8"),
    "depthwise": convolution(IMAGE, *DEPTHWISE, groups=8),
    "depthwise with strides": convolution(IMAGE, DEPTHWISE[0], (1, 8, 6, 8), groups=8, stride=(2, 2), padding=(0, 0, 1, 1)),
    "depthwise, dilated": convolution(IMAGE, *DEPTHWISE, groups=8, dilation=(2, 2), padding=(2, 2, 2, 2)),
    "depthwise, dilated, with strides": convolution(
        (1, 8, 13, 16), DEPTHWISE[0], (1, 8, 5, 7), groups=8, stride=(2, 2), dilation=(2, 1), padding=(0, 0, 0, 0)
    ),
    "depthwise, widely dilated": convolution(
        (1, 8, 13, 16), DEPTHWISE[0], (1, 8, 9, 6), groups=8, dilation=(2, 5), padding=(0, 0, 0, 0)
    ),
    "depthwise, multiplied": convolution(IMAGE, (16, 1, 3, 3), CONV[1], groups=8),
    "depthwise with relu6": convolution(IMAGE, *DEPTHWISE, groups=8, low=100, high=112),
    "in groups": convolution(IMAGE, (16, 4, 3, 3), CONV[1], groups=2),
    "in groups, dilated": convolution(IMAGE, (16, 4, 3, 3), CONV[1], groups=2, dilation=(2, 2), padding=(2, 2, 2, 2)),
    "fully connected": fully_connected(1),
    "fully connected rows": fully_connected(4, low=128),
    "max": pooling("max", (2, 2), (2, 2), (0, 0, 0, 0), (1, 8, 8, 8)),
    "max of three": pooling("max", (3, 3), (2, 2), (0, 0, 1, 1), (1, 8, 8, 8), low=128),
    "average": pooling("average", (3, 3), (2, 2), (0, 0, 1, 1), (1, 8, 8, 8)),
    "average of all": pooling("average", (3, 3), (2, 2), (0, 0, 1, 1), (1, 8, 8, 8), count_padding=True),
    "global average": pooling("average", (7, 7), (1, 1), (0, 0, 0, 0), (1, 8, 1, 1), x=(1, 8, 7, 7)),
    "requantize": moved(Requantize, IMAGE, IMAGE, scale=0.07),
    "requantize with relu": moved(Requantize, IMAGE, IMAGE, scale=0.07, low=128),
    "softmax": softmax((4, 10), 1),
    "softmax of channels": softmax((1, 10, 4, 6), 1),
    "softmax with a factor": softmax((1, 10), 1, 2.0),
    "concat": concat(1, (1, 8, 6, 7), (1, 3, 6, 7), (1, 5, 6, 7)),
    "concat of columns": concat(3, (1, 8, 6, 7), (1, 8, 6, 4)),
    "concat of two axes": concat(1, (2, 8), (2, 5)),
    "pad": moved(Pad, (1, 8, 6, 7), (1, 8, 9, 10), before=(0, 0, 1, 2), after=(0, 0, 2, 1), value=128),
    "pad channels": moved(Pad, (1, 8, 6, 7), (1, 11, 6, 7), before=(0, 1, 0, 0), after=(0, 2, 0, 0), value=255),
    "pad a batch": moved(Pad, (1, 8, 6, 7), (2, 8, 6, 7), before=(1, 0, 0, 0), after=(0, 0, 0, 0), value=140),
    "pad and requantize": moved(Pad, (4, 5), (5, 7), scale=0.07, before=(1, 0), after=(0, 2), value=128),
    "pad with negative numbers": moved(Pad, (1, 8, 6, 7), (1, 9, 9, 7), before=(0, 0, 1, 0), after=(0, 1, 2, 0), value=100),
    "pad by nothing": moved(Pad, (1, 1, 1, 1), (1, 1, 1, 1), before=(0, 0, 0, 0), after=(0, 0, 0, 0), value=128),
    "permute": moved(Permute, (1, 6, 7, 8), (1, 7, 8, 6), order=(0, 2, 3, 1)),
    "permute all": moved(Permute, (2, 3, 4, 5), (5, 3, 2, 4), order=(3, 1, 0, 2)),
    "permute six axes": moved(Permute, (2, 3, 2, 5, 3, 2), (2, 5, 3, 2, 3, 2), order=(0, 3, 1, 5, 4, 2)),
    "reshape": moved(Reshape, (1, 8, 6, 7), (1, 336)),
    "reshape to no axes": moved(Reshape, (1, 1), ()),
    "reshape to six axes": moved(Reshape, (4, 6, 4), (2, 2, 2, 3, 2, 2)),
    "nearest": resize("nearest", (8, 8), (16, 16)),
    "nearest by corners": resize("nearest", (8, 8), (13, 11), align_corners=True),
    "nearest by halves": resize("nearest", (8, 8), (13, 11), half_pixel=True),
    "bilinear": resize("bilinear", (8, 8), (16, 16)),
    "bilinear by halves": resize("bilinear", (8, 8), (16, 16), half_pixel=True),
    "bilinear by halves, thrice": resize("bilinear", (5, 8), (15, 24), half_pixel=True),
    "relu": function("relu", scale=0.05, zero_point=128),
    "relu and requantize": function("relu", scale=0.03, zero_point=10),
    "bounded_relu": function("bounded_relu", 2.5, -1.0, zero_point=128),
    "relu6": function("bounded_relu", 6.0, 0.0, scale=0.03, zero_point=3),
}
# Element by element, the tensor processor and the shader compute in less than all bits of a
# float: sums that lie between two integers, and entries of tables, may be the other one.
CLOSE = {
    "add": binary("add"),
    "add a channel": binary("add", (1, 8, 1, 1)),
    "add a row": binary("add", (16,)),
    "add across": binary("add", (1, 1, 12, 1), x=(1, 8, 1, 16)),
    "add with relu": binary("add", low=128),
    "subtract": binary("subtract"),
    "subtract a number": binary("subtract", (1, 1, 1, 1)),
    "multiply": binary("multiply"),
    "multiply a channel": binary("multiply", (1, 8, 1, 1)),
    "average inside": pooling("average", (3, 3), (1, 1), (1, 1, 1, 1), (1, 8, 16, 16)),
    "requantize up": moved(Requantize, IMAGE, IMAGE, scale=0.02),
    "bilinear by corners": resize("bilinear", (8, 8), (13, 11), align_corners=True),
    "bilinear to odd sizes": resize("bilinear", (8, 8), (13, 11)),
    "sigmoid": function("sigmoid", scale=1 / 256, zero_point=0),
    "tanh": function("tanh", scale=1 / 128, zero_point=128),
    "leaky_relu": function("leaky_relu", 0.1),
    "elu": function("elu", 1.0),
    "selu": function("selu", 1.6732632, 1.0507009),
    "celu": function("celu", 1.5),
    "hard_sigmoid": function("hard_sigmoid", 0.2, 0.5, scale=1 / 256, zero_point=0),
    "hard_swish": function("hard_swish"),
    "swish": function("swish", 1.5),
    "gelu": function("gelu"),
    "gelu_tanh": function("gelu_tanh"),
    "softsign": function("softsign", scale=1 / 128, zero_point=128),
    "mish": function("mish"),
    "linear": function("linear", 0.5, 0.25),
}
# The vendor's compiler takes half a minute for each.
SHADER = {
    "a scale for each channel": convolution(IMAGE, *CONV, of="int8", per_channel=True),
    "depthwise, a scale for each channel": convolution(IMAGE, *DEPTHWISE, of="int8", groups=8, per_channel=True),
    "depthwise, a scale for each channel, one border": convolution(
        IMAGE,
        (8, 1, 3, 3),
        (1, 8, 6, 8),
        of="int8",
        groups=8,
        per_channel=True,
        stride=(2, 2),
        padding=(0, 0, 1, 1),
        low=60,
        high=140,
    ),
    "depthwise, a scale for each channel, other strides": convolution(
        IMAGE, (16, 1, 3, 3), (1, 16, 12, 8), of="int8", groups=8, per_channel=True, stride=(1, 2)
    ),
    "in groups, a scale for each channel": convolution(IMAGE, (16, 4, 3, 3), CONV[1], of="int8", groups=2, per_channel=True),
    "in groups, a scale for each channel, of a batch": convolution(
        (2, 8, 12, 16), (16, 4, 3, 3), (2, 16, 12, 16), of="int8", groups=2, per_channel=True
    ),
    "in groups, a scale for each channel, one border": convolution(
        IMAGE, (16, 4, 1, 1), (1, 16, 14, 19), of="int8", groups=2, per_channel=True, padding=(0, 0, 2, 3)
    ),
    "fully connected, a scale for each channel": fully_connected(1, "int8", per_channel=True),
    "softplus": function("softplus", scale=0.03, zero_point=0),
    "max of columns": pooling("max", (5, 1), (1, 1), (2, 0, 2, 0), (1, 8, 16, 16)),
}


def compared(driver, case, chip=CHIPS[0]):
    """Return by how much results differ from what they should be."""
    source = np.random.default_rng(5)
    arrays = [
        source.integers(low, high + 1, one.shape).astype(one.dtype) for one in case.tensors[:-1] for low, high in [one.limits]
    ]
    (found,) = results(driver, case, arrays, chip)
    operation = case.operations[0]
    return np.abs(found.astype(int) - EXPECTED[type(operation)](operation, case.tensors, *arrays))


@pytest.mark.parametrize("name", EXACT)
def test_all_bits_are_known(driver, name):
    assert not compared(driver, EXACT[name]).any()


@pytest.mark.parametrize("name", CLOSE)
def test_results_differ_by_one_at_most(driver, name):
    assert compared(driver, CLOSE[name]).max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", SHADER)
def test_what_goes_to_the_shader_differs_by_one_at_most(driver, name):
    """It computes in floats."""
    assert compared(driver, SHADER[name]).max() <= 1


@pytest.mark.parametrize("name", ["convolution", "depthwise", "fully connected", "max", "softmax", "permute"])
def test_the_other_chip_gives_the_same(driver, name):
    """Its factors have 16 bits; none of these results lies so close to a half that it matters."""
    assert not compared(driver, EXACT[name], CHIPS[1]).any()


# -- programs and binaries -----------------------------------------------------------------------


def chain():
    """A program of two inputs, named backwards, and two outputs, of which one is read inside."""
    x, other, y = tensor(IMAGE, 0.02, 120), tensor(CONV[1], 0.5, 90), tensor(CONV[1], 0.5, 100)
    low, high = y.limits
    first = Convolution(
        name="first",
        inputs=(0,),
        output=2,
        weights=weights(CONV[0]),
        stride=(1, 1),
        padding=(1, 1, 1, 1),
        dilation=(1, 1),
        groups=1,
        low=low,
        high=high,
    )
    second = Binary(name="second", inputs=(2, 1), output=3, function="add", low=low, high=high)
    return Program("chain", (x, other, y, y), (first, second), (1, 0), (3, 2))


def border(then, **attributes):
    """A border, and an operation behind it."""
    x, padded = tensor((1, 4, 8, 8)), tensor((1, 4, 10, 9))
    first = Pad(name="border", inputs=(0,), output=1, before=(0, 0, 1, 0), after=(0, 0, 1, 1), value=128)
    second = then.operations[0]
    second = type(second)(**{**vars(second), "inputs": (1,), "output": 2})
    return Program("border", (x, padded, then.tensors[1]), (first, second), (0,), (2,))


def requantized(first):
    """An operation, and a conversion of its results, of which most saturate before."""
    x, y = first.tensors
    y = Tensor("t", y.shape, "uint8", y.scale / 8, 200)
    second = Requantize(name="second", inputs=(1,), output=2, low=0, high=255)
    return Program("requantized", (x, y, tensor(y.shape, y.scale * 1.5, 50)), (*first.operations, second), (0,), (2,))


TRAPS = {
    "a convolution behind a border": border(convolution((1, 4, 10, 9), (6, 4, 3, 3), (1, 6, 10, 9))),
    "max behind a border": border(pooling("max", (2, 2), (2, 2), (0, 0, 0, 0), (1, 4, 5, 4), x=(1, 4, 10, 9))),
    "a conversion behind a convolution": requantized(EXACT["convolution"]),
    "a conversion behind a conversion": requantized(EXACT["requantize"]),
}


@pytest.mark.parametrize("name", TRAPS)
def test_neighbours_are_not_made_one(driver, name):
    """The driver merges these wrongly unless it is told not to; see `places`."""
    case = TRAPS[name]
    x, between, y = case.tensors
    q = np.random.default_rng(5).integers(0, 256, x.shape).astype(np.uint8)
    first, second = case.operations
    expected = EXPECTED[type(second)](second, (between, y), EXPECTED[type(first)](first, (x, between), q))
    (found,) = results(driver, case, [q])
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_inputs_and_outputs_keep_their_order(driver):
    network, source = chain(), np.random.default_rng(3)
    other, x = (source.integers(0, 256, network.tensors[number].shape).astype(np.uint8) for number in network.inputs)
    added, between = results(driver, network, [other, x])
    first, second = network.operations
    expected = convolved(first, (network.tensors[0], network.tensors[2]), x)
    np.testing.assert_array_equal(between, expected)
    wanted = combined(second, (network.tensors[2], network.tensors[1], network.tensors[3]), expected, other)
    assert np.abs(added.astype(int) - wanted).max() <= 1


def test_a_file_tells_its_inputs_and_outputs(driver):
    network = chain()
    inputs, outputs = operands_of(driver.compile(network, CHIPS[0], lambda fraction, text: None))
    told = [(one.shape, one.dtype, one.scale, one.zero_point) for one in (*inputs, *outputs)]
    tensors = [network.tensors[number] for number in (*network.inputs, *network.outputs)]
    assert told == [(one.shape, one.dtype, single(one.scale), one.zero_point) for one in tensors]


def test_a_binary_runs_in_another_process(driver, tmp_path):
    case = EXACT["convolution"]
    (tmp_path / "net.nb").write_bytes(driver.compile(case, CHIPS[0], lambda fraction, text: None))
    q = np.random.default_rng(5).integers(0, 256, IMAGE).astype(np.uint8)
    q.tofile(tmp_path / "x")
    code = f"""
import os
import numpy as np
from dovetail_npu_vsi.chips import CHIPS
from dovetail_npu_vsi.ovx.driver import OvxDriver
folder = {str(tmp_path)!r}
executable = OvxDriver().load(open(os.path.join(folder, "net.nb"), "rb").read(), CHIPS[0])
x, y = np.fromfile(os.path.join(folder, "x"), np.uint8), np.zeros(executable.outputs[0].shape, np.uint8)
executable.bind([x.ctypes.data, y.ctypes.data])
executable.submit()
executable.wait(lambda: False)
executable.close()
y.tofile(os.path.join(folder, "y"))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
    found = np.fromfile(tmp_path / "y", np.uint8).reshape(CONV[1])
    np.testing.assert_array_equal(found, convolved(case.operations[0], case.tensors, q))


def test_a_binary_for_another_chip_does_not_reach_the_driver(driver):
    """The vendor's would take it, and end the process when it runs."""
    made = driver.compile(EXACT["convolution"], CHIPS[1], lambda fraction, text: None)
    with pytest.raises(VsiError, match=r"0x88 \(A311D\).*0x9f \(i.MX 8M Plus\)"):
        driver.load(made, CHIPS[0])


def test_the_simulator_is_ready(driver):
    found = driver.probe()
    assert found.state == "ready"
    assert found.versions["ovxlib"].startswith("1.")
