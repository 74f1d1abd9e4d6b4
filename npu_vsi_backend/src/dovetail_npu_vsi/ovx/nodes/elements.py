"""What is computed element by element."""

from __future__ import annotations

from collections.abc import Callable

from ...chips import Chip
from ...program import Binary, Function, Program, Requantize, Tensor
from .making import Making

# Where parameters begin, in floats: behind what the library keeps for itself.
_AFTER_POINTER = 2
_ELU_AT = 6

_Add = Callable[[Making, int, int, Function], None]


def _simple(kind: str, numbers: Callable[[Function], tuple[float, ...]] = lambda _: (), at: int = 0) -> _Add:
    return lambda making, x, y, operation: making.graph.simple(kind, (x,), y, numbers(operation), at)


_FUNCTIONS: dict[str, _Add] = {
    "linear": _simple("linear", lambda f: (f.alpha, f.beta), _AFTER_POINTER),
    "relu": _simple("relu"),
    "leaky_relu": _simple("leaky_relu", lambda f: (f.alpha,)),
    "elu": _simple("elu", lambda f: (f.alpha,), _ELU_AT),
    "selu": _simple("selu", lambda f: (f.alpha, f.beta), _AFTER_POINTER),
    "celu": _simple("celu", lambda f: (f.alpha,), _AFTER_POINTER),
    "sigmoid": _simple("sigmoid"),
    "tanh": _simple("tanh", lambda f: (1.0, 1.0)),
    "hard_sigmoid": _simple("hard_sigmoid", lambda f: (f.alpha, f.beta), _AFTER_POINTER),
    "hard_swish": lambda making, x, y, f: making.graph.swish(x, y, 1.0, is_hard=True),
    "swish": lambda making, x, y, f: making.graph.swish(x, y, f.alpha, is_hard=False),
    "gelu": lambda making, x, y, f: making.graph.gelu(x, y, approximates=False),
    "gelu_tanh": lambda making, x, y, f: making.graph.gelu(x, y, approximates=True),
    "softplus": _simple("softplus"),
    "softsign": _simple("softsign"),
    "mish": _simple("mish"),
}


def refuse_function(operation: Function, program: Program, chip: Chip) -> str:
    """Say why ovxlib cannot compute a function."""
    if operation.function in (*_FUNCTIONS, "bounded_relu"):
        return ""
    return f"the function {operation.function!r}, for which ovxlib has no node"


def add_function(making: Making, operation: Function) -> None:
    """Add a function of one element; a bounded ReLU clamps to the integers that its bounds are."""
    if operation.function == "bounded_relu":
        _convert(making, operation, *_bounds(operation, making.output(operation)))
        return
    x, y = making.number(operation.inputs[0]), making.number(operation.output)
    _FUNCTIONS[operation.function](making, x, y, operation)


def _bounds(operation: Function, y: Tensor) -> tuple[int, int]:
    """Return the integers that a bounded ReLU clamps to."""
    least, most = y.limits
    reals = (min(operation.beta, operation.alpha), operation.alpha)
    low, high = (min(max(round(real / y.scale) + y.zero_point, least), most) for real in reals)
    return low, high


def refuse_binary(operation: Binary, program: Program, chip: Chip) -> str:
    """Say why ovxlib cannot combine two tensors."""
    if operation.function not in ("add", "subtract", "multiply"):
        return f"the function {operation.function!r} of two tensors"
    # Measured with ovxlib 1.2.30: where it comes of a concatenation it is read wrongly.
    if operation.inputs[0] == operation.inputs[1]:
        return "a tensor with itself, which the driver may read wrongly"
    return ""


def add_binary(making: Making, operation: Binary) -> None:
    """Add a combination of two tensors, and the clamp of its results."""
    inputs = [making.number(number) for number in operation.inputs]
    before = making.before_clamp(operation, operation.low, operation.high)
    making.graph.simple(operation.function, inputs, before, (1.0,) if operation.function == "multiply" else ())
    making.clamp(before, operation, operation.low, operation.high)


def refuse_requantize(operation: Requantize, program: Program, chip: Chip) -> str:
    """Say nothing: ovxlib has all conversions of bytes."""
    return ""


def add_requantize(making: Making, operation: Requantize) -> None:
    """Add a conversion, and the clamp of its results."""
    _convert(making, operation, operation.low, operation.high)


def _convert(making: Making, operation: Function | Requantize, low: int, high: int) -> None:
    before = making.before_clamp(operation, low, high)
    making.graph.simple("convert", (making.number(operation.inputs[0]),), before)
    making.clamp(before, operation, low, high)
