"""Which products, and the softmax between them, become attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from dovetail import DType, Layer, Network, OptimizationViews, SubgraphView
from dovetail.graph.descriptor import Constant, Input
from dovetail.graph.layer import OutputSlot
from dovetail.ground.records import NamedTuple
from dovetail.layers import MatMul, Softmax

from ..attention import Attention
from ..attention.views import Strided, seen_through, within, written_through
from ..elementwise.chain_layer import chain_of, operands_of
from ..walking import broadcast
from .fused import can_finish
from .merged import Product, merged, product_of

_FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
_LONGEST = 256
"""Elements of a row of q, k and v."""


class _Scores(NamedTuple):
    """What comes before a softmax.

    Attributes:
        product: Of q and k.
        chain: Layers of elements behind it, the last one first.
        operands: Of the chain; the first is the product.
    """

    product: Layer
    chain: Sequence[Layer]
    operands: Sequence[OutputSlot]


class _Place(NamedTuple):
    """Where q, k or v lies.

    Attributes:
        tensor: In the replacement.
        start: Elements before its first one.
        seen: It, as a view of that tensor.
    """

    tensor: Any
    start: int
    seen: Strided


def fuse_attentions(
    view: SubgraphView, views: OptimizationViews, chains: Mapping[Layer, list[Layer]], *, least_rows: int
) -> set[Layer]:
    """Replace the attention of a view; returns the layers that were replaced.

    Args:
        view: What is offered.
        views: The answer.
        chains: Layers of elements, and the chain of each, the last layer first.
        least_rows: Of q; attention of fewer is left as it is.
    """
    replaced: set[Layer] = set()
    for softmax in view.layers:
        scores = _scores(view, softmax, chains) if isinstance(softmax.descriptor, Softmax) else None
        if scores is not None and softmax.output.known_info.sizes[-2] >= least_rows:
            replaced.update(_replace(view, views, scores, softmax, chains))
    return replaced


def _scores(view: SubgraphView, softmax: Layer, chains: Mapping[Layer, list[Layer]]) -> _Scores | None:
    descriptor, source = softmax.descriptor, softmax.inputs[0].source
    assert isinstance(descriptor, Softmax)
    info = softmax.output.known_info
    if descriptor.log or descriptor.axis % len(info.sizes) != len(info.sizes) - 1 or source is None:
        return None
    if not info.elements or info.dtype not in _FLOATS or not 2 <= len(info.sizes) <= 4:
        return None
    chain = chains.get(source.layer, [])
    if chain and (chain[0] is not source.layer or _readers(source) != {softmax}):
        return None
    operands = operands_of(chain) if chain else [source]
    if not can_finish(chain, operands):
        return None
    readers = set(chain) or {softmax}
    for slot in operands:
        is_whole = slot.known_info.sizes == info.sizes and slot.known_info.dtype == info.dtype
        if is_whole and isinstance(slot.layer.descriptor, MatMul) and slot.layer in view and _readers(slot) <= readers:
            return _Scores(slot.layer, chain, [slot, *(other for other in operands if other is not slot)])
    return None


def _readers(slot: OutputSlot) -> set[Layer]:
    return {consumer.layer for consumer in slot.consumers}


def _replace(
    view: SubgraphView,
    views: OptimizationViews,
    scores: _Scores,
    softmax: Layer,
    chains: Mapping[Layer, list[Layer]],
) -> set[Layer]:
    """Replace attention, if it is that; returns the layers that were replaced."""
    readers = _readers(softmax.output)
    product = next(iter(readers))
    if len(readers) != 1 or not isinstance(product.descriptor, MatMul) or product not in view:
        return set()
    probabilities, values = (slot.source for slot in product.inputs)
    if probabilities is not softmax.output or values is probabilities or product.descriptor.transpose_a or values is None:
        return set()
    operands = [slot.source for slot in scores.product.inputs if slot.source is not None]
    q, k = (_seen(slot, view) for slot in operands)
    if any(len(slot.known_info.sizes) < 2 for slot in (*operands, values)):
        return set()  # a vector
    v, y = _seen(values, view), written_through(product.output, lambda layer: layer in view)
    if y.strides[-1] != 1:
        y = written_through(product.output, lambda layer: False)
    (*batch, rows, keys), result = softmax.output.known_info.sizes, product.output.known_info.sizes
    assert isinstance(scores.product.descriptor, MatMul)
    swaps_q, swaps_k = scores.product.descriptor.transpose_a, not scores.product.descriptor.transpose_b
    depth, width = q.sizes[-2 if swaps_q else -1], result[-1]
    if result[:-2] != tuple(batch) or not 0 < depth <= _LONGEST >= width > 0:
        return set()
    members = {scores.product, *scores.chain, softmax, product, *y.through}
    for one in (q, k, v):
        for layer in one.through:
            if _readers(layer.output) <= members:
                members.add(layer)
    products = _products((q, k, v), chains, members, view)
    members.update(layer for one in products.values() for layer in one.members)
    part = view.part(members)
    fused = Network("attention")
    wanted = [*(one.slot for one in (q, k, v) if one.slot not in products), *(one.x for one in products.values())]
    wanted = list(dict.fromkeys(wanted))
    found = _joined(fused, part, [*wanted, *scores.operands[1:]])
    given = dict(zip(wanted, found[: len(wanted)], strict=True))
    places = _places(fused, given, (q, k, v), products)
    sources = {id(place.tensor): place.tensor for place in places}
    number = {key: at for at, key in enumerate(sources)}
    assert isinstance(softmax.descriptor, Softmax)
    made = Attention(
        infos=(y.slot.known_info,),
        sizes=(*(1,) * (2 - len(batch)), *batch, rows, keys, depth, width),
        tensors=tuple(number[id(place.tensor)] for place in places),
        starts=tuple(place.start for place in places),
        q=_steps(places[0].seen, swaps_q),
        k=_steps(places[1].seen, swaps_k),
        v=_steps(places[2].seen, product.descriptor.transpose_b),
        y=_steps(y, False),
        chain=chain_of(view.part(scores.chain).layers, scores.operands) if scores.chain else None,
        steps=tuple(_four(broadcast(slot.known_info.sizes, (*batch, rows, keys))) for slot in scores.operands[1:]),
        beta=softmax.descriptor.beta,
    )
    apart = {layer for one in products.values() for layer in one.members}
    stands_for = view.part(members - apart).sources
    last = fused.add(made, *sources.values(), *found[len(wanted) :], name=product.name, sources_of=stands_for)
    fused.output(last.output, "out")
    views.substitute(part, fused)
    return members


def _products(
    seen: Sequence[Strided], chains: Mapping[Layer, list[Layer]], members: set[Layer], view: SubgraphView
) -> dict[OutputSlot, Product]:
    """Return of what is seen the products that share their left side with another one.

    Args:
        seen: Views of tensors.
        chains: Layers of elements, and the chain of each, the last layer first.
        members: Layers that may read them.
        view: In which their layers must be.
    """
    found: dict[OutputSlot, Product] = {}
    for one in seen:
        product = product_of(one.slot, chains, lambda layer: layer in view)
        if product is None or not _readers(one.slot) <= members:
            continue
        columns = product.weights.shape[1]
        if all(within(other, columns, columns) is not None for other in seen if other.slot is one.slot):
            found[one.slot] = product
    shared = Counter(one.x for one in found.values())
    return {slot: one for slot, one in found.items() if shared[one.x] > 1}


def _places(
    network: Network,
    given: Mapping[OutputSlot, Any],
    seen: Sequence[Strided],
    products: Mapping[OutputSlot, Product],
) -> list[_Place]:
    """Add merged products to a network; returns where there what is seen lies."""
    merged_at: dict[OutputSlot, tuple[OutputSlot, int]] = {}
    for x in dict.fromkeys(product.x for product in products.values()):
        own = {slot: product for slot, product in products.items() if product.x is x}
        made, start = merged(network, given[x], list(own.values())).output, 0
        for slot, product in own.items():
            merged_at[slot] = made, start
            start += product.weights.shape[1]
    places = []
    for one in seen:
        if one.slot not in merged_at:
            places.append(_Place(given[one.slot], 0, one))
            continue
        made, start = merged_at[one.slot]
        wider = within(one, one.slot.known_info.sizes[-1], made.known_info.sizes[-1])
        assert wider is not None
        places.append(_Place(made, start, wider))
    return places


def _seen(slot: OutputSlot, view: SubgraphView) -> Strided:
    return seen_through(slot, lambda layer: layer in view)


def _steps(seen: Strided, swaps: bool) -> tuple[int, int, int, int]:
    """Return elements between batches, heads, rows and elements."""
    *outer, row, element = (0 if size == 1 else stride for size, stride in zip(seen.sizes, seen.strides, strict=True))
    return _four((*outer, *((element, row) if swaps else (row, element))))


def _four(steps: Sequence[int]) -> tuple[int, int, int, int]:
    batch, head, row, element = (0,) * (4 - len(steps)) + tuple(steps)
    return batch, head, row, element


def _joined(network: Network, part: SubgraphView, slots: Sequence[OutputSlot]) -> list[OutputSlot | npt.NDArray[Any]]:
    """Add inputs for a part to a network that replaces it; returns what some slots are there."""
    fed = {slot: network.add(Input(info=slot.known_info), name=f"in {at}").output for at, slot in enumerate(part.inputs)}
    return [fed[slot] if slot in fed else _value(slot.layer) for slot in slots]


def _value(layer: Layer) -> npt.NDArray[Any]:
    assert isinstance(layer.descriptor, Constant)
    return layer.descriptor.value
