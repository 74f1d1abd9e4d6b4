"""Fix symbolic dimensions, and inputs whose value is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from ...graph.descriptor import Array, Input
from ...graph.element_types import DType
from ...graph.graph import Graph
from ...graph.layer import Layer
from ...graph.tensor import Dimension, TensorInfo
from ...ground.close_names import suggestion
from ...ground.errors import DovetailError, ErrorCode, GraphError, OptionError
from .base import Pass

Shapes: TypeAlias = Mapping[str, int | Sequence[int | None]]
"""Sizes by name of symbol, or whole shapes by name of input.

None in a shape leaves that dimension as the network has it.
"""
Values: TypeAlias = Mapping[str, npt.ArrayLike]


class _Bindings:
    """Sizes of symbols, each with where it was said."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self._origins: dict[str, str] = {}

    def bind(self, symbol: str, size: int, origin: str) -> None:
        if self.sizes.setdefault(symbol, size) != size:
            raise GraphError(
                f"dimension {symbol!r} is {self.sizes[symbol]} by {self._origins[symbol]}, but {size} by {origin}",
                code=ErrorCode.SHAPE_MISMATCH,
                hint="give one size per symbol",
                symbol=symbol,
            )
        self._origins.setdefault(symbol, origin)

    def bind_shape(self, layer: str, declared: Sequence[Dimension], given: Sequence[int | None], origin: str) -> None:
        if len(declared) != len(given):
            raise _does_not_fit(layer, declared, given, origin)
        for dimension, size in zip(declared, given, strict=True):
            if size is None:
                continue
            if isinstance(dimension, str):
                self.bind(dimension, size, origin)
            elif dimension != size:
                raise _does_not_fit(layer, declared, given, origin)


def _does_not_fit(layer: str, declared: Sequence[Dimension], given: Sequence[int | None], origin: str) -> GraphError:
    text = TensorInfo(tuple(declared), DType.FLOAT32).shape_text
    return GraphError(
        f"{origin} gives input {layer!r} the shape {list(given)}, but the network declares {text}",
        code=ErrorCode.SHAPE_MISMATCH,
        hint="sizes that are numbers in the network cannot be changed; export the model with a dynamic dimension",
        input=layer,
    )


class FixValues(Pass):
    """Turn inputs whose value is given into constants; their shapes bind symbols.

    Raises:
        OptionError: No input has this name.
        GraphError: The value has another dtype or shape than the input.
    """

    name: ClassVar[str] = "fix_values"

    def __init__(self, values: Values | None = None) -> None:
        self.values = dict(values or {})

    def run(self, graph: Graph) -> int:
        inputs = {layer.name: layer for layer in graph.inputs}
        bindings = _Bindings()
        for name, value in self.values.items():
            if name not in inputs:
                raise OptionError(f"values: the network has no input {name!r}", hint=suggestion(name, inputs), value=name)
            self._fix(graph, inputs[name], value, bindings)
        _apply(graph, bindings)
        return len(self.values)

    def _fix(self, graph: Graph, layer: Layer, value: npt.ArrayLike, bindings: _Bindings) -> None:
        info = layer.output.known_info
        array = _as_array(layer.name, value, info.dtype)
        bindings.bind_shape(layer.name, info.shape, array.shape, f"values[{layer.name!r}]")
        consumers = list(layer.output.consumers)
        for consumer in consumers:
            graph.disconnect(consumer)
        graph.remove(layer)
        dtype = info.dtype if info.dtype is DType.BFLOAT16 else None
        constant = graph.constant(array, name=layer.name, dtype=dtype, quantization=info.quantization)
        constant.layer.sources = layer.sources
        for consumer in consumers:
            graph.connect(constant, consumer)


def _as_array(name: str, value: npt.ArrayLike, dtype: DType) -> Array:
    if not isinstance(value, np.ndarray | np.generic):
        try:
            return np.asarray(value).astype(dtype.numpy, casting="same_kind")
        except TypeError:
            pass
    array = np.asarray(value)
    if dtype is DType.BFLOAT16 and array.dtype.name == "bfloat16":
        return array
    if array.dtype != dtype.numpy:
        raise GraphError(
            f"values[{name!r}] is {array.dtype}, but the input is {dtype}",
            code=ErrorCode.DTYPE_MISMATCH,
            hint=f"convert it: value.astype({dtype.numpy.name!r})",
            input=name,
        )
    return array


