"""Normalization by moments, by norms and by neighbouring channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail import DataLayout, Layer

from ..driver.arguments import Argument, ConstantArray, Input, Launch, Output, Scratch
from ..elementwise import argument, in_place, input_info, reals
from ..elementwise.functions import literal
from ..kernels import RAW, TYPES, Kernels, Work
from ..lines import Form, Lines, lanes_of, launch, lines_along
from ..walking import Walk, broadcast, contiguous, walk


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a layer that normalizes."""
    match layer.kind.removeprefix("dovetail."):
        case "BatchNormalization":
            return _batch(layer, kernels)
        case "LpNormalization":
            return _norms(layer, kernels)
        case "LocalResponseNormalization":
            return _neighbours(layer, kernels)
        case "LayerNormalization":
            return _layer(layer, kernels)
    return _channels(layer, kernels)


def _is_connected(layer: Layer, index: int) -> bool:
    return index < len(layer.input_infos) and layer.input_infos[index] is not None


def _parameter(layer: Layer, index: int) -> tuple[Argument, str]:
    """Return an input, and the type of its elements; constants become floats."""
    constant = reals(layer, index)
    if constant is None:
        return Input(index), TYPES[input_info(layer, index).dtype]
    return ConstantArray(np.asarray(constant, np.float32)), "float"


# -- by moments ------------------------------------------------------------------------------------


def _normalize(
    layer: Layer,
    kernels: Kernels,
    lines: Lines,
    parameters: dict[int, tuple[Argument, str]],
    *,
    by_position: bool,
    parts: int = 1,
    period: int = 1,
) -> Launch:
    """Return the launch that normalizes lines; `parameters` by their index among the inputs."""
    descriptor: Any = layer.descriptor
    types: dict[str, Any] = {name: parameters[index][1] for index, name in ((1, "S"), (2, "O")) if index in parameters}
    return launch(
        kernels,
        "normalization/moments.cl",
        "normalize_lines",
        input_info(layer, 0).dtype,
        lines,
        (argument(layer, 0), *(given for given, _ in parameters.values()), Output()),
        (np.uint32(parts), np.uint32(period), np.float32(descriptor.epsilon)),
        CENTER=int(getattr(descriptor, "center", True)),
        HAS_SCALE=int(1 in parameters),
        HAS_OFFSET=int(2 in parameters),
        BY_POSITION=int(by_position),
        **types,
    )


