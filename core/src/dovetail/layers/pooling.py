"""Pooling over images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from ..graph.descriptor import Descriptor, Infos, Values, descriptor_class
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import are_symbolic
from ..graph.tensor import DataLayout, TensorInfo
from .arguments import Operand, choice, integer, pair
from .shape_rules import attribute_error, present, require_number, require_positive, require_rank, shape_error
from .windows import AutoPadding, padding_attributes, require_window, same_padding, window_output


class PoolingFunction(StrEnum):
    """What a window becomes."""

    MAX = "max"
    AVERAGE = "average"
    LP = "lp"  # (sum |x|^p)^(1/p); L2 pooling is p = 2


@descriptor_class
class Pooling2d(Descriptor, kind="dovetail.Pooling2d"):
    """Reduce each window of an image [N, C, H, W] or [N, H, W, C]; sizes are (height, width).

    Attributes:
        padding: (top, left, bottom, right). Padding never wins a maximum.
        count_padding: Average over the whole window, padding included; else over the elements
            inside the image.
        ceil_mode: Keep a last, partial window.
        p: Exponent of `LP`.
    """

    function: PoolingFunction
    """What a window becomes."""
    size: tuple[int, int]
    """(height, width) of a window."""
    stride: tuple[int, int] = (1, 1)
    """(height, width): pixels from one window to the next."""
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    """(height, width): pixels from one element of a window to the next."""
    count_padding: bool = False
    ceil_mode: bool = False
    p: int = 2
    layout: DataLayout = DataLayout.NCHW
    """Order of the axes of an image; weights follow it."""
    auto_padding: AutoPadding = AutoPadding.EXPLICIT
    """Resolved to `padding` once sizes are known; no backend sees another value than EXPLICIT."""

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        if self.auto_padding is AutoPadding.EXPLICIT:
            return self
        x = self._check(inputs)
        require_positive("stride", *self.stride)
        require_positive("dilation", *self.dilation)
        sizes = [x.sizes[axis] for axis in self.layout.spatial_axes()]
        if are_symbolic(sizes):
            return self
        padding = same_padding(sizes, self.size, self.stride, self.dilation, self.auto_padding)
        return replace(self, padding=padding, auto_padding=AutoPadding.EXPLICIT)

    def _check(self, inputs: Infos) -> TensorInfo:
        x = present(inputs, 0)
        require_rank(x, 4, "input")
        require_positive("window", *self.size)
        require_positive("p", self.p)
        require_number(x, "input")
        return x

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = self._check(inputs)
        require_window(x, self.layout.spatial_axes(), self.stride, self.dilation, self.padding)
        reach = [self.dilation[i] * (self.size[i] - 1) + 1 for i in range(2)]
        if any(self.padding[i] >= reach[i] or self.padding[i + 2] >= reach[i] for i in range(2)):
            raise attribute_error(
                f"padding {self.padding} is not smaller than the window {self.size}",
                "some window would hold nothing but padding",
            )
        sizes = [x.sizes[axis] for axis in self.layout.spatial_axes()]
        if self.auto_padding is not AutoPadding.EXPLICIT and are_symbolic(sizes):
            spatial = [-(-sizes[i] // self.stride[i]) for i in range(2)]
        else:
            spatial = [
                window_output(
                    sizes[i],
                    self.size[i],
                    self.stride[i],
                    self.padding[i],
                    self.padding[i + 2],
                    self.dilation[i],
                    ceil_mode=self.ceil_mode,
                )
                for i in range(2)
            ]
        n, c = x.sizes[0], x.sizes[self.layout.channel_axis]
        shape = (n, c, *spatial) if self.layout is DataLayout.NCHW else (n, *spatial, c)
        return [TensorInfo(shape, x.dtype, x.quantization)]

    def selects_elements(self) -> bool:
        return self.function is PoolingFunction.MAX


@descriptor_class
class GlobalPooling(Descriptor, kind="dovetail.GlobalPooling"):
    """Reduce all spatial axes of [N, C, ...] or [N, ..., C] to size one."""

    function: PoolingFunction
    """What an image becomes."""
    p: int = 2
    """Exponent of `lp`."""
    layout: DataLayout = DataLayout.NCHW
    """Order of the axes of an image; weights follow it."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        require_number(x, "input")
        if x.rank < 2:
            raise shape_error(f"input {x.shape_text} has no batch and channel axes", "expected rank 2 or more")
        require_positive("p", self.p)
        spatial = set(self.layout.spatial_axes(x.rank))
        shape = tuple(1 if axis in spatial else size for axis, size in enumerate(x.sizes))
        return [TensorInfo(shape, x.dtype, x.quantization)]

    def selects_elements(self) -> bool:
        return self.function is PoolingFunction.MAX


class PoolingLayers(Graph):
    """Builder methods."""

    def pooling2d(
        self,
        x: Operand,
        function: PoolingFunction | str,
        size: int | Sequence[int],
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        count_padding: bool = False,
        ceil_mode: bool = False,
        p: int = 2,
        layout: DataLayout | str = DataLayout.NCHW,
        name: str | None = None,
    ) -> OutputSlot:
        """Reduce each window; see `Pooling2d`."""
        descriptor = Pooling2d(
            function=choice(PoolingFunction, function, "function"),
            size=pair(size, "size"),
            stride=pair(stride, "stride"),
            **padding_attributes(padding),
            dilation=pair(dilation, "dilation"),
            count_padding=count_padding,
            ceil_mode=ceil_mode,
            p=integer(p, "p"),
            layout=choice(DataLayout, layout, "layout"),
        )
        return self.add(descriptor, x, name=name or f"{descriptor.function}_pool").output

    def global_pooling(
        self,
        x: Operand,
        function: PoolingFunction | str = PoolingFunction.AVERAGE,
        *,
        p: int = 2,
        layout: DataLayout | str = DataLayout.NCHW,
        name: str | None = None,
    ) -> OutputSlot:
        """Reduce all spatial axes to size one."""
        descriptor = GlobalPooling(
            function=choice(PoolingFunction, function, "function"),
            p=integer(p, "p"),
            layout=choice(DataLayout, layout, "layout"),
        )
        return self.add(descriptor, x, name=name or f"global_{descriptor.function}_pool").output