class FixShapes(Pass):
    """Give symbolic dimensions of the inputs their sizes.

    What stays symbolic is refused before shapes are inferred.

    Raises:
        OptionError: A key names neither a symbol nor an input, or its value is no size or shape.
        GraphError: Two sizes for one symbol, or a size against the network (`SHAPE_MISMATCH`).
    """

    name: ClassVar[str] = "fix_shapes"

    def __init__(self, shapes: Shapes | None = None) -> None:
        self.shapes = dict(shapes or {})

    def run(self, graph: Graph) -> int:
        bindings = _Bindings()
        declared = {layer.name: layer.output.known_info for layer in graph.inputs}
        symbols = {d for info in declared.values() for d in info.shape if isinstance(d, str)}
        for key, wanted in self.shapes.items():
            origin = f"shapes[{key!r}]"
            if _is_size(wanted) and (key in symbols or key not in declared):
                if key not in symbols:
                    raise _unknown_key(key, sorted(symbols), list(declared))
                bindings.bind(key, _size(wanted, origin), origin)
            elif key in declared:
                bindings.bind_shape(key, declared[key].shape, _shape(wanted, origin), origin)
            elif key in symbols:
                raise OptionError(
                    f"{origin} is {wanted!r}, but {key!r} is a symbol", code=ErrorCode.OPTION_INVALID, hint="give one integer"
                )
            else:
                raise _unknown_key(key, sorted(symbols), list(declared))
        return _apply(graph, bindings)


def _apply(graph: Graph, bindings: _Bindings) -> int:
    changes = 0
    for layer in graph.inputs:
        info = layer.output.known_info
        shape = tuple(bindings.sizes.get(d, d) if isinstance(d, str) else d for d in info.shape)
        if shape != info.shape:
            graph.replace_descriptor(layer, Input(info=info.with_shape(shape)))
            graph.infer(layer)
            changes += 1
    return changes


def _is_size(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _size(value: object, origin: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
        raise OptionError(
            f"{origin}: {value!r} is not a size", code=ErrorCode.OPTION_INVALID, hint="give an integer that is not negative"
        )
    return int(value)


def _shape(value: object, origin: str) -> list[int | None]:
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        raise OptionError(
            f"{origin} is {value!r}, not a shape", code=ErrorCode.OPTION_INVALID, hint="give a tuple such as (1, 3, 224, 224)"
        )
    return [None if size is None else _size(size, origin) for size in value]


def _unknown_key(key: str, symbols: list[str], inputs: list[str]) -> DovetailError:
    return OptionError(
        f"shapes: {key!r} is neither a symbolic dimension nor an input of the network",
        hint=f"{suggestion(key, [*symbols, *inputs])} (symbols: {', '.join(symbols) or 'none'}; inputs: {', '.join(inputs)})",
    )


def open_symbols(graph: Graph) -> GraphError | None:
    """Return the error for inputs of unknown size, or None if all sizes are numbers.

    It is `SHAPE_UNKNOWN`; ``details["symbols"]`` lists what has no size.
    """
    users: dict[str, list[str]] = {}
    for layer in graph.inputs:
        for dimension in layer.output.known_info.shape:
            if isinstance(dimension, str):
                users.setdefault(dimension, []).append(layer.name)
    if not users:
        return None
    listed = "; ".join(f"{symbol!r} of {', '.join(dict.fromkeys(names))}" for symbol, names in users.items())
    example = ", ".join(f"{symbol!r}: 1" for symbol in users)
    return GraphError(
        f"network {graph.name!r} has symbolic dimensions without a size: {listed}",
        code=ErrorCode.SHAPE_UNKNOWN,
        hint=f"fix them: give shapes={{{example}}}, or whole shapes by input name, to dovetail.load or dovetail.optimize",
        symbols=list(users),
    )
