"""What a parser implements: who turns a model file, or a model in memory, into a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ..layers.network import Network


@runtime_checkable
class IParser(Protocol):
    """Turns a model file into a network.

    Found by entry point group ``dovetail.parsers``, named after the file suffix.
    """

    def parse(self, path: str) -> Network:
        """Read a model; never execute anything that stands in the file.

        A parser that sets `Network.files` promises that it keeps no reference to the network or its
        arrays, and makes an equal one of the same files: a load may then use the network up,
        weights included, and read it again should somebody ask.

        Raises:
            ModelError: The file is malformed or asks for what dovetail does not have.
        """
        ...


@runtime_checkable
class IContentParser(IParser, Protocol):
    """A parser that also reads models in memory, which have no suffix to find it by."""

    def takes(self, content: bytes | object) -> bool:
        """Tell whether something is a model of this format; look at it, and raise nothing.

        Args:
            content: The first 64 bytes of a file, or a model as a package for the format holds it.
        """
        ...

    def parse_content(self, content: bytes | bytearray | memoryview | object) -> Network:
        """Read what `takes` was asked about, whole; raises what `parse` raises."""
        ...
