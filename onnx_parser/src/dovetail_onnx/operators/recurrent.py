"""Recurrent layers: one layer of dovetail's for each direction.

Where ONNX is silent, what onnxruntime does counts: `clip` acts on what goes into the gates and not
on the cell, `input_forget` makes the forget gate of the input gate, and the last states of a
sequence of length 0 are zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dovetail import Descriptor, DType
from dovetail.graph.layer import Layer, OutputSlot
from dovetail.ground.records import NamedTuple
from dovetail.layers import GateCoupling, Gru, Lstm, RecurrentFunction, Rnn

from ..node import Node
from ..registry import builtin
from ..unsupported import Unsupported

_SUMMED = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)
"""Types whose constants NumPy can add up here."""


class _Function(NamedTuple):
    """A function by ONNX's name for it.

    `alpha` and `beta` are their defaults, None where it has no such parameter.
    """

    function: RecurrentFunction
    alpha: float | None = None
    beta: float | None = None


FUNCTIONS = {
    "Affine": _Function(RecurrentFunction.LINEAR, 1.0, 0.0),
    "Elu": _Function(RecurrentFunction.ELU, 1.0),
    "HardSigmoid": _Function(RecurrentFunction.HARD_SIGMOID, 0.2, 0.5),
    "LeakyRelu": _Function(RecurrentFunction.LEAKY_RELU, 0.01),
    "Relu": _Function(RecurrentFunction.RELU),
    "ScaledTanh": _Function(RecurrentFunction.SCALED_TANH, 1.0, 1.0),
    "Sigmoid": _Function(RecurrentFunction.SIGMOID),
    "Softplus": _Function(RecurrentFunction.SOFTPLUS),
    "Softsign": _Function(RecurrentFunction.SOFTSIGN),
    "Tanh": _Function(RecurrentFunction.TANH),
    "ThresholdedRelu": _Function(RecurrentFunction.THRESHOLDED_RELU, 1.0),
}
"""Functions by operator; case does not matter."""
_BY_NAME = {name.lower(): function for name, function in FUNCTIONS.items()}

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Whether each direction goes backward."""


@builtin("RNN", since=7)
def rnn(node: Node) -> list[OutputSlot | None]:
    """Translate Elman's recurrent layers."""
    common, functions = _common(node), _functions(node, ("hidden",), ("Tanh",))

    def make(direction: _Direction) -> Layer:
        descriptor = Rnn(reverse=direction.reverse, **common, **functions[direction.index])
        blocks = _Blocks(1, ((0, 1),))
        operands = (direction.summed_bias(blocks), direction.initial(5, "initial_hidden"), direction.lengths)
        return direction.add(descriptor, blocks, *operands)

    return _outputs(node, make)


@builtin("GRU", since=7)
def gru(node: Node) -> list[OutputSlot | None]:
    """Translate gated recurrent units."""
    common, functions = _common(node), _functions(node, ("gate", "hidden"), ("Sigmoid", "Tanh"))
    reset_after = node.flag("linear_before_reset")

    def make(direction: _Direction) -> Layer:
        descriptor = Gru(reverse=direction.reverse, reset_after=reset_after, **common, **functions[direction.index])
        blocks = _Blocks(3, ((0, 3),))
        biases = [direction.rows(3, half, part) for half, part in zip(blocks.halves, ("bias", "recurrent_bias"), strict=True)]
        return direction.add(descriptor, blocks, *biases, direction.initial(5, "initial_hidden"), direction.lengths)

    return _outputs(node, make)


@builtin("LSTM", since=7)
def lstm(node: Node) -> list[OutputSlot | None]:
    """Translate long short-term memory."""
    common = _common(node)
    functions = _functions(node, ("gate", "cell", "hidden"), ("Sigmoid", "Tanh", "Tanh"))
    coupled = node.flag("input_forget")
    coupling = GateCoupling.FORGET if coupled else GateCoupling.NONE
    blocks = _Blocks(4, ((0, 2), (3, 4)) if coupled else ((0, 4),))  # input, output, forget and cell gate

    def make(direction: _Direction) -> Layer:
        attributes: dict[str, Any] = {**common, **functions[direction.index]}
        descriptor = Lstm(reverse=direction.reverse, coupling=coupling, **attributes)
        states = (direction.initial(5, "initial_hidden"), direction.initial(6, "initial_cell"))
        peepholes = direction.rows(7, _Blocks(3, ((0, 2 if coupled else 3),)), "peepholes")
        return direction.add(descriptor, blocks, direction.summed_bias(blocks), *states, direction.lengths, peepholes)

    return _outputs(node, make)


