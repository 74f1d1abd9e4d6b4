"""Convolutions over images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ..graph.descriptor import Descriptor, Infos, Values, descriptor_class
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import are_symbolic, as_size, below, differ, equal, larger
from ..graph.tensor import DataLayout, Quantization, TensorInfo
from .activation import FusedActivation
from .arguments import Operand, choice, integer, pair
from .shape_rules import (
    attribute_error,
    optional,
    present,
    require_number,
    require_positive,
    require_rank,
    require_same_dtype,
    require_shape,
    shape_error,
)
from .windows import AutoPadding, padding_attributes, require_window, same_padding, window_output

_INPUTS = ("input", "weights", "bias")


@descriptor_class
class _Windowed(FusedActivation):
    """What the three convolutions share.

    Sizes are (height, width), padding is (top, left, bottom, right).
    """

    input_names: ClassVar[tuple[str, ...]] = _INPUTS
    required_inputs: ClassVar[int] = 2
    stride: tuple[int, int] = (1, 1)
    """(height, width): pixels from one window to the next.

    Those of a transposed convolution are counted in the output.
    """
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    """(top, left, bottom, right): zeros around the image.

    A transposed convolution cuts as much off its output.
    """
    dilation: tuple[int, int] = (1, 1)
    """(height, width): pixels from one tap of the filter to the next."""
    layout: DataLayout = DataLayout.NCHW
    """Order of the axes of an image; weights follow it."""
    auto_padding: AutoPadding = AutoPadding.EXPLICIT
    """Resolved to `padding` once sizes are known; no backend sees another value than EXPLICIT."""

    def _same_padding(self, inputs: Infos) -> tuple[int, int, int, int]:
        x, weights = self._check(inputs)
        require_positive("stride", *self.stride)
        require_positive("dilation", *self.dilation)
        return same_padding(self._spatial(x), self.kernel_size(weights), self.stride, self.dilation, self.auto_padding)

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        if self.auto_padding is AutoPadding.EXPLICIT or self._is_symbolic(inputs):
            return self
        return replace(self, padding=self._same_padding(inputs), auto_padding=AutoPadding.EXPLICIT)

    def _is_symbolic(self, inputs: Infos) -> bool:
        """Say whether padding cannot be worked out: image or filter have symbols as sizes."""
        x, weights = self._check(inputs)
        return are_symbolic((*self._spatial(x), *self.kernel_size(weights)))

    def _check(self, inputs: Infos) -> tuple[TensorInfo, TensorInfo]:
        x, weights = present(inputs, 0), present(inputs, 1)
        require_rank(x, 4, "input")
        require_rank(weights, 4, "weights")
        require_number(x, "input")
        if x.dtype is not weights.dtype and x.dtype.is_float:
            require_same_dtype([x, weights], "input and weights")
        return x, weights

    def _check_bias(self, inputs: Infos, channels: int) -> None:
        bias = optional(inputs, 2)
        if bias is not None:
            require_shape(bias, (channels,), "bias")

    def _spatial(self, x: TensorInfo) -> tuple[int, int]:
        sizes = x.sizes
        return (sizes[2], sizes[3]) if self.layout is DataLayout.NCHW else (sizes[1], sizes[2])

    def _result(self, x: TensorInfo, channels: int, height: int, width: int) -> TensorInfo:
        batch = x.sizes[0]
        nchw = self.layout is DataLayout.NCHW
        return TensorInfo((batch, channels, height, width) if nchw else (batch, height, width, channels), x.dtype)

    def _window_result(self, x: TensorInfo, channels: int, kernel: tuple[int, int]) -> TensorInfo:
        sizes, stride, dilation = self._spatial(x), self.stride, self.dilation
        require_window(x, self.layout.spatial_axes(), stride, dilation, self.padding)
        if self.auto_padding is not AutoPadding.EXPLICIT and are_symbolic((*sizes, *kernel)):
            return self._result(x, channels, -(-sizes[0] // stride[0]), -(-sizes[1] // stride[1]))
        top, left, bottom, right = self.padding
        height = window_output(sizes[0], kernel[0], stride[0], top, bottom, dilation[0])
        width = window_output(sizes[1], kernel[1], stride[1], left, right, dilation[1])
        return self._result(x, channels, height, width)

    def kernel_size(self, weights: TensorInfo) -> tuple[int, int]:
        """(height, width) of the filter."""
        return self._spatial(weights)  # whose axes are ordered as those of images

    @property
    def filter_axis(self) -> int:
        """Axis of the weights that counts the filters, along which they may have a scale each."""
        return 0


@descriptor_class
class Convolution2d(_Windowed, kind="dovetail.Convolution2d"):
    """Cross-correlate images with filters.

    Inputs: images [N, C, H, W] (NCHW) or [N, H, W, C]; weights [O, C / groups, h, w] or [O, h, w, C
    / groups]; bias [O]. With int8 or uint8 images: integer weights, int32 bias, quantization on
    every slot (TensorFlow Lite's rules). With int16 images: int8 weights, and sums of 64 bits with
    an int64 bias or none, or of 32 bits with an int32 bias.
    """

    groups: int = 1
    """Number of groups of filters and channels; filters of a group see its channels alone."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, weights = self._check(inputs)
        require_positive("groups", self.groups)
        channels = x.sizes[self.layout.channel_axis]
        filters, per_group = weights.sizes[0], weights.sizes[self.layout.channel_axis]
        if differ(per_group * self.groups, channels) or differ(filters % self.groups, 0):
            raise shape_error(
                f"weights {weights.shape_text} do not fit {channels} channels in {self.groups} groups",
                f"in {self.layout} the weights' channel axis must be {channels}/{self.groups}, filters a multiple of groups",
            )
        self._check_bias(inputs, filters)
        return [self._window_result(x, filters, self.kernel_size(weights))]

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        weights = present(inputs, 1)
        return outputs[0].elements * (weights.elements // max(weights.sizes[0], 1))


@descriptor_class
class DepthwiseConvolution2d(_Windowed, kind="dovetail.DepthwiseConvolution2d"):
    """Cross-correlate each channel with its own `multiplier` filters.

    Inputs: images [N, C, H, W] or [N, H, W, C]; weights [C * multiplier, 1, h, w] (NCHW) or [1, h,
    w, C * multiplier] (NHWC); bias [C * multiplier]. Output channel c * multiplier + m reads input
    channel c.
    """

    @property
    def filter_axis(self) -> int:
        return 0 if self.layout is DataLayout.NCHW else 3

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, weights = self._check(inputs)
        channels = x.sizes[self.layout.channel_axis]
        nchw = self.layout is DataLayout.NCHW
        filters, one = (weights.sizes[0], weights.sizes[1]) if nchw else (weights.sizes[3], weights.sizes[0])
        if differ(one, 1) or below(channels, 1) or differ(filters % channels, 0):
            raise shape_error(
                f"weights {weights.shape_text} do not fit {channels} channels",
                f"expected {'[C * multiplier, 1, h, w]' if nchw else '[1, h, w, C * multiplier]'}",
            )
        self._check_bias(inputs, filters)
        return [self._window_result(x, filters, self.kernel_size(weights))]

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        return outputs[0].elements * math.prod(self.kernel_size(present(inputs, 1)))


@descriptor_class
class TransposeConvolution2d(_Windowed, kind="dovetail.TransposeConvolution2d"):
    """The gradient of a convolution: each input element adds a scaled filter to the output.

    Inputs: images; weights [C, O / groups, h, w] (NCHW) or [O, h, w, C] (NHWC, one group); bias
    [O]. Output size per axis: stride * (size - 1) + dilation * (kernel - 1) + 1 + output_padding -
    padding before and after. Before the padding is cut off, it is a tensor that a machine can hold.
    Along an axis of one element the stride has nothing to step over: one beyond the filter is
    resolved to the filter's reach, since kernels take it apart into that many phases.
    """

    output_padding: tuple[int, int] = (0, 0)
    """(height, width): rows and columns added at the bottom and the right of the output."""
    groups: int = 1
    """Number of groups of filters and channels; filters of a group see its channels alone."""
    output_size: tuple[int, int] | None = None
    """Wanted (height, width): resolved to padding, split by `auto_padding`.

    SAME alone: size * stride.
    """

    @property
    def filter_axis(self) -> int:
        return 1 if self.layout is DataLayout.NCHW else 0

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        if self.auto_padding is AutoPadding.EXPLICIT and self.output_size is None:
            return self._with_strides_within(inputs)
        x, weights = self._check(inputs)
        require_positive("stride", *self.stride)
        if self._is_symbolic(inputs):
            return self
        sizes, kernel, wanted = self._spatial(x), self.kernel_size(weights), self._wanted(x)
        before, after, extra = [], [], []
        for i in range(2):
            reach = self.stride[i] * (sizes[i] - 1) + self.dilation[i] * (kernel[i] - 1) + 1 + self.output_padding[i]
            total = max(reach - wanted[i], 0)
            half = total // 2
            before.append(total - half if self.auto_padding is AutoPadding.SAME_LOWER else half)
            after.append(total - before[i])
            extra.append(self.output_padding[i] + max(wanted[i] - reach, 0))
        explicit = replace(
            self,
            padding=(before[0], before[1], after[0], after[1]),
            output_padding=(extra[0], extra[1]),
            output_size=None,
            auto_padding=AutoPadding.EXPLICIT,
        )
        return explicit._with_strides_within(inputs)

    def _wanted(self, x: TensorInfo) -> tuple[int, int]:
        """Return the (height, width) from which the padding is worked out."""
        height, width = self._spatial(x)
        return self.output_size or (height * self.stride[0], width * self.stride[1])

    def _with_strides_within(self, inputs: Infos) -> TransposeConvolution2d:
        x, weights = self._check(inputs)
        sizes, kernel, stride = self._spatial(x), self.kernel_size(weights), list(self.stride)
        for i in range(2):
            reach = self.dilation[i] * (kernel[i] - 1) + 1 + self.output_padding[i]
            if equal(sizes[i], 1) and below(reach, stride[i]) and below(0, reach):
                stride[i] = reach
        return self if stride == list(self.stride) else replace(self, stride=(stride[0], stride[1]))

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, weights = self._check(inputs)
        require_positive("groups", self.groups)
        channels = x.sizes[self.layout.channel_axis]
        nchw = self.layout is DataLayout.NCHW
        inward = weights.sizes[0] if nchw else weights.sizes[3]
        filters = weights.sizes[1] * self.groups if nchw else weights.sizes[0]
        if differ(inward, channels) or differ(channels % self.groups, 0) or (self.groups != 1 and not nchw):
            raise shape_error(
                f"weights {weights.shape_text} do not fit {channels} channels in {self.groups} groups",
                f"expected {'[C, O / groups, h, w]' if nchw else '[O, h, w, C] and one group'}",
            )
        self._check_bias(inputs, filters)
        kernel, sizes = self.kernel_size(weights), self._spatial(x)
        if min(self.output_padding) < 0:
            raise attribute_error(f"output_padding is {self.output_padding}", "give counts that are not negative")
        if (self.auto_padding is not AutoPadding.EXPLICIT or self.output_size is not None) and self._is_symbolic(inputs):
            return [self._result(x, filters, *self._wanted(x))]
        reached = [
            self.stride[i] * (sizes[i] - 1) + self.dilation[i] * (kernel[i] - 1) + 1 + self.output_padding[i] for i in range(2)
        ]
        before_cutting = self._result(x, filters, larger(reached[0], 0), larger(reached[1], 0))
        require_window(before_cutting, self.layout.spatial_axes(), self.stride, self.dilation, self.padding)
        height, width = (reached[i] - self.padding[i] - self.padding[i + 2] for i in range(2))
        if below(height, 0) or below(width, 0):
            raise shape_error(f"the output would be {height} x {width}", "reduce the padding")
        return [self._result(x, filters, as_size(height), as_size(width))]

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        x, weights = present(inputs, 0), present(inputs, 1)
        filters = weights.sizes[1] if self.layout is DataLayout.NCHW else weights.sizes[0]
        return x.elements * filters * math.prod(self.kernel_size(weights))


def _window(
    stride: int | Sequence[int],
    padding: int | Sequence[int] | str,
    dilation: int | Sequence[int],
    layout: DataLayout | str,
) -> dict[str, Any]:
    """Read the arguments that all convolutions have."""
    return {
        "stride": pair(stride, "stride"),
        **padding_attributes(padding),
        "dilation": pair(dilation, "dilation"),
        "layout": choice(DataLayout, layout, "layout"),
    }


class ConvolutionLayers(Graph):
    """Builder methods.

    `stride`, `dilation`: an integer or (height, width). `padding`: an integer, (height, width),
    (top, left, bottom, right), "same" or "valid"; see `padding_attributes`.
    """

    def convolution2d(
        self,
        x: Operand,
        weights: Operand,
        bias: Operand | None = None,
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        layout: DataLayout | str = DataLayout.NCHW,
        quantization: Quantization | None = None,
        name: str | None = None,
    ) -> OutputSlot:
        """Cross-correlate images with filters; see `Convolution2d` for shapes."""
        descriptor = Convolution2d(
            **_window(stride, padding, dilation, layout),
            groups=integer(groups, "groups"),
        )
        return self.add(descriptor, x, weights, bias, name=name, quantization=quantization).output

    def depthwise_convolution2d(
        self,
        x: Operand,
        weights: Operand,
        bias: Operand | None = None,
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        layout: DataLayout | str = DataLayout.NCHW,
        quantization: Quantization | None = None,
        name: str | None = None,
    ) -> OutputSlot:
        """Cross-correlate each channel with filters of its own.

        See `DepthwiseConvolution2d` for shapes.
        """
        descriptor = DepthwiseConvolution2d(
            **_window(stride, padding, dilation, layout),
        )
        return self.add(descriptor, x, weights, bias, name=name, quantization=quantization).output

    def transpose_convolution2d(
        self,
        x: Operand,
        weights: Operand,
        bias: Operand | None = None,
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        layout: DataLayout | str = DataLayout.NCHW,
        name: str | None = None,
    ) -> OutputSlot:
        """Transposed convolution; see `TransposeConvolution2d` for shapes."""
        descriptor = TransposeConvolution2d(
            **_window(stride, padding, dilation, layout),
            output_padding=pair(output_padding, "output_padding"),
            groups=integer(groups, "groups"),
        )
        return self.add(descriptor, x, weights, bias, name=name).output
