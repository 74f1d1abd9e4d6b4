"""Where tensors are looked up: the model, or a subgraph that stands in the place of an operator."""

from __future__ import annotations

from typing import TypeAlias

from dovetail.graph.layer import OutputSlot
from dovetail.ground.limits import budget

from .flatbuffer import Table
from .malformed import malformed
from .tensors import Tensor
from .variables import Variable

_LONGEST_NAME = 512
"""Characters of a layer's name.

Names of subgraphs inside subgraphs would repeat any longer name, operator by operator.
"""


class Missing:
    """Stands for a tensor without a supported producer: parsing goes on and finds the rest."""


MISSING = Missing()
Found: TypeAlias = OutputSlot | Missing | Variable | None
"""A slot, `MISSING`, a resource, or None for an optional input left out."""


class Scope:
    """The tensors of one subgraph while it is translated.

    Args:
        index: Number of the subgraph.
        table: The subgraph.
        prefix: Put before the names of layers.
        around: Numbers of the subgraphs that it stands in, the outermost first.
    """

    def __init__(self, index: int, table: Table, prefix: str = "", around: tuple[int, ...] = ()) -> None:
        self.index = index
        self.table = table
        self.prefix = prefix
        self.around = around
        self.tensors = table.tables("tensors")
        self.values: dict[int, Found] = {}
        self.known: dict[int, Tensor] = {}

    def inner(self, index: int, table: Table, label: str, origin: str) -> Scope:
        """Return the scope of a subgraph that stands in the place of an operator.

        Args:
            index: Number of the subgraph.
            table: The subgraph.
            label: Name of the operator.
            origin: What the model is called.

        Raises:
            ModelError: It would stand in itself.
            LimitError: It would be nested deeper than the load may be.
        """
        around = (*self.around, self.index)
        if index in around:
            chain = " -> ".join(map(str, (*around, index)))
            raise malformed(f"{origin} has a subgraph that calls itself: {chain}", node=label)
        budget().check_nesting(len(around), f"operator {label!r}")
        return Scope(index, table, f"{label}/", around)

    def named(self, name: str) -> str:
        """Return a layer's name in this scope; a very long one is cut and gets a digest."""
        label = self.prefix + name
        if not self.prefix or len(label) <= _LONGEST_NAME:
            return label
        from hashlib import blake2b  # which loads OpenSSL; hardly any model has such names

        digest = blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        return f"{label[: _LONGEST_NAME - len(digest) - 3]}...{digest}"
