"""Matrix products."""

from __future__ import annotations

from dovetail.layers import FullyConnected, MatMul

from ..rules import Saying, says
from .activation import activated


@says(FullyConnected)
def fully_connected(say: Saying) -> str:
    """Say the product with transposed weights: of a matrix as one node, else as product and sum."""
    x, bias = say.input(0), say.input(2)
    if say.info().rank == 2:
        return activated(say, say.op("Gemm", x, say.input(1), bias, transB=1))
    product = say.op("MatMul", x, say.permuted_input(1, (1, 0)))
    return activated(say, say.op("Add", product, bias) if bias else product)


@says(MatMul)
def matmul(say: Saying) -> str:
    """Say a batched product."""
    a = _transposed(say, 0, say.descriptor.transpose_a)
    return say.op("MatMul", a, _transposed(say, 1, say.descriptor.transpose_b))


def _transposed(say: Saying, index: int, wanted: bool) -> str:
    rank = say.info(index).rank
    if not wanted or rank < 2:
        return say.input(index)
    return say.permuted_input(index, (*range(rank - 2), rank - 1, rank - 2))
