"""StridedSlice: some positions along some axes, by Python's rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail import DType
from dovetail.layers import StridedSlice

from ..cases import Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked

_FAR = 2**31 - 1


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, begin, end = shape_of(parameters), tuple(parameters["begin"]), tuple(parameters["end"])
    axes, stride, how = parameters["axes"], parameters["stride"], parameters["quantization"]
    if shape is None or not carries(how, dtype):
        return None
    places = tuple(range(len(begin))) if axes is None else tuple(axes)
    steps = (1,) * len(begin) if stride is None else tuple(stride)
    inside = all(-len(shape) <= axis < len(shape) for axis in places)
    if not inside or not len(begin) == len(end) == len(places) == len(steps) or 0 in steps:
        return None
    slices = [slice(None)] * len(shape)
    for axis, first, last, step in zip(places, begin, end, steps, strict=True):
        slices[axis] = slice(first, last, step)
    x = samples.anything(dtype, shape, rng)
    expected = np.array(x[tuple(slices)], order="C")
    descriptor = StridedSlice(begin=begin, end=end, axes=axes, stride=stride)
    return layer_case(descriptor, [Feed(x, dtype=dtype, quantization=marked(how))], expected)


def _window(begin: Any, end: Any, axes: Any = None, stride: Any = None, **more: Any) -> dict[str, Any]:
    return {"begin": begin, "end": end, "axes": axes, "stride": stride, **more}


OPERATOR = Operator(
    kind="dovetail.StridedSlice",
    dtypes=samples.ALL,
    parameters={
        **SIZES,
        "begin": ((1,), (0,), (-2,), (-100,), (100,)),
        "end": ((3,), (1,), (-1,), (0,), (_FAR,)),
        "axes": ((2,), (0,), (1,), (3,), (-1,), (-3,), None),
        "stride": ((1,), (2,), (3,), (7,), (-1,), None),
        "quantization": (None, "kept"),
    },
    make=_make,
    quantities=quantities_of("input"),
    together=[
        _window((), ()),
        _window((), (), rank=0),
        _window((-1,), (-_FAR,), (3,), (-1,)),
        _window((-1,), (-_FAR,), (0,), (-1,)),
        _window((3,), (0,), (2,), (-2,)),
        _window((2**62,), (-(2**62),), (3,), (-3,)),
        _window((0,), (2**62,), (3,), (2,)),
        _window((0, 1), (2, 3)),
        _window((0, 0, 1, 1), (1, _FAR, 3, -1)),
        _window((1, 0), (_FAR, _FAR), (3, 1), (2, 2)),
        _window((-1, -1, -1, -1), (-_FAR, -_FAR, -_FAR, -_FAR), None, (-1, -1, -1, -1)),
        _window((0, 0), (_FAR, _FAR), (-2, -1), (2, 3), channels=17),
        _window((1,), (4,), rank=1),
        _window((4,), (_FAR,), rank=1),
        _window((0,), (_FAR,), (0,), (4,), rank=1, channels=17),
        _window((0,), (1,), (5,), rank=6),
        _window((1, 0), (3, 1), (4, 1), (1, 1), rank=6),
        _window((0,), (_FAR,), (3,), channels=0),
    ],
)
