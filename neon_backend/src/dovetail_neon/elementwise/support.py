"""Which broadcasts CpuAcc takes, beyond what its manifest claims."""

from __future__ import annotations

from dovetail import Layer, Support

_MAX_AXES = 8
"""NEON_MOST_AXES of parameters.h."""


def broadcast(layer: Layer) -> Support | None:
    """Refuse operands with too many axes for the kernels.

    Neighbouring axes that are read or repeated alike count as one.
    """
    result = layer.output.known_info.sizes
    if len(result) <= _MAX_AXES:
        return None
    shapes = [info.sizes for info in layer.input_infos if info is not None]
    padded = [(1,) * (len(result) - len(shape)) + shape for shape in shapes]
    walked = [tuple(own == 1 for own in axis) for size, *axis in zip(result, *padded, strict=True) if size != 1]
    merged = sum(1 for before, here in zip([None, *walked], walked, strict=False) if before != here)
    if merged <= _MAX_AXES:
        return None
    return Support.no("shape", f"the operands are broadcast along {merged} axes; {_MAX_AXES} are implemented", "input")
