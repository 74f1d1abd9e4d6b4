"""The private kind of convolutions: over images of another layout than that of their weights."""

from __future__ import annotations

from typing import Any, ClassVar

from dovetail import DataLayout, Descriptor, Layer, PrivateLayer
from dovetail.graph.descriptor import descriptor_class
from dovetail.graph.tensor import TensorInfo


@descriptor_class
class Convolution(PrivateLayer, kind="GpuAcc.Convolution"):
    """A convolution over images of a layout.

    Attributes:
        convolution: As the model has it; its layout is that of the weights.
        layout: Of the images that are read and written.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "weights", "bias")
    convolution: Descriptor
    layout: DataLayout

    def in_words(self) -> str:
        return f"{self.convolution.kind.rpartition('.')[-1]} over {self.layout}"


@descriptor_class
class Separable(PrivateLayer, kind="GpuAcc.Separable"):
    """A convolution of single channels, and one of single pixels of its result; over NHWC.

    Its inputs are the image, weights and bias of the first, weights and bias of the second.

    Attributes:
        depthwise: The first, as the model has it.
        middle: What it makes.
        pointwise: The second, as the model has it.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "taps", "added", "weights", "bias")
    depthwise: Descriptor
    middle: TensorInfo
    pointwise: Descriptor

    def in_words(self) -> str:
        return " + ".join(one.kind.rpartition(".")[-1] for one in (self.depthwise, self.pointwise))


def root_of(layer: Layer) -> Any:
    """Return a convolution as the model has it, whose layout is that of its weights."""
    descriptor = layer.descriptor
    return descriptor.convolution if isinstance(descriptor, Convolution) else descriptor


def layout_of(layer: Layer) -> DataLayout:
    """Return the layout of the images that a convolution reads and writes."""
    descriptor: Any = layer.descriptor
    layout: DataLayout = descriptor.layout
    return layout
