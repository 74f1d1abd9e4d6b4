"""Infer every shape, absorb value inputs into attributes, and fold what is constant."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from ...graph.descriptor import Array, Constant, Descriptor, Infos, Input, Output, evaluated
from ...graph.element_types import DType
from ...graph.graph import Graph
from ...graph.kind_errors import raise_named
from ...graph.late_array import LateArray
from ...graph.layer import Layer
from ...graph.tensor import TensorInfo
from ...ground.errors import DovetailError, ErrorCode, GraphError
from ...ground.limits import budget
from ...layers import Cast, Dequantize, Permute, Reshape
from ..folding import FoldingBudget
from ..rewriting import constants_read, drop_constants, drop_unread_constants, inputs_behind, value_required
from .base import Pass
from .fix_inputs import open_symbols

if TYPE_CHECKING:
    from ..constant_layers import ConstantLayers

_UNFOLDED = (Input, Constant)
_MOST_BITS = 16
"""Of integers that are computed with as what they stand for; wider ones are sizes and positions."""


class InferAndFold(Pass):
    """Walk layers in topological order: resolve, infer, replace what evaluates to constants.

    Args:
        keep_dequantize: Leave dequantized constants as they are, for the pass that makes integer
            layers.
        folding: How much it may add to the graph, shared by the passes over it; what would add more
            is left to the run.
        constants: Has layers of constants computed that the core cannot evaluate; None: nobody
            does.
        both: Infer both branches wherever they are alike, even where the value of an input is to
            decide.
        late: Leave weights in their files that are only given another float type, another order of
            axes or another shape: what they become is computed when somebody asks for it.

    Raises:
        GraphError: Infos do not fit; a shape depends on the value of a graph input
            (`VALUE_REQUIRED`, which inputs is in ``details["inputs"]``), on a symbol without a
            size, or on something else that only the run knows (`SHAPE_UNKNOWN`).
    """

    name: ClassVar[str] = "fold_constants"

    def __init__(
        self,
        *,
        keep_dequantize: bool = False,
        folding: FoldingBudget | None = None,
        constants: ConstantLayers | None = None,
        both: bool = False,
        late: bool = False,
    ) -> None:
        self.keep_dequantize = keep_dequantize
        self.constants = constants
        self.both = both
        self.late = late
        self.folding = FoldingBudget() if folding is None else folding

    def run(self, graph: Graph) -> int:
        unknown = open_symbols(graph)
        if unknown is not None:
            raise unknown
        self.folding.begin(graph)
        if any(layer.kind == "dovetail.Conditional" for layer in graph):
            from .branches import Branches

            changes = Branches(graph, self._advance, both=self.both).settle()
        else:
            changes, load = 0, budget()
            for layer in graph.topological_order():
                load.check_time()
                changes += self._advance(graph, layer)
        drop_unread_constants(graph)
        return changes

    def _advance(self, graph: Graph, layer: Layer) -> bool:
        """Do it for one layer; True if it is replaced by constants."""
        descriptor = layer.descriptor
        if isinstance(descriptor, Output):
            return False
        if isinstance(descriptor, Constant) and (not layer.outputs or layer.outputs[0].info is not None):
            return False
        if not graph.resolve(layer):
            raise _value_required(layer)
        self._infer(graph, layer)
        arrays: Sequence[Array | LateArray] | None = _late(layer) if self.late else None
        if arrays is None:
            arrays = self._evaluate(layer)
        if arrays is None:
            return False
        _replace_by_constants(graph, layer, arrays)
        return True

    def _infer(self, graph: Graph, layer: Layer) -> None:
        try:
            graph.infer(layer)
        except DovetailError as error:
            if error.code is not ErrorCode.VALUE_REQUIRED:
                raise
            for slot in layer.outputs:
                slot.info = None  # the kind knows its shape only from values: evaluation must tell
        else:
            for slot in layer.outputs:
                if not slot.known_info.is_concrete:
                    raise GraphError(
                        f"layer {layer.name!r} ({layer.kind}) inferred the symbolic shape {slot.known_info.shape_text}",
                        code=ErrorCode.SHAPE_UNKNOWN,
                        hint="infer must return sizes when its inputs have them",
                    )

    def _evaluate(self, layer: Layer) -> list[Array] | None:
        descriptor = layer.descriptor
        unknown = any(slot.info is None for slot in layer.outputs)
        folds = type(descriptor).evaluate is not Descriptor.evaluate and not isinstance(descriptor, _UNFOLDED)
        is_kept = self.keep_dequantize and descriptor.kind == "dovetail.Dequantize"
        folds = folds and not is_kept and _is_of_plain_numbers(layer)
        values = layer.constants_to_evaluate() if folds else []
        if folds and not unknown and not self.folding.allows(layer, values):
            folds = False
        arrays = None
        if folds:
            infos = [slot.info for slot in layer.outputs]
            try:
                arrays = evaluated(descriptor, layer.input_infos, values, infos)
            except Exception as error:
                raise_named(error, layer, "evaluate")
        if arrays is None and unknown:
            raise _value_required(layer)
        if arrays is None and self.constants is not None and not is_kept:
            values = constants_read(layer) or []
            arrays = self.constants.evaluate(layer, values) if values else None
        if arrays is None:
            return None
        self.folding.count(f"folding layer {layer.name!r} ({layer.kind})", arrays, values)
        return _checked(layer, arrays)


def _is_of_plain_numbers(layer: Layer) -> bool:
    """Tell whether a kind's own evaluation computes what the layer does.

    It takes integers for what they are. Where slots say what these stand for, that is right for a
    kind that only picks elements, and only if they stand for the same everywhere.
    """
    read = [info for info in layer.input_infos if info is not None and _may_stand_for_others(info)]
    made = [slot.info for slot in layer.outputs if slot.info is not None and _may_stand_for_others(slot.info)]
    meanings = {info.quantization for info in (*read, *made)}
    if not read or meanings == {None} or isinstance(layer.descriptor, Dequantize):
        return True
    return len(meanings) == 1 and layer.descriptor.selects_elements()


def _may_stand_for_others(info: TensorInfo) -> bool:
    return info.dtype.is_integer and info.dtype.bits <= _MOST_BITS


def _checked(layer: Layer, arrays: list[Array]) -> list[Array]:
    found = [TensorInfo.of_array(array) for array in arrays]
    wanted = [slot.info for slot in layer.outputs]
    fits = len(found) == len(wanted) and all(
        info is None or (info.shape == one.shape and info.dtype.numpy == one.dtype.numpy)
        for info, one in zip(wanted, found, strict=True)
    )
    if not fits:
        raise GraphError(
            f"layer {layer.name!r} ({layer.kind}) evaluates to {', '.join(map(str, found))}, "
            f"but infers {', '.join(map(str, wanted))}",
            hint="evaluate and infer of the kind must agree",
        )
    return arrays


def _late(layer: Layer) -> list[LateArray] | None:
    """Return what a layer of unread weights becomes, if it surely can be computed later."""
    descriptor = layer.descriptor
    if not isinstance(descriptor, Cast | Permute | Reshape) or layer.outputs[0].info is None:
        return None
    output = layer.output.known_info
    read = [slot.source.layer.descriptor for slot in layer.inputs if slot.source is not None]
    constants = [one for one in read if isinstance(one, Constant)]
    if len(constants) < len(layer.inputs) or constants[0].unread is None:
        return None
    infos = layer.input_infos
    dtypes = [info.dtype for info in (infos[0], output) if info is not None]
    if any(dtype is DType.BFLOAT16 or not dtype.is_float for dtype in dtypes) and isinstance(descriptor, Cast):
        return None
    return [LateArray(output.sizes, output.dtype, partial(_computed, descriptor, infos, constants, output))]


def _computed(descriptor: Descriptor, infos: Infos, constants: Sequence[Constant], output: TensorInfo) -> Array:
    found = evaluated(descriptor, infos, [constant.value for constant in constants], [output])
    assert found is not None  # of these kinds
    found[0].flags.writeable = False
    return found[0]


def _replace_by_constants(graph: Graph, layer: Layer, arrays: Sequence[Array | LateArray]) -> None:
    outputs = [(slot.name, slot.info) for slot in layer.outputs]
    read = dict.fromkeys(slot.source.layer for slot in layer.inputs if slot.source is not None)
    readers = [list(slot.consumers) for slot in layer.outputs]
    for consumer in (consumer for several in readers for consumer in several):
        graph.disconnect(consumer)
    graph.discard(layer)
    for (name, info), array, consumers in zip(outputs, arrays, readers, strict=True):
        if not consumers:
            continue
        dtype = DType.BFLOAT16 if info is not None and info.dtype is DType.BFLOAT16 else None
        quantization = None if info is None else info.quantization
        constant = graph.constant(array, name=name, dtype=dtype, quantization=quantization, copy=False)
        constant.layer.sources = layer.sources
        for consumer in consumers:
            graph.connect(constant, consumer)
    # Now, so that the next fold may have the memory.
    drop_constants(graph, [one for one in read if isinstance(one.descriptor, Constant)])


def _value_required(layer: Layer) -> GraphError:
    value_inputs = [i for i in layer.descriptor.value_inputs if i < len(layer.inputs)] or range(len(layer.inputs))
    pending = [layer.inputs[i] for i in value_inputs if layer.inputs[i].source is not None and layer.constant(i) is None]
    slots = [slot.source for slot in pending if slot.source is not None]
    inputs = inputs_behind(slots)
    names = ", ".join(slot.name for slot in pending)
    if inputs:
        text = (
            f"the shape that layer {layer.name!r} ({layer.kind}) produces depends on the value of its input {names}, "
            f"which depends on the graph input {', '.join(map(repr, inputs))}"
        )
        return value_required(text, inputs, layer)
    return GraphError(
        f"the shape that layer {layer.name!r} ({layer.kind}) produces depends on the value of its input {names}, computed by "
        f"{', '.join(f'{slot.layer.name!r} ({slot.layer.kind})' for slot in slots)}, which the core does not evaluate",
        code=ErrorCode.SHAPE_UNKNOWN,
        hint="replace it by a constant in the model",
        layer=layer.name,
    )
