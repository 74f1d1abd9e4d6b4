"""What CpuRef must be able to run: one row per kind. `supports`, the factory and the tests read this table.

Accumulation. Sums over many elements are formed in float64 for float64, float32 and 16-bit inputs, and rounded once, at the
end; each product of two float32 is exact in float64. The order of a sum depends on the shape alone. 16-bit floats are widened
to float32 (exactly), computed, and rounded to nearest even at the end. Integers wrap modulo 2^bits, quantized sums are int32.
"""

from __future__ import annotations

from typing import NamedTuple

from dovetail import DType

FLOATS = (DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
WIDENED = (DType.FLOAT16, DType.BFLOAT16)
SIGNED = (DType.INT8, DType.INT16, DType.INT32, DType.INT64)
UNSIGNED = (DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64)
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
ALL = (*NUMBERS, DType.BOOL)
QUANTIZED = (DType.INT8, DType.UINT8)


class Claim(NamedTuple):
    """One kind.

    Attributes:
        module: Module of `workloads` that implements it.
        dtypes: Computing element types that it must take.
        accumulation: Type in which many elements are summed, in words; empty where nothing is summed.
        widens: 16-bit floats go through `workloads.widening`; else the family takes them itself (it only moves bytes).
    """

    module: str
    dtypes: tuple[DType, ...]
    accumulation: str = ""
    widens: bool = True


_DOUBLE = "float64"
_QUANTIZED = "float64; int32 for quantized"

CLAIMS: dict[str, Claim] = {
    "dovetail.Convolution2d": Claim("convolution", FLOATS + QUANTIZED, _QUANTIZED),
    "dovetail.DepthwiseConvolution2d": Claim("convolution", FLOATS + QUANTIZED, _QUANTIZED),
    "dovetail.TransposeConvolution2d": Claim("convolution", FLOATS + QUANTIZED, _QUANTIZED),
    "dovetail.FullyConnected": Claim("matrix", NUMBERS, "float64; modulo 2^64 for integers; int32 for quantized"),
    "dovetail.MatMul": Claim("matrix", NUMBERS, "float64; modulo 2^64 for integers; int32 for quantized"),
    "dovetail.Pooling2d": Claim("pooling", NUMBERS, "float64; int64 for integers"),
    "dovetail.GlobalPooling": Claim("pooling", NUMBERS, "float64; int64 for integers"),
    "dovetail.BatchNormalization": Claim("normalization", FLOATS, "float64 per element"),
    "dovetail.InstanceNormalization": Claim("normalization", FLOATS, _DOUBLE),
    "dovetail.GroupNormalization": Claim("normalization", FLOATS, _DOUBLE),
    "dovetail.LayerNormalization": Claim("normalization", FLOATS, _DOUBLE),
    "dovetail.LpNormalization": Claim("norms", FLOATS, _DOUBLE),
    "dovetail.LocalResponseNormalization": Claim("norms", FLOATS, _DOUBLE),
    "dovetail.Softmax": Claim("softmax", FLOATS, _DOUBLE),
    "dovetail.Activation": Claim("activation", NUMBERS, widens=False),
    "dovetail.Prelu": Claim("activation", NUMBERS, widens=False),
    "dovetail.ElementwiseUnary": Claim("elementwise", ALL, widens=False),
    "dovetail.ElementwiseBinary": Claim("elementwise", ALL, widens=False),
    "dovetail.Comparison": Claim("comparison", ALL, widens=False),
    "dovetail.Where": Claim("comparison", ALL, widens=False),
    "dovetail.Cast": Claim("cast", ALL, widens=False),
    "dovetail.Reduce": Claim("reduction", ALL, "float64; modulo 2^64 for integers", widens=False),
    "dovetail.ArgMinMax": Claim("selection", ALL, widens=False),
    "dovetail.TopK": Claim("selection", ALL, widens=False),
    "dovetail.CumulativeSum": Claim("reduction", NUMBERS, "float64; modulo 2^64 for integers", widens=False),
    "dovetail.Reshape": Claim("reshaping", ALL, widens=False),
    "dovetail.ExpandDims": Claim("reshaping", ALL, widens=False),
    "dovetail.Squeeze": Claim("reshaping", ALL, widens=False),
    "dovetail.Flatten": Claim("reshaping", ALL, widens=False),
    "dovetail.Permute": Claim("reshaping", ALL, widens=False),
    "dovetail.BroadcastTo": Claim("reshaping", ALL, widens=False),
    "dovetail.Tile": Claim("reshaping", ALL, widens=False),
    "dovetail.Shape": Claim("reshaping", ALL, widens=False),
    "dovetail.SpaceToDepth": Claim("reshaping", ALL, widens=False),
    "dovetail.DepthToSpace": Claim("reshaping", ALL, widens=False),
    "dovetail.Concat": Claim("joining", ALL, widens=False),
    "dovetail.Stack": Claim("joining", ALL, widens=False),
    "dovetail.Split": Claim("joining", ALL, widens=False),
    "dovetail.Pad": Claim("joining", ALL, widens=False),
    "dovetail.StridedSlice": Claim("indexing", ALL, widens=False),
    "dovetail.Gather": Claim("indexing", ALL, widens=False),
    "dovetail.GatherElements": Claim("indexing", ALL, widens=False),
    "dovetail.GatherNd": Claim("indexing", ALL, widens=False),
    "dovetail.ScatterElements": Claim("scattering", ALL, widens=False),
    "dovetail.ScatterNd": Claim("scattering", ALL, widens=False),
    "dovetail.OneHot": Claim("indexing", ALL, widens=False),
    "dovetail.Trilu": Claim("indexing", ALL, widens=False),
    "dovetail.Fill": Claim("indexing", ALL, widens=False),
    "dovetail.Resize": Claim("resizing", ALL, "float64", widens=False),
    "dovetail.Quantize": Claim("quantizing", FLOATS, widens=False),
    "dovetail.Dequantize": Claim("quantizing", INTEGERS, widens=False),
}
