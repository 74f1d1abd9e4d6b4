"""Run two networks on the same inputs and compare what they compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

import dovetail

from .differences import Difference, default_tolerance, real_values
from .options import shapes_for
from .pairs import (
    Homes,
    coarsest_float,
    computed_slots,
    groups,
    is_quantized,
    isolated_of,
    moved_like,
    names_of,
    names_with_sizes,
    options_for,
    paired,
    parting,
    shown_outputs,
)
from .statistics import Timing

if TYPE_CHECKING:
    from dovetail import Limits, LoadedNetwork, Network
    from dovetail.graph.graph import Graph
    from dovetail.optimizer import TensorSpec

    from .options import ModelFile, Placing

Arrays = Mapping[str, npt.NDArray[Any]]

GROUP_BYTES = 256 << 20
"""Bytes of layers that one run shows: all of a network at once might not fit."""


@dataclass(slots=True)
class Side:
    """One of the two networks.

    Attributes:
        model: The file.
        network: What is in it.
        backends: Ids in order of preference; None for the default.
        shapes: Sizes that were given.
        options: Options of backends, by id.
        isolate: Ids of those that run in a process of their own; None for the default.
        seconds: What each run took.
        backends_used: Backends that ran it.
        idle: The backend that was asked for first, if it ran nothing; else empty.
        is_absent: Whether that is because it may be absent, and is.
    """

    model: ModelFile
    network: Network
    backends: Sequence[str] | None
    shapes: dict[str, Any]
    options: Mapping[str, Mapping[str, Any]] | None = None
    isolate: Sequence[str] | None = None
    seconds: list[float] = field(default_factory=list)
    backends_used: str = ""
    idle: str = ""
    is_absent: bool = False

    def look_at(self, loaded: LoadedNetwork) -> None:
        """Note which backends ran it, once it has run."""
        used = dict.fromkeys(str(one.backend) for one in loaded.plan.steps if one.backend)
        self.backends_used = ", ".join(used)
        first = next(iter(self.backends or ()), "")
        placed = {row.backend for row in loaded.placement.layers}  # what moves no element has no step
        if first and names_of([first]).isdisjoint(used.keys() | placed):
            (self.idle,) = names_of([first])
            self.is_absent = any(str(one.request) == first for one in loaded.placement.absent)

    @classmethod
    def pair(
        cls,
        models: tuple[ModelFile, ModelFile],
        backends: tuple[Sequence[str] | None, Sequence[str] | None],
        placing: Placing,
        limits: Limits | None,
    ) -> tuple[Side, Side]:
        """Read both models; sizes and options go to those that know them.

        Raises:
            DovetailError: One is refused.
            click.UsageError: A size was given for what neither network has.
        """
        a, b = (dovetail.parse(model, limits=limits) for model in models)
        sizes = [names_with_sizes(network) for network in (a, b)]
        made = []
        for network, model, ids, own, others in zip((a, b), models, backends, sizes, reversed(sizes), strict=True):
            shape = {name: size for name, size in placing.shape.items() if name in own or name not in others}
            options = options_for(placing.options, ids, backends)
            isolate = isolated_of(placing.isolate, ids, backends)
            made.append(cls(model, network, ids, shapes_for(network, shape), options, isolate))
        return made[0], made[1]

    @property
    def median(self) -> float:
        """Median time of a run, in seconds."""
        return Timing.of(self.seconds).median

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "model": str(self.model),
            "backends": self.backends_used,
            "idle": self.idle or None,
            "run_seconds": asdict(Timing.of(self.seconds)),
        }


@dataclass(slots=True)
class Row:
    """One tensor of A and its counterpart in B.

    Attributes:
        names: In A and in B.
        specs: Of both.
        backends: Where each was computed.
        shapes: Shapes found, where they differ.
        difference: None where shapes differ.
        tolerance: Largest error allowed, as a share of the largest magnitude.
    """

    names: tuple[str, str]
    specs: tuple[TensorSpec, TensorSpec]
    backends: tuple[str, str]
    tolerance: float
    difference: Difference | None
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def label(self) -> str:
        """Name, or both names."""
        return self.names[0] if self.names[0] == self.names[1] else f"{self.names[0]} | {self.names[1]}"

    @property
    def is_beyond(self) -> bool:
        """Whether the tensors are too far apart, or have different shapes."""
        return self.difference is None or self.difference.is_beyond(self.tolerance)

    @property
    def verdict(self) -> str:
        """What is wrong, in some words; empty if nothing is."""
        if self.difference is None:
            assert self.shapes is not None  # only then there is no difference
            return f"shapes {list(self.shapes[0])} and {list(self.shapes[1])}"
        found = self.difference
        words = [f"beyond {self.tolerance:g}" if self.tolerance else "not equal"] if self.is_beyond else []
        for what, counts in (("NaN", found.nan), ("infinite", found.infinite)):
            if any(counts):
                words.append(f"{what}: {counts[0]} in A, {counts[1]} in B")
        return "; ".join(words)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        document: dict[str, Any] = {
            "name": self.names[0],
            "name_in_b": self.names[1],
            "dtypes": [spec.dtype.label for spec in self.specs],
            "quantized": [spec.quantization is not None for spec in self.specs],
            "backends": list(self.backends),
            "tolerance": self.tolerance,
            "is_within": not self.is_beyond,
        }
        if self.difference is None:
            return document | {"shapes": [list(shape) for shape in self.shapes or ()]}
        return document | self.difference.as_dict()


class Comparison:
    """Two loaded networks, and what is known of how far they are apart.

    Args:
        a, b: The networks; A is the reference.
        loaded_a, loaded_b: The same, loaded.
        feeds: Inputs of A and of B, for each run.
        tolerance: What is allowed; None: by type.
        timeout: Seconds that a run may take.
    """

    def __init__(
        self,
        a: Side,
        b: Side,
        loaded_a: LoadedNetwork,
        loaded_b: LoadedNetwork,
        feeds: Sequence[tuple[Arrays, Arrays]],
        tolerance: float | None,
        timeout: float | None,
    ) -> None:
        self.a, self.b = a, b
        self._loaded = (loaded_a, loaded_b)
        self._feeds = feeds
        self._tolerance = tolerance
        self._timeout = timeout
        self._quantized = (is_quantized(a.network), is_quantized(b.network))
        self._held = (coarsest_float(a.network), coarsest_float(b.network))
        self._slots = computed_slots(a.network)
        self._layers_of_b = computed_slots(b.network)
        names = [shown_outputs(side.network) for side in (a, b)]
        self._outputs = paired(*names, by_position=True)
        self._layers = paired([*self._slots], [*self._layers_of_b], by_position=False)
        self.outputs: list[Row] = []
        self.layers: list[Row] = []
        self.other_shapes: list[Row] = []

    # -- running -----------------------------------------------------------------------------------

    def compare_outputs(self, step: Callable[[], None]) -> None:
        """Run both networks as they are; `step` is called after each run."""
        rows: dict[tuple[str, str], Row] = {}
        for fed in self._feeds:
            results = []
            for side, loaded, arrays in zip((self.a, self.b), self._loaded, fed, strict=True):
                begin = perf_counter()
                results.append(loaded.run(arrays, timeout=self._timeout))
                side.seconds.append(perf_counter() - begin)
            homes = [self._homes_of_outputs(side, loaded) for side, loaded in zip((self.a, self.b), self._loaded, strict=True)]
            self._add(rows, self._outputs.pairs, self._loaded, results, homes)
            step()
        self.outputs = list(rows.values())
        for side, loaded in zip((self.a, self.b), self._loaded, strict=True):
            side.look_at(loaded)

    def layer_groups(self) -> list[list[str]]:
        """Return the layers to compare, as many together as one run shows."""
        return groups([name for name, _ in self._layers.pairs], self._sizes(), GROUP_BYTES)

    def compare_layers(self, names: Sequence[str], step: Callable[[], None]) -> None:
        """Run both networks for what these layers compute; `step` is called after each run."""
        rows: dict[tuple[str, str], Row] = {}
        inner = [loaded.with_outputs(names) for loaded in self._loaded]
        try:
            for fed in self._feeds:
                results = [one.run(arrays, timeout=self._timeout) for one, arrays in zip(inner, fed, strict=True)]
                homes = []
                for one, slots in zip(inner, (self._slots, self._layers_of_b), strict=True):
                    of = Homes(one.placement).of
                    homes.append({name: of(slots[name]) for name in names})
                self._add(rows, [(name, name) for name in names], inner, results, homes)
                step()
        finally:
            for one in inner:
                one.unload()
        for row in rows.values():
            (self.layers if row.difference is not None else self.other_shapes).append(row)

    def _add(
        self,
        rows: dict[tuple[str, str], Row],
        pairs: Sequence[tuple[str, str]],
        networks: Sequence[LoadedNetwork],
        results: Sequence[Arrays],
        homes: Sequence[Mapping[str, str]],
    ) -> None:
        specs = [{spec.name: spec for spec in network.outputs} for network in networks]
        for names in pairs:
            arrays = [found[name] for found, name in zip(results, names, strict=True)]
            row = rows.get(names)
            if row is None:
                own = (specs[0][names[0]], specs[1][names[1]])
                where = (homes[0][names[0]], homes[1][names[1]])
                row = rows[names] = Row(names, own, where, self._tolerance_of(*own), Difference(step=self._step_of(*own)))
            moved = moved_like(arrays[1], arrays[0].shape) if row.specs[1].quantization is None else arrays[1]
            if moved is None or moved.shape != arrays[0].shape:
                row.difference, row.shapes = None, (arrays[0].shape, arrays[1].shape)
            elif row.difference is not None:
                row.difference.add(
                    *(real_values(array, spec) for array, spec in zip((arrays[0], moved), row.specs, strict=True))
                )

    def _tolerance_of(self, a: TensorSpec, b: TensorSpec) -> float:
        return default_tolerance(a, b, self._quantized, self._held) if self._tolerance is None else self._tolerance

    def _step_of(self, *specs: TensorSpec) -> float:
        if self._tolerance is not None:
            return 0.0
        return max((max(spec.quantization.scale) for spec in specs if spec.quantization is not None), default=0.0)

    def _homes_of_outputs(self, side: Side, loaded: LoadedNetwork) -> dict[str, str]:
        of = Homes(loaded.placement).of
        sources = {layer.name: layer.inputs[0].source for layer in side.network.outputs}
        return {name: of(source) for name, source in sources.items() if source is not None}

    def graph(self) -> Graph:
        """Return network A with its shapes, as far as what is fed tells them."""
        from .summary import with_known_shapes

        shapes = {name: array.shape for name, array in self._feeds[0][0].items()}
        return with_known_shapes(self.a.network, {**self.a.shapes, **shapes})[0]

    def _sizes(self) -> dict[str, int]:
        """Return the bytes of each tensor of A, as far as they are known."""
        infos = {slot.name: slot.info for layer in self.graph().layers for slot in layer.outputs}
        return {name: info.nbytes for name, info in infos.items() if info is not None and info.is_concrete}

    # -- telling -----------------------------------------------------------------------------------

    @property
    def is_within(self) -> bool:
        """Whether all outputs are within the tolerance; one that only one network has is not."""
        return not (self._outputs.only_a or self._outputs.only_b or any(row.is_beyond for row in self.outputs))

    @property
    def is_of_what_was_asked(self) -> bool:
        """Whether the backend that was asked for first ran something, or may be absent, and is."""
        return not any(side.idle and not side.is_absent for side in (self.a, self.b))

    @property
    def parting(self) -> str | None:
        """The layer where the networks part first."""
        return parting(self._slots, {row.names[0]: row.is_beyond for row in self.layers})

    def sentences(self, *, layers: bool) -> list[str]:
        """Say what was found.

        Args:
            layers: Whether layers were compared.
        """
        lines = [
            f"only {side} has the output{'s' if len(names) > 1 else ''} {', '.join(names)}"
            for side, names in (("A", self._outputs.only_a), ("B", self._outputs.only_b))
            if names
        ]
        lines += self._of_layers() if layers else []
        beyond = sum(row.is_beyond for row in self.outputs)
        lines.append(
            f"{beyond} of {len(self.outputs)} outputs beyond the tolerance"
            if beyond
            else "all outputs are within the tolerance"
            if self.is_within
            else "what could be compared is within the tolerance"
        )
        return [*lines, *self._of_idle()]

    def _of_idle(self) -> list[str]:
        """Say of which backend that was asked for the comparison shows nothing."""
        lines = []
        for name in dict.fromkeys(side.idle for side in (self.a, self.b) if side.idle):
            sides = [(label, side) for label, side in (("A", self.a), ("B", self.b)) if side.idle == name]
            why = "it is absent" if all(side.is_absent for _, side in sides) else "see `dovetail explain`"
            of = " and ".join(label for label, _ in sides)
            lines.append(f"but {name}, the first choice for {of}, ran no layer ({why}): this shows nothing about {name}")
        return lines

    def _of_layers(self) -> list[str]:
        lines = []
        left = [
            f"{len(names)} of {side} alone" for side, names in (("A", self._layers.only_a), ("B", self._layers.only_b)) if names
        ]
        left += [f"{len(self.other_shapes)} of other shapes"] if self.other_shapes else []
        if left:
            lines.append(f"layers that were not compared: {', '.join(left)}")
        if not self.layers:
            return [*lines, "no layer has the same name and shape in both"]
        name = self.parting
        if name is not None:
            row = next(row for row in self.layers if row.names[0] == name)
            assert row.difference is not None  # it would not be among the layers
            slot = self._slots[name]
            where = row.backends[0] if row.backends[0] == row.backends[1] else f"{row.backends[0]} in A, {row.backends[1]} in B"
            found = f"max abs error {row.difference.max_abs:.3g}, {row.verdict}"
            return [
                *lines,
                f"they part first at layer {name!r} ({slot.layer.kind.removeprefix('dovetail.')}, {where}): {found}",
            ]
        if any(row.is_beyond for row in self.outputs):
            return [
                *lines,
                "no layer that was compared parts, computed one by one: what differs lies between them, or in fusing them",
            ]
        return [*lines, "no layer parts"]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {
            "a": self.a.as_dict(),
            "b": self.b.as_dict(),
            "runs": len(self._feeds),
            "is_within": self.is_within,
            "outputs": [row.as_dict() for row in self.outputs],
            "layers": [row.as_dict() for row in self.layers],
            "parts_at": self.parting,
            "only_in_a": {"outputs": list(self._outputs.only_a), "layers": list(self._layers.only_a)},
            "only_in_b": {"outputs": list(self._outputs.only_b), "layers": list(self._layers.only_b)},
            "other_shapes": [row.as_dict() for row in self.other_shapes],
        }
