"""What becomes one along axes, or runs along one: Reduce, Softmax, ArgMinMax, CumulativeSum."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail import DType, Layer
from dovetail.layers import ArgFunction

from ..driver.arguments import Output
from ..elementwise import argument, in_place, input_info
from ..elementwise.functions import mathematics
from ..kernels import TYPES, Kernels, Work, computed_type
from ..lines import launch, lines_along, spread
from .reducing import FUNCTIONS, reduce


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a layer that reduces or scans."""
    match layer.kind.removeprefix("dovetail."):
        case "Reduce":
            descriptor: Any = layer.descriptor
            info = input_info(layer, 0)
            function = FUNCTIONS[descriptor.function.value]
            return reduce(kernels, argument(layer, 0), info.dtype, info.sizes, descriptor.reduced_axes(info.rank), function)
        case "Softmax":
            return _softmax(layer, kernels)
        case "ArgMinMax":
            return _extreme(layer, kernels)
    return _running_sum(layer, kernels)


def _softmax(layer: Layer, kernels: Kernels) -> Work:
    descriptor: Any = layer.descriptor
    info = input_info(layer, 0)
    lines = lines_along(info.sizes, descriptor.axis)
    # Lanes that are not there weigh nothing, being infinite: a factor of 0 would make them NaN.
    form = spread(kernels, lines, is_serial=descriptor.beta == 0.0)
    normalized = launch(
        kernels,
        f"{mathematics(form.defined['LANES'])} reduction/softmax.cl",
        "softmax",
        info.dtype,
        lines,
        (argument(layer, 0), Output()),
        (np.float32(descriptor.beta),),
        form=form,
        LOGARITHM=int(descriptor.log),
        KEEPS=int(info.dtype is DType.FLOAT32 and not descriptor.log),
    )
    return Work((normalized,), aliases=in_place(layer))


def _extreme(layer: Layer, kernels: Kernels) -> Work:
    descriptor: Any = layer.descriptor
    info = input_info(layer, 0)
    wanted = descriptor.function is ArgFunction.MAX
    computed = computed_type(info.dtype)
    if info.dtype.is_float:
        neutral = "(-INFINITY)" if wanted else "INFINITY"
    else:
        neutral = f"{TYPES[info.dtype].upper()}_{'MIN' if wanted else 'MAX'}"
    ahead: dict[str, Any] = {"AHEAD(a, b)": "((a) > (b))" if wanted else "((a) < (b))"}
    found = launch(
        kernels,
        "reduction/extreme.cl",
        "extreme",
        info.dtype,
        lines_along(info.sizes, descriptor.axis),
        (argument(layer, 0), Output()),
        Y=TYPES[descriptor.dtype],
        P="int" if computed in ("float", "int") else "long",
        NEUTRAL=neutral,
        OF="MAX_OR_NAN" if wanted else "MIN_OR_NAN",
        **ahead,
        LAST=int(descriptor.select_last),
    )
    return Work((found,))


def _running_sum(layer: Layer, kernels: Kernels) -> Work:
    descriptor: Any = layer.descriptor
    info = input_info(layer, 0)
    lines = lines_along(info.sizes, descriptor.axis)
    summed = launch(
        kernels,
        "reduction/running.cl",
        "running_sum",
        info.dtype,
        lines,
        (argument(layer, 0), Output()),
        form=spread(kernels, lines, is_serial=True),
        EXCLUSIVE=int(descriptor.exclusive),
        REVERSE=int(descriptor.reverse),
    )
    return Work((summed,), aliases=in_place(layer))
