"""Which function creates the workload of a kind: module of this package, and its function."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

CREATORS: dict[str, tuple[str, str]] = {
    "dovetail.BatchNormalization": ("normalization", "create_batch"),
    "dovetail.BroadcastTo": ("movement", "create_broadcast"),
    "dovetail.Cast": ("cast", "create"),
    "dovetail.Concat": ("movement", "create_concat"),
    "dovetail.DepthToSpace": ("movement", "create_depth_to_space"),
    "dovetail.Dequantize": ("quantized", "create_quantize"),
    "dovetail.ElementwiseBinary": ("elementwise", "create_binary"),
    "dovetail.ExpandDims": ("images", "create_view"),
    "dovetail.Flatten": ("images", "create_view"),
    "dovetail.GroupNormalization": ("normalization", "create_group"),
    "dovetail.InstanceNormalization": ("normalization", "create_instance"),
    "dovetail.Gather": ("movement", "create_gather"),
    "dovetail.LayerNormalization": ("rows", "create_layer_normalization"),
    "dovetail.MatMul": ("matmul", "create"),
    "dovetail.Pad": ("movement", "create_pad"),
    "dovetail.Permute": ("movement", "create_permute"),
    "dovetail.Prelu": ("elementwise", "create_prelu"),
    "dovetail.Quantize": ("quantized", "create_quantize"),
    "dovetail.Reduce": ("reduction", "create"),
    "dovetail.Reshape": ("images", "create_view"),
    "dovetail.Softmax": ("rows", "create_softmax"),
    "dovetail.SpaceToDepth": ("movement", "create_space_to_depth"),
    "dovetail.Split": ("movement", "create_split"),
    "dovetail.Squeeze": ("images", "create_view"),
    "dovetail.Stack": ("movement", "create_stack"),
    "dovetail.StridedSlice": ("movement", "create_slice"),
    "dovetail.Tile": ("movement", "create_tile"),
    "neon.AddQuantized": ("quantized", "create_sum"),
    "neon.Apply": ("images", "create_apply"),
    "neon.Attention": ("attention", "create"),
    "neon.Combine": ("elementwise", "create_combine"),
    "neon.Convolve": ("convolution", "create"),
    "neon.ConvolveBfloat16": ("bfloat16", "create"),
    "neon.ConvolveQuantized": ("quantized_convolution", "create"),
    "neon.Depthwise": ("windows", "create_depthwise"),
    "neon.DepthwiseBfloat16": ("bfloat16", "create_depthwise"),
    "neon.DepthwiseQuantized": ("quantized", "create_depthwise"),
    "neon.Frame": ("images", "create_frame"),
    "neon.Interleave": ("images", "create_interleave"),
    "neon.Join": ("images", "create_join"),
    "neon.MeanOfImage": ("windows", "create_mean"),
    "neon.Pool": ("windows", "create_pool"),
    "neon.PoolQuantized": ("quantized", "create_pool"),
    "neon.Rearrange": ("movement", "create_rearrange"),
    "neon.Reorder": ("reorder", "create"),
    "neon.ReorderQuantized": ("quantized", "create_reorder"),
    "neon.Resample": ("resize", "create"),
    "neon.ScaleChannels": ("images", "create_scale"),
    "neon.Strips": ("strips", "create"),
    "neon.View": ("images", "create_view"),
    "neon.WinogradConvolve": ("winograd", "create"),
}


@cache
def creator(kind: str) -> Callable[..., Any] | None:
    """Return the function that creates the workloads of a kind, whose module is imported now; None if there is none."""
    if kind not in CREATORS:
        return None
    module, function = CREATORS[kind]
    create: Callable[..., Any] = getattr(import_module(f".{module}", __package__), function)
    return create
