"""What is known about a slot before sizes are fixed: element type always, rank and value where they follow.

While a dimension is symbolic a slot has no info, yet a translation may depend on the element type (to make a constant of it) or
on the rank (to place an axis). Both follow from the kinds that lead to the slot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from dovetail import Constant, DType, Layer, TensorInfo
from dovetail.graph.descriptor import Input, Values, evaluated
from dovetail.graph.layer import OutputSlot
from dovetail.ground.host_exceptions import is_of_host
from dovetail.layers import (
    Activation,
    ArgMinMax,
    BatchNormalization,
    BroadcastTo,
    Cast,
    Comparison,
    Concat,
    Conditional,
    Convolution2d,
    CumulativeSum,
    DepthToSpace,
    DepthwiseConvolution2d,
    Dequantize,
    ElementwiseBinary,
    ElementwiseUnary,
    ExpandDims,
    Fill,
    Flatten,
    FullyConnected,
    Gather,
    GlobalPooling,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    LocalResponseNormalization,
    LpNormalization,
    MatMul,
    OneHot,
    Pad,
    Permute,
    Pooling2d,
    Prelu,
    Quantize,
    Range,
    Reduce,
    Reshape,
    Resize,
    ScatterElements,
    ScatterNd,
    Shape,
    Softmax,
    SpaceToDepth,
    Split,
    Squeeze,
    StridedSlice,
    Tile,
    TopK,
    TransposeConvolution2d,
    Trilu,
    UnaryOperation,
    Where,
)

from .making import Making

_TESTS = {UnaryOperation.IS_NAN, UnaryOperation.IS_INF, UnaryOperation.IS_POSITIVE_INF, UnaryOperation.IS_NEGATIVE_INF}
_FOLD_LIMIT = 1 << 20
"""Most elements of a value that is worked out while parsing; larger ones are the optimizer's business."""
_KEPT_LIMIT = 1 << 22
"""Most elements of all such values together: each is remembered, and a file of some bytes may ask for any number of them."""
_SHAPE_LIKE = 64
"""Elements that a shape, a list of axes or a scale may have; these are worked out in any case."""


