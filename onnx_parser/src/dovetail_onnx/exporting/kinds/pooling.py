"""Pooling."""

from __future__ import annotations

from dovetail.graph.tensor import DataLayout
from dovetail.layers import AutoPadding, GlobalPooling, Pooling2d, PoolingFunction

from ..rules import Saying, says
from ..unexportable import Unexportable

_WINDOWED = {PoolingFunction.MAX: "MaxPool", PoolingFunction.AVERAGE: "AveragePool", PoolingFunction.LP: "LpPool"}
_GLOBAL = {
    PoolingFunction.MAX: "GlobalMaxPool",
    PoolingFunction.AVERAGE: "GlobalAveragePool",
    PoolingFunction.LP: "GlobalLpPool",
}


@says(Pooling2d)
def pooling(say: Saying) -> str:
    """Say pooling by a window."""
    pool = say.descriptor
    if pool.auto_padding is not AutoPadding.EXPLICIT:
        raise Unexportable(f"its padding is {pool.auto_padding}, to be worked out once sizes are known")
    made = say.op(
        _WINDOWED[pool.function],
        say.channels_first(4),
        kernel_shape=list(pool.size),
        strides=list(pool.stride),
        pads=list(pool.padding),
        dilations=None if pool.dilation == (1, 1) else list(pool.dilation),  # runtimes fuse poolings without it
        ceil_mode=int(pool.ceil_mode),
        count_include_pad=int(pool.count_padding) if pool.function is PoolingFunction.AVERAGE else None,
        p=pool.p if pool.function is PoolingFunction.LP else None,
    )
    return say.channels_back(made, 4)


@says(GlobalPooling)
def global_pooling(say: Saying) -> str:
    """Say pooling over all of an image.

    The operator of that name does it where channels come first, else a reduction.
    """
    pool, rank = say.descriptor, say.info().rank
    if rank == 2:
        return say.op("Abs", say.input()) if pool.function is PoolingFunction.LP else say.input()
    p = pool.p if pool.function is PoolingFunction.LP else None
    if pool.layout is DataLayout.NCHW and say.dtype.is_float:
        return say.op(_GLOBAL[pool.function], say.input(), p=p)
    if pool.function is PoolingFunction.LP:
        return say.channels_back(say.op("GlobalLpPool", say.channels_first(rank), p=p), rank)
    if pool.function is PoolingFunction.AVERAGE and not say.dtype.is_float:
        raise Unexportable(f"ONNX has no average of {say.dtype}")
    operator = "ReduceMax" if pool.function is PoolingFunction.MAX else "ReduceMean"
    return say.op(operator, say.input(), say.integers(pool.layout.spatial_axes(rank)), keepdims=1)
