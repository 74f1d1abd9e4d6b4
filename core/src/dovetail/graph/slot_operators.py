"""Python's operators on slots: each adds a layer to the network that the slots are of."""

from __future__ import annotations

import weakref
from typing import Any, Self, TypeVar

import numpy as np

from ..ground.errors import ErrorCode, GraphError
from .descriptor import Array

_Slot = TypeVar("_Slot")


class GraphReference:
    """Leads from the layers of a graph to the graph, which they do not keep alive.

    All layers of a graph share one. Copied or pickled it leads nowhere, until the copy of the graph
    takes it over.
    """

    __slots__ = ("_reference",)

    def __init__(self) -> None:
        self._reference: weakref.ref[Any] | None = None

    def lead_to(self, graph: object) -> None:
        """Lead to this graph from now on."""
        self._reference = weakref.ref(graph)

    @property
    def graph(self) -> Any:
        """The graph; None if it is gone."""
        return None if self._reference is None else self._reference()

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphReference, ()


class SlotOperators:
    """The operators of an output slot; comparisons are not among them: a slot equals itself.

    The other operand is a slot, an array, or a Python number, which takes the element type of the
    slot.
    """

    __slots__ = ()
    __array_ufunc__ = None  # so that NumPy's arrays leave the operators to the slot

    def __add__(self, other: Self | Array | float) -> Self:
        return _combined("+", self, other, self)

    def __radd__(self, other: Array | float) -> Self:
        return _combined("+", other, self, self)

    def __sub__(self, other: Self | Array | float) -> Self:
        return _combined("-", self, other, self)

    def __rsub__(self, other: Array | float) -> Self:
        return _combined("-", other, self, self)

    def __mul__(self, other: Self | Array | float) -> Self:
        return _combined("*", self, other, self)

    def __rmul__(self, other: Array | float) -> Self:
        return _combined("*", other, self, self)

    def __truediv__(self, other: Self | Array | float) -> Self:
        return _combined("/", self, other, self)

    def __rtruediv__(self, other: Array | float) -> Self:
        return _combined("/", other, self, self)

    def __pow__(self, other: Self | Array | float) -> Self:
        return _combined("**", self, other, self)

    def __rpow__(self, other: Array | float) -> Self:
        return _combined("**", other, self, self)

    def __matmul__(self, other: Self | Array) -> Self:
        return _combined("@", self, other, self)

    def __rmatmul__(self, other: Array) -> Self:
        return _combined("@", other, self, self)

    def __neg__(self) -> Self:
        result: Self = _graph_of(self).operate("-", self)
        return result


def _combined(operation: str, left: Any, right: Any, slot: _Slot) -> _Slot:
    other = right if left is slot else left
    is_number = isinstance(other, int | float) and not isinstance(other, bool) and operation != "@"
    result: _Slot = NotImplemented
    if is_number or isinstance(other, SlotOperators | np.ndarray | np.generic):
        result = _graph_of(slot).operate(operation, left, right)
    return result


def _graph_of(slot: Any) -> Any:
    reference: GraphReference | None = slot.layer.reference
    graph = None if reference is None else reference.graph
    if graph is None:
        raise GraphError(
            f"the network of slot {slot.name!r} is gone, and with it where a layer could be added",
            code=ErrorCode.GRAPH_DANGLING,
            hint="keep the network as long as you build it",
        )
    return graph
