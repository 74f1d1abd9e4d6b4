"""Chains: elementwise layers of one shape, computed in one pass over memory."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy.typing as npt

from dovetail import DType, Layer, Network, OptimizationViews, PrivateLayer, SubgraphView
from dovetail.graph.descriptor import Constant, Input, descriptor_class
from dovetail.graph.layer import OutputSlot

from ..elementwise import argument, function_of, input_info, overwritten
from ..elementwise.chains import Statement, chain
from ..families import family_name
from ..kernels import Kernels, Work

MAX_OPERANDS = 8
MAX_LAYERS = 32
"""Of one chain: its program is compiled when it is first met."""


@descriptor_class
class Chain(PrivateLayer, kind="GpuAcc.Chain"):
    """Some functions of elements, each of operands and of what came before.

    Attributes:
        functions: Parameters and expression of each, in OpenCL C.
        arguments: What each is applied to: the number of an operand, or -1 - the number of a
            function.
        dtypes: Of each result.
        words: What it is, for people.
    """

    input_names: ClassVar[tuple[str, ...]] = ("operands",)
    functions: tuple[tuple[str, str], ...]
    arguments: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    words: str

    def in_words(self) -> str:
        return self.words


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
        if len(group) > 1:
            _replace(view, views, group[::-1])
            replaced.update(group)
    return replaced


def _fits(layer: Layer, group: list[Layer]) -> bool:
    if layer.kind == "dovetail.Cast" and layer.output.known_info.dtype is DType.FLOAT16:
        return False  # within a chain nothing is rounded
    same = layer.output.known_info.sizes == group[0].output.known_info.sizes
    return same and len(group) < MAX_LAYERS and len(_operands([*group, layer])) <= MAX_OPERANDS


def _operands(group: list[Layer]) -> list[OutputSlot]:
    """List what a group reads from outside, constants too."""
    made = {layer.output for layer in group}
    return list(
        dict.fromkeys(s.source for layer in group for s in layer.inputs if s.source is not None and s.source not in made)
    )


def _replace(view: SubgraphView, views: OptimizationViews, group: list[Layer]) -> None:
    part = view.part(group)
    operands = _operands(list(part.layers))
    number = {slot: at for at, slot in enumerate(operands)}
    functions, arguments, dtypes, words = [], [], [], []
    for at, layer in enumerate(part.layers):
        text, parameters = function_of(layer)
        functions.append((parameters, text))
        arguments.append(tuple(number[slot.source] for slot in layer.inputs if slot.source is not None))
        dtypes.append(str(layer.output.known_info.dtype))
        words.append(_word(layer))
        number[layer.output] = -1 - at
    fused = Network("chain")
    fed = {slot: fused.add(Input(info=slot.known_info), name=f"in {at}").output for at, slot in enumerate(part.inputs)}
    sources = [fed[slot] if slot in fed else _value(slot.layer) for slot in operands]
    last = part.layers[-1]
    made = Chain(
        infos=(last.output.known_info,),
        functions=tuple(functions),
        arguments=tuple(arguments),
        dtypes=tuple(dtypes),
        words=" + ".join(words),
    )
    fused.output(fused.add(made, *sources, name=last.name, sources_of=part.sources).output, "out")
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


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a chain."""
    made = layer.descriptor
    assert isinstance(made, Chain)
    info = layer.output.known_info
    operands = [(argument(layer, index), input_info(layer, index)) for index in range(len(layer.inputs))]
    statements = [
        Statement(text, parameters, numbers, DType.of(dtype))
        for (parameters, text), numbers, dtype in zip(made.functions, made.arguments, made.dtypes, strict=True)
    ]
    return Work((chain(kernels, statements, operands, info),), aliases=overwritten(layer))
