"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..graph.descriptor import Descriptor, Infos, descriptor_class
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import differ, shapes_differ
from ..graph.tensor import DataLayout, TensorInfo
from .arguments import Operand, choice, integer, number
from .shape_rules import (
    attribute_error,
    broadcast,
    normalize_axis,
    optional,
    present,
    require_positive,
    require_real,
    require_shape,
    shape_error,
)


def _channels(x: TensorInfo, layout: DataLayout) -> int:
    if x.rank < 2 and not (x.rank == 1 and layout is DataLayout.NHWC):
        raise shape_error(f"input {x.shape_text} has no channel axis", "expected rank 2 or more")
    return x.sizes[layout.channel_axis]


def _require_per_channel(inputs: Infos, channels: int) -> None:
    """Refuse a scale or an offset that is not one number for each channel."""
    for i, what in ((1, "scale"), (2, "offset")):
        info = optional(inputs, i)
        if info is not None:
            require_shape(info, (channels,), what)


@descriptor_class
class BatchNormalization(Descriptor, kind="dovetail.BatchNormalization"):
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, per channel.

    Inputs: input [N, C, ...] or [N, ..., C]; scale, offset, mean, variance [C]. Source: Ioffe and
    Szegedy 2015, inference form.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "scale", "offset", "mean", "variance")
    required_inputs: ClassVar[int] = 5
    epsilon: float = 1e-5
    """Added to the variance before its root is taken."""
    layout: DataLayout = DataLayout.NCHW
    """Order of the axes of an image; weights follow it."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        require_real(x, "input")
        channels = 1 if x.rank == 1 and self.layout is DataLayout.NCHW else _channels(x, self.layout)
        for i in range(1, 5):
            require_shape(present(inputs, i), (channels,), self.input_names[i])
        return [x]


@descriptor_class
class InstanceNormalization(Descriptor, kind="dovetail.InstanceNormalization"):
    """Normalize each channel of each image over its spatial axes; scale, offset [C] per channel."""

    input_names: ClassVar[tuple[str, ...]] = ("input", "scale", "offset")
    required_inputs: ClassVar[int] = 1
    epsilon: float = 1e-5
    """Added to the variance before its root is taken."""
    layout: DataLayout = DataLayout.NCHW
    """Order of the axes of an image; weights follow it."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        require_real(x, "input")
        channels = _channels(x, self.layout)
        _require_per_channel(inputs, channels)
        return [x]


@descriptor_class
class GroupNormalization(Descriptor, kind="dovetail.GroupNormalization"):
    """Normalize groups of channels of each image [N, C, ...].

    Scale and offset [C] are per channel. Source: Wu and He 2018.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "scale", "offset")
    required_inputs: ClassVar[int] = 1
    groups: int
    """Channels are split into so many groups, each of which is normalized by itself."""
    epsilon: float = 1e-5
    """Added to the variance before its root is taken."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        require_real(x, "input")
        channels = _channels(x, DataLayout.NCHW)
        require_positive("groups", self.groups)
        if differ(channels % self.groups, 0):
            raise shape_error(f"{channels} channels do not divide into {self.groups} groups")
        _require_per_channel(inputs, channels)
        return [x]


@descriptor_class
class LayerNormalization(Descriptor, kind="dovetail.LayerNormalization"):
    """Normalize over the axes from `axis` on; scale and offset broadcast to those axes.

    Source: Ba, Kiros and Hinton 2016.

    With `center` false the mean is not subtracted: RMS normalization (Zhang and Sennrich 2019).
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "scale", "offset")
    required_inputs: ClassVar[int] = 1
    axis: int = -1
    """First of the axes that are normalized together."""
    epsilon: float = 1e-5
    """Added to the variance before its root is taken."""
    center: bool = True
    """Subtract the mean; else divide by the root mean square alone."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        require_real(x, "input")
        tail = x.sizes[normalize_axis(self.axis, x.rank) :]
        for i in (1, 2):
            info = optional(inputs, i)
            if info is not None and shapes_differ(broadcast(info.shape, tail), tail):
                raise shape_error(f"{self.input_names[i]} {info.shape_text} does not broadcast to {list(tail)}")
        return [x]


