"""Resampling of images."""

from __future__ import annotations

from dovetail.graph.layer import OutputSlot
from dovetail.layers import AspectPolicy, CoordinateMode, NearestRounding, Resize, ResizeMethod

from ..node import Node
from ..registry import builtin

_OLD_MODES = {"nearest": ResizeMethod.NEAREST, "linear": ResizeMethod.LINEAR, "bilinear": ResizeMethod.LINEAR}


# A region of interest and the value outside it belong to the one coordinate mode that is not there.
@builtin("Resize", since=11, ignored=["extrapolation_value"])
def resize(node: Node) -> OutputSlot:
    """Translate resampling by scales or to sizes."""
    descriptor = Resize(
        method=ResizeMethod(node.choice("mode", "nearest", [entry.value for entry in ResizeMethod])),
        coordinates=CoordinateMode(
            node.choice("coordinate_transformation_mode", "half_pixel", [entry.value for entry in CoordinateMode])
        ),
        rounding=NearestRounding(node.choice("nearest_mode", "round_prefer_floor", [entry.value for entry in NearestRounding])),
        cubic_coefficient=node.floating("cubic_coeff_a", -0.75),
        exclude_outside=node.flag("exclude_outside"),
        antialias=node.flag("antialias"),
        axes=node.integers("axes") if node.has("axes") else None,
        aspect=AspectPolicy(node.choice("keep_aspect_ratio_policy", "stretch", [entry.value for entry in AspectPolicy])),
    )
    return node.network.add(descriptor, node.input(0), _given(node, 2), _given(node, 3), name=node.label()).output


def _given(node: Node, index: int) -> OutputSlot | None:
    """Return an input, None if it is left out; exporters write an empty tensor for that too."""
    value = node.constant(index)
    return None if value is not None and value.size == 0 else node.optional(index)


@builtin("Resize", since=10)
@builtin("Upsample", since=9)
def resize_10(node: Node) -> OutputSlot:
    """Translate resampling by scales that are an input."""
    return node.network.add(_old(node), node.input(0), node.input(1), name=node.label()).output


@builtin("Upsample", since=7)
def upsample_7(node: Node) -> OutputSlot:
    """Translate resampling by scales that are an attribute."""
    return _scaled(node, node.floats("scales"))


@builtin("Upsample")
def upsample_1(node: Node) -> OutputSlot:
    """Translate resampling by a scale of the height and one of the width."""
    return _scaled(node, (1.0, 1.0, node.floating("height_scale"), node.floating("width_scale")))


def _scaled(node: Node, scales: tuple[float, ...]) -> OutputSlot:
    method = _old(node).method
    return node.network.add(
        Resize(method=method, coordinates=CoordinateMode.ASYMMETRIC, rounding=NearestRounding.FLOOR, scales=scales),
        node.input(0),
        name=node.label(),
    ).output


def _old(node: Node) -> Resize:
    method = _OLD_MODES[node.choice("mode", "nearest", list(_OLD_MODES))]
    return Resize(method=method, coordinates=CoordinateMode.ASYMMETRIC, rounding=NearestRounding.FLOOR)
