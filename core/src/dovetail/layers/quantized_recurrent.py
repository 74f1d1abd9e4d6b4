"""Recurrent layers of integers, by the rules of TensorFlow Lite."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from ..graph.descriptor import Descriptor, Infos, descriptor_class
from ..graph.element_types import DType
from ..graph.size_rules import below, differ
from ..graph.tensor import Quantization, TensorInfo
from .shape_rules import attribute_error, optional, present, require_dtype, require_rank, require_shape, shape_error

_GATES = ("input", "forget", "cell", "output")
_CELL_SCALES = tuple(2.0**-bits for bits in range(9, 16))
"""Those whose hyperbolic tangent there is: the cell then holds numbers up to 1, 2, 4, ... 64."""


def _check_scheme(info: TensorInfo, name: str, *, has_zero: bool) -> None:
    """Refuse an input that does not say, by one scale, what its integers stand for."""
    found = info.quantization
    if found is None or found.is_per_axis:
        raise attribute_error(
            f"{name} is quantized {'not at all' if found is None else 'per axis'}",
            "give its slot one scale and one zero point",
        )
    if not has_zero and found.zero_point[0]:
        raise attribute_error(f"{name} has the zero point {found.zero_point[0]}", "expected 0")


@descriptor_class
class QuantizedLstm(Descriptor, kind="dovetail.QuantizedLstm"):
    """Long short-term memory in integers: c = f * c + i * g; h = o * tanh(c).

    The gates i (input), f (forget) and o (output) are sigmoid(x W' + h R' + b), and g (cell) is
    tanh(x W' + h R' + b). The sums of products are scaled to 16 bits with 12 fractional ones, one
    after the other, and saturate; functions and products from there on are in fixed point.

    Inputs, each quantized per tensor but for the biases: input [T, N, I] int8; initial_hidden
    [N, P] int8; initial_cell [N, H] int16, whose scale is a power of two from 2^-15 to 2^-9; of
    each gate weights [H, I] and recurrent_weights [H, P] int8, and a bias [H] int32, whose scale is
    that of the input times that of the weights. Zero points of cell and weights are 0. What else
    may be there:

    - weights, recurrent_weights and bias of the input gate; without them, i is 1 - f.
    - peepholes [H] int16 of the gates i, f and o, all or none but that of a gate that is not there:
      times c added to what goes into the function. That of o reads the new c.
    - normalization [H] int16 of all gates, or none: what goes into a function, without the bias, is
      normalized over the units, times this, and then the bias is added, whose scale is 2^-10 of
      that of the normalization (Ba et al. 2016).
    - projection_weights [P, H] int8 and projection_bias [P] int32: h = (o * tanh(c)) projected.
      Without them P is H.

    Outputs: the sequence of hidden states [T, N, P], the last hidden state [N, P] and the last cell
    state [N, H], quantized as the initial states are.

    Source: TensorFlow Lite, `lstm_eval.cc` (EvalInteger8x8_16), which defines every bit.
    """

    input_names: ClassVar[tuple[str, ...]] = (
        *("input", "initial_hidden", "initial_cell"),
        *("forget_weights", "cell_weights", "output_weights"),
        *("forget_recurrent_weights", "cell_recurrent_weights", "output_recurrent_weights"),
        *("forget_bias", "cell_bias", "output_bias"),
        *("input_weights", "input_recurrent_weights", "input_bias"),
        *("input_peepholes", "forget_peepholes", "output_peepholes"),
        *("input_normalization", "forget_normalization", "cell_normalization", "output_normalization"),
        *("projection_weights", "projection_bias"),
    )
    required_inputs: ClassVar[int] = 12
    batch_first: bool = False
    """Sequences are [batch, time, ...]; else [time, batch, ...]. States: [batch, ...]."""
    cell_clip: float | None = None
    """The new cell state is cut off to [-cell_clip, cell_clip]; None: it is not."""
    projection_clip: float | None = None
    """Integers of a projected hidden state are cut off to +- this / scale; None: they are not."""
    gate_scales: tuple[float, float, float, float] | None = None
    """Of what is normalized in the gates i, f, g and o; None where nothing is."""
    hidden_scale: float | None = None
    """Of o * tanh(c) in 8 bits, before a projection; None: that of the hidden state."""
    hidden_zero_point: int = 0
    """Of o * tanh(c) in 8 bits, if it has a scale of its own."""

    @property
    def output_count(self) -> int:
        return 3

    def steps_and_batch(self, inputs: Infos) -> tuple[int, int]:
        """Sizes of the input's first two axes: (time, batch)."""
        first, second = present(inputs, 0).sizes[:2]
        return (second, first) if self.batch_first else (first, second)

    def gates(self, inputs: Infos) -> tuple[str, ...]:
        """Names of the gates that have weights."""
        return _GATES if self._named(inputs, "input_weights") is not None else _GATES[1:]

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        names = [name for name in self.input_names if name.endswith("weights")]
        found = [self._named(inputs, name) for name in names]
        return math.prod(self.steps_and_batch(inputs)) * sum(info.elements for info in found if info is not None)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, hidden, cell = (present(inputs, index) for index in range(3))
        self._check_attributes(inputs)
        require_rank(x, 3, "input")
        require_rank(hidden, 2, "initial_hidden")
        require_rank(cell, 2, "initial_cell")
        self._check_quantizations(inputs)
        self._check_presence(inputs)
        self._check_shapes(inputs, x.sizes[2], cell.sizes[1], hidden.sizes[1])
        batch = self.steps_and_batch(inputs)[1]
        require_shape(hidden, (batch, hidden.sizes[1]), "initial_hidden")
        require_shape(cell, (batch, cell.sizes[1]), "initial_cell")
        sequence = TensorInfo((*x.sizes[:2], hidden.sizes[1]), DType.INT8, hidden.quantization)
        return [sequence, hidden, cell]

    def _named(self, inputs: Infos, name: str) -> TensorInfo | None:
        return optional(inputs, self.input_names.index(name))

    def _check_attributes(self, inputs: Infos) -> None:
        for name in ("cell_clip", "projection_clip"):
            limit = getattr(self, name)
            if limit is not None and not limit >= 0.0:
                raise attribute_error(f"{name} is {limit!r}", "give a number that is not negative, or None for no limit")
        if self._named(inputs, "forget_normalization") is not None and self.gate_scales is None:
            raise attribute_error("gate_scales is None, but gates are normalized", "give the scale of what goes into them")
        if self.gate_scales is not None and len(self.gate_scales) != len(_GATES):
            raise attribute_error(f"gate_scales has {len(self.gate_scales)} numbers", f"expected those of {', '.join(_GATES)}")
        scales = [*(self.gate_scales or ()), *([] if self.hidden_scale is None else [self.hidden_scale])]
        if not all(math.isfinite(scale) and scale > 0 for scale in scales):
            raise attribute_error(f"scales are {scales!r}", "give positive finite numbers")
        Quantization.per_tensor(1.0, self.hidden_zero_point).check(DType.INT8)

    def _check_quantizations(self, inputs: Infos) -> None:
        """Refuse inputs of other types, and those that do not say what their integers stand for."""
        for name, info in zip(self.input_names, inputs, strict=False):
            if info is None:
                continue
            if name.endswith("bias"):
                require_dtype(info, [DType.INT32], name)
                continue
            narrow = name.endswith("weights") or name in ("input", "initial_hidden")
            require_dtype(info, [DType.INT8 if narrow else DType.INT16], name)
            _check_scheme(info, name, has_zero=name in ("input", "initial_hidden"))
        cell = present(inputs, 2).quantization
        if cell is None or cell.scale[0] not in _CELL_SCALES:
            raise attribute_error(
                f"initial_cell has the scale {cell and cell.scale[0]!r}", "expected 2^-15, 2^-14, ... or 2^-9"
            )

    def _check_presence(self, inputs: Infos) -> None:
        """Refuse parts of what is there as a whole or not at all."""
        gates = self.gates(inputs)
        seeing = [gate for gate in gates if gate != "cell"]
        groups = {
            "the input gate": [f"input_{what}" for what in ("weights", "recurrent_weights", "bias")],
            "peepholes": [f"{gate}_peepholes" for gate in seeing],
            "normalization": [f"{gate}_normalization" for gate in gates],
        }
        for what, names in groups.items():
            there = [name for name in names if self._named(inputs, name) is not None]
            if there and len(there) < len(names):
                raise shape_error(
                    f"of {what} there is only {', '.join(there)}", f"expected {', '.join(names)}, or none of them"
                )
        for name in ("input_peepholes", "input_normalization"):
            if len(gates) < len(_GATES) and self._named(inputs, name) is not None:
                raise shape_error(f"there is an {name} without input_weights")
        if self._named(inputs, "projection_bias") is not None and self._named(inputs, "projection_weights") is None:
            raise shape_error("there is a projection_bias without projection_weights")

    def _check_shapes(self, inputs: Infos, width: int, units: int, hidden: int) -> None:
        if self._named(inputs, "projection_weights") is None and differ(units, hidden):
            raise shape_error(f"there are {units} units and {hidden} hidden values", "expected as many, without a projection")
        shapes: dict[str, tuple[int, ...]] = {"projection_weights": (hidden, units), "projection_bias": (hidden,)}
        for gate in _GATES:
            shapes |= {f"{gate}_weights": (units, width), f"{gate}_recurrent_weights": (units, hidden)}
            shapes |= {f"{gate}_{what}": (units,) for what in ("bias", "peepholes", "normalization")}
        for name, info in zip(self.input_names, inputs, strict=False):
            if name in shapes and info is not None:
                require_shape(info, shapes[name], name)