class Knowledge:
    """Answers about slots, remembered, so that a chain is walked once.

    Attributes:
        making: Counts what is made up for the model.
    """

    def __init__(self) -> None:
        self.making = Making()
        self._dtypes: dict[OutputSlot, DType] = {}
        self._ranks: dict[OutputSlot, int | None] = {}
        self._lengths: dict[OutputSlot, int | None] = {}
        self._values: dict[OutputSlot, tuple[TensorInfo, npt.NDArray[Any]] | None] = {}
        self._kept = 0

    def declare_rank(self, slot: OutputSlot, rank: int) -> None:
        """Note a rank that the model states, where it does not follow from the layers."""
        if self._ranks.get(slot) is None:
            self._ranks[slot] = rank

    def dtype(self, slot: OutputSlot) -> DType:
        """Return the element type."""
        if slot.info is not None:
            return slot.info.dtype
        for pending in _upstream(slot, self._dtypes):
            self._dtypes[pending] = self._find_dtype(pending)
        return self._dtypes[slot]

    def rank(self, slot: OutputSlot) -> int | None:
        """Return the rank, or None."""
        if slot.info is not None:
            return slot.info.rank
        for pending in _upstream(slot, self._ranks):
            self._ranks[pending] = self._find_rank(pending)
        return self._ranks[slot]

    def size(self, slot: OutputSlot, axis: int) -> int | None:
        """Return the size of one axis, or None."""
        info = slot.info
        if info is None or not -info.rank <= axis < info.rank:
            return None
        size = info.shape[axis]
        return size if isinstance(size, int) else None

    def value(self, slot: OutputSlot) -> npt.NDArray[Any] | None:
        """Return the value if constants alone lead to it, or None; bfloat16 shows as its bits."""
        if isinstance(slot.layer.descriptor, Constant):
            return slot.layer.descriptor.value
        for pending in _upstream(slot, self._values):
            self._values[pending] = self._find_value(pending)
        known = self._values[slot]
        return None if known is None else known[1]

    def _find_dtype(self, slot: OutputSlot) -> DType:
        if slot.info is not None:
            return slot.info.dtype
        layer = slot.layer
        match layer.descriptor:
            case Cast() | Quantize() | Dequantize() | Fill() | ArgMinMax() as typed:
                return typed.dtype
            case Comparison():
                return DType.BOOL
            case ElementwiseUnary(operation=operation) if operation in _TESTS:
                return DType.BOOL
            case Shape():
                return DType.INT64
            case TopK() if slot.index == 1:
                return DType.INT64
            case Where() | OneHot() | Conditional():
                return self._dtypes[_source(layer, 1)]
        return self._dtypes[_source(layer, 0)]

    def _find_rank(self, slot: OutputSlot) -> int | None:
        if slot.info is not None:
            return slot.info.rank
        for kinds, rule in _RANK_RULES:
            if isinstance(slot.layer.descriptor, kinds):
                return rule(self, slot.layer)
        return None

    def source_rank(self, layer: Layer, index: int) -> int | None:
        """Return the rank of what a layer reads at `index`."""
        return self._ranks.get(_source(layer, index))

    def source_length(self, layer: Layer, index: int) -> int | None:
        """Return the number of elements of a vector that a layer reads at `index`: a target shape, axes."""
        slot = _source(layer, index)
        for pending in _upstream(slot, self._lengths):
            self._lengths[pending] = self._find_length(pending)
        return self._lengths[slot]

    def _find_length(self, slot: OutputSlot) -> int | None:
        if slot.info is not None and slot.info.is_concrete:
            return slot.info.elements
        layer = slot.layer
        match layer.descriptor:
            case Shape(start=start, end=end):
                rank = self._ranks.get(_source(layer, 0))
                return None if rank is None else len(range(rank)[start:end])
            case Concat():
                lengths = [self._lengths[entry.source] for entry in layer.inputs if entry.source is not None]
                return None if None in lengths else sum(length for length in lengths if length is not None)
            case Cast() | ExpandDims() | Squeeze() | ElementwiseUnary():
                return self._lengths[_source(layer, 0)]
            case Gather():
                return self._lengths[_source(layer, 1)] if self._ranks.get(_source(layer, 0)) == 1 else None
        return None

    def _find_value(self, slot: OutputSlot) -> tuple[TensorInfo, npt.NDArray[Any]] | None:
        layer = slot.layer
        descriptor = layer.descriptor
        if isinstance(descriptor, Constant):
            return slot.known_info, descriptor.value
        if isinstance(descriptor, Input):
            return None
        known = [None if entry.source is None else self._values[entry.source] for entry in layer.inputs]
        infos = [entry.info if fact is None else fact[0] for entry, fact in zip(layer.inputs, known, strict=True)]
        values: Values = [None if fact is None else fact[1] for fact in known]
        unknown = any(entry.source is not None and info is None for entry, info in zip(layer.inputs, infos, strict=True))
        if unknown or any(info is not None and not info.is_concrete for info in infos):
            return None
        lacking = any(value is None and entry.source is not None for value, entry in zip(values, layer.inputs, strict=True))
        if lacking and not isinstance(descriptor, Shape):
            return None
        try:
            resolved = descriptor.resolve(infos, values)
            inferred = resolved.infer(infos)
            info = inferred[slot.index]
            for one in inferred:
                one.check()
            if info.elements > min(_FOLD_LIMIT, max(_KEPT_LIMIT - self._kept, _SHAPE_LIKE)):
                return None
            arrays = evaluated(resolved, infos, values, inferred)
            self._kept += info.elements
        except Exception as error:
            if is_of_host(error):
                raise
            return None  # What is wrong shows, with its layer, where the graph itself infers.
        return None if arrays is None else (info, arrays[slot.index])


def _source(layer: Layer, index: int) -> OutputSlot:
    source = layer.inputs[index].source
    assert source is not None, f"{layer!r} has lost its input {index}"
    return source


def _upstream(slot: OutputSlot, known: dict[OutputSlot, Any]) -> list[OutputSlot]:
    """List what is not known yet, producers first; without recursion, since a network may be a thousand layers deep."""
    order: list[OutputSlot] = []
    stack = [(slot, False)]
    seen: set[OutputSlot] = set()
    while stack:
        current, ready = stack.pop()
        if ready:
            order.append(current)
        elif current not in known and current not in seen:
            seen.add(current)
            stack.append((current, True))
            stack.extend((entry.source, False) for entry in current.layer.inputs if entry.source is not None)
    return order


def _same(knowledge: Knowledge, layer: Layer) -> int | None:
    return knowledge.source_rank(layer, 0)


