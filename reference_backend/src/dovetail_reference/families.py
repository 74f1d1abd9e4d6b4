"""Which module computes each kind, and how: one row per kind. The manifest claims what is taken.

Accumulation. Sums over many elements are formed in float64 for float64, float32 and 16-bit inputs,
and rounded once, at the end; each product of two float32 is exact in float64. The order of a sum
depends on the shape alone. 16-bit floats are widened to float32 (exactly), computed, and rounded to
nearest even at the end. Integers wrap modulo 2^bits, quantized sums are int32.
"""

from __future__ import annotations

from dovetail import DType
from dovetail.ground.records import NamedTuple

WIDENED = (DType.FLOAT16, DType.BFLOAT16)


class Family(NamedTuple):
    """How one kind is computed.

    Attributes:
        module: Module of `workloads` that implements it.
        accumulation: Type in which many elements are summed, in words; empty where nothing is
            summed.
        widens: 16-bit floats go through `workloads.widening`; else the family takes them itself.
    """

    module: str
    accumulation: str = ""
    widens: bool = True


_DOUBLE = "float64"
_QUANTIZED = "float64; int32 for quantized"

FAMILIES: dict[str, Family] = {
    "dovetail.Convolution2d": Family("convolution", _QUANTIZED),
    "dovetail.DepthwiseConvolution2d": Family("convolution", _QUANTIZED),
    "dovetail.TransposeConvolution2d": Family("convolution", _QUANTIZED),
    "dovetail.FullyConnected": Family("matrix", "float64; modulo 2^64 for integers; int32 for quantized"),
    "dovetail.MatMul": Family("matrix", "float64; modulo 2^64 for integers; int32 for quantized"),
    "dovetail.Pooling2d": Family("pooling", "float64; int64 for integers"),
    "dovetail.GlobalPooling": Family("pooling", "float64; int64 for integers"),
    "dovetail.BatchNormalization": Family("normalization", "float64 per element"),
    "dovetail.InstanceNormalization": Family("normalization", _DOUBLE),
    "dovetail.GroupNormalization": Family("normalization", _DOUBLE),
    "dovetail.LayerNormalization": Family("normalization", _DOUBLE),
    "dovetail.LpNormalization": Family("norms", _DOUBLE),
    "dovetail.LocalResponseNormalization": Family("norms", _DOUBLE),
    "dovetail.Softmax": Family("softmax", _DOUBLE),
    "dovetail.Activation": Family("activation", widens=False),
    "dovetail.Prelu": Family("activation", widens=False),
    "dovetail.ElementwiseUnary": Family("elementwise", widens=False),
    "dovetail.ElementwiseBinary": Family("elementwise", widens=False),
    "dovetail.Comparison": Family("comparison", widens=False),
    "dovetail.Where": Family("comparison", widens=False),
    "dovetail.Cast": Family("cast", widens=False),
    "dovetail.Reduce": Family("reduction", "float64; modulo 2^64 for integers", widens=False),
    "dovetail.ArgMinMax": Family("selection", widens=False),
    "dovetail.TopK": Family("selection", widens=False),
    "dovetail.CumulativeSum": Family("reduction", "float64; modulo 2^64 for integers", widens=False),
    "dovetail.Reshape": Family("reshaping", widens=False),
    "dovetail.ExpandDims": Family("reshaping", widens=False),
    "dovetail.Squeeze": Family("reshaping", widens=False),
    "dovetail.Flatten": Family("reshaping", widens=False),
    "dovetail.Permute": Family("reshaping", widens=False),
    "dovetail.BroadcastTo": Family("reshaping", widens=False),
    "dovetail.Tile": Family("reshaping", widens=False),
    "dovetail.Shape": Family("reshaping", widens=False),
    "dovetail.SpaceToDepth": Family("reshaping", widens=False),
    "dovetail.DepthToSpace": Family("reshaping", widens=False),
    "dovetail.Concat": Family("joining", widens=False),
    "dovetail.Stack": Family("joining", widens=False),
    "dovetail.Split": Family("joining", widens=False),
    "dovetail.Pad": Family("joining", widens=False),
    "dovetail.StridedSlice": Family("indexing", widens=False),
    "dovetail.Gather": Family("indexing", widens=False),
    "dovetail.GatherElements": Family("indexing", widens=False),
    "dovetail.GatherNd": Family("indexing", widens=False),
    "dovetail.ScatterElements": Family("scattering", widens=False),
    "dovetail.ScatterNd": Family("scattering", widens=False),
    "dovetail.OneHot": Family("indexing", widens=False),
    "dovetail.Trilu": Family("indexing", widens=False),
    "dovetail.Fill": Family("indexing", widens=False),
    "dovetail.Resize": Family("resizing", "float64", widens=False),
    "dovetail.Quantize": Family("quantizing", widens=False),
    "dovetail.Dequantize": Family("quantizing", widens=False),
}