@descriptor_class
class LpNormalization(Descriptor, kind="dovetail.LpNormalization"):
    """x over its p-norm along one axis; the norm is at least epsilon."""

    axis: int = -1
    """Along which the norm is taken."""
    p: int = 2
    """1: sum of magnitudes; 2: root of the sum of squares."""
    epsilon: float = 0.0
    """Smallest norm that is divided by."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        require_real(x, "input")
        normalize_axis(self.axis, x.rank)
        if self.p not in (1, 2):
            raise attribute_error(f"p is {self.p}", "1 and 2 are defined")
        return [x]


@descriptor_class
class LocalResponseNormalization(Descriptor, kind="dovetail.LocalResponseNormalization"):
    """x / (k + alpha / size * sum of squares over `size` neighbouring channels) ^ beta.

    Channel c sums from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2). Source: Krizhevsky et
    al. 2012, ONNX LRN.
    """

    size: int
    """Number of neighbouring channels, the channel itself included."""
    alpha: float = 1e-4
    """Factor of the mean of squares."""
    beta: float = 0.75
    """Exponent of the divisor."""
    k: float = 1.0
    """Added to the divisor before the exponent."""
    layout: DataLayout = DataLayout.NCHW
    """Order of the axes of an image; weights follow it."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        require_real(x, "input")
        _channels(x, self.layout)
        require_positive("size", self.size)
        return [x]


class NormalizationLayers(Graph):
    """Builder methods."""

    def batch_normalization(
        self,
        x: Operand,
        scale: Operand,
        offset: Operand,
        mean: Operand,
        variance: Operand,
        *,
        epsilon: float = 1e-5,
        layout: DataLayout | str = DataLayout.NCHW,
        name: str | None = None,
    ) -> OutputSlot:
        """(x - mean) / sqrt(variance + epsilon) * scale + offset, per channel."""
        descriptor = BatchNormalization(epsilon=number(epsilon, "epsilon"), layout=choice(DataLayout, layout, "layout"))
        return self.add(descriptor, x, scale, offset, mean, variance, name=name).output

    def instance_normalization(
        self,
        x: Operand,
        scale: Operand | None = None,
        offset: Operand | None = None,
        *,
        epsilon: float = 1e-5,
        layout: DataLayout | str = DataLayout.NCHW,
        name: str | None = None,
    ) -> OutputSlot:
        """Normalize each channel of each image."""
        descriptor = InstanceNormalization(epsilon=number(epsilon, "epsilon"), layout=choice(DataLayout, layout, "layout"))
        return self.add(descriptor, x, scale, offset, name=name).output

    def group_normalization(
        self,
        x: Operand,
        scale: Operand | None = None,
        offset: Operand | None = None,
        *,
        groups: int,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> OutputSlot:
        """Normalize groups of channels of each image."""
        return self.add(
            GroupNormalization(groups=integer(groups, "groups"), epsilon=number(epsilon, "epsilon")),
            x,
            scale,
            offset,
            name=name,
        ).output

    def layer_normalization(
        self,
        x: Operand,
        scale: Operand | None = None,
        offset: Operand | None = None,
        *,
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        name: str | None = None,
    ) -> OutputSlot:
        """Normalize over the axes from `axis` on; `center=False` gives RMS normalization."""
        descriptor = LayerNormalization(axis=integer(axis, "axis"), epsilon=number(epsilon, "epsilon"), center=center)
        return self.add(descriptor, x, scale, offset, name=name).output

    def lp_normalization(
        self, x: Operand, axis: int = -1, *, p: int = 2, epsilon: float = 0.0, name: str | None = None
    ) -> OutputSlot:
        """x over its p-norm along an axis."""
        return self.add(
            LpNormalization(axis=integer(axis, "axis"), p=integer(p, "p"), epsilon=number(epsilon, "epsilon")), x, name=name
        ).output

    def local_response_normalization(
        self,
        x: Operand,
        size: int,
        *,
        alpha: float = 1e-4,
        beta: float = 0.75,
        k: float = 1.0,
        layout: DataLayout | str = DataLayout.NCHW,
        name: str | None = None,
    ) -> OutputSlot:
        """Normalize by the squares of neighbouring channels."""
        descriptor = LocalResponseNormalization(
            size=integer(size, "size"),
            alpha=number(alpha, "alpha"),
            beta=number(beta, "beta"),
            k=number(k, "k"),
            layout=choice(DataLayout, layout, "layout"),
        )
        return self.add(descriptor, x, name=name).output
