"""Layers that reduce windows of images."""

from __future__ import annotations

from dovetail import DataLayout, Layer
from dovetail.layers import GlobalPooling, Pooling2d, Reduce

from .. import program
from .request import Request
from .storage import PLANAR, Order, Storage, natural, sizes, source


def pooling(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `Pooling2d`."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, Pooling2d)
    order = _order(descriptor.layout)
    read, written = storage.stored(source(layer, 0), order), storage.new_tensor(layer.output, order)
    _add(
        storage,
        layer,
        read,
        written,
        str(descriptor.function),
        descriptor.size,
        stride=descriptor.stride,
        padding=descriptor.padding,
        count_padding=descriptor.count_padding,
    )


def global_pooling(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `GlobalPooling` as a window over the whole image."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, GlobalPooling)
    _pool_whole(storage, layer, str(descriptor.function), _order(descriptor.layout))


def mean(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `Reduce` that takes the mean of rows and columns, as a window over the whole image."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, Reduce)
    axes = _reduced_axes(layer)
    order = PLANAR if axes == (1, 2) else natural(source(layer, 0))
    if descriptor.keep_dims:
        _pool_whole(storage, layer, "average", order)
        return
    slot = source(layer, 0)
    shape = [sizes(slot)[axis] for axis in order]
    read, pooled = storage.stored(slot, order), storage.unstored_tensor(layer.output, (*shape[:2], 1, 1))
    _add(storage, layer, read, pooled, "average", (shape[2], shape[3]))
    made = storage.new_tensor(layer.output)
    storage.add(program.Reshape(name=f"{layer.name} as rows", inputs=(pooled,), output=made))


def _reduced_axes(layer: Layer) -> tuple[int, ...]:
    """Return the axes that a `Reduce` reduces, in order."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, Reduce)
    rank = source(layer, 0).known_info.rank
    axes = range(rank) if descriptor.axes is None else descriptor.axes
    return tuple(sorted({axis % rank for axis in axes}))


def _order(layout: DataLayout) -> Order:
    return PLANAR if layout is DataLayout.NHWC else (0, 1, 2, 3)


def _pool_whole(storage: Storage, layer: Layer, function: str, order: Order) -> None:
    slot = source(layer, 0)
    shape = [sizes(slot)[axis] for axis in order]
    read, written = storage.stored(slot, order), storage.new_tensor(layer.output, order)
    _add(storage, layer, read, written, function, (shape[2], shape[3]))


def _add(
    storage: Storage,
    layer: Layer,
    read: int,
    written: int,
    function: str,
    size: tuple[int, int],
    *,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    count_padding: bool = False,
) -> None:
    low, high = storage.tensors[written].limits
    if storage.tensors[written].shape[2:] == (1, 1):  # with a stride of the window's size it would be slow
        stride = (1, 1)
    if (size, stride, padding) == ((1, 1), (1, 1), (0, 0, 0, 0)):  # a copy; and the vendor's compiler crashes on one element
        storage.add(
            program.Requantize(name=layer.name, inputs=(read,), output=written, sources=layer.sources, low=low, high=high)
        )
        return
    storage.add(
        program.Pooling(
            name=layer.name,
            inputs=(read,),
            output=written,
            sources=layer.sources,
            function=function,
            size=size,
            stride=stride,
            padding=padding,
            count_padding=count_padding,
            low=low,
            high=high,
        )
    )
