"""What a kind raises while it infers, resolves or evaluates, as an error of ours.

It names the layer and keeps the cause.

Kinds are the core's own and those of vendors. The core's refuse what does not fit by themselves;
for a vendor's, and for what nobody thought of, whatever else they raise becomes a typed error here.
"""

from __future__ import annotations

from typing import NoReturn

from ..ground.errors import DovetailError, ErrorCode, GraphError
from ..ground.foreign_text import described
from ..ground.host_exceptions import is_of_host
from .layer import Layer


def raise_named(error: Exception, layer: Layer, method: str) -> NoReturn:
    """Raise what a kind raised again, with the layer before its message.

    Args:
        error: What it raised.
        layer: Whose kind.
        method: Which method.

    Raises:
        DovetailError: What it raised, if it is one of ours.
        GraphError: For anything else (`GRAPH_INVALID`, or `OUT_OF_MEMORY`), but what the host
            raised.
    """
    origin = f"layer {layer.name!r} ({layer.kind})"
    if isinstance(error, DovetailError):
        error.message = f"{origin}: {error.message}"
        error.args = (error.message,)
        error.details.setdefault("layer", layer.name)
        raise error
    if is_of_host(error):
        raise error
    if isinstance(error, MemoryError):
        raise GraphError(
            f"{origin}: {method}() ran out of memory: {described(error)}",
            code=ErrorCode.OUT_OF_MEMORY,
            hint="free memory, or check the sizes in the model",
            layer=layer.name,
        ) from error
    raise GraphError(
        f"{origin}: {method}() raised {described(error)}",
        hint="the attributes or inputs are none that the kind can have, and it should have said so: tell whoever made it",
        layer=layer.name,
    ) from error
