"""Find attention that a model spells out.

It is projections cut into heads, two products, a softmax, and the heads side by side again.
"""

from __future__ import annotations

from dovetail import DType, Layer, SubgraphView
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot
from dovetail.ground.records import NamedTuple
from dovetail.layers import BinaryOperation, MatMul, Permute, Reshape, Softmax

from ..fusion.patterns import is_binary, operands, scalar
from ..geometry.layouts import plain_info
from .kinds import Attention


class AttentionMatch(NamedTuple):
    """What one attention layer does.

    The match is convex: nobody outside reads what its layers compute but for `output`, on which
    none of them depends.

    Attributes:
        layers: All layers that it stands for, the one that computes `output` last.
        q, k, v: What is cut into heads: [batch, queries or keys, heads * size].
        mask: What is added to the scaled scores, of rank 4, or None.
        heads: Number of heads.
        size: Elements of a query and of a key of one head.
        scale: What the scores are multiplied by.
        output: [batch, queries, heads * size of a value].
    """

    layers: tuple[Layer, ...]
    q: OutputSlot
    k: OutputSlot
    v: OutputSlot
    mask: OutputSlot | None
    heads: int
    size: int
    scale: float
    output: OutputSlot


class _Heads(NamedTuple):
    """Operand that was cut into heads: [batch, heads, tokens, size].

    Its last two axes may be swapped.
    """

    source: OutputSlot
    sizes: tuple[int, ...]
    swapped: bool
    layers: tuple[Layer, ...]


class _Scores(NamedTuple):
    """What a softmax is taken of."""

    product: Layer
    scale: float
    mask: OutputSlot | None
    layers: tuple[Layer, ...]


def find_attention(view: SubgraphView) -> list[AttentionMatch]:
    """Find all attention in a part of a graph; any deviation from the pattern is left alone."""
    found = (_match(layer, view) for layer in view.layers if isinstance(layer.descriptor, Softmax))
    return [match for match in found if match is not None]


def emit_attention(
    graph: Graph, match: AttentionMatch, q: OutputSlot, k: OutputSlot, v: OutputSlot, mask: OutputSlot | None
) -> OutputSlot:
    """Add a match's layer to a replacement; the slots are those of the match in that graph."""
    descriptor = Attention(infos=(plain_info(match.output.known_info.sizes),), heads=match.heads, scale=match.scale)
    inputs = [q, k, v] if mask is None else [q, k, v, mask]
    sources = [layer.name for layer in match.layers]
    return graph.add(descriptor, *inputs, name=match.layers[-1].name, sources_of=sources).output


def _match(softmax: Layer, view: SubgraphView) -> AttentionMatch | None:
    scores = _scores(softmax)
    joined = _joined(softmax)
    if scores is None or joined is None:
        return None
    weighing, *_, last = joined
    q, k = (_heads(slot) for slot in operands(scores.product))
    v = _heads(weighing.inputs[1].source)
    if q is None or k is None or v is None:
        return None
    # Keys come transposed, by their permutation or by the product; nothing else does.
    if q.swapped or k.swapped is _transposes_b(scores.product) or v.swapped is not _transposes_b(weighing):
        return None
    batch, queries, heads, size = q.sizes
    keys, value_size = k.sizes[1], v.sizes[3]
    if k.sizes != (batch, keys, heads, size) or v.sizes != (batch, keys, heads, value_size):
        return None
    if last.output.known_info.sizes != (batch, queries, heads * value_size):
        return None
    full = (batch, heads, queries, keys)
    if scores.mask is not None and not _broadcasts(scores.mask, full):
        return None
    layers = tuple(dict.fromkeys((*q.layers, *k.layers, *v.layers, *scores.layers, softmax, *joined)))
    if any(layer not in view for layer in layers) or not _closed(layers):
        return None
    outer = [q.source, k.source, v.source, *([] if scores.mask is None else [scores.mask])]
    if any(slot.layer in layers for slot in outer) or not all(_is_float(slot) for slot in (*outer, last.output)):
        return None
    return AttentionMatch(layers, q.source, k.source, v.source, scores.mask, heads, size, scores.scale, last.output)


