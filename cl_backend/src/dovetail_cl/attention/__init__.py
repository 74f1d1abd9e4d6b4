"""Attention: y = softmax(finished products of q and k) v, without their matrix in memory."""

from __future__ import annotations

from typing import ClassVar

from dovetail import Layer, PrivateLayer
from dovetail.graph.descriptor import descriptor_class

from ..elementwise.chain_layer import Chain
from ..kernels import Kernels, Work
from . import groups, rows


@descriptor_class
class Attention(PrivateLayer, kind="GpuAcc.Attention"):
    """Attention of [batch, head, row, element], each by steps of its own.

    Its inputs are the tensors in which q, k and v lie, and the operands of the chain from the
    second on: the first is a score.
    A row whose scores are all -infinity, or one of which is NaN, becomes NaN, as by a softmax.

    Attributes:
        sizes: Batches, heads, rows, keys, elements of a row of q and k, and of one of v and y.
        tensors: Of q, k and v, the inputs in which they lie.
        starts: Elements there before the first one.
        q, k, v, y: Elements between batches, heads, rows and elements.
        chain: What is made of a score before the softmax; None: nothing.
        steps: For each operand of the chain from the second on, elements between batches, heads,
            rows and keys; the last are 0 or 1.
        beta: What scores are multiplied by then.
    """

    input_names: ClassVar[tuple[str, ...]] = ("q, k, v and operands",)
    sizes: tuple[int, ...]
    tensors: tuple[int, ...]
    starts: tuple[int, ...]
    q: tuple[int, ...]
    k: tuple[int, ...]
    v: tuple[int, ...]
    y: tuple[int, ...]
    chain: Chain | None
    steps: tuple[tuple[int, ...], ...]
    beta: float

    def in_words(self) -> str:
        batches, heads, rows, keys, depth, _ = self.sizes
        finished = f", {self.chain.words}" if self.chain is not None else ""
        return f"attention of {batches} x {heads} x {rows} to {keys}, {depth} each{finished}"


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of attention."""
    facts = kernels.device.facts
    if kernels.is_cpu or facts["max_group"] < groups.ITEMS or facts["local_memory"] < groups.LOCAL:
        return rows.create(layer, kernels)
    return groups.create(layer, kernels)
