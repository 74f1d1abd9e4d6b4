"""Activations: functions of one element."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from ..graph.descriptor import Descriptor, Infos, descriptor_class
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import shapes_differ
from ..graph.tensor import TensorInfo
from .arguments import Operand, choice, integer, number
from .shape_rules import broadcast, normalize_axis, present, require_number, require_real, require_same_dtype, shape_error


class ActivationFunction(StrEnum):
    """Functions, with the meaning of `alpha` and `beta`.

    Sources: ONNX operator specification (ops of the same names); GELU: Hendrycks and Gimpel 2016.
    """

    LINEAR = "linear"  # alpha * x + beta
    RELU = "relu"  # max(x, 0)
    BOUNDED_RELU = "bounded_relu"  # min(alpha, max(beta, x)), alpha where beta > alpha; ReLU6 is alpha 6, beta 0
    LEAKY_RELU = "leaky_relu"  # x if x >= 0 else alpha * x
    THRESHOLDED_RELU = "thresholded_relu"  # x if x > alpha else 0
    ELU = "elu"  # x if x >= 0 else alpha * (exp(x) - 1)
    SELU = "selu"  # beta * (x if x > 0 else alpha * (exp(x) - 1))
    CELU = "celu"  # max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
    SIGMOID = "sigmoid"  # 1 / (1 + exp(-x))
    TANH = "tanh"
    HARD_SIGMOID = "hard_sigmoid"  # max(0, min(1, alpha * x + beta))
    HARD_SWISH = "hard_swish"  # x * max(0, min(1, x / 6 + 0.5))
    SWISH = "swish"  # x * sigmoid(alpha * x); SiLU is alpha 1
    GELU = "gelu"  # x / 2 * (1 + erf(x / sqrt(2)))
    GELU_TANH = "gelu_tanh"  # x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
    SOFTPLUS = "softplus"  # log(1 + exp(x))
    SOFTSIGN = "softsign"  # x / (1 + |x|)
    MISH = "mish"  # x * tanh(softplus(x))
    SHRINK = "shrink"  # x + beta if x < -alpha; x - beta if x > alpha; else 0


_OF_NUMBERS = {ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU}
"""Defined for integers as for floats; the others are of real numbers."""


@descriptor_class
class Activation(Descriptor, kind="dovetail.Activation"):
    """Apply a function to each element; the shape and dtype stay."""

    function: ActivationFunction
    """Which."""
    alpha: float = 0.0
    """First parameter of the function; others leave it unused."""
    beta: float = 0.0
    """Second parameter of the function; others leave it unused."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        (require_number if self.function in _OF_NUMBERS else require_real)(x, "input")
        return [x]


@descriptor_class
class Prelu(Descriptor, kind="dovetail.Prelu"):
    """x if x >= 0 else slope * x; slope broadcasts to x."""

    input_names: ClassVar[tuple[str, ...]] = ("input", "slope")
    required_inputs: ClassVar[int] = 2

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, slope = present(inputs, 0), present(inputs, 1)
        require_same_dtype([x, slope])
        require_number(x, "input")
        if shapes_differ(broadcast(x.shape, slope.shape), x.shape):
            raise shape_error(f"slope {slope.shape_text} does not broadcast to the input {x.shape_text}")
        return [x]


@descriptor_class
class Softmax(Descriptor, kind="dovetail.Softmax"):
    """exp(beta * x) over its sum along one axis; with `log`, the logarithm of that.

    Of int8 and uint8 whose result is in steps of 1/256 from the least integer on, as TensorFlow
    Lite has it, it is computed in the fixed point of its reference kernel; with any other scale the
    result is rounded to nearest even.
    """

    axis: int = -1
    """Along which the results add up to one."""
    beta: float = 1.0
    """Factor of the input."""
    log: bool = False
    """Give the logarithm of the result."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        normalize_axis(self.axis, x.rank)
        require_real(x, "input")
        return [x.with_quantization(None)]


class ActivationLayers(Graph):
    """Builder methods."""

    def activation(
        self, x: Operand, function: ActivationFunction | str, alpha: float = 0.0, beta: float = 0.0, *, name: str | None = None
    ) -> OutputSlot:
        """Apply an activation; see `ActivationFunction` for what alpha and beta mean."""
        kind = choice(ActivationFunction, function, "function")
        return self.add(
            Activation(function=kind, alpha=number(alpha, "alpha"), beta=number(beta, "beta")), x, name=name or kind.value
        ).output

    def relu(self, x: Operand, *, name: str | None = None) -> OutputSlot:
        """max(x, 0)."""
        return self.activation(x, ActivationFunction.RELU, name=name)

    def relu6(self, x: Operand, *, name: str | None = None) -> OutputSlot:
        """min(6, max(x, 0))."""
        return self.activation(x, ActivationFunction.BOUNDED_RELU, 6.0, 0.0, name=name)

    def sigmoid(self, x: Operand, *, name: str | None = None) -> OutputSlot:
        """1 / (1 + exp(-x))."""
        return self.activation(x, ActivationFunction.SIGMOID, name=name)

    def tanh(self, x: Operand, *, name: str | None = None) -> OutputSlot:
        """Hyperbolic tangent."""
        return self.activation(x, ActivationFunction.TANH, name=name)

    def gelu(self, x: Operand, *, approximate: bool = False, name: str | None = None) -> OutputSlot:
        """Gaussian error linear unit, exact (erf) or by its tanh approximation."""
        return self.activation(x, ActivationFunction.GELU_TANH if approximate else ActivationFunction.GELU, name=name)

    def prelu(self, x: Operand, slope: Operand, *, name: str | None = None) -> OutputSlot:
        """x where x >= 0, else slope * x."""
        return self.add(Prelu(), x, slope, name=name).output

    def softmax(self, x: Operand, axis: int = -1, beta: float = 1.0, *, name: str | None = None) -> OutputSlot:
        """exp(beta * x) / sum(exp(beta * x)) along an axis."""
        return self.add(Softmax(axis=integer(axis, "axis"), beta=number(beta, "beta")), x, name=name).output

    def log_softmax(self, x: Operand, axis: int = -1, beta: float = 1.0, *, name: str | None = None) -> OutputSlot:
        """Logarithm of softmax."""
        return self.add(
            Softmax(axis=integer(axis, "axis"), beta=number(beta, "beta"), log=True), x, name=name or "log_softmax"
        ).output


FUSABLE = frozenset(
    {ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU, ActivationFunction.LEAKY_RELU, ActivationFunction.HARD_SWISH}
    | {ActivationFunction.SIGMOID, ActivationFunction.TANH, ActivationFunction.ELU, ActivationFunction.SWISH}
    | {ActivationFunction.GELU, ActivationFunction.GELU_TANH, ActivationFunction.HARD_SIGMOID}
)
"""Functions that the optimizer folds into the layer before them, where the backend takes it."""


@descriptor_class
class FusedActivation(Descriptor):
    """Attributes of the kinds that may apply an activation to their result before it is stored."""

    activation: ActivationFunction | None = None
    """Applied to the result before it is stored; None: none."""
    activation_alpha: float = 0.0
    """`alpha` of the function, see `ActivationFunction`."""
    activation_beta: float = 0.0
    """`beta` of the function, see `ActivationFunction`."""
