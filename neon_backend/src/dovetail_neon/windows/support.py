"""Which poolings CpuAcc takes."""

from __future__ import annotations

from typing import Any

from dovetail import Layer, Support
from dovetail.layers import GlobalPooling, Pooling2d


def _pooling(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    if d.function == "lp":
        return Support.no("attribute", "function lp is not implemented; max and average are", "function")
    return None


def _global_pooling(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    info = layer.input_infos[0]
    if d.function != "average":
        return Support.no("attribute", f"function {d.function} is not implemented; average is", "function")
    if info is None or info.rank != 4:
        return Support.no("shape", "input is not of rank 4", "input")
    return None


SUPPORT = {Pooling2d.kind: _pooling, GlobalPooling.kind: _global_pooling}
