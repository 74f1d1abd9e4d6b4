"""Check operations of quantized tensors with constant ones: same bits, and nothing done per run."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import Constant, DataLayout, DType, Network, Quantization, layers, load, optimize
from dovetail.layers import BinaryOperation

from .quantized_arrays import whole

BYTES = [DType.INT8, DType.UINT8]
OPERATIONS = [*("add", "sub", "mul", "maximum", "minimum"), "prelu"]
SHAPES = [
    ((5,), (5,)),
    ((2, 33), (33,)),
    ((7, 64), (64,)),
    ((9, 48), (1, 48)),
    ((3, 1000), (1000,)),
    ((40, 3), (3,)),
    ((2, 5, 7), (5, 1)),
    ((4, 6, 5), (4, 1, 1)),
    ((2, 2, 3, 4), (2, 3, 4)),
    ((3, 4), (2, 3, 4)),
    ((3, 1, 5), (4, 1)),
    ((0, 3), (3,)),
    ((3, 0), (3, 1)),
    ((1, 1, 6), ()),
    ((2, 3, 2, 3, 2), (3, 1, 1, 2)),
]
CASES = [
    (operation, first, shapes)
    for operation in OPERATIONS
    for first in (False, True)
    for shapes in SHAPES
    if operation != "prelu" or (not first and np.broadcast_shapes(*shapes) == shapes[0])  # slopes bend what is before them
]
OF_IMAGES = ["channel", "row", "pixel", "image", "all", "one"]


def described(operation):
    return layers.Prelu() if operation == "prelu" else layers.ElementwiseBinary(operation=BinaryOperation(operation))


def schemes_of(operation, dtype):
    least = int(np.iinfo(dtype.numpy).min)
    both = Quantization.per_tensor(0.05, least + 120), Quantization.per_tensor(0.013, least + 100)
    if operation in ("maximum", "minimum"):
        return both[0], both[0], both[0]
    return (*both, Quantization.per_tensor(0.04, least + 90))


def network(operation, x, constant, schemes, first, layout=None):
    """Return two: one reads the second tensor as an input, one has it as a constant."""
    nets = []
    for is_constant in (False, True):
        net = Network("constants")
        slot = net.input("x", x.shape, DType.of(x.dtype), schemes[0])
        if layout is not None:  # which brings it to images of bytes
            slot = net.add(layers.Pooling2d(function=layers.PoolingFunction.MAX, size=(1, 1), layout=layout), slot).output
        of_other = constant.shape, DType.of(constant.dtype), schemes[1]
        other = net.constant(constant, quantization=schemes[1]) if is_constant else net.input("other", *of_other)
        made = net.add(described(operation), *((other, slot) if first else (slot, other)), quantization=schemes[2]).output
        net.output(made, "y")
        nets.append(net)
    return nets


def of_constants(net, **how):
    """Return the kinds of layers without anything but constants to read that runs would compute."""
    graph, known, found = optimize(net, ["CpuAcc"], oracle=False, **how).graph, set(), []
    for layer in graph.topological_order():
        if isinstance(layer.descriptor, Constant):
            known.add(layer)
        elif layer.inputs and layer.outputs and all(slot.source.layer in known for slot in layer.inputs):
            known.add(layer)
            found.append(layer.kind)
    return found


def check(kernels, operation, x, constant, first, layout=None):
    computed, given = network(operation, x, constant, schemes_of(operation, DType.of(x.dtype)), first, layout)
    how = {"options": {"CpuAcc": {"isa": kernels.name}}}
    assert of_constants(given, **how) == []
    results = []
    for net, feeds, threads in ((computed, {"x": x, "other": constant}, 1), (given, {"x": x}, 1), (given, {"x": x}, 3)):
        with load(net, ["CpuAcc"], threads=threads, oracle=False, **how) as loaded:
            results.append(loaded.run(feeds)["y"])
    for one in results[1:]:
        np.testing.assert_array_equal(one, results[0])
    with load(given, ["CpuRef"], threads=1, oracle=False) as loaded:
        off = np.abs(loaded.run({"x": x})["y"].astype(int) - results[0])
    assert off.max(initial=0) <= (1 if operation in ("add", "sub", "mul") else 0)  # whose ties CpuRef rounds in float64


@pytest.mark.parametrize(("operation", "first", "shapes"), CASES, ids=str)
def test_constants_give_the_bits_of_a_computed_tensor(kernels, operation, first, shapes):
    rng = np.random.default_rng(len(str(shapes)))
    for dtype in BYTES:
        check(kernels, operation, *(whole(rng, dtype, *shape) for shape in shapes), first)


@pytest.mark.parametrize("channels", [1, 3, 5, 16, 33])
@pytest.mark.parametrize("of", OF_IMAGES)
@pytest.mark.parametrize("layout", DataLayout)
def test_constants_of_images_in_bytes(kernels, layout, of, channels):
    rng = np.random.default_rng(channels)
    own = {"channel": (1, channels, 1, 1), "row": (1, 1, 5, 1), "pixel": (1, 1, 5, 6), "image": (2, 1, 1, 1)}
    shape = {**own, "all": (2, channels, 5, 6), "one": (1, 1, 1, 1)}[of]
    order = (0, 1, 2, 3) if layout is DataLayout.NCHW else (0, 2, 3, 1)
    for operation, dtype in (("prelu", DType.INT8), ("sub", DType.UINT8)):
        x, constant = whole(rng, dtype, 2, channels, 5, 6), whole(rng, dtype, *shape)
        x, constant = (np.ascontiguousarray(one.transpose(order)) for one in (x, constant))
        check(kernels, operation, x, constant, operation == "sub", layout)


def test_a_slope_for_each_channel_is_held_once():
    """Not for each pixel, as a tensor of the same layout would have it."""
    rng = np.random.default_rng(1)
    x, slopes = whole(rng, DType.INT8, 1, 96, 96, 40), whole(rng, DType.INT8, 1, 1, 40)
    for layout in (None, DataLayout.NHWC):
        _, net = network("prelu", x, slopes, schemes_of("prelu", DType.INT8), False, layout)
        with load(net, ["CpuAcc"], threads=1) as loaded:
            assert loaded.memory.private_bytes < 1 << 13
            assert "dovetail.BroadcastTo" not in [step.layer_kind for step in loaded.plan.steps]
