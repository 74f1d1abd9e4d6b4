"""What can be computed in several ways, for `dovetail tune` to measure on the machine at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from dovetail import Choices, Descriptor, Layer, PrivateLayer, SubgraphView
from dovetail.graph.graph import Graph
from dovetail.ground.records import NamedTuple

from .convolution.algorithms import allows_winograd
from .convolution.kinds import Convolve, ConvolveFloat16, WinogradConvolve
from .geometry.layouts import blocks
from .strips.joining import apart, can_join, joined, stages_of
from .strips.kinds import Strips

if TYPE_CHECKING:
    from .kernels import Kernels


class Ways(NamedTuple):
    """The ways to compute a part: the one that `fusion` chose, and the others."""

    part: tuple[Layer, ...]
    taken: str
    others: Mapping[str, Graph | Descriptor]


Rule = Callable[[SubgraphView, Layer, "Kernels"], Ways | None]


def choices_of(view: SubgraphView, kernels: Kernels) -> Choices:
    """Offer all that the rules find; of two that want the same layer, what the first rule finds.

    Args:
        view: What is asked about.
        kernels: Those of the instruction set that runs them.
    """
    answer, offered = Choices(view), set[Layer]()
    for rule in RULES:
        for layer in view.layers:
            ways = rule(view, layer, kernels)
            if ways is not None and offered.isdisjoint(ways.part):
                answer.offer(*ways)
                offered.update(ways.part)
    return answer


def _algorithm(view: SubgraphView, layer: Layer, kernels: Kernels) -> Ways | None:
    """Offer direct sums, or Winograd tiles of 2 or 4, for 3 x 3 windows over blocked images."""
    convolve = layer.descriptor
    if not isinstance(convolve, Convolve | WinogradConvolve) or not _has_winograd(convolve, layer):
        return None
    shared = {one.name: getattr(convolve, one.name) for one in fields(WinogradConvolve) if one.name != "tile"}
    direct = ConvolveFloat16 if kernels.precision == "float16" else Convolve
    ways: dict[str, PrivateLayer] = {"direct": direct(**shared)}
    ways |= {f"winograd {tile}": WinogradConvolve(**shared, tile=tile) for tile in (2, 4)}
    taken = f"winograd {convolve.tile}" if isinstance(convolve, WinogradConvolve) else "direct"
    del ways[taken]
    return Ways((layer,), taken, ways)


def _has_winograd(convolve: Convolve | WinogradConvolve, layer: Layer) -> bool:
    """Tell whether both kernels can compute a convolution."""
    if isinstance(convolve, WinogradConvolve):
        return True
    point, infos = (1, 1), (layer.inputs[0].info, layer.output.info)
    are_blocked = all(info is not None and info.opaque is not None for info in infos)
    if not are_blocked or convolve.geometry[:3] != ((3, 3), point, point) or not convolve.groups == 1 == convolve.run:
        return False
    return allows_winograd(convolve.weights)


def _strips(view: SubgraphView, layer: Layer, kernels: Kernels) -> Ways | None:
    """A chain of layers, or two that might be one: strip by strip, or one after the other."""
    producer = layer.inputs[0].source.layer if layer.inputs and layer.inputs[0].source else None
    if isinstance(layer.descriptor, Strips):
        return Ways((layer,), "strips", {"apart": apart(layer, layer.descriptor)})
    if producer is not None and producer in view and len(stages_of(producer)) == 1 and can_join(producer, layer):
        return Ways((producer, layer), "apart", {"strips": joined(producer, layer)})
    return None


def _tile(view: SubgraphView, layer: Layer, kernels: Kernels) -> Ways | None:
    """Offer how many vectors of filters a tile computes at once: the fewer, the more pixels."""
    convolve = layer.descriptor
    if not isinstance(convolve, Convolve) or convolve.groups > 1 or convolve.target.batch * convolve.target.pixels == 1:
        return None
    most = min(kernels.vectors, blocks(convolve.target.channels, kernels.lanes))
    taken = min(convolve.vectors or most, most)
    others = {f"{count} vectors": replace(convolve, vectors=count) for count in range(most, 1, -1) if count != taken}
    return Ways((layer,), f"{taken} vectors", others) if others else None


RULES: tuple[Rule, ...] = (_algorithm, _strips, _tile)
"""What is offered: one more choice is one more rule."""
