"""The private kind of attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dovetail import PrivateLayer, TensorInfo
from dovetail.graph.descriptor import Infos, descriptor_class


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

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        queries, keys = inputs[:2]
        return 0 if queries is None or keys is None else (queries.elements + outputs[0].elements) * keys.sizes[1]
