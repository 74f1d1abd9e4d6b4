"""Which module computes each kind, and how: one row per family. The manifest claims what is taken.

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
_PRODUCTS = "float64; modulo 2^64 for integers; int32 for quantized"
_MODULO = "float64; modulo 2^64 for integers"

_KINDS = (
    ("Convolution2d DepthwiseConvolution2d TransposeConvolution2d", Family("convolution", _QUANTIZED)),
    ("FullyConnected MatMul", Family("matrix", _PRODUCTS)),
    ("Pooling2d GlobalPooling", Family("pooling", "float64; int64 for integers")),
    ("BatchNormalization", Family("normalization", "float64 per element")),
    ("InstanceNormalization GroupNormalization LayerNormalization", Family("normalization", _DOUBLE)),
    ("LpNormalization LocalResponseNormalization", Family("norms", _DOUBLE)),
    ("Softmax", Family("softmax", _DOUBLE)),
    ("Activation Prelu", Family("activation", widens=False)),
    ("ElementwiseUnary ElementwiseBinary", Family("elementwise", widens=False)),
    ("Comparison Where", Family("comparison", widens=False)),
    ("Cast", Family("cast", widens=False)),
    ("Reduce CumulativeSum", Family("reduction", _MODULO, widens=False)),
    ("ArgMinMax TopK", Family("selection", widens=False)),
    ("DetectionPostProcess", Family("detection", widens=False)),
    ("Reshape ExpandDims Squeeze Flatten Permute BroadcastTo Tile Shape", Family("reshaping", widens=False)),
    ("SpaceToDepth DepthToSpace", Family("reshaping", widens=False)),
    ("Resize", Family("resizing", _DOUBLE, widens=False)),
    ("Concat Stack Split Pad", Family("joining", widens=False)),
    ("StridedSlice Gather GatherElements GatherNd OneHot Trilu Fill", Family("indexing", widens=False)),
    ("Rnn Gru Lstm", Family("recurrent", _DOUBLE)),
    ("QuantizedLstm", Family("quantized_recurrent", "int32", widens=False)),
    ("QuantizedSvdf", Family("quantized_svdf", "int32", widens=False)),
    ("ScatterElements ScatterNd", Family("scattering", widens=False)),
    ("Quantize Dequantize", Family("quantizing", widens=False)),
)

FAMILIES: dict[str, Family] = {f"dovetail.{kind}": family for kinds, family in _KINDS for kind in kinds.split()}