def _layer(layer: Layer, kernels: Kernels) -> Work:
    """Normalize over the last axes; scale and offset are first spread over them."""
    descriptor: Any = layer.descriptor
    sizes = input_info(layer, 0).sizes
    axis = descriptor.axis % len(sizes)
    tail = sizes[axis:]
    elements, scratch = math.prod(tail), 0
    parameters, launches = {}, []
    for index in (1, 2):
        if not _is_connected(layer, index):
            continue
        given, type_ = _parameter(layer, index)
        info = input_info(layer, index)
        if isinstance(given, ConstantArray):
            given = ConstantArray(np.broadcast_to(given.values, tail))
        elif math.prod(info.sizes) != elements:
            raw = RAW[info.dtype.itemsize]
            source = Walk(given, raw, broadcast(info.sizes, tail))
            given = Scratch(scratch)
            launches.append(walk(kernels, tail, [source], Walk(given, raw, contiguous(tail)), raw=True))
            scratch += -(-elements * info.dtype.itemsize // 64) * 64
        parameters[index] = (given, type_)
    lines = Lines(math.prod(sizes[:axis]), elements, 1)
    launches.append(_normalize(layer, kernels, lines, parameters, by_position=True))
    return Work(tuple(launches), scratch=scratch, aliases=in_place(layer))


def _channels(layer: Layer, kernels: Kernels) -> Work:
    """Normalize channels, or groups of them, over the pixels of an image."""
    descriptor: Any = layer.descriptor
    sizes = input_info(layer, 0).sizes
    parameters = {index: _parameter(layer, index) for index in (1, 2) if _is_connected(layer, index)}
    if getattr(descriptor, "layout", DataLayout.NCHW) is DataLayout.NCHW:
        groups = getattr(descriptor, "groups", sizes[1])
        parts, period = (sizes[1] // groups if groups else 1), groups
        lines = Lines(sizes[0] * groups, parts * math.prod(sizes[2:]), 1)
    else:
        parts, period = 1, sizes[-1]
        lines = Lines(math.prod(sizes[:1]) if len(sizes) > 1 else 1, math.prod(sizes[1:-1]), sizes[-1])
    launch = _normalize(layer, kernels, lines, parameters, by_position=False, parts=parts, period=period)
    return Work((launch,), aliases=in_place(layer))


def _batch(layer: Layer, kernels: Kernels) -> Work:
    """Normalize by the moments of channels that are given."""
    descriptor: Any = layer.descriptor
    info = input_info(layer, 0)
    sizes = info.sizes
    outer, channels, within = _image(sizes, descriptor.layout)
    by_position = kernels.is_cpu and within == 1
    if by_position:
        lines = Lines(outer, channels, 1)
    elif kernels.is_cpu:
        lines, within = Lines(outer * channels, within, 1), 1
    else:
        lines = Lines(1, 1, math.prod(sizes))
    scale, variance = reals(layer, 1), reals(layer, 4)
    factor, has_variance = _parameter(layer, 1), True
    if scale is not None and variance is not None:
        has_variance = False
        root = np.sqrt(np.asarray(variance, np.float64) + descriptor.epsilon)
        factor = ConstantArray((np.asarray(scale, np.float64) / root).astype(np.float32)), "float"
    given = {"M": _parameter(layer, 3), "F": factor, "O": _parameter(layer, 2)}
    if has_variance:
        given["W"] = _parameter(layer, 4)
    types: dict[str, Any] = {name: type_ for name, (_, type_) in given.items()}
    normalized = launch(
        kernels,
        "normalization/batch.cl",
        "batch_normalize",
        info.dtype,
        lines,
        (argument(layer, 0), *(one for one, _ in given.values()), Output()),
        (np.uint32(within), np.uint32(channels), np.float32(descriptor.epsilon)),
        HAS_VARIANCE=int(has_variance),
        BY_POSITION=int(by_position),
        **types,
    )
    return Work((normalized,), aliases=in_place(layer))


def _image(sizes: tuple[int, ...], layout: DataLayout) -> tuple[int, int, int]:
    """Return what lies before the channels, their number, and what lies behind them."""
    if layout is DataLayout.NHWC:
        return math.prod(sizes[:-1]), sizes[-1], 1
    if len(sizes) == 1:  # one channel
        return 1, 1, sizes[0]
    return sizes[0], sizes[1], math.prod(sizes[2:])


# -- by norms and neighbours -----------------------------------------------------------------------


def _norms(layer: Layer, kernels: Kernels) -> Work:
    descriptor: Any = layer.descriptor
    info = input_info(layer, 0)
    divided = launch(
        kernels,
        "normalization/norms.cl",
        "divide_by_norm",
        info.dtype,
        lines_along(info.sizes, descriptor.axis),
        (argument(layer, 0), Output()),
        (np.float32(descriptor.epsilon),),
        SQUARES=int(descriptor.p == 2),
    )
    return Work((divided,), aliases=in_place(layer))


def _neighbours(layer: Layer, kernels: Kernels) -> Work:
    descriptor: Any = layer.descriptor
    info = input_info(layer, 0)
    lines = Lines(*_image(info.sizes, descriptor.layout))
    lanes = lanes_of(kernels) if kernels.is_cpu and lines.inner >= 4 else 1
    powers = {1.0: "(v)", 0.5: "sqrt(v)", 0.75: "(sqrt(v) * sqrt(sqrt(v)))"}
    steps = lines.outer * lines.size * -(-lines.inner // lanes)
    divided = launch(
        kernels,
        "normalization/neighbours.cl",
        "divide_by_neighbours",
        info.dtype,
        lines,
        (argument(layer, 0), Output()),
        (
            np.uint32((descriptor.size - 1) // 2),
            np.uint32(descriptor.size // 2),
            np.float32(descriptor.alpha / descriptor.size),
            np.float32(descriptor.k),
        ),
        form=Form({"LANES": lanes, "ROWS": 0, "GROUP": 0}, *kernels.each(steps, least=max(1, 1024 // lanes))),
        **{"POWER(v)": powers.get(descriptor.beta, f"pow(v, (V){literal(descriptor.beta)})")},
    )
    return Work((divided,))