def _common(node: Node) -> dict[str, Any]:
    """Read the attributes that all three have."""
    clip = node.floating("clip") if node.has("clip") else None
    if clip is not None and not clip >= 0.0:
        raise node.malformed(f"has clip={clip}, expected a number that is not negative")
    return {"batch_first": node.flag("layout"), "gate_clip": clip}


def _reverses(node: Node) -> tuple[bool, ...]:
    return _DIRECTIONS[node.choice("direction", "forward", list(_DIRECTIONS))]


def _functions(node: Node, names: Sequence[str], defaults: Sequence[str]) -> list[dict[str, Any]]:
    """Return the attributes of the functions of each direction.

    Parameters are taken in turn by those functions that have some.
    """
    directions = len(_reverses(node))
    called = node.strings("activations", list(defaults) * directions)
    if len(called) != len(names) * directions:
        raise node.malformed(f"has {len(called)} activations, expected {len(names) * directions}")
    alphas, betas = (iter(node.floats(f"activation_{one}", ())) for one in ("alpha", "beta"))
    found: list[dict[str, Any]] = [{} for _ in range(directions)]
    for index, name in enumerate(called):
        function = _BY_NAME.get(name.lower())
        if function is None:
            raise Unsupported(f"activation {name!r}; {', '.join(FUNCTIONS)} are there", attribute="activations")
        what = names[index % len(names)]
        found[index // len(names)] |= {
            f"{what}_activation": function.function,
            f"{what}_alpha": _next(alphas, function.alpha),
            f"{what}_beta": _next(betas, function.beta),
        }
    return found


def _next(given: Iterator[float], default: float | None) -> float:
    return 0.0 if default is None else next(given, default)


class _Blocks(NamedTuple):
    """Which blocks of rows of an operand a layer takes; a block has a row per unit.

    Attributes:
        total: How many there are.
        ranges: Of those that are taken: begin and end.
    """

    total: int
    ranges: tuple[tuple[int, int], ...]

    @property
    def halves(self) -> tuple[_Blocks, _Blocks]:
        """Twice as many blocks, and those that are taken in either half."""
        behind = tuple((begin + self.total, end + self.total) for begin, end in self.ranges)
        return _Blocks(2 * self.total, self.ranges), _Blocks(2 * self.total, behind)


