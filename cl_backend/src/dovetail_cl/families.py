"""Which family makes the work of each layer: a module of this package with a `create`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from dovetail import Layer
from dovetail.layers import BinaryOperation

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
    "selection": "TopK",
    "quantized": "Quantize Dequantize",
}
_BY_KIND = {f"dovetail.{kind}": family for family, kinds in _FAMILIES.items() for kind in kinds.split()}
CONVOLUTIONS = [f"dovetail.{kind}" for kind in _FAMILIES["convolution"].split()]
"""Kinds over images and windows with weights, whatever their elements."""
_BY_KIND["GpuAcc.Chain"] = "elementwise.chain_layer"
_BY_KIND["GpuAcc.Attention"] = "attention"
_BY_KIND["GpuAcc.Convolution"] = "convolution"
_BY_KIND["GpuAcc.Separable"] = "convolution.separable"
_BY_KIND["GpuAcc.Merged"] = "fusion.merged"
_BY_KIND["GpuAcc.Fused"] = "fusion.fused"
_BY_KIND["GpuAcc.Chosen"] = "choosing"
_SCALED = (BinaryOperation.ADD, BinaryOperation.SUB, BinaryOperation.MUL)


def _has_meaning(layer: Layer) -> bool:
    return any(info is not None and info.quantization is not None for info in (*layer.input_infos, *layer.output_infos))


def _is_scaled(layer: Layer) -> bool:
    return _has_meaning(layer) and getattr(layer.descriptor, "operation", None) in _SCALED


def _is_of_bytes(layer: Layer) -> bool:
    info = layer.input_infos[0]
    return info is not None and info.dtype.is_integer


def _changes_meaning(layer: Layer) -> bool:
    theirs = layer.output.known_info.quantization
    return any(info is not None and info.quantization != theirs for info in layer.input_infos)


_WHERE: dict[str, Callable[[Layer], bool]] = {
    **dict.fromkeys(
        ("Convolution2d", "DepthwiseConvolution2d", "TransposeConvolution2d", "FullyConnected", "GpuAcc.Convolution"),
        _is_of_bytes,
    ),
    **dict.fromkeys(("MatMul", "Activation", "Prelu", "ElementwiseUnary", "Reduce"), _has_meaning),
    "ElementwiseBinary": _is_scaled,
    "Concat": _changes_meaning,
    "Stack": _changes_meaning,
}
"""Kinds that the family `quantized` makes too, and which of their layers."""


def family_name(layer: Layer) -> str:
    """Return the name of the family of a layer; empty for none."""
    kind = layer.kind.removeprefix("dovetail.")
    if kind in _WHERE and _WHERE[kind](layer):
        return "quantized"
    return _BY_KIND.get(layer.kind, "")


def family_of(layer: Layer) -> Any:
    """Return the module with ``create(layer, kernels)``, which returns `Work`."""
    return import_module(f".{family_name(layer)}", __package__)
