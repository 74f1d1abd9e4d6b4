"""Layers that only move elements: strided copies, gathers, and images from one layout to another.

`joining` makes one copy of several.
"""

from __future__ import annotations

WORKLOADS = {
    "CpuAcc.Frame": "images.create_frame",
    "CpuAcc.Interleave": "images.create_interleave",
    "CpuAcc.Join": "images.create_join",
    "CpuAcc.Rearrange": "copies.create_rearrange",
    "CpuAcc.Reorder": "reorder.create",
    "CpuAcc.View": "images.create_view",
    "dovetail.BroadcastTo": "copies.create_broadcast",
    "dovetail.Concat": "copies.create_concat",
    "dovetail.DepthToSpace": "copies.create_depth_to_space",
    "dovetail.ExpandDims": "images.create_view",
    "dovetail.Flatten": "images.create_view",
    "dovetail.Gather": "gather.create",
    "dovetail.Pad": "copies.create_pad",
    "dovetail.Permute": "copies.create_permute",
    "dovetail.Reshape": "images.create_view",
    "dovetail.SpaceToDepth": "copies.create_space_to_depth",
    "dovetail.Split": "copies.create_split",
    "dovetail.Squeeze": "images.create_view",
    "dovetail.Stack": "copies.create_stack",
    "dovetail.StridedSlice": "copies.create_slice",
    "dovetail.Tile": "copies.create_tile",
}

RULES = {
    "dovetail.Concat": "lowering.lower_concat",
}
