"""The private layer that stands for a part of a graph that a table claimed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..contract.private_layer import PrivateLayer
from ..contract.subgraph import SubgraphView
from ..graph.descriptor import descriptor_class


@descriptor_class
class CompiledPart(PrivateLayer):
    """A part that a table claimed; each backend has a subclass with a kind of its own.

    It is compiled when the first workload of it is made.

    Attributes:
        shown: What the table is shown of it, constants included; None once that was released.
        digests: What an artefact of it is known by, of its layers and constants; None where none is
            kept.
        text: What it is, in the table's words.
        compiled: The handle, once it was compiled; dropped with the last plan that uses it.
        threads: The limit of threads that it was compiled for.
    """

    shown: Any
    digests: tuple[str, str] | None
    text: str
    compiled: Any = None
    threads: int = 0

    def in_words(self) -> str:
        return self.text

    def keep(self, compiled: Any, threads: int) -> None:
        """Keep what was compiled, for the other plans and loads of the same optimized network."""
        object.__setattr__(self, "compiled", compiled)
        object.__setattr__(self, "threads", threads)

    def compiled_for(self, threads: int) -> Any:
        """Return what was compiled for this limit of threads, or None."""
        return self.compiled if threads == self.threads else None

    def release(self) -> None:
        """Hold neither constants nor what was compiled any longer."""
        object.__setattr__(self, "shown", None)
        object.__setattr__(self, "compiled", None)


def compiled_kind(id: str) -> type[CompiledPart]:
    """Return the class of the private layers of one backend."""
    return descriptor_class(type("Compiled", (CompiledPart,), {"__annotations__": {}}, kind=f"{id}.Compiled"))


def words_for(part: SubgraphView) -> str:
    """Say what a part is by the kinds of its layers, for a table that has no words of its own."""
    counts = Counter(layer.kind.removeprefix("dovetail.") for layer in part.layers)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    return f"{len(part)} layers in one: {kinds}" if len(part) > 1 else next(iter(counts))
