"""Quantize and dequantize."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from ..graph.descriptor import Array, Descriptor, Infos, Values, descriptor_class
from ..graph.element_types import DType
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.tensor import Quantization, TensorInfo
from ..ground.pieces import mapped
from .arguments import Operand
from .shape_rules import attribute_error, normalize_axis, present, require_dtype


def _column(values: Sequence[float] | Sequence[int], rank: int, axis: int | None) -> Array:
    array = np.asarray(values)
    if axis is None:
        return array.reshape(())
    shape = [1] * rank
    shape[axis] = -1
    return array.reshape(shape)


class TieRounding(StrEnum):
    """Where a number goes that lies in the middle between two integers."""

    TO_EVEN = "to_even"  # as in ONNX
    AWAY_FROM_ZERO = "away_from_zero"  # as in TensorFlow Lite


@descriptor_class
class Quantize(Descriptor, kind="dovetail.Quantize"):
    """q = saturate(round(x / scale) + zero_point); a NaN gives the zero point.

    Source: ONNX QuantizeLinear.

    The result is plain integers, as in ONNX, unless its slot is given the quantization, as the
    builder does.
    """

    dtype: DType
    """Of the result: an integer type."""
    quantization: Quantization
    rounding: TieRounding = TieRounding.TO_EVEN
    """Of ties."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if not self.dtype.is_integer:
            raise attribute_error(f"a tensor cannot be quantized to {self.dtype}", "use an integer type")
        require_dtype(x, [d for d in DType if d.is_float], "input")
        self.quantization.check_axis(x)
        self.quantization.check(self.dtype)
        return [TensorInfo(x.shape, self.dtype)]


@descriptor_class
class Dequantize(Descriptor, kind="dovetail.Dequantize"):
    """x = (q - zero_point) * scale. Source: ONNX DequantizeLinear."""

    quantization: Quantization
    dtype: DType = DType.FLOAT32
    """Of the result: a floating type."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        q = present(inputs, 0)
        require_dtype(q, [d for d in DType if d.is_integer], "input")
        self.quantization.check_axis(q)
        self.quantization.check(q.dtype)
        return [TensorInfo(q.shape, self.dtype)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        q = values[0]
        if q is None or self.dtype is not DType.FLOAT32:
            return None
        axis = None if self.quantization.axis is None else normalize_axis(self.quantization.axis, q.ndim)
        zero = _column(self.quantization.zero_point, q.ndim, axis)
        scale = _column(self.quantization.scale, q.ndim, axis).astype(np.float32)
        if q.itemsize > 2:
            return [
                mapped(
                    lambda q, zero, scale: (q.astype(np.int64) - zero).astype(np.float32) * scale, np.float32, q, zero, scale
                )
            ]

        def real(q: Array, zero: Array, scale: Array) -> Array:
            made = q.astype(np.float32)  # which holds differences of 16 bits exactly
            made -= zero
            made *= scale
            return made

        return [mapped(real, np.float32, q, zero.astype(np.float32), scale)]


class QuantizingLayers(Graph):
    """Builder methods."""

    def quantize(
        self, x: Operand, quantization: Quantization, dtype: DType = DType.INT8, *, name: str | None = None
    ) -> OutputSlot:
        """Round to integers, which stand for real numbers to whatever reads them.

        For example, a relu clamps at the zero point.

        Where they are to be computed with as they are, add `Quantize` itself.
        """
        descriptor = Quantize(dtype=DType.of(dtype), quantization=quantization)
        return self.add(descriptor, x, name=name, quantization=quantization).output

    def dequantize(
        self, x: Operand, quantization: Quantization, dtype: DType = DType.FLOAT32, *, name: str | None = None
    ) -> OutputSlot:
        """Back to real numbers."""
        return self.add(Dequantize(quantization=quantization, dtype=DType.of(dtype)), x, name=name).output
