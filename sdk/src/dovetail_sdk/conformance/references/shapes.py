"""Parameters that shape a tensor, one for each quantity that a manifest's claims may limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..cases import Parameters

SIZES: Mapping[str, Sequence[Any]] = {
    "rank": (4, 0, 1, 2, 3, 5, 6),
    "batch": (2, 1, 0),
    "height": (3, 1),
    "width": (4, 1),
    "channels": (5, 0, 1, 7, 8, 17),
    "elements": (None,),
}
"""Sizes of a tensor of rank 4; `elements` puts all on the last axis.

Other ranks keep its last axes or have more before them."""


def shape_of(parameters: Parameters) -> tuple[int, ...] | None:
    """Return the shape that the parameters of `SIZES` name; None if there is none such."""
    rank, elements = parameters["rank"], parameters["elements"]
    if elements is not None:
        if rank == 0:
            return () if elements == 1 else None
        return (*(1,) * (rank - 1), elements)
    sizes = (parameters["batch"], parameters["height"], parameters["width"], parameters["channels"])
    leading = (*(1,) * max(0, rank - 6), *(1, 2)[max(0, 6 - rank) :])
    return (*leading, *sizes[max(0, 4 - rank) :])


def quantities_of(*slots: str) -> dict[str, str]:
    """Say which parameter governs which quantity of these slots, all of which have the shape."""
    axes = {"0": "batch", "1": "height", "2": "width", "3": "channels"}
    axes |= {"-4": "batch", "-3": "height", "-2": "width", "-1": "channels"}
    named = {**axes, "rank": "rank", "elements": "elements"}
    return {f"{slot}.{what}": parameter for slot in slots for what, parameter in named.items()}


BROADCASTS = ("none", "scalar", "one", "row", "column", "channel", "leading", "outer")
"""Ways in which an operand is smaller than the result; see `narrowed`."""


OPERAND_PAIRS: Mapping[str, Sequence[Any]] = {
    **SIZES,
    "broadcast_a": BROADCASTS,
    "broadcast_b": BROADCASTS,
    "constant": (None, "b", "a"),
}
"""Parameters of two operands that broadcast to one another."""


def narrowed(shape: tuple[int, ...], how: str) -> tuple[int, ...] | None:
    """Return the shape of an operand that broadcasts to `shape`; None if the way does not fit."""
    rank = len(shape)
    if how == "none":
        return shape
    if how == "scalar":
        return ()
    if how == "one":  # rank kept, all sizes one
        return (1,) * rank if rank else None
    if rank < 2:
        return None
    ways = {
        "row": shape[-1:],  # rank 1
        "column": (*shape[:-1], 1),
        "channel": (shape[-3], 1, 1) if rank > 2 else None,  # the bias of NCHW images
        "leading": (1, *shape[1:]),
        "outer": tuple(1 if axis % 2 else size for axis, size in enumerate(shape)),
    }
    return ways[how]