def _scores(softmax: Layer) -> _Scores | None:
    """Walk from a softmax along the last of four axes back to the product.

    An addition and a factor may lie between.
    """
    descriptor, slot = softmax.descriptor, softmax.inputs[0].source
    if not isinstance(descriptor, Softmax) or slot is None or slot.known_info.rank != 4:
        return None
    if descriptor.axis not in (-1, 3) or descriptor.beta != 1.0 or descriptor.log:
        return None
    if not is_binary(slot.layer, BinaryOperation.ADD):
        return _scaled(slot, None, ())
    for scores, mask in (operands(slot.layer), operands(slot.layer)[::-1]):
        if scores is not None and scores is not mask and scores.known_info.sizes == slot.known_info.sizes:
            found = _scaled(scores, mask, (slot.layer,))
            if found is not None:
                return found
    return None


def _scaled(slot: OutputSlot, mask: OutputSlot | None, layers: tuple[Layer, ...]) -> _Scores | None:
    product: OutputSlot | None = slot
    scale, sizes = 1.0, slot.known_info.sizes
    if is_binary(slot.layer, BinaryOperation.DIV):
        product, divisor = slot.layer.inputs[0].source, scalar(slot.layer.inputs[1].source)
        scale = 1.0 / divisor if divisor else 0.0
        layers = (slot.layer, *layers)
    elif is_binary(slot.layer, BinaryOperation.MUL):
        factors = [(x, scalar(constant)) for x, constant in (operands(slot.layer), operands(slot.layer)[::-1])]
        product, scale = next(((x, factor) for x, factor in factors if factor is not None), (None, 0.0))
        layers = (slot.layer, *layers)
    if product is None or scale == 0.0 or product.known_info.sizes != sizes:
        return None
    descriptor = product.layer.descriptor
    if not isinstance(descriptor, MatMul) or descriptor.transpose_a:
        return None
    return _Scores(product.layer, scale, mask, (product.layer, *layers))


def _joined(softmax: Layer) -> list[Layer] | None:
    """Walk from a softmax to the joined heads: product with the values, permutation, reshape."""
    layers: list[Layer] = []
    slot = softmax.output
    for kind in (MatMul, Permute, Reshape):
        follower = slot.consumers[0].layer if len(slot.consumers) == 1 else None
        if follower is None or not isinstance(follower.descriptor, kind) or follower.inputs[0].source is not slot:
            return None
        layers.append(follower)
        slot = follower.output
    product, permute = layers[0].descriptor, layers[1].descriptor
    if not isinstance(product, MatMul) or product.transpose_a or layers[0].output.known_info.rank != 4:
        return None
    if not isinstance(permute, Permute) or permute.order(4) != (0, 2, 1, 3):
        return None
    return layers


def _heads(slot: OutputSlot | None) -> _Heads | None:
    """Walk from an operand of a product to the reshape that cuts it into heads.

    Permutations may lie between; the reshape cuts [batch, tokens, all].
    """
    layers: list[Layer] = []
    order: tuple[int, ...] = (0, 1, 2, 3)
    while slot is not None and isinstance(slot.layer.descriptor, Permute) and slot.known_info.rank == 4:
        first = slot.layer.descriptor.order(4)
        order = tuple(first[axis] for axis in order)
        layers.insert(0, slot.layer)
        slot = slot.layer.inputs[0].source
    if slot is None or not isinstance(slot.layer.descriptor, Reshape) or order not in ((0, 2, 1, 3), (0, 2, 3, 1)):
        return None
    source, sizes = slot.layer.inputs[0].source, slot.known_info.sizes
    if source is None or len(sizes) != 4 or source.known_info.sizes != (*sizes[:2], sizes[2] * sizes[3]):
        return None
    return _Heads(source, sizes, order == (0, 2, 3, 1), (slot.layer, *layers))


def _transposes_b(layer: Layer) -> bool:
    return isinstance(layer.descriptor, MatMul) and layer.descriptor.transpose_b


def _broadcasts(mask: OutputSlot, full: tuple[int, ...]) -> bool:
    sizes = mask.known_info.sizes
    return len(sizes) == 4 and all(size in (1, whole) for size, whole in zip(sizes, full, strict=True))


def _closed(layers: tuple[Layer, ...]) -> bool:
    """True if nobody but the layers themselves reads what all but the last compute."""
    return all(consumer.layer in layers for layer in layers[:-1] for slot in layer.outputs for consumer in slot.consumers)


def _is_float(slot: OutputSlot) -> bool:
    info = slot.known_info
    return info.dtype is DType.FLOAT32 and info.quantization is None
