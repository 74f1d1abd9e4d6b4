"""Which matrix products CpuAcc takes."""

from __future__ import annotations

from dovetail import Layer, Support
from dovetail.layers import MatMul

from ..convolution.support import long_sums

_MAX_MATRIX_AXES = 32
"""Of the operands' batches NumPy finds the common shape, which it does for so many axes."""


def _product(layer: Layer) -> Support | None:
    rank = layer.output.known_info.rank
    if rank <= _MAX_MATRIX_AXES:
        return long_sums(layer)
    return Support.no("shape", f"matrices of {rank} axes are not implemented; up to {_MAX_MATRIX_AXES} are", "input")


SUPPORT = {MatMul.kind: _product}
