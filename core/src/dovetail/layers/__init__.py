"""The layer kinds that the core knows, one module per family.

Each has descriptors, shape inference and builder methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground.late_names import late_names

if TYPE_CHECKING:
    from .activation import FUSABLE as FUSABLE
    from .activation import Activation as Activation
    from .activation import ActivationFunction as ActivationFunction
    from .activation import ActivationLayers as ActivationLayers
    from .activation import FusedActivation as FusedActivation
    from .activation import Prelu as Prelu
    from .activation import Softmax as Softmax
    from .branching import BranchingLayers as BranchingLayers
    from .branching import Conditional as Conditional
    from .convolution import Convolution2d as Convolution2d
    from .convolution import ConvolutionLayers as ConvolutionLayers
    from .convolution import DepthwiseConvolution2d as DepthwiseConvolution2d
    from .convolution import TransposeConvolution2d as TransposeConvolution2d
    from .detection import DetectionLayers as DetectionLayers
    from .detection import DetectionPostProcess as DetectionPostProcess
    from .elementwise import BITWISE_OPERATIONS as BITWISE_OPERATIONS
    from .elementwise import LOGICAL_OPERATIONS as LOGICAL_OPERATIONS
    from .elementwise import OPERATIONS_ON_NUMBERS as OPERATIONS_ON_NUMBERS
    from .elementwise import SHIFT_OPERATIONS as SHIFT_OPERATIONS
    from .elementwise import BinaryOperation as BinaryOperation
    from .elementwise import Cast as Cast
    from .elementwise import Comparison as Comparison
    from .elementwise import ComparisonOperation as ComparisonOperation
    from .elementwise import ElementwiseBinary as ElementwiseBinary
    from .elementwise import ElementwiseLayers as ElementwiseLayers
    from .elementwise import ElementwiseUnary as ElementwiseUnary
    from .elementwise import UnaryOperation as UnaryOperation
    from .elementwise import Where as Where
    from .generating import Fill as Fill
    from .generating import GeneratingLayers as GeneratingLayers
    from .generating import OneHot as OneHot
    from .generating import Range as Range
    from .generating import Trilu as Trilu
    from .indexing import Gather as Gather
    from .indexing import GatherElements as GatherElements
    from .indexing import GatherNd as GatherNd
    from .indexing import IndexingLayers as IndexingLayers
    from .indexing import ScatterElements as ScatterElements
    from .indexing import ScatterNd as ScatterNd
    from .indexing import ScatterReduction as ScatterReduction
    from .indexing import StridedSlice as StridedSlice
    from .joining import Concat as Concat
    from .joining import JoiningLayers as JoiningLayers
    from .joining import Pad as Pad
    from .joining import PadMode as PadMode
    from .joining import Split as Split
    from .joining import Stack as Stack
    from .matrix import FullyConnected as FullyConnected
    from .matrix import MatMul as MatMul
    from .matrix import MatrixLayers as MatrixLayers
    from .normalization import BatchNormalization as BatchNormalization
    from .normalization import GroupNormalization as GroupNormalization
    from .normalization import InstanceNormalization as InstanceNormalization
    from .normalization import LayerNormalization as LayerNormalization
    from .normalization import LocalResponseNormalization as LocalResponseNormalization
    from .normalization import LpNormalization as LpNormalization
    from .normalization import NormalizationLayers as NormalizationLayers
    from .pooling import GlobalPooling as GlobalPooling
    from .pooling import Pooling2d as Pooling2d
    from .pooling import PoolingFunction as PoolingFunction
    from .pooling import PoolingLayers as PoolingLayers
    from .quantized_recurrent import QuantizedLstm as QuantizedLstm
    from .quantized_recurrent import QuantizedSvdf as QuantizedSvdf
    from .quantizing import Dequantize as Dequantize
    from .quantizing import Quantize as Quantize
    from .quantizing import QuantizingLayers as QuantizingLayers
    from .quantizing import TieRounding as TieRounding
    from .recurrent import GateCoupling as GateCoupling
    from .recurrent import Gru as Gru
    from .recurrent import Lstm as Lstm
    from .recurrent import RecurrentFunction as RecurrentFunction
    from .recurrent import RecurrentLayers as RecurrentLayers
    from .recurrent import Rnn as Rnn
    from .reduction import ArgFunction as ArgFunction
    from .reduction import ArgMinMax as ArgMinMax
    from .reduction import CumulativeSum as CumulativeSum
    from .reduction import Reduce as Reduce
    from .reduction import ReduceFunction as ReduceFunction
    from .reduction import ReductionLayers as ReductionLayers
    from .reduction import TopK as TopK
    from .reshaping import BroadcastTo as BroadcastTo
    from .reshaping import DepthToSpace as DepthToSpace
    from .reshaping import ExpandDims as ExpandDims
    from .reshaping import Flatten as Flatten
    from .reshaping import Permute as Permute
    from .reshaping import Reshape as Reshape
    from .reshaping import ReshapingLayers as ReshapingLayers
    from .reshaping import Shape as Shape
    from .reshaping import SpaceToDepth as SpaceToDepth
    from .reshaping import Squeeze as Squeeze
    from .reshaping import Tile as Tile
    from .resizing import AspectPolicy as AspectPolicy
    from .resizing import CoordinateMode as CoordinateMode
    from .resizing import NearestRounding as NearestRounding
    from .resizing import Resize as Resize
    from .resizing import ResizeMethod as ResizeMethod
    from .resizing import ResizePrecision as ResizePrecision
    from .resizing import ResizeTaps as ResizeTaps
    from .resizing import ResizingLayers as ResizingLayers
    from .windows import AutoPadding as AutoPadding

_MODULES = {
    "activation": (
        "FUSABLE",
        "Activation",
        "ActivationFunction",
        "ActivationLayers",
        "FusedActivation",
        "Prelu",
        "Softmax",
    ),
    "branching": (
        "BranchingLayers",
        "Conditional",
    ),
    "convolution": (
        "Convolution2d",
        "ConvolutionLayers",
        "DepthwiseConvolution2d",
        "TransposeConvolution2d",
    ),
    "detection": (
        "DetectionLayers",
        "DetectionPostProcess",
    ),
    "elementwise": (
        "BITWISE_OPERATIONS",
        "LOGICAL_OPERATIONS",
        "OPERATIONS_ON_NUMBERS",
        "SHIFT_OPERATIONS",
        "BinaryOperation",
        "Cast",
        "Comparison",
        "ComparisonOperation",
        "ElementwiseBinary",
        "ElementwiseLayers",
        "ElementwiseUnary",
        "UnaryOperation",
        "Where",
    ),
    "generating": (
        "Fill",
        "GeneratingLayers",
        "OneHot",
        "Range",
        "Trilu",
    ),
    "indexing": (
        "Gather",
        "GatherElements",
        "GatherNd",
        "IndexingLayers",
        "ScatterElements",
        "ScatterNd",
        "ScatterReduction",
        "StridedSlice",
    ),
    "joining": (
        "Concat",
        "JoiningLayers",
        "Pad",
        "PadMode",
        "Split",
        "Stack",
    ),
    "matrix": (
        "FullyConnected",
        "MatMul",
        "MatrixLayers",
    ),
    "normalization": (
        "BatchNormalization",
        "GroupNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "LocalResponseNormalization",
        "LpNormalization",
        "NormalizationLayers",
    ),
    "pooling": (
        "GlobalPooling",
        "Pooling2d",
        "PoolingFunction",
        "PoolingLayers",
    ),
    "quantizing": (
        "Dequantize",
        "Quantize",
        "QuantizingLayers",
        "TieRounding",
    ),
    "quantized_recurrent": ("QuantizedLstm", "QuantizedSvdf"),
    "recurrent": (
        "GateCoupling",
        "Gru",
        "Lstm",
        "RecurrentFunction",
        "RecurrentLayers",
        "Rnn",
    ),
    "reduction": (
        "ArgFunction",
        "ArgMinMax",
        "CumulativeSum",
        "Reduce",
        "ReduceFunction",
        "ReductionLayers",
        "TopK",
    ),
    "reshaping": (
        "BroadcastTo",
        "DepthToSpace",
        "ExpandDims",
        "Flatten",
        "Permute",
        "Reshape",
        "ReshapingLayers",
        "Shape",
        "SpaceToDepth",
        "Squeeze",
        "Tile",
    ),
    "resizing": (
        "AspectPolicy",
        "CoordinateMode",
        "NearestRounding",
        "Resize",
        "ResizeMethod",
        "ResizePrecision",
        "ResizeTaps",
        "ResizingLayers",
    ),
    "windows": ("AutoPadding",),
}

__all__ = sorted([name for names in _MODULES.values() for name in names])  # type checkers go by the imports above

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _MODULES)
