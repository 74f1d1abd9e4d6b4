"""Recurrent layers: over sequences, one direction each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

import numpy as np

from ..graph.descriptor import Descriptor, Infos, Values, descriptor_class
from ..graph.element_types import DType
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import differ
from ..graph.tensor import TensorInfo
from .arguments import Operand
from .shape_rules import (
    INDEX_DTYPES,
    attribute_error,
    optional,
    present,
    require_dtype,
    require_rank,
    require_same_dtype,
    require_shape,
    shape_error,
)


class RecurrentFunction(StrEnum):
    """Functions inside of recurrent layers, with the meaning of their `alpha` and `beta`.

    Source: ONNX operator specification (LSTM); those that `ActivationFunction` has are the same.
    """

    LINEAR = "linear"  # alpha * x + beta
    RELU = "relu"  # max(x, 0)
    BOUNDED_RELU = "bounded_relu"  # min(alpha, max(beta, x)), alpha where beta > alpha
    LEAKY_RELU = "leaky_relu"  # x if x >= 0 else alpha * x
    THRESHOLDED_RELU = "thresholded_relu"  # x if x > alpha else 0
    ELU = "elu"  # x if x >= 0 else alpha * (exp(x) - 1)
    SIGMOID = "sigmoid"  # 1 / (1 + exp(-x))
    TANH = "tanh"
    SCALED_TANH = "scaled_tanh"  # alpha * tanh(beta * x)
    HARD_SIGMOID = "hard_sigmoid"  # max(0, min(1, alpha * x + beta))
    SOFTPLUS = "softplus"  # log(1 + exp(x))
    SOFTSIGN = "softsign"  # x / (1 + |x|)


class GateCoupling(StrEnum):
    """Which gate of an LSTM is made of another one, and has no weights."""

    NONE = "none"  # all have weights: input, output, forget, cell, in this order
    FORGET = "forget"  # the forget gate is 1 - the input gate; the others: input, output, cell
    INPUT = "input"  # the input gate is 1 - the forget gate; the others: output, forget, cell


_FLOATS = tuple(dtype for dtype in DType if dtype.is_float)


@descriptor_class
class _Recurrent(Descriptor):
    """What the kinds share: a sequence goes in; that of hidden states and the last one come out."""

    required_inputs: ClassVar[int] = 3
    reverse: bool = False
    """Go from the last step to the first; each result stands where its input stood."""
    batch_first: bool = False
    """Sequences are [batch, time, ...]; else [time, batch, ...]. States: [batch, ...]."""
    gate_clip: float | None = None
    """What goes into the functions of gates is cut off to [-gate_clip, gate_clip]; None: is not."""
    hidden_activation: RecurrentFunction = RecurrentFunction.TANH
    """Function that the hidden state is made by."""
    hidden_alpha: float = 0.0
    """`alpha` of that function, see `RecurrentFunction`."""
    hidden_beta: float = 0.0
    """`beta` of that function, see `RecurrentFunction`."""

    @property
    def output_count(self) -> int:
        return 2

    @property
    def gates(self) -> int:
        """Number of blocks of rows that the weights have."""
        return 1

    def steps_and_batch(self, inputs: Infos) -> tuple[int, int]:
        """Sizes of the input's first two axes: (time, batch)."""
        first, second = present(inputs, 0).sizes[:2]
        return (second, first) if self.batch_first else (first, second)

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        weights = present(inputs, 1).elements + present(inputs, 2).elements
        return math.prod(self.steps_and_batch(inputs)) * weights

    def checked_inputs(self, inputs: Infos, values: Values) -> Sequence[int]:
        index = self.input_names.index("lengths")
        lengths = values[index] if index < len(values) else None
        if optional(inputs, index) is None:
            return ()
        steps = self.steps_and_batch(inputs)[0]
        return () if lengths is not None and bool(np.all((lengths >= 0) & (lengths <= steps))) else (index,)

    def _named(self, inputs: Infos, name: str) -> TensorInfo | None:
        return optional(inputs, self.input_names.index(name))

    def _require(self, inputs: Infos, name: str, *shape: int) -> None:
        """Refuse an input of another shape, if it is connected."""
        info = self._named(inputs, name)
        if info is not None:
            require_shape(info, shape, name)

    def _checked(self, inputs: Infos) -> tuple[TensorInfo, int]:
        """Check what all kinds have; return the input and the number of units.

        Raises:
            GraphError: Something does not fit.
        """
        x, weights, recurrent = (present(inputs, index) for index in range(3))
        require_dtype(x, _FLOATS, "input")
        floats = [info for name, info in zip(self.input_names, inputs, strict=False) if name != "lengths"]
        require_same_dtype(floats, "input, weights and states")
        require_rank(x, 3, "input")
        require_rank(weights, 2, "weights")
        require_rank(recurrent, 2, "recurrent_weights")
        rows = weights.sizes[0]
        if differ(rows % self.gates, 0) or differ(recurrent.sizes[0], rows) or differ(weights.sizes[1], x.sizes[2]):
            raise shape_error(
                f"weights {weights.shape_text} and recurrent_weights {recurrent.shape_text} do not fit input {x.shape_text}",
                f"expected [{self.gates} * units, {x.sizes[2]}] and [{self.gates} * units, hidden size]",
            )
        self._require(inputs, "bias", rows)
        lengths = self._named(inputs, "lengths")
        if lengths is not None:
            require_dtype(lengths, INDEX_DTYPES, "lengths")
            require_shape(lengths, (self.steps_and_batch(inputs)[1],), "lengths")
        _require_limit(self.gate_clip, "gate_clip")
        return x, rows // self.gates

    def _results(self, inputs: Infos, hidden: int) -> list[TensorInfo]:
        """Check the initial hidden state; return the infos of the sequence and the last state."""
        x, batch = present(inputs, 0), self.steps_and_batch(inputs)[1]
        self._require(inputs, "initial_hidden", batch, hidden)
        return [TensorInfo((*x.sizes[:2], hidden), x.dtype), TensorInfo((batch, hidden), x.dtype)]

    def _require_own_units(self, inputs: Infos, units: int) -> None:
        """Refuse recurrent weights that read another number of hidden values than there are."""
        recurrent = present(inputs, 2)
        if differ(recurrent.sizes[1], units):
            raise shape_error(f"recurrent_weights {recurrent.shape_text} do not read the {units} hidden values")


