"""Private kinds of recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy.typing as npt

from dovetail import PrivateLayer, TensorInfo
from dovetail.graph.descriptor import Infos, descriptor_class
from dovetail.ground.records import NamedTuple
from dovetail.quantized.fixed_point import Scaling

from ..arrays import Chars, Floats, Ints, Shorts
from ..elementwise.functions import Function


class GateFactors(NamedTuple):
    """What sums of a gate are multiplied by."""

    of_input: Scaling
    of_hidden: Scaling
    of_cell: Scaling
    """Of peepholes."""
    of_norm: Scaling
    """After a normalization."""
    least_variance: int


@descriptor_class
class QuantizedLstmSteps(PrivateLayer, kind="CpuAcc.QuantizedLstm"):
    """Long short-term memory in integers, see `QuantizedLstm`, with what is constant beside it.

    Rows of weights are those of the gates one after the other: input, forget, cell, output; there
    are none of an input gate that is 1 - the forget gate. Cell gates have zeros for peepholes.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "initial_hidden", "initial_cell")
    batch_first: bool
    weights: Chars
    recurrent_weights: Chars
    bias: Ints
    peepholes: Ints | None
    normalization: Ints | None
    projection_weights: Chars | None
    projection_bias: Ints | None
    factors: tuple[GateFactors, ...]
    """Of the gates that there are."""
    of_made: Scaling
    of_projection: Scaling
    zeros: tuple[int, int, int]
    """Zero points of input, hidden state and what is projected; the latter two may be one."""
    cell_bits: int
    """How many of the cell's 15 stand for whole numbers."""
    cell_clip: int
    """In its integers, as the next one is; 0: none."""
    projection_clip: int

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        weights = _elements(self.weights, self.recurrent_weights, self.projection_weights)
        return _steps_of_all(inputs) * weights


@descriptor_class
class QuantizedSvdfStep(PrivateLayer, kind="CpuAcc.QuantizedSvdf"):
    """Filters over time in integers, see `QuantizedSvdf`, with what is constant beside it."""

    input_names: ClassVar[tuple[str, ...]] = ("input", "initial_state")
    rank: int
    feature_weights: Chars
    time_weights: Shorts
    bias: Ints | None
    of_features: Scaling
    """From sums of features to integers of the state."""
    of_totals: Scaling
    """From sums of weighed steps to integers of the result."""
    zeros: tuple[int, int]
    """Zero points of input and result."""

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        x = inputs[0]
        return 0 if x is None else x.sizes[0] * _elements(self.feature_weights, self.time_weights)


@descriptor_class
class Recurrence(PrivateLayer, kind="CpuAcc.Recurrence"):
    """Recurrent layer of float32, see `Rnn`, `Gru` and `Lstm`, with what is constant beside it."""

    input_names: ClassVar[tuple[str, ...]] = ("input", "initial_hidden", "initial_cell")
    kind_of_cell: str
    """`dovetail.Rnn`, `dovetail.Gru` or `dovetail.Lstm`."""
    batch_first: bool
    reverse: bool
    gates: int
    weights: Floats
    recurrent_weights: Floats
    bias: Floats | None
    recurrent_bias: Floats | None
    peepholes: Floats | None
    normalization: Floats | None
    projection_weights: Floats | None
    projection_bias: Floats | None
    functions: tuple[Function, Function, Function]
    """Those of gates, of the cell gate, and of the hidden state."""
    clips: tuple[float | None, float | None, float | None]
    """Limits of gates, cells and projected states."""
    epsilon: float
    blocks: tuple[int, int, int]
    """Blocks of rows of an LSTM's input, output and forget gate; -1: made of another one."""
    reset_after: bool

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        weights = _elements(self.weights, self.recurrent_weights, self.projection_weights)
        return _steps_of_all(inputs) * weights


def _elements(*weights: npt.NDArray[Any] | None) -> int:
    return sum(one.size for one in weights if one is not None)


def _steps_of_all(inputs: Infos) -> int:
    """Steps of all sequences together, whichever axis comes first."""
    x = inputs[0]
    return 0 if x is None else math.prod(x.sizes[:2])
