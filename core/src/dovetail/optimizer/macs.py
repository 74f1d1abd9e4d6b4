"""Multiply-accumulates of layers, which outlive what a backend puts in their place."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.descriptor import Descriptor
from ..graph.graph import Graph
from ..graph.layer import Layer
from ..ground.records import NamedTuple


class LayerWork(NamedTuple):
    """A layer before backends put their own in its place.

    Attributes:
        name: Its name.
        sources: Names in the model that it stands for: several layers may stand for one node of a
            file. Steps have these as `sources`.
        macs: Multiply-accumulates; None if they are not known.
    """

    name: str
    sources: tuple[str, ...]
    macs: int | None


class Worker(NamedTuple):
    """What may do the work of layers: a step, or the layer that becomes one.

    Attributes:
        name: Its name.
        sources: Names in the model that it stands for.
        own: Multiply-accumulates that its kind tells of; 0 if it tells of none.
        rank: Of those that tell of none, the one of the highest rank does the work.
    """

    name: str
    sources: tuple[str, ...]
    own: int
    rank: float


def told_macs(layer: Layer) -> int:
    """Return the multiply-accumulates that the kind of a layer tells of; 0 where it does not."""
    descriptor = layer.descriptor
    if type(descriptor).macs is Descriptor.macs:
        return 0
    try:
        return int(descriptor.macs(layer.input_infos, [slot.known_info for slot in layer.outputs]))
    except Exception:  # a report is no reason to refuse a network
        return 0


def shared_out(work: Sequence[LayerWork], workers: Sequence[Worker]) -> list[int | None]:
    """Give each worker the multiply-accumulates that it does for the layers that it stands for.

    Each layer counts once. The worker of its name does its work, unless only others multiply: then
    these share it, as what they tell of themselves is to each other. Of a transposed convolution,
    for example, one convolution a phase multiplies, and what interleaves their results, under the
    layer's name, does not. Where nobody tells, it is the one that has the name of some layer, and
    among such the one of the highest rank.

    Returns:
        Those of each worker; None where those of a layer are not known.
    """
    found: list[int | None] = [0] * len(workers)
    named = {worker.name: number for number, worker in enumerate(workers)}
    standing: dict[str, list[int]] = {}
    for number, worker in enumerate(workers):
        for source in worker.sources:
            standing.setdefault(source, []).append(number)
    names = {layer.name for layer in work}
    multiplying = {layer.name for layer in work if layer.macs}
    for layer in work:
        if layer.macs == 0:
            continue
        numbers = list(dict.fromkeys(number for source in layer.sources for number in standing.get(source, ())))
        own = named.get(layer.name)
        telling = [number for number in numbers if workers[number].own]
        if own is not None and (workers[own].own or not telling):
            numbers = [own]
        elif telling:  # others have work of their own, where what they read is merged into them
            numbers = [number for number in telling if workers[number].name not in multiplying] or telling
        elif numbers:
            numbers = [max(numbers, key=lambda number: (workers[number].name in names, workers[number].rank))]
        for number, share in zip(numbers, _shares(layer.macs, [workers[number].own for number in numbers]), strict=True):
            known = found[number]
            found[number] = None if share is None or known is None else known + share
    return found


def _shares(macs: int | None, weights: Sequence[int]) -> list[int | None]:
    """Divide a number as weights are to each other, to integers of the same sum."""
    if macs is None or len(weights) < 2:
        return [macs] * len(weights)
    whole, given, before = sum(weights), 0, 0
    shares: list[int | None] = []
    for weight in weights:
        before += weight
        upto = macs * before // whole
        shares.append(upto - given)
        given = upto
    return shares


class Macs:
    """Multiply-accumulates of one run, by the layers that they are done for."""

    def __init__(self) -> None:
        self._work: list[LayerWork] = []

    def count(self, graph: Graph) -> None:
        """Count those of a graph whose sizes are known, before backends change it."""
        self._work = [LayerWork(layer.name, layer.sources, macs) for layer in graph if (macs := told_macs(layer))]

    def by_layer(self, order: Sequence[Layer]) -> dict[Layer, int]:
        """Give each count to layers that run, which are in order."""
        if not self._work:
            return {}
        workers = [Worker(layer.name, layer.sources, told_macs(layer), number) for number, layer in enumerate(order)]
        return {layer: macs for layer, macs in zip(order, shared_out(self._work, workers), strict=True) if macs}