def _require_limit(limit: float | None, what: str) -> None:
    if limit is not None and not limit >= 0.0:
        raise attribute_error(f"{what} is {limit!r}", "give a number that is not negative, or None for no limit")


@descriptor_class
class Rnn(_Recurrent, kind="dovetail.Rnn"):
    """Elman's recurrent layer: h = hidden(x W' + h R' + b), for one step after the other.

    Inputs: input [T, N, I]; weights W [H, I]; recurrent_weights R [H, H]; bias b [H];
    initial_hidden [N, H], zeros if left out; lengths [N], int32 or int64: how many steps each
    sequence has, all if left out. Outputs: the sequence of hidden states [T, N, H] and the last one
    [N, H].

    Steps beyond a length change no state, and the sequence has zeros there; a reversed one begins
    at the last step within the length. Of a length of 0 the last state is the initial one.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "weights", "recurrent_weights", "bias", "initial_hidden", "lengths")

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        units = self._checked(inputs)[1]
        self._require_own_units(inputs, units)
        return self._results(inputs, units)


@descriptor_class
class Gru(_Recurrent, kind="dovetail.Gru"):
    """Gated recurrent units: z, r = gate(x W' + h R' + b + rb); h = (1 - z) * c + z * h.

    The candidate c is hidden(x W' + b + (r * h) R' + rb), or, with `reset_after`, hidden(x W' + b +
    r * (h R' + rb)). Blocks of rows: update gate z, reset gate r, candidate.

    Inputs: input [T, N, I]; weights W [3 * H, I]; recurrent_weights R [3 * H, H]; bias b and
    recurrent_bias rb [3 * H]; initial_hidden [N, H]; lengths [N]. Outputs and lengths: as those of
    `Rnn`. Sources: Cho et al. 2014; `reset_after`: ONNX's linear_before_reset, as cuDNN has it.
    """

    input_names: ClassVar[tuple[str, ...]] = (
        *("input", "weights", "recurrent_weights", "bias", "recurrent_bias"),
        *("initial_hidden", "lengths"),
    )
    gate_activation: RecurrentFunction = RecurrentFunction.SIGMOID
    """Function of update and reset gate."""
    gate_alpha: float = 0.0
    """`alpha` of that function, see `RecurrentFunction`."""
    gate_beta: float = 0.0
    """`beta` of that function, see `RecurrentFunction`."""
    reset_after: bool = False
    """The reset gate scales the product of the hidden state; else the hidden state before it."""

    @property
    def gates(self) -> int:
        return 3

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        units = self._checked(inputs)[1]
        self._require_own_units(inputs, units)
        self._require(inputs, "recurrent_bias", self.gates * units)
        return self._results(inputs, units)


@descriptor_class
class Lstm(_Recurrent, kind="dovetail.Lstm"):
    """Long short-term memory: c = f * c + i * g; h = o * hidden(c).

    The gates i, o, f are gate(x W' + h R' + b), and g is cell(x W' + h R' + b). Blocks of rows:
    input gate i, output gate o, forget gate f, cell gate g; see `coupling` for fewer.

    Inputs: input [T, N, I]; weights W [4 * H, I]; recurrent_weights R [4 * H, P]; bias b [4 * H];
    initial_hidden [N, P]; initial_cell [N, H]; lengths [N]. What else may be there:

    - peepholes, a vector per gate but g, in the same order: times c added to what goes into the
      function. That of o reads the new c.
    - normalization [4 * H]: what goes into a function, without the bias, is normalized over the H
      units of its gate, times this, and then the bias is added (Ba et al. 2016).
    - projection_weights [P, H] and projection_bias [P]: h = (o * hidden(c)) projected. Without
      them P is H.

    Outputs: the sequence of hidden states [T, N, P], the last hidden state [N, P] and the last cell
    state [N, H]. Lengths: as those of `Rnn`. Sources: Hochreiter and Schmidhuber 1997; Gers et al.
    2002 (peepholes); Sak et al. 2014 (projection).
    """

    input_names: ClassVar[tuple[str, ...]] = (
        *("input", "weights", "recurrent_weights", "bias", "initial_hidden", "initial_cell", "lengths"),
        *("peepholes", "normalization", "projection_weights", "projection_bias"),
    )
    gate_activation: RecurrentFunction = RecurrentFunction.SIGMOID
    """Function of the gates i, o and f."""
    gate_alpha: float = 0.0
    """`alpha` of that function, see `RecurrentFunction`."""
    gate_beta: float = 0.0
    """`beta` of that function, see `RecurrentFunction`."""
    cell_activation: RecurrentFunction = RecurrentFunction.TANH
    """Function of the cell gate g."""
    cell_alpha: float = 0.0
    """`alpha` of that function, see `RecurrentFunction`."""
    cell_beta: float = 0.0
    """`beta` of that function, see `RecurrentFunction`."""
    coupling: GateCoupling = GateCoupling.NONE
    """Which gate is made of another one; weights, biases and so on have no rows for it."""
    cell_clip: float | None = None
    """The new cell state is cut off to [-cell_clip, cell_clip]; None: it is not."""
    projection_clip: float | None = None
    """The projected hidden state is cut off to plus and minus this; None: it is not."""
    epsilon: float = 1e-8
    """Added to the variance of what is normalized before its root is taken."""

    @property
    def output_count(self) -> int:
        return 3

    @property
    def gates(self) -> int:
        return 4 if self.coupling is GateCoupling.NONE else 3

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, units = self._checked(inputs)
        hidden, batch = self._hidden(inputs, units), self.steps_and_batch(inputs)[1]
        self._require(inputs, "normalization", self.gates * units)
        self._require(inputs, "peepholes", (self.gates - 1) * units)
        self._require(inputs, "initial_cell", batch, units)
        _require_limit(self.cell_clip, "cell_clip")
        _require_limit(self.projection_clip, "projection_clip")
        return [*self._results(inputs, hidden), TensorInfo((batch, units), x.dtype)]

    def _hidden(self, inputs: Infos, units: int) -> int:
        """Check the projection; return the number of hidden values."""
        projection = self._named(inputs, "projection_weights")
        if projection is None:
            if self._named(inputs, "projection_bias") is not None:
                raise shape_error("there is a projection_bias without projection_weights")
            self._require_own_units(inputs, units)
            return units
        hidden = present(inputs, 2).sizes[1]
        self._require(inputs, "projection_weights", hidden, units)
        self._require(inputs, "projection_bias", hidden)
        return hidden

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        projection = self._named(inputs, "projection_weights")
        projected = 0 if projection is None else projection.elements
        return super().macs(inputs, outputs) + math.prod(self.steps_and_batch(inputs)) * projected


class RecurrentLayers(Graph):
    """Builder methods, for the usual attributes.

    Others: `net.add(Lstm(cell_clip=3.0), x, weights, recurrent_weights)`.
    """

    def rnn(
        self,
        x: Operand,
        weights: Operand,
        recurrent_weights: Operand,
        bias: Operand | None = None,
        initial_hidden: Operand | None = None,
        lengths: Operand | None = None,
        *,
        reverse: bool = False,
        batch_first: bool = False,
        name: str | None = None,
    ) -> tuple[OutputSlot, OutputSlot]:
        """(sequence, last hidden state) of Elman's recurrent layer; see `Rnn` for shapes."""
        descriptor = Rnn(reverse=reverse, batch_first=batch_first)
        layer = self.add(descriptor, x, weights, recurrent_weights, bias, initial_hidden, lengths, name=name)
        return layer.outputs[0], layer.outputs[1]

    def gru(
        self,
        x: Operand,
        weights: Operand,
        recurrent_weights: Operand,
        bias: Operand | None = None,
        recurrent_bias: Operand | None = None,
        initial_hidden: Operand | None = None,
        lengths: Operand | None = None,
        *,
        reset_after: bool = False,
        reverse: bool = False,
        batch_first: bool = False,
        name: str | None = None,
    ) -> tuple[OutputSlot, OutputSlot]:
        """(sequence, last hidden state) of gated recurrent units; see `Gru` for shapes."""
        descriptor = Gru(reset_after=reset_after, reverse=reverse, batch_first=batch_first)
        biases = (bias, recurrent_bias)
        layer = self.add(descriptor, x, weights, recurrent_weights, *biases, initial_hidden, lengths, name=name)
        return layer.outputs[0], layer.outputs[1]

    def lstm(
        self,
        x: Operand,
        weights: Operand,
        recurrent_weights: Operand,
        bias: Operand | None = None,
        initial_hidden: Operand | None = None,
        initial_cell: Operand | None = None,
        lengths: Operand | None = None,
        *,
        peepholes: Operand | None = None,
        reverse: bool = False,
        batch_first: bool = False,
        name: str | None = None,
    ) -> tuple[OutputSlot, OutputSlot, OutputSlot]:
        """(sequence, last hidden state, last cell state) of an LSTM; see `Lstm` for shapes."""
        descriptor, states = Lstm(reverse=reverse, batch_first=batch_first), (initial_hidden, initial_cell)
        layer = self.add(descriptor, x, weights, recurrent_weights, bias, *states, lengths, peepholes, name=name)
        return layer.outputs[0], layer.outputs[1], layer.outputs[2]
