"""Which family makes the work of each kind: a module of this package with a `create`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FAMILIES = {
    "elementwise": "Activation Prelu ElementwiseUnary ElementwiseBinary Comparison Where Cast",
    "matrices": "MatMul FullyConnected",
    "movement": (
        "Reshape ExpandDims Squeeze Flatten Permute StridedSlice BroadcastTo Tile SpaceToDepth DepthToSpace "
        "Concat Stack Split Pad Trilu Fill"
    ),
    "normalization": (
        "BatchNormalization InstanceNormalization GroupNormalization LayerNormalization LpNormalization "
        "LocalResponseNormalization"
    ),
    "pooling": "Pooling2d GlobalPooling",
    "reduction": "Reduce Softmax ArgMinMax CumulativeSum",
    "convolution": "Convolution2d DepthwiseConvolution2d TransposeConvolution2d",
    "indexing": "Gather GatherElements GatherNd ScatterElements ScatterNd OneHot",
    "resizing": "Resize",
}
_BY_KIND = {f"dovetail.{kind}": family for family, kinds in _FAMILIES.items() for kind in kinds.split()}
_BY_KIND["GpuAcc.Chain"] = "fusion.chain"
_BY_KIND["GpuAcc.Attention"] = "attention"
_BY_KIND["GpuAcc.Convolution"] = "convolution"
_BY_KIND["GpuAcc.Fused"] = "fusion.fused"


def family_name(kind: str) -> str:
    """Return the name of the family of a kind; empty for none."""
    return _BY_KIND.get(kind, "")


def family_of(kind: str) -> Any:
    """Return the module with ``create(layer, kernels)``, which returns `Work`."""
    return import_module(f".{_BY_KIND[kind]}", __package__)
