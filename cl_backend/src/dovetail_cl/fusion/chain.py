"""Chains: elementwise layers of one shape, computed in one pass over memory."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dovetail import DType, Layer, Network, OptimizationViews, PrivateLayer, SubgraphView
from dovetail.graph.descriptor import Constant, Input, descriptor_class
from dovetail.graph.layer import OutputSlot

from ..driver.arguments import Launch, Output
from ..elementwise import argument, function_of, input_info
from ..elementwise.functions import SOURCE
from ..families import family_name
from ..kernels import TYPES, Alias, Kernels, Work
from ..walking import broadcast, merged

MAX_OPERANDS = 8
MAX_LAYERS = 32
"""Of one chain: its program is compiled when it is first met."""
_COMPUTED = {"half": "float"}
"""Types in which elements are computed with, where that is not the type in memory."""


@descriptor_class
class Chain(PrivateLayer, kind="GpuAcc.Chain"):
    """Some functions of elements, each of operands and of what came before.

    Attributes:
        functions: Parameters and expression of each, in OpenCL C.
        arguments: What each is applied to: the number of an operand, or -1 - the number of a
            function.
        types: In which each result is computed with.
        words: What it is, for people.
    """

    input_names: ClassVar[tuple[str, ...]] = ("operands",)
    functions: tuple[tuple[str, str], ...]
    arguments: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]
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
    functions, arguments, types, words = [], [], [], []
    for at, layer in enumerate(part.layers):
        text, parameters = function_of(layer)
        functions.append((parameters, text))
        arguments.append(tuple(number[slot.source] for slot in layer.inputs if slot.source is not None))
        kept = TYPES[layer.output.known_info.dtype]
        types.append(_COMPUTED.get(kept, kept))
        words.append(_word(layer))
        number[layer.output] = -1 - at
    fused = Network("chain")
    fed = {slot: fused.add(Input(info=slot.known_info), name=f"in {at}").output for at, slot in enumerate(part.inputs)}
    sources = [fed[slot] if slot in fed else _value(slot.layer) for slot in operands]
    last = part.layers[-1]
    chain = Chain(
        infos=(last.output.known_info,),
        functions=tuple(functions),
        arguments=tuple(arguments),
        types=tuple(types),
        words=" + ".join(words),
    )
    fused.output(fused.add(chain, *sources, name=last.name, sources_of=part.sources).output, "out")
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
    chain = layer.descriptor
    assert isinstance(chain, Chain)
    info = layer.output.known_info
    infos = [input_info(layer, index) for index in range(len(layer.inputs))]
    strides = [broadcast(one.sizes, info.sizes) for one in infos]
    axes = merged(info.sizes, strides)
    rank = 0 if all(len(axes) <= 1 and all(step == 1 for step in steps) for _, steps in axes) else len(axes)
    given = np.zeros((), [("size", np.uint32, rank + 1), ("stride", np.int32, (rank + 1, len(infos)))])
    for axis, (size, steps) in enumerate(axes[:rank]):
        given["size"][axis], given["stride"][axis] = size, steps
    elements = math.prod(info.sizes)
    items, group = kernels.each(elements)
    kernel = kernels.get(
        f"{SOURCE} fusion/chain.cl",
        "chain",
        RANK=rank,
        COUNT=len(infos),
        Y=TYPES[info.dtype],
        RESULT=f"t{len(chain.functions) - 1}",
        **{f"F{at}({parameters})": text for at, (parameters, text) in enumerate(chain.functions)},
        STATEMENTS=" ".join(_statement(chain, at) for at in range(len(chain.functions))),
        **{"OPERANDS(X)": " ".join(_operand(one.dtype, at) for at, one in enumerate(infos))},
    )
    arguments = (*(argument(layer, index) for index in range(len(infos))), Output(), given, np.uint32(elements))
    aliases = tuple(
        Alias("in place", 0, index)
        for index, one in enumerate(infos)
        if layer.constant(index) is None and (one.sizes, one.dtype) == (info.sizes, info.dtype)
    )
    return Work((Launch(kernel, arguments, items, group),), aliases=aliases)


def _operand(dtype: DType, at: int) -> str:
    kept = TYPES[dtype]
    return f"X({kept}, {_COMPUTED.get(kept, kept)}, x{at}, {at})"


def _statement(chain: Chain, at: int) -> str:
    values = ", ".join(f"value_x{number}" if number >= 0 else f"t{-1 - number}" for number in chain.arguments[at])
    return f"const {chain.types[at]} t{at} = F{at}({values});"
