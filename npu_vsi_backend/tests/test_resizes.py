"""Resizes of images: pixels of the definition, or refusals in words."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network, Quantization, SubgraphView
from dovetail.layers import Resize
from dovetail_npu_vsi.lowering import lower

Q = Quantization.per_tensor


def kinds(network):
    """The operations that the layers of a network become."""
    layers = [layer for layer in network.layers if layer.kind == Resize.kind]
    return [type(operation).__name__ for operation in lower(SubgraphView(network, layers)).program.operations]


def resized(shape, sizes, **how):
    """A network that resizes an image."""
    network = Network("resized")
    x = network.input("x", shape, DType.INT8, quantization=Q(0.05, 3))
    how = {"method": "nearest"} | how
    if how["method"] != "nearest":
        how["scales"] = tuple(after / before for after, before in zip(sizes, shape, strict=True))
    descriptor = Resize(sizes=sizes, **how)
    network.output(network.add(descriptor, x, name="r", quantization=Q(0.05, 3)).output, "y")
    return network


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"])
@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((2, 5, 7, 3), (2, 10, 14, 3)),
        ((1, 5, 7, 3), (1, 11, 9, 3)),
        ((1, 3, 8, 8), (1, 3, 4, 4)),
        ((2, 3, 9, 8), (2, 3, 13, 20)),
        ((1, 8, 8, 3), (1, 8, 24, 3)),
        ((1, 1, 1, 1), (1, 1, 5, 3)),
    ],
)
def test_nearest_pixels_are_those_of_the_definition_or_are_refused(coordinates, rounding, shape, sizes):
    network = resized(shape, sizes, coordinates=coordinates, rounding=rounding)
    x = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    with dovetail.load(network, ["CpuRef"]) as loaded:
        expected = loaded.run({"x": x})["y"]
    with dovetail.load(network, ["VsiNpu", "CpuRef"]) as loaded:
        (layer,) = loaded.placement.layers
        np.testing.assert_array_equal(loaded.run({"x": x})["y"], expected)
    if (coordinates, rounding) in (("asymmetric", "floor"), ("half_pixel", "round_prefer_ceil")):
        assert layer.backend == "VsiNpu"


@pytest.mark.parametrize(
    ("sizes", "how", "words"),
    [
        ((1, 3, 13, 20), {"rounding": "ceil"}, "rounding is ceil; round_prefer_ceil is taken"),
        ((1, 3, 13, 20), {"coordinates": "half_pixel_symmetric"}, "coordinates is half_pixel_symmetric"),
        ((1, 6, 9, 16), {"coordinates": "asymmetric", "rounding": "floor"}, "output.1 is 6"),
        ((4, 3, 9, 8), {"coordinates": "asymmetric", "rounding": "floor"}, "output.0 is 4"),
        ((1, 3, 18, 16), {"method": "cubic"}, "method is cubic; linear is taken"),
        ((1, 3, 18, 16), {"method": "linear", "coordinates": "align_corners"}, "coordinates is align_corners"),
        ((1, 3, 18, 24), {"method": "linear"}, "scales.3 is 3"),
        ((1, 3, 45, 40), {"method": "linear"}, "scales.2 is 5"),
        ((1, 3, 18, 8), {"method": "linear"}, "scales.3 is 1"),
        ((1, 3, 27, 24), {"method": "linear", "precision": "fixed_point"}, "scales.2 is 3; 2, 4 or 8 is taken"),
        ((1, 3, 18, 16), {"method": "linear", "antialias": True}, "antialias is true"),
    ],
)
def test_other_resizes_are_refused_in_words(sizes, how, words):
    with pytest.raises(dovetail.DovetailError, match=words):
        dovetail.load(resized((1, 3, 9, 8), sizes, **how), ["VsiNpu"])


@pytest.mark.parametrize("precision", ["exact", "float32"])
def test_pixels_that_rounding_of_floats_decides_are_refused_in_words(precision):
    """41 times 4 / 164 is less than 1 in float32; a copy by the factor 41 has the second pixel."""
    how = {"coordinates": "asymmetric", "rounding": "floor", "precision": precision}
    words = f"asymmetric with floor in {precision} numbers has other pixels than those that the NPU picks"
    with pytest.raises(dovetail.DovetailError, match=words):
        dovetail.load(resized((1, 3, 4, 8), (1, 3, 164, 8), **how), ["VsiNpu"])


def test_positions_of_tensorflow_lite_are_those_of_the_npu():
    rng = np.random.default_rng(2)
    taken = 0
    for _ in range(60):
        shape = (1, 2, *(int(one) for one in rng.integers(1, 200, 2)))
        sizes = (1, 2, *(int(one) for one in rng.integers(1, 300, 2)))
        way = (("asymmetric", "floor"), ("half_pixel", "round_prefer_ceil"), ("align_corners", "round_prefer_ceil"))[
            rng.integers(0, 3)
        ]
        network = resized(shape, sizes, coordinates=way[0], rounding=way[1], precision="float32")
        x = rng.integers(-128, 128, shape).astype(np.int8)
        with dovetail.load(network, ["VsiNpu", "CpuRef"]) as loaded, dovetail.load(network, ["CpuRef"]) as other:
            taken += loaded.placement.layers[0].backend == "VsiNpu"
            np.testing.assert_array_equal(loaded.run({"x": x})["y"], other.run({"x": x})["y"])
    assert taken > 50


@pytest.mark.parametrize(
    ("coordinates", "precision"),
    [
        *((way, precision) for way in ("half_pixel", "asymmetric") for precision in ("exact", "float32", "fixed_point")),
        ("pytorch_half_pixel", "exact"),
    ],
)
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((2, 5, 7, 3), (2, 10, 14, 3)),
        ((1, 3, 5, 6), (1, 3, 15, 18)),
        ((3, 2, 1, 4), (3, 2, 4, 16)),
        ((1, 9, 1, 1), (1, 72, 8, 1)),
        ((2, 8, 6, 3), (2, 4, 3, 3)),
        ((1, 2, 12, 20), (1, 2, 3, 5)),
        ((1, 2, 2, 2), (1, 2, 1, 1)),
    ],
)
def test_mixed_pixels_are_those_of_the_definition(coordinates, precision, shape, sizes):
    """Or differ by one at ties, where the definition has them go away from zero."""
    network = resized(shape, sizes, method="linear", coordinates=coordinates, precision=precision)
    x = np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8)
    with dovetail.load(network, ["CpuRef"]) as loaded:
        expected = loaded.run({"x": x})["y"].astype(int)
    with dovetail.load(network, ["VsiNpu", "CpuRef"]) as loaded:
        (layer,) = loaded.placement.layers
        far = np.abs(loaded.run({"x": x})["y"] - expected)
    thrice = sizes[2] == 15 and precision != "exact"
    shrinks = sizes[2] < shape[2] or sizes[1] < shape[1]
    assert (layer.backend == "VsiNpu") != (thrice or (shrinks and coordinates == "pytorch_half_pixel"))
    assert far.max() <= (precision != "exact")
    assert far.mean() < 0.3


@pytest.mark.parametrize(("method", "sizes"), [("nearest", (1, 1, 2, 4)), ("linear", (1, 1, 2, 4)), ("linear", (1, 1, 2, 2))])
def test_an_axis_that_keeps_its_size_by_a_scale_is_not_copied(method, sizes):
    """By a scale of 1.4 both of two results come from the first, if positions are rounded down."""
    network = Network("scaled")
    x = network.input("x", (1, 1, 2, 2), DType.INT8, quantization=Q(0.05, 3))
    scales = (1.0, 1.0, 1.4, sizes[3] / 2)
    descriptor = Resize(method=method, coordinates="asymmetric", rounding="floor", scales=scales)
    network.output(network.add(descriptor, x, name="r", quantization=Q(0.05, 3)).output, "y")
    image = np.array([[[[-100, 50], [90, 7]]]], np.int8)
    with dovetail.load(network, ["CpuRef"]) as loaded:
        expected = loaded.run({"x": image})["y"]
    with dovetail.load(network, ["VsiNpu", "CpuRef"]) as loaded:
        np.testing.assert_array_equal(loaded.run({"x": image})["y"], expected)


def test_mixed_pixels_by_sizes_alone_are_refused_in_words():
    network = Network("resized")
    x = network.input("x", (1, 4, 4, 3), DType.INT8, quantization=Q(0.05, 3))
    network.output(network.add(Resize(method="linear", sizes=(1, 8, 8, 3)), x, quantization=Q(0.05, 3)).output, "y")
    with pytest.raises(dovetail.DovetailError, match="scales are not given; linear is taken by some scales"):
        dovetail.load(network, ["VsiNpu"])


@pytest.mark.parametrize("brings", ["sizes", "scales"])
def test_mixed_pixels_by_an_operand_are_taken(brings):
    network = Network("resized")
    x = network.input("x", (1, 4, 5, 3), DType.INT8, quantization=Q(0.05, 3))
    sizes, scales = network.constant(np.array([8, 10])), network.constant(np.array([2, 2], np.float32))
    operands = (None, sizes) if brings == "sizes" else (scales,)
    resize = Resize(method="linear", precision="fixed_point", axes=(1, 2))
    network.output(network.add(resize, x, *operands, quantization=Q(0.05, 3)).output, "y")
    with dovetail.load(network, ["VsiNpu"]) as loaded:
        assert loaded.run({"x": np.full((1, 4, 5, 3), -7, np.int8)})["y"].tolist() == np.full((1, 8, 10, 3), -7).tolist()


def test_an_image_with_channels_last_is_resized_in_planes():
    last = resized((1, 4, 5, 3), (1, 8, 10, 3), coordinates="asymmetric", rounding="floor")
    assert kinds(last) == ["Permute", "Resize", "Permute"]
    assert kinds(resized((1, 3, 4, 5), (1, 3, 8, 10), coordinates="asymmetric", rounding="floor")) == ["Resize"]
