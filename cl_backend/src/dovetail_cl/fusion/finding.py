"""Which elementwise layers become chains, and which of those a kernel before them computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from dovetail import DType, Layer, Network, OptimizationViews, SubgraphView
from dovetail.graph.descriptor import Constant, Input
from dovetail.graph.layer import OutputSlot

from ..elementwise import function_of
from ..families import family_name
from .chain import Chain
from .fused import Fused, producer_of

MAX_OPERANDS = 8
MAX_LAYERS = 32
"""Of one chain: its program is compiled when it is first met."""


def fuse_chains(view: SubgraphView, views: OptimizationViews) -> set[Layer]:
    """Replace the chains of a view; returns the layers that were replaced."""
    group_of: dict[Layer, list[Layer]] = {}
    groups: list[list[Layer]] = []
    for layer in reversed(view.layers):
        if family_name(layer.kind) != "elementwise":
            continue
        readers = {consumer.layer for consumer in layer.output.consumers}
        joined = [group_of.get(reader) for reader in readers]
        group = joined[0] if joined else None
        if group is not None and all(one is group for one in joined) and _fits(layer, group):
            group.append(layer)
        else:
            group = [layer]
            groups.append(group)
        group_of[layer] = group
    replaced: set[Layer] = set()
    for group in groups:
        producer = producer_of(view, group, operands_of(group))
        members = group if producer is None else [*group, producer]
        if len(members) > 1:
            _replace(view.part(members), views, view.part(group), producer)
            replaced.update(members)
    return replaced


def _fits(layer: Layer, group: list[Layer]) -> bool:
    if layer.kind == "dovetail.Cast" and layer.output.known_info.dtype is DType.FLOAT16:
        return False  # within a chain nothing is rounded
    same = layer.output.known_info.sizes == group[0].output.known_info.sizes
    return same and len(group) < MAX_LAYERS and len(operands_of([*group, layer])) <= MAX_OPERANDS


def operands_of(group: Sequence[Layer]) -> list[OutputSlot]:
    """List what some layers read from outside, constants too."""
    made = {layer.output for layer in group}
    return list(
        dict.fromkeys(s.source for layer in group for s in layer.inputs if s.source is not None and s.source not in made)
    )


def _replace(part: SubgraphView, views: OptimizationViews, chain: SubgraphView, producer: Layer | None) -> None:
    """Replace a part: a chain, and the layer whose result goes into it, if there is one."""
    operands = operands_of(chain.layers)
    if producer is not None:
        operands.remove(producer.output)
        operands.insert(0, producer.output)
    number = {slot: at for at, slot in enumerate(operands)}
    functions, arguments, dtypes, words = [], [], [], []
    for at, layer in enumerate(chain.layers):
        text, parameters = function_of(layer)
        functions.append((parameters, text))
        arguments.append(tuple(number[slot.source] for slot in layer.inputs if slot.source is not None))
        dtypes.append(str(layer.output.known_info.dtype))
        words.append(_word(layer))
        number[layer.output] = -1 - at
    last = chain.layers[-1]
    infos = (last.output.known_info,)
    made = Chain(
        infos=infos,
        functions=tuple(functions),
        arguments=tuple(arguments),
        dtypes=tuple(dtypes),
        words=" + ".join(words),
    )
    fused = Network("chain")
    fed = {slot: fused.add(Input(info=slot.known_info), name=f"in {at}").output for at, slot in enumerate(part.inputs)}
    given = [] if producer is None else [slot.source for slot in producer.inputs if slot.source is not None]
    sources = [*given, *operands[1:]] if producer is not None else operands
    found = [fed[slot] if slot in fed else _value(slot.layer) for slot in sources]
    whole = made if producer is None else Fused(infos=infos, producer=producer.descriptor, inputs=len(given), chain=made)
    fused.output(fused.add(whole, *found, name=last.name, sources_of=part.sources).output, "out")
    views.substitute(part, fused)


def _value(layer: Layer) -> npt.NDArray[Any]:
    assert isinstance(layer.descriptor, Constant)
    return layer.descriptor.value


def _word(layer: Layer) -> str:
    descriptor = layer.descriptor
    word = getattr(descriptor, "operation", None) or getattr(descriptor, "function", None)
    activation = getattr(descriptor, "activation", None)
    name = str(word or layer.kind.rpartition(".")[-1].lower())
    return f"{name} + {activation}" if activation else name
