"""The network: a graph with one builder method per layer kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

import numpy.typing as npt

from ..graph.element_types import DType
from ..graph.graph import Graph
from ..graph.held_arrays import held_array
from ..graph.layer import OutputSlot
from ..graph.meaning import Meaning
from ..graph.state import State
from ..graph.tensor import Dimension, Quantization
from ..ground.errors import ErrorCode, GraphError
from .arguments import Operand

if TYPE_CHECKING:
    from .. import layers

    class _Builders(
        layers.ActivationLayers,
        layers.BranchingLayers,
        layers.ConvolutionLayers,
        layers.DetectionLayers,
        layers.ElementwiseLayers,
        layers.GeneratingLayers,
        layers.IndexingLayers,
        layers.JoiningLayers,
        layers.MatrixLayers,
        layers.NormalizationLayers,
        layers.PoolingLayers,
        layers.QuantizingLayers,
        layers.RecurrentLayers,
        layers.ReductionLayers,
        layers.ReshapingLayers,
        layers.ResizingLayers,
    ):
        """What type checkers see."""

else:
    _FAMILIES = [
        *("activation", "elementwise", "convolution", "pooling", "reshaping", "matrix", "normalization"),
        *("reduction", "joining", "indexing", "generating", "quantizing", "resizing", "recurrent", "branching"),
        "detection",
    ]
    """Families whose builder methods are not there yet: those first that most networks have."""

    def _adopt(family: str) -> None:
        """Take the builder methods of a family along."""
        methods = getattr(import_module(f".{family}", __package__), f"{family.capitalize()}Layers")
        for name, method in vars(methods).items():
            if not name.startswith("__"):
                setattr(_Builders, name, method)
        with suppress(ValueError):  # another thread did the same
            _FAMILIES.remove(family)

    def _find(name: str, whose: str, owner: object) -> Any:
        """Return a builder method.

        Raises:
            AttributeError: No family has it.
        """
        while _FAMILIES and not name.startswith("_") and name not in vars(_Builders):
            _adopt(_FAMILIES[0])
        if name not in vars(_Builders):
            from ..ground.names_elsewhere import OF_BUILDERS, no_attribute

            raise AttributeError(no_attribute(whose, name, OF_BUILDERS), name=name, obj=owner)
        return vars(_Builders)[name]

    class _LateMethods(type):
        """Looks for builder methods that are not there yet when one is asked for."""

        def __getattr__(cls, name: str) -> Any:
            return _find(name, f"type object {cls.__name__!r}", cls)

        def __dir__(cls) -> list[str]:
            for family in list(_FAMILIES):
                _adopt(family)
            return super().__dir__()

    class _Builders(Graph, metaclass=_LateMethods):
        def __getattr__(self, name: str) -> Any:
            return _find(name, f"{type(self).__name__!r} object", self).__get__(self)

        def __dir__(self) -> list[str]:
            return [*super().__dir__(), *dir(type(self))]


class Network(_Builders):
    """A trained network, built layer by layer or by a parser.

    Every builder method takes output slots (or arrays, which become constants) and returns the
    output slot of the new layer::

        net = Network("example")
        x = net.input("x", (1, 3, 8, 8))
        y = net.relu(net.convolution2d(x, weights, bias, padding=1, name="stem"))
        net.output(y, "y")

    Slots have Python's operators: ``1.0 - x * y`` adds two layers; see `operate`.

    A kind from elsewhere goes in by its descriptor: ``net.add(MyKind(alpha=2.0), x)``.

    Attributes:
        files: All files that it was read from, where its parser says so.
        is_read_with_others: Whether code of others had a part in reading it, such as translations
            of operators of their own: another time it may be another network.
        meanings: What inputs and outputs stand for, by name, where the file says so.
    """

    files: tuple[str, ...] = ()
    is_read_with_others = False
    meanings: Mapping[str, Meaning] = {}

    def __str__(self) -> str:
        """Describe it as a table: inputs, outputs, layers, parameters, multiply-accumulates."""
        from ..graph.network_table import table_of

        return table_of(self)

    def operate(self, operation: str, *operands: Operand) -> OutputSlot:
        """Add the layer of an operator of Python on slots: `x + y` is ``operate("+", x, y)``.

        Args:
            operation: "+", "-" (of one operand, too), "*", "/", "**" or "@".
            operands: Slots, arrays, or Python numbers, which take the element type of the slot.

        Raises:
            GraphError: The operands do not fit, or a number does not fit the element type.
        """
        from .slot_arithmetic import operate

        return operate(self, operation, operands)

    def copy(self) -> Self:
        """Copy what runs and what its ends stand for, but not `files`: the copy may be edited."""
        twin = super().copy()
        twin.meanings = self.meanings
        return twin

    def state(
        self,
        name: str,
        shape: Sequence[Dimension],
        dtype: DType | npt.DTypeLike = DType.FLOAT32,
        quantization: Quantization | None = None,
        *,
        initial: npt.ArrayLike | None = None,
    ) -> OutputSlot:
        """Add a tensor that each run reads as the run before left it; see `write_state`.

        Args:
            name: Its name, among those of the inputs.
            shape: Its shape; a string is a symbolic dimension that an input has too.
            dtype: Its element type.
            quantization: How its integers stand for real numbers.
            initial: What the first run reads; default zeros, as real numbers.

        Raises:
            GraphError: The name is taken, or the initial value has another shape or type.
        """
        slot = self.input(name, shape, dtype, quantization)
        held = None
        if initial is not None:
            held, stored = held_array(initial, name, slot.dtype if slot.dtype is DType.BFLOAT16 else None, None)
            given = stored or DType.of(held.dtype)
            if given is not slot.dtype or held.shape != slot.shape:
                raise GraphError(
                    f"the initial value of state {name!r} is {given}{list(held.shape)}, expected {slot.known_info}",
                    code=ErrorCode.SHAPE_MISMATCH,
                    hint="give an array of the state's shape and type",
                )
        self.states = {**self.states, name: State(name, "", held)}
        return slot

    def write_state(self, name: str, value: OutputSlot) -> None:
        """Say what the next run reads of a state.

        Raises:
            GraphError: There is no such state, it is written already, or the value has another
                shape or type.
        """
        state = self.states.get(name)
        if state is None or state.output:
            what = f"state {name!r} is written already" if state else f"network {self.name!r} has no state {name!r}"
            raise GraphError(what, hint=f"its states are {', '.join(self.states) or 'none'}")
        wanted, found = self.layer(name).output.known_info, value.info
        if found is not None and (found.dtype is not wanted.dtype or (wanted.is_concrete and found.shape != wanted.shape)):
            raise GraphError(
                f"state {name!r} is {wanted}, but {value.name!r}, which is to be its next value, is {found}",
                code=ErrorCode.SHAPE_MISMATCH,
                hint="a state keeps its shape and type",
            )
        output = self.output(value, self.unique_name(f"{name}/next"))
        self.states = {**self.states, name: State(name, output.name, state.initial)}
