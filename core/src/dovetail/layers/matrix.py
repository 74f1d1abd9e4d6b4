"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..graph.descriptor import Descriptor, Infos, descriptor_class
from ..graph.element_types import DType
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import differ
from ..graph.tensor import Quantization, TensorInfo
from .activation import FusedActivation
from .arguments import Operand
from .shape_rules import (
    broadcast,
    optional,
    present,
    require_number,
    require_rank,
    require_same_dtype,
    require_shape,
    shape_error,
)


@descriptor_class
class FullyConnected(FusedActivation, kind="dovetail.FullyConnected"):
    """input x weights transposed, plus bias.

    Inputs: input [..., K], at least rank 1; weights [N, K]; bias [N]. Output [..., N]. With int8 or
    uint8 input: integer weights, int32 bias, quantization on every slot (TensorFlow Lite's rules).
    With int16: int8 weights, and sums of 64 bits with an int64 bias, of 32 with an int32 one.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "weights", "bias")
    required_inputs: ClassVar[int] = 2

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, weights, bias = present(inputs, 0), present(inputs, 1), optional(inputs, 2)
        require_rank(weights, 2, "weights")
        require_number(x, "input")
        if x.rank < 1 or differ(x.shape[-1], weights.shape[1]):
            raise shape_error(
                f"input {x.shape_text} does not fit weights {weights.shape_text}",
                "the last axes must agree: weights are [out, in]",
            )
        if x.dtype.is_float:
            require_same_dtype([x, weights, bias], "input, weights and bias")
        if bias is not None:
            require_shape(bias, (weights.sizes[0],), "bias")
        return [TensorInfo((*x.shape[:-1], weights.shape[0]), x.dtype)]

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        return outputs[0].elements * present(inputs, 1).sizes[1]


@descriptor_class
class MatMul(Descriptor, kind="dovetail.MatMul"):
    """Product of the last two axes, the others broadcast (NumPy's matmul rules, rank 1 included).

    The transposes swap the last two axes of an operand of rank >= 2 first. Of int8, uint8 and int16
    with a quantization on every slot the real numbers are multiplied (TensorFlow Lite's rules), of
    int16 also by int8.
    """

    input_names: ClassVar[tuple[str, ...]] = ("a", "b")
    required_inputs: ClassVar[int] = 2
    transpose_a: bool = False
    """Swap the last two axes of a first."""
    transpose_b: bool = False
    """Swap the last two axes of b first."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        a, b = present(inputs, 0), present(inputs, 1)
        # Words may be multiplied by bytes, where both stand for real numbers.
        mixed = (a.dtype, b.dtype) == (DType.INT16, DType.INT8) and None not in (a.quantization, b.quantization)
        dtype = a.dtype if mixed else require_same_dtype([a, b])
        require_number(a, "operands")
        if a.rank < 1 or b.rank < 1:
            raise shape_error(f"operands {a.shape_text} and {b.shape_text}: a scalar has no matrix product")
        left = _swap(a.sizes) if self.transpose_a else a.sizes
        right = _swap(b.sizes) if self.transpose_b else b.sizes
        inner_left, inner_right = left[-1], right[-2] if len(right) > 1 else right[0]
        if differ(inner_left, inner_right):
            raise shape_error(
                f"operands {a.shape_text} and {b.shape_text} do not fit: the inner sizes are {inner_left} and {inner_right}"
            )
        rows = left[-2:-1] if len(left) > 1 else ()
        columns = right[-1:] if len(right) > 1 else ()
        return [TensorInfo((*broadcast(left[:-2], right[:-2]), *rows, *columns), dtype)]

    def macs(self, inputs: Infos, outputs: Sequence[TensorInfo]) -> int:
        a = present(inputs, 0).sizes
        return outputs[0].elements * (a[-2] if self.transpose_a and len(a) > 1 else a[-1])


def _swap(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if len(shape) > 1 else shape


class MatrixLayers(Graph):
    """Builder methods."""

    def fully_connected(
        self,
        x: Operand,
        weights: Operand,
        bias: Operand | None = None,
        *,
        quantization: Quantization | None = None,
        name: str | None = None,
    ) -> OutputSlot:
        """x [..., K] times the transpose of weights [N, K], plus bias [N]."""
        return self.add(FullyConnected(), x, weights, bias, name=name, quantization=quantization).output

    def matmul(
        self, a: Operand, b: Operand, *, transpose_a: bool = False, transpose_b: bool = False, name: str | None = None
    ) -> OutputSlot:
        """Batched matrix product with broadcast."""
        return self.add(MatMul(transpose_a=transpose_a, transpose_b=transpose_b), a, b, name=name).output
