"""The private kind of attention."""

from __future__ import annotations

from typing import ClassVar

from dovetail import PrivateLayer
from dovetail.graph.descriptor import descriptor_class


@descriptor_class
class Attention(PrivateLayer, kind="CpuAcc.Attention"):
    """softmax(scale * q k' + mask) v, each head by itself.

    Inputs: q [batch, queries, heads * size], k [batch, keys, heads * size], v [batch, keys, heads *
    size of a value]; the mask, if there is one, has rank 4 and is broadcast to [batch, heads,
    queries, keys]. Output: [batch, queries, what v has].
    """

    input_names: ClassVar[tuple[str, ...]] = ("q", "k", "v", "mask")
    heads: int
    scale: float = 1.0
