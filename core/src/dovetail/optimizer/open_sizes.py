"""What a network leaves for each run to bring."""

from __future__ import annotations

from ..ground.errors import GraphError
from ..ground.records import NamedTuple


class OpenSizes(NamedTuple):
    """Why a network cannot be planned yet: its sizes are open.

    Attributes:
        symbols: Symbolic dimensions of the inputs that have no size.
        inputs: Graph inputs whose value decides a shape; empty where symbols have no size.
        error: What `optimize` raises for it.
    """

    symbols: tuple[str, ...]
    inputs: tuple[str, ...]
    error: GraphError
