"""What of two networks belongs together: inputs, outputs, layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from dovetail.graph.descriptor import Constant, Input, Output

from .differences import FLOATS, parameters, real_values
from .options import logger

if TYPE_CHECKING:
    from dovetail import Layer, Network
    from dovetail.graph.layer import OutputSlot
    from dovetail.graph.meaning import Meaning
    from dovetail.optimizer import Placement, TensorSpec

    from .feeding import InputSpec

Array = npt.NDArray[Any]
_MOVES = ((0, 0), (1, -1), (-1, 1))
"""Where channels may go: nowhere, behind or before the other axes."""
_QUANTIZING = ("dovetail.Quantize", "dovetail.Dequantize")


@dataclass(frozen=True, slots=True)
class Pairing:
    """Names that belong together, in order of the first network, and those that do not."""

    pairs: tuple[tuple[str, str], ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def paired(a: Sequence[str], b: Sequence[str], *, by_position: bool) -> Pairing:
    """Pair names that are equal, and, if asked for, as many as are left of each by position."""
    known = set(a) & set(b)
    rest_a, rest_b = [name for name in a if name not in known], [name for name in b if name not in known]
    others = dict(zip(rest_a, rest_b, strict=True)) if by_position and len(rest_a) == len(rest_b) else {}
    pairs = tuple((name, name if name in known else others[name]) for name in a if name in known or name in others)
    return Pairing(pairs, () if others else tuple(rest_a), () if others else tuple(rest_b))


@dataclass(frozen=True, slots=True)
class Feeding:
    """How two networks are fed alike.

    Attributes:
        given: Inputs that arrays are given for: those of A, or, where numbers are random and B
            alone is quantized, those of B, whose integers the real numbers of A can be exactly.
        to: Inputs of the other network.
        pairs: Names that belong together, in `given` and in `to`.
        is_swapped: Whether B is what is given.
        told: Inputs of which it was told that their channels are moved.
    """

    given: list[InputSpec]
    to: list[InputSpec]
    pairs: tuple[tuple[str, str], ...]
    is_swapped: bool
    told: set[str] = field(default_factory=set)

    @classmethod
    def of(
        cls,
        specs: tuple[Iterable[TensorSpec], Iterable[TensorSpec]],
        shapes: tuple[dict[str, Any], dict[str, Any]],
        meanings: tuple[Mapping[str, Meaning] | None, Mapping[str, Meaning] | None] = (None, None),
        *,
        all_random: bool,
    ) -> Feeding:
        """Pair the inputs of A and B.

        Raises:
            click.UsageError: The networks have other inputs.
        """
        from .feeding import input_specs

        a, b = (input_specs(*one) for one in zip(specs, shapes, meanings, strict=True))
        names = [[spec.name for spec in side] for side in (a, b)]
        found = paired(*names, by_position=True)
        if found.only_a or found.only_b:
            raise click.UsageError(
                f"the inputs of A are {', '.join(names[0]) or 'none'}, those of B {', '.join(names[1]) or 'none'}: "
                "these cannot be fed alike"
            )
        quantized = [any(spec.quantization is not None for spec in side) for side in (a, b)]
        if all_random and quantized == [False, True]:
            return cls(b, a, tuple((theirs, ours) for ours, theirs in found.pairs), is_swapped=True)
        return cls(a, b, found.pairs, is_swapped=False)

    def both(self, arrays: Mapping[str, Array]) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
        """Return the inputs of A and of B.

        Raises:
            click.UsageError: An input has another shape or type in one of them, which nothing
                explains.
        """
        given, to = {spec.name: spec for spec in self.given}, {spec.name: spec for spec in self.to}
        names = ("B", "A") if self.is_swapped else ("A", "B")
        others = {theirs: _converted(arrays[ours], given[ours], to[theirs], names, self.told) for ours, theirs in self.pairs}
        return (others, arrays) if self.is_swapped else (arrays, others)


def _converted(array: Array, a: InputSpec, b: InputSpec, names: tuple[str, str], told: set[str]) -> Array:
    found = f"{a.dtype}[{', '.join(map(str, array.shape))}]"
    move = next((one for one in _MOVES if _fits(_moved(array, one).shape, b.shape)), None)
    if move is None:
        wanted = f"{b.dtype}[{', '.join(map(str, b.shape))}]"
        raise click.UsageError(f"input {a.name!r} is {found} in {names[0]}, but {wanted} in {names[1]}")
    if move != _MOVES[0] and a.name not in told:
        told.add(a.name)
        logger.info("note: input %r is %s in %s: its channels are moved for %s", a.name, found, names[0], names[1])
    if a.dtype is b.dtype and a.quantization == b.quantization:
        return _moved(array, move)
    if not all(spec.dtype.is_float or spec.quantization is not None for spec in (a, b)):
        if a.dtype is b.dtype:  # whether integers stand for real numbers, one of them does not tell
            return _moved(array, move)
        raise click.UsageError(
            f"input {a.name!r} is {a.dtype} in {names[0]}, but {b.dtype} in {names[1]}, and it is not told what these stand for"
        )
    reals = _moved(real_values(array, a), move)
    if b.quantization is None:
        return _as_float(reals, b)
    scale, zero = parameters(b.quantization, array.ndim)
    limits = np.iinfo(b.dtype.numpy)
    return np.asarray(np.clip(np.rint(reals / scale) + zero, limits.min, limits.max).astype(b.dtype.numpy))


def _moved(array: Array, move: tuple[int, int]) -> Array:
    """Move an axis of pictures and sounds; what has no channels stays."""
    return np.ascontiguousarray(np.moveaxis(array, *move)) if array.ndim > 2 else array


def moved_like(array: Array, shape: Sequence[int]) -> Array | None:
    """Return an array with its channels where a shape has them; None if it has another shape."""
    return next((found for move in _MOVES if (found := _moved(array, move)).shape == tuple(shape)), None)


def _fits(found: Sequence[int], wanted: Sequence[int | str]) -> bool:
    return len(found) == len(wanted) and all(isinstance(b, str) or a == b for a, b in zip(found, wanted, strict=True))


def _as_float(reals: npt.NDArray[np.float64], spec: InputSpec) -> Array:
    from .pictures import to_bfloat16

    return to_bfloat16(reals.astype(np.float32)) if spec.dtype.label == "bfloat16" else reals.astype(spec.dtype.numpy)


def shown_outputs(network: Network) -> list[str]:
    """Name the outputs that a run returns: what it remembers is none."""
    remembered = {state.output for state in network.states.values()}
    return [layer.name for layer in network.outputs if layer.name not in remembered]


def computed_slots(network: Network) -> dict[str, OutputSlot]:
    """Return what layers compute from the inputs of a network, by name, in order of execution."""
    found: dict[str, OutputSlot] = {}
    changing: set[Layer] = set()
    for layer in network.topological_order():
        if isinstance(layer.descriptor, Input) or any(slot.source and slot.source.layer in changing for slot in layer.inputs):
            changing.add(layer)
            if not isinstance(layer.descriptor, Input | Output):
                found.update((slot.name, slot) for slot in layer.outputs)
    return found


def is_quantized(network: Network) -> bool:
    """Say whether a network computes with quantized numbers."""
    return any(
        layer.kind in _QUANTIZING or any(slot.quantization is not None for slot in layer.outputs) for layer in network.layers
    )


def coarsest_float(network: Network) -> str:
    """Return the type of the least digits that a network holds float constants in."""
    held = {layer.output.known_info.dtype.label for layer in network.layers if isinstance(layer.descriptor, Constant)}
    return max(held & FLOATS.keys() | {"float32"}, key=FLOATS.__getitem__)


def parting(slots: Mapping[str, OutputSlot], beyond: Mapping[str, bool]) -> str | None:
    """Find the first tensor that is too far from its counterpart, though what it is made of is not.

    Args:
        slots: Those of the first network, in order of execution.
        beyond: Of tensors that were compared: whether they are too far apart. What was not is asked
            for what it is made of itself.

    Returns:
        Its name; the first of all that are too far apart, if the inputs of each are as well.
    """
    apart: dict[OutputSlot, bool] = {}
    for name, slot in slots.items():
        sources = [read.source for read in slot.layer.inputs if read.source is not None]
        is_fed_apart = any(apart.get(source, False) for source in sources)
        apart[slot] = beyond.get(name, is_fed_apart)
        if apart[slot] and not is_fed_apart:
            return name
    return next((name for name in slots if beyond.get(name)), None)


def groups(slots: Iterable[str], sizes: Mapping[str, int], limit: int) -> list[list[str]]:
    """Part tensors into groups of so many bytes at most, a larger one alone."""
    found: list[list[str]] = []
    total = 0
    for name in slots:
        size = sizes.get(name, 0)
        if not found or total + size > limit:
            found.append([])
            total = 0
        found[-1].append(name)
        total += size
    return found


class Homes:
    """Where the layers of a network ran.

    Args:
        placement: Of the network as it ran, whose layers stand for some of the original.
    """

    def __init__(self, placement: Placement) -> None:
        self._by_name = {row.name: row.backend or "core" for row in placement.layers}
        self._by_source: dict[str, list[str]] = {}
        for row in placement.layers:
            for name in row.sources:
                self._by_source.setdefault(name, []).append(row.backend or "core")

    def of(self, slot: OutputSlot) -> str:
        """Return the backend that computed a tensor of the original network; "core" if none did."""
        layer = slot.layer
        if layer.name in self._by_name:
            return self._by_name[layer.name]
        found = [backend for name in layer.sources for backend in self._by_source.get(name, ())]
        return "+".join(dict.fromkeys(found)) or "core"


def names_with_sizes(network: Network) -> set[str]:
    """Return what a size can be given for: inputs and symbolic dimensions."""
    shapes = {layer.name: layer.output.shape for layer in network.inputs}
    return {*shapes, *(size for shape in shapes.values() for size in shape if isinstance(size, str))}


def options_for(
    options: Mapping[str, Mapping[str, Any]] | None, ids: Sequence[str] | None, all_ids: Iterable[Sequence[str] | None]
) -> dict[str, Mapping[str, Any]] | None:
    """Return the options of backends that a network is to run on, and those that no network is."""
    if options is None or ids is None:
        return None if options is None else dict(options)
    own = names_of(ids)
    others = set().union(*(names_of(one) for one in all_ids if one is not None))
    return {name: values for name, values in options.items() if name in own or name not in others}


def isolated_of(
    isolate: Sequence[str] | None, ids: Sequence[str] | None, all_ids: Iterable[Sequence[str] | None]
) -> list[str] | None:
    """Return the backends that are isolated, of those that a network is to run on."""
    kept = options_for(None if isolate is None else {name: {} for name in isolate}, ids, all_ids)
    return None if kept is None else list(kept)


def names_of(ids: Iterable[str]) -> set[str]:
    """Return the ids in requests, without devices and the mark of what may be absent."""
    return {one.rstrip("?").partition(":")[0] for one in ids}
