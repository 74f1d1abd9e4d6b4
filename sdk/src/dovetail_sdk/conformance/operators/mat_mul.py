"""MatMul: products of matrices and vectors, in batches that broadcast.

They are of floats, of plain integers and of quantized ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import MatMul

from ..cases import EXACT, Array, Bits, Case, Feed, Operator, Parameters, Tolerance
from ..references import quantized, samples
from ..references.products import LARGEST, operand, sum_tolerance, weight_scale
from ..references.quantized_elementwise import ONE_QUANTUM
from ..references.single_layer import layer_case
from ..references.whole_products import summed, whole_operand

_Shapes: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]

_QUANTIZATION_B = {
    DType.INT8: Quantization.per_tensor(float(np.float32(0.02)), 6),
    DType.UINT8: Quantization.per_tensor(0.015625, 131),
    DType.INT16: Quantization.per_tensor(float(np.float32(0.0002)), 0),
}


def product(a: Array, b: Array) -> Array:
    """Sum over the last axis of `a` and the last but one of `b`.

    Vectors are a row, or a column, that the result lacks.
    """
    rows = a[None, :] if a.ndim == 1 else a
    columns = b[:, None] if b.ndim == 1 else b
    full = np.einsum("...mk,...kn->...mn", rows, columns)
    if b.ndim == 1:
        full = full[..., 0]
    return np.asarray(full[..., 0] if a.ndim == 1 and b.ndim == 1 else full[..., 0, :] if a.ndim == 1 else full)


def _shapes(parameters: Parameters) -> _Shapes | None:
    """Return shapes before the transposes; None if the parameters do not go together."""
    ranks, how = (parameters["a.rank"], parameters["b.rank"]), parameters["broadcast"]
    if min(ranks) < 1 or (how is not None and max(ranks) < 3):
        return None
    result = []
    for name, rank in zip("ab", ranks, strict=True):
        lines = (parameters["rows"], parameters["inner"]) if name == "a" else (parameters["inner"], parameters["columns"])
        if rank == 1:
            result.append((parameters["inner"],))
            continue
        batches = (*(1,) * max(rank - 4, 0), 2, parameters["batch"])[-(rank - 2) :] if rank > 2 else ()
        if how == name:
            batches = (1,) * len(batches)
        if how == "crosswise":
            if rank != 4:
                return None
            batches = (2, 1) if name == "a" else (1, parameters["batch"])
        result.append((*batches, *lines))
    return result[0], result[1]


def _transposed(x: Array, swap: bool) -> Array:
    return np.ascontiguousarray(np.swapaxes(x, -1, -2)) if swap and x.ndim > 1 else x


def _case(
    parameters: Parameters,
    operands: tuple[Array, Array],
    dtype: DType,
    expected: Array,
    tolerance: Tolerance = EXACT,
    quantizations: tuple[Quantization | None, Quantization | None, Quantization | None] = (None, None, None),
    bits: Mapping[str, Bits] | None = None,
) -> Case:
    feeds = [
        Feed(_transposed(value, parameters[f"transpose_{name}"]), parameters["constant"] == name, dtype, quantization)
        for name, value, quantization in zip("ab", operands, quantizations[:2], strict=True)
    ]
    descriptor = MatMul(transpose_a=parameters["transpose_a"], transpose_b=parameters["transpose_b"])
    return layer_case(descriptor, feeds, np.asarray(expected), tolerance=tolerance, quantization=quantizations[2], bits=bits)


def _float_case(parameters: Parameters, shapes: _Shapes, dtype: DType, rng: np.random.Generator) -> Case:
    inner = parameters["inner"]
    a, b = operand(dtype, shapes[0], rng), operand(dtype, shapes[1], rng, weight_scale(inner))
    wide = [samples.reals(one, dtype) for one in (a, b)]
    magnitude = float(product(np.abs(wide[0]), np.abs(wide[1])).max(initial=0.0))
    return _case(parameters, (a, b), dtype, product(wide[0], wide[1]), sum_tolerance(inner, magnitude, dtype))


def _whole_case(parameters: Parameters, shapes: _Shapes, dtype: DType, rng: np.random.Generator) -> Case | None:
    a, b = (whole_operand(dtype, shape, parameters["inner"], rng) for shape in shapes)
    if a is None or b is None:
        return None
    storage = np.int64 if dtype.is_signed else np.uint64
    return _case(parameters, (a, b), dtype, summed(product(a.astype(storage), b.astype(storage)), dtype))


def _quantized_case(parameters: Parameters, shapes: _Shapes, dtype: DType, rng: np.random.Generator) -> Case:
    if parameters["values"] == quantized.TIES:
        a, b, scales = quantized.ties(dtype, dtype, shapes, parameters["inner"], rng)
    else:
        given, weighed = quantized.input_quantization(dtype), _QUANTIZATION_B[dtype]
        scales = (given, weighed, quantized.result_quantization(weighed, parameters["inner"], dtype, dtype))
        a, b = (quantized.eight_bits(dtype, shape, rng) for shape in shapes)
    expected, bits = quantized.quantized_sums(
        lambda x, y: product(x, y), (a, b), None, scales, 0, dtype, litert=quantized.BATCHED_PRODUCTS
    )
    return _case(parameters, (a, b), dtype, expected, ONE_QUANTUM, scales, bits)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shapes, how = _shapes(parameters), quantized.of_type(parameters["quantization"], dtype)
    if dtype is DType.INT16:
        how = parameters["quantization"]
    if shapes is None or math.prod(shapes[0]) * parameters["columns"] * max(math.prod(shapes[1][:-2]), 1) > LARGEST:
        return None
    if how == "per_tensor":
        return _quantized_case(parameters, shapes, dtype, rng)
    if how != "none" or parameters["values"] != "plain":
        return None
    return (_float_case if dtype.is_float else _whole_case)(parameters, shapes, dtype, rng)


_SHAPES: list[dict[str, Any]] = [
    {"rows": 1, "inner": 1, "columns": 1},
    {"rows": 16, "inner": 16, "columns": 16},
    {"rows": 17, "inner": 9, "columns": 33},
    *({"a.rank": a, "b.rank": b} for a, b in ((1, 1), (1, 3), (3, 1), (3, 3), (4, 4), (4, 3))),
    {"a.rank": 3, "b.rank": 3, "broadcast": "a"},
    {"a.rank": 4, "b.rank": 4, "broadcast": "b"},
    {"a.rank": 4, "b.rank": 4, "broadcast": "crosswise"},
    {"a.rank": 3, "b.rank": 3, "batch": 1, "rows": 1},
    {"transpose_a": True, "transpose_b": True},
    {"transpose_a": True, "a.rank": 3, "b.rank": 3},
    {"transpose_b": True, "a.rank": 4, "b.rank": 4, "constant": "b"},
    {"transpose_a": True, "transpose_b": True, "a.rank": 1, "b.rank": 1},  # vectors have nothing to swap
]

OPERATOR = Operator(
    kind="dovetail.MatMul",
    dtypes=samples.NUMBERS,
    parameters={
        **dict.fromkeys(("a.rank", "b.rank"), (2, 1, 3, 4, 5)),
        "batch": (3, 1, 2, 0),
        "rows": (4, 1, 3, 7, 8, 17, 0),
        "inner": (8, 1, 3, 7, 9, 33),
        "columns": (5, 1, 4, 8, 16, 17, 0),
        "broadcast": (None, "a", "b", "crosswise"),
        "transpose_a": (False, True),
        "transpose_b": (False, True),
        "constant": (None, "b", "a"),
        "quantization": quantized.QUANTIZATIONS,
        "values": ("plain", quantized.TIES),
    },
    make=_make,
    quantities={
        "a.-1": "inner",
        "a.-2": "rows",
        "b.-1": "columns",
        "b.-2": "inner",
        "output.-1": "columns",
        "output.-2": "rows",
        "output.rank": "a.rank",
        **{f"{slot}.quantization": "quantization" for slot in ("a", "b", "output")},
    },
    together=[*_SHAPES, *({"quantization": "none", **shape} for shape in (*_SHAPES, {"inner": 33}, {"constant": "b"}))],
)
