"""Where names of tensors are looked up: the graph, a branch in it, the body of a function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from dovetail.graph.layer import OutputSlot
from dovetail.ground.limits import budget
from dovetail.ground.records import Record, field

from .messages import AttributeProto, GraphProto, OperatorSetIdProto, SparseTensorProto, TensorProto
from .tensors import Bytes

_LONGEST_NAME = 512
"""Characters of a layer's name.

Names of functions inside functions would repeat any longer name, node by node.
"""


class Missing:
    """Stands for a tensor without a supported producer: parsing goes on and finds the rest."""


MISSING = Missing()
Found: TypeAlias = OutputSlot | Missing | None
"""A slot, `MISSING`, or None for an optional input left out."""
Initializer: TypeAlias = TensorProto | SparseTensorProto


class Scope(Record, frozen=True):
    """One level of names.

    Attributes:
        opsets: Version of each domain's operator set.
        parent: The graph around a branch; None around a function, which sees nothing outside.
        bound: Attributes that a function was called with.
        prefix: Put before the names of layers.
        depth: How many levels lie around it.
        initializers: Constants by name; one becomes a layer when it is first read.
        cut: Bytes of initializers that were taken apart from their messages, by name.
        values: Slots by name.
    """

    opsets: Mapping[str, int]
    parent: Scope | None = None
    bound: dict[str, AttributeProto] | None = None
    prefix: str = ""
    depth: int = 0
    initializers: dict[str, Initializer] = field(default_factory=dict)
    cut: dict[str, Bytes] = field(default_factory=dict)
    values: dict[str, Found] = field(default_factory=dict)

    def branch(self, label: str, graph: GraphProto) -> Scope:
        """Return the scope of a branch of a node: it sees what is around it."""
        scope = Scope(self.opsets, self, self.bound, f"{label}/", self._deeper(label))
        scope.bind_initializers(graph)
        return scope

    def call(self, label: str, opsets: Mapping[str, int], bound: dict[str, AttributeProto]) -> Scope:
        """Return the scope of a function that a node calls: it sees its inputs alone."""
        return Scope(opsets, None, bound, f"{label}/", self._deeper(label))

    def bind_initializers(self, graph: GraphProto, cut: Mapping[int, Bytes] | None = None) -> None:
        """Bind the initializers of a graph, by name, with the bytes that were cut out of them.

        `cut` has these by the place of their initializer.
        """
        for place, tensor in enumerate(graph.initializer):
            self.initializers[tensor.name] = tensor
            self.cut.pop(tensor.name, None)  # of two that have one name the last counts
            if cut and place in cut:
                self.cut[tensor.name] = cut[place]
        for sparse in graph.sparse_initializer:
            self.initializers[sparse.values.name] = sparse

    def named(self, name: str) -> str:
        """Return a layer's name in this scope; a very long one is cut and gets a digest."""
        label = self.prefix + name
        if len(label) <= _LONGEST_NAME:
            return label
        from hashlib import blake2b  # which loads OpenSSL; hardly any model has such names

        digest = blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        return f"{label[: _LONGEST_NAME - len(digest) - 3]}...{digest}"

    def _deeper(self, label: str) -> int:
        budget().check_nesting(self.depth + 1, f"node {label!r}")
        return self.depth + 1


def plain_domain(name: str) -> str:
    """Return the name of a domain; the default one has two."""
    return "" if name == "ai.onnx" else name


def imported(entries: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """Return the version of each domain's operator set."""
    return {plain_domain(entry.domain): entry.version for entry in entries}