def _widest(knowledge: Knowledge, layer: Layer) -> int | None:
    ranks = [knowledge.source_rank(layer, i) for i in range(len(layer.inputs))]
    return None if None in ranks else max(rank for rank in ranks if rank is not None)


def _alike(knowledge: Knowledge, layer: Layer) -> int | None:
    ranks = {knowledge.source_rank(layer, 1), knowledge.source_rank(layer, 2)}
    return ranks.pop() if len(ranks) == 1 else None


def _reshape(knowledge: Knowledge, layer: Layer) -> int | None:
    shape = getattr(layer.descriptor, "shape", None)
    return len(shape) if shape is not None else knowledge.source_length(layer, 1)


def _broadcast_to(knowledge: Knowledge, layer: Layer) -> int | None:
    target, own = _reshape(knowledge, layer), knowledge.source_rank(layer, 0)
    return None if target is None or own is None else max(target, own)


def _axes_count(knowledge: Knowledge, layer: Layer) -> int | None:
    axes = getattr(layer.descriptor, "axes", None)
    if axes is not None:
        return len(axes)
    return knowledge.source_length(layer, 1) if len(layer.inputs) > 1 else None


def _expand_dims(knowledge: Knowledge, layer: Layer) -> int | None:
    own, count = knowledge.source_rank(layer, 0), _axes_count(knowledge, layer)
    return None if own is None or count is None else own + count


def _squeeze(knowledge: Knowledge, layer: Layer) -> int | None:
    own, count = knowledge.source_rank(layer, 0), _axes_count(knowledge, layer)
    return None if own is None or count is None else own - count


def _reduce(knowledge: Knowledge, layer: Layer) -> int | None:
    if getattr(layer.descriptor, "keep_dims", False):
        return knowledge.source_rank(layer, 0)
    if isinstance(layer.descriptor, Reduce) and layer.descriptor.axes is None and len(layer.inputs) == 1:
        return 0
    return _squeeze(knowledge, layer)


def _arg_min_max(knowledge: Knowledge, layer: Layer) -> int | None:
    own = knowledge.source_rank(layer, 0)
    return own if own is None or getattr(layer.descriptor, "keep_dims", False) else own - 1


def _gather(knowledge: Knowledge, layer: Layer) -> int | None:
    own, indices = knowledge.source_rank(layer, 0), knowledge.source_rank(layer, 1)
    return None if own is None or indices is None else own + indices - 1


def _matmul(knowledge: Knowledge, layer: Layer) -> int | None:
    a, b = knowledge.source_rank(layer, 0), knowledge.source_rank(layer, 1)
    return None if a is None or b is None else max(a, b, 2) - (a == 1) - (b == 1)


def _one_more(knowledge: Knowledge, layer: Layer) -> int | None:
    own = knowledge.source_rank(layer, 0)
    return None if own is None else own + 1


_Rule = Callable[[Knowledge, Layer], int | None]
_RANK_RULES: tuple[tuple[tuple[type, ...], _Rule], ...] = (
    ((Reshape,), _reshape),
    ((BroadcastTo,), _broadcast_to),
    ((ExpandDims,), _expand_dims),
    ((Squeeze,), _squeeze),
    ((Reduce,), _reduce),
    ((ArgMinMax,), _arg_min_max),
    ((Gather,), _gather),
    ((MatMul,), _matmul),
    ((OneHot,), _one_more),
    ((Shape, Range), lambda knowledge, layer: 1),
    ((Flatten,), lambda knowledge, layer: 2),
    ((Fill,), lambda knowledge, layer: knowledge.source_length(layer, 0) if layer.inputs else None),
    ((ElementwiseBinary, Comparison, Where), _widest),
    ((Conditional,), _alike),
    ((Convolution2d, DepthwiseConvolution2d, TransposeConvolution2d, Pooling2d), lambda knowledge, layer: 4),
    ((DepthToSpace, SpaceToDepth), lambda knowledge, layer: 4),
    ((Cast, Concat, CumulativeSum, Dequantize, ElementwiseUnary, FullyConnected), _same),
    ((GlobalPooling, Permute, Quantize, Resize), _same),
    ((Activation, Pad, Prelu, ScatterElements, ScatterNd, Softmax, Split, StridedSlice, Tile, TopK, Trilu), _same),
    ((BatchNormalization, GroupNormalization, InstanceNormalization, LayerNormalization), _same),
    ((LocalResponseNormalization, LpNormalization), _same),
)
