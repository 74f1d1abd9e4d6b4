"""The operations of a program, each a record of what it reads, writes and does.

Inputs and outputs are numbers of tensors of the program. Axes count from the outermost. Results are
clamped to `low` and `high`, integers of the result's element type, where an operation has these:
that is what became of a fused ReLU or clamp.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of bytes with their quantization, and the bias.

    Attributes:
        values: uint8 or int8; of a convolution [O, I / groups, h, w], of a fully connected layer
            [N, K].
        scale: One, or one for each output channel.
        zero_point: As many.
        bias: int32 [O], in units of the input's scale times the weights' scale; zeros for none.
    """

    values: npt.NDArray[np.uint8] | npt.NDArray[np.int8]
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    bias: npt.NDArray[np.int32]

    @property
    def is_per_channel(self) -> bool:
        """True if each output channel has a scale of its own."""
        return len(self.scale) > 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Operation:
    """Base of all operations.

    Attributes:
        name: Of the layer that it comes from, for reports; unique in its program.
        inputs: Numbers of the tensors that it reads.
        output: Number of the tensor that it writes.
        sources: Names of the layers that it computes, those that were folded into it included;
            empty for what `lowering` put between layers.
    """

    name: str
    inputs: tuple[int, ...]
    output: int
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Convolution(Operation):
    """Cross-correlate images with filters; depthwise where each group has one input channel.

    Attributes:
        weights: Filters and bias.
        stride: Vertically and horizontally.
        padding: Top, left, bottom, right: zeros, which are the input's zero point.
        dilation: Vertically and horizontally.
        groups: Output channel o reads the input channels of group o * groups / O.
        low, high: Bounds of the results.
    """

    weights: Weights
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int
    low: int
    high: int

    @property
    def is_depthwise(self) -> bool:
        """True if each filter reads one channel of several."""
        return self.groups > 1 and self.weights.values.shape[1] == 1


@dataclass(frozen=True, eq=False, kw_only=True)
class FullyConnected(Operation):
    """Input [M, K] times weights [N, K] transposed, plus bias: [M, N].

    Attributes:
        weights: Weights and bias.
        low, high: Bounds of the results.
    """

    weights: Weights
    low: int
    high: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Pooling(Operation):
    """The greatest or the mean of each window of an image.

    Attributes:
        function: "max" or "average".
        size, stride: Vertically and horizontally.
        padding: Top, left, bottom, right.
        count_padding: Whether an average counts the padding, as zeros.
        low, high: Bounds of the results.
    """

    function: str
    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    count_padding: bool
    low: int
    high: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Binary(Operation):
    """Combine two tensors element by element; axes of size one are repeated.

    Attributes:
        function: "add", "subtract" or "multiply".
        low, high: Bounds of the results.
    """

    function: str
    low: int
    high: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Function(Operation):
    """A function of one element, by a table.

    Attributes:
        function: Value of `dovetail.ActivationFunction`, such as "sigmoid".
        alpha, beta: Its parameters.
    """

    function: str
    alpha: float
    beta: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Requantize(Operation):
    """The same real numbers under the quantization of the output.

    Attributes:
        low, high: Bounds of the results.
    """

    low: int
    high: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Softmax(Operation):
    """exp(beta * x) along an axis, divided by its sum.

    Attributes:
        axis: Along which is summed.
        beta: Factor of the exponent.
    """

    axis: int
    beta: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Concat(Operation):
    """Join tensors along an axis; each is requantized where its quantization differs.

    Attributes:
        axis: Along which.
    """

    axis: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Pad(Operation):
    """Put elements of one value around a tensor.

    Attributes:
        before, after: Elements for each axis.
        value: Of each; an integer of the element type.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Permute(Operation):
    """Reorder axes: axis i of the output is axis order[i] of the input.

    Attributes:
        order: A permutation.
    """

    order: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Reshape(Operation):
    """The same elements, in row-major order, under the output's shape."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Resize(Operation):
    """Resample images [N, C, H, W] to the output's height and width.

    Attributes:
        mode: "nearest" or "bilinear".
        align_corners: The outermost pixels' centers coincide.
        half_pixel: Pixels' centers lie at halves.
    """

    mode: str
    align_corners: bool
    half_pixel: bool