@descriptor_class
class QuantizedSvdf(Descriptor, kind="dovetail.QuantizedSvdf"):
    """Filters over time of low rank, in integers: each filters its features of some steps.

    One step: features = x F', of each filter one number, goes behind the state, whose oldest step
    is forgotten; each filter's steps are weighed by its time_weights and summed up, and so are the
    filters of a unit, of which there are `rank`, and a bias.

    Inputs, each quantized per tensor but for the bias: input x [N, I] int8; initial_state
    [N, F * T] int16, the T steps of each of F filters, the oldest first; feature_weights [F, I]
    int8; time_weights [F, T] int16; bias [F / rank] int32, whose scale is that of the state times
    that of the time_weights. The zero point of all but x is 0.

    Outputs: the result [N, F / rank] int8, whose slot is given its quantization, and the state
    [N, F * T] int16 that the next step begins with, quantized as the first one is.

    Sums have 32 bits and wrap. The factors from them to integers of the state and of the result are
    products and quotients of scales in float32; a sum is multiplied by 31 bits of the factor,
    rounded, shifted and rounded again, halves away from zero, and saturates. An activation is the
    range of the result.

    Source: Nakkiran et al. 2015, "Compressing deep neural networks using a rank-constrained
    topology"; TensorFlow Lite, `reference/svdf.h` (EvalIntegerSVDF), which defines every bit.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "initial_state", "feature_weights", "time_weights", "bias")
    required_inputs: ClassVar[int] = 4
    rank: int = 1
    """Filters of each unit, which lie one after the other."""

    @property
    def output_count(self) -> int:
        return 2

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        of_each = present(inputs, 2).elements + present(inputs, 3).elements
        return present(inputs, 0).sizes[0] * of_each

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, state, features, times = (present(inputs, index) for index in range(4))
        bias = optional(inputs, 4)
        if self.rank < 1:
            raise attribute_error(f"rank is {self.rank}", "give a positive number")
        for name, info in zip(self.input_names, (x, state, features, times), strict=False):
            require_rank(info, 2, name)
            require_dtype(info, [DType.INT8 if name in ("input", "feature_weights") else DType.INT16], name)
            _check_scheme(info, name, has_zero=name == "input")
        (batch, width), (filters, steps) = x.sizes, times.sizes
        if differ(filters % self.rank, 0):
            raise shape_error(f"there are {filters} filters of rank {self.rank}", "expected a multiple of the rank")
        if below(steps, 1):
            raise shape_error("time_weights have no steps", "expected at least one")
        require_shape(features, (filters, width), "feature_weights")
        require_shape(state, (batch, filters * steps), "initial_state")
        if bias is not None:
            require_dtype(bias, [DType.INT32], "bias")
            require_shape(bias, (filters // self.rank,), "bias")
        return [TensorInfo((batch, filters // self.rank), DType.INT8), state]