class _Direction:
    """One direction of a node: its parts of the operands.

    Attributes:
        index: Which.
        reverse: Whether it goes backward.
        units: Size of its hidden state.
        lengths: Number of steps of each sequence, or None.
    """

    def __init__(self, node: Node, index: int, reverse: bool, label: str) -> None:
        self.index = index
        self.reverse = reverse
        self.units = _units(node)
        self.lengths = node.optional(4)
        self._node = node
        self._label = label

    def add(self, descriptor: Descriptor, blocks: _Blocks, *operands: OutputSlot | None) -> Layer:
        """Add the layer; `operands` follow input and weights."""
        node = self._node
        weights = [self.rows(i, blocks, part) for i, part in ((1, "weights"), (2, "recurrent_weights"))]
        return node.network.add(descriptor, node.input(0), *weights, *operands, name=self._label)

    def rows(self, index: int, blocks: _Blocks, part: str) -> OutputSlot | None:
        """Return blocks of rows of its own part of an operand of [directions, rows, ...].

        None if the operand is left out.

        Raises:
            ModelError: There are other numbers of directions or rows.
        """
        node, slot = self._node, self._node.optional(index)
        if slot is None:
            return None
        for axis, count in enumerate((len(_reverses(node)), blocks.total * self.units)):
            found = node.size_of(slot, axis)
            if found is not None and found != count:
                raise node.malformed(f"has an input {index} of size {found} along axis {axis}, expected {count}")
        net, name, value = node.network, self._named(part), node.value_of(slot)
        ranges = [(begin * self.units, end * self.units) for begin, end in blocks.ranges]
        if value is not None:
            own = [value[self.index, begin:end] for begin, end in ranges]
            return net.constant(own[0] if len(own) == 1 else np.concatenate(own), name, dtype=node.dtype_of(slot))
        mine = net.gather(slot, np.int64(self.index), 0, name=f"{name}/own")
        cut = [
            net.strided_slice(mine, [begin], [end], axes=[0], name=f"{name}/{number}")
            for number, (begin, end) in enumerate(ranges)
        ]
        return cut[0] if len(cut) == 1 else net.concat(cut, axis=0, name=name)

    def summed_bias(self, blocks: _Blocks) -> OutputSlot | None:
        """Return the sum of both halves of the biases."""
        node, slot = self._node, self._node.optional(3)
        halves = [self.rows(3, half, part) for half, part in zip(blocks.halves, ("input_bias", "recurrent_bias"), strict=True)]
        first, second = halves
        if slot is None or first is None or second is None:
            return None
        a, b = node.value_of(first), node.value_of(second)
        if a is not None and b is not None and node.dtype_of(slot) in _SUMMED:
            return node.network.constant(a + b, self._named("bias"), dtype=node.dtype_of(slot))
        return node.network.addition(first, second, name=self._named("bias"))

    def initial(self, index: int, part: str) -> OutputSlot | None:
        """Return its part of an initial state: zeros for sequences of no steps."""
        node, slot = self._node, self._node.optional(index)
        if slot is None:
            return None
        net, name = node.network, self._named(part)
        own = net.gather(slot, np.int64(self.index), 1 if node.flag("layout") else 0, name=name)
        if self.lengths is None:
            return own
        lengths = node.value_of(self.lengths)
        if lengths is not None and bool((lengths != 0).all()):
            return own
        column = net.expand_dims(self.lengths, 1, name=f"{name}/lengths")
        is_empty = net.comparison(column, node.scalar(0, column, f"{part}/none"), "equal", name=f"{name}/is_empty")
        return net.where(is_empty, node.scalar(0.0, own, f"{part}/zero"), own, name=f"{name}/of_some")

    def _named(self, part: str) -> str:
        return self._node.label(f"{part}_{self.index}")


def _units(node: Node) -> int:
    """Return the size of the hidden state.

    Raises:
        ModelError: The recurrent weights are for another one.
        Unsupported: Nothing tells it while parsing.
    """
    held = node.size_of(node.input(2), 2)
    stated = node.integer("hidden_size") if node.has("hidden_size") else held
    if stated is None:
        raise Unsupported("the size of the hidden state is not known while parsing", attribute="hidden_size")
    if held is not None and held != stated:
        raise node.malformed(f"has hidden_size={stated} and recurrent weights of {held} columns")
    return stated


def _outputs(node: Node, make: Callable[[_Direction], Layer]) -> list[OutputSlot | None]:
    """Make a layer for each direction, and lay their results beside one another."""
    reverses, layers = _reverses(node), []
    for index, reverse in enumerate(reverses):
        label = node.label() if len(reverses) == 1 else node.label("backward" if reverse else "forward")
        layers.append(make(_Direction(node, index, reverse, label)))
    batchwise = node.flag("layout")
    results: list[OutputSlot | None] = []
    for index in range(len(layers[0].outputs)):
        axis = (2 if batchwise else 1) if index == 0 else int(batchwise)
        joined = [layer.outputs[index] for layer in layers]
        results.append(
            _joined(node, joined, axis, ("sequence", "last_hidden", "last_cell")[index]) if node.wants(index) else None
        )
    return results


def _joined(node: Node, slots: Sequence[OutputSlot], axis: int, part: str) -> OutputSlot:
    """Give results an axis that counts the directions; the first of a node has its name."""
    if len(slots) == 1:
        return node.network.expand_dims(slots[0], axis, name=node.label(part))
    name = node.label() if node.label() not in node.network else node.label(part)
    return node.network.stack(slots, axis=axis, name=name)
