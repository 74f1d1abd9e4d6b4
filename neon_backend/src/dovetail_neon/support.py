"""Which layers CpuAcc takes, and why not the others: what the families say."""

from __future__ import annotations

from dovetail import DType, Layer, Support

from .convolution import support as convolution
from .elementwise import support as elementwise
from .matrices import support as matrices
from .movement import support as movement
from .quantized import support as quantized
from .resizing import support as resizing
from .rows import support as rows
from .windows import support as windows

IN_FLOAT32 = (
    convolution.SUPPORT
    | {kind: rule for kind, rule in elementwise.SUPPORT.items() if kind != "dovetail.Cast"}
    | matrices.SUPPORT
    | resizing.SUPPORT
    | rows.SUPPORT
    | windows.SUPPORT
)
"""Rules of kinds that are computed in float32."""
OF_ANY_TYPE = movement.SUPPORT | quantized.SUPPORT | {"dovetail.Cast": elementwise.SUPPORT["dovetail.Cast"]}
"""Rules that look at element types themselves."""


def check(layer: Layer) -> Support:
    """Say whether a layer can be run."""
    own_types = quantized.SUPPORT_OF_BYTES if quantized.is_quantized(layer) else OF_ANY_TYPE
    rule = own_types.get(layer.kind)
    refusal = None
    if rule is None:
        rule = None if own_types is quantized.SUPPORT_OF_BYTES else IN_FLOAT32.get(layer.kind)
        if rule is None:
            return Support.no("kind", f"CpuAcc has no kernel for {layer.kind}")
        refusal = _computes_in_float32(layer)
    if refusal is None:
        refusal = rule(layer)
    return Support.yes() if refusal is None else refusal


def _computes_in_float32(layer: Layer) -> Support | None:
    for index, info in enumerate(layer.input_infos):
        if info is not None and info.dtype is not DType.FLOAT32:
            names = layer.descriptor.input_names
            name = names[index % len(names)]
            return Support.no("dtype", f"input {name!r} is {info.dtype}; CpuAcc computes this in float32", name)
    return None
