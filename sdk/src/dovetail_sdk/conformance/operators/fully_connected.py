"""FullyConnected: rows times transposed weights, plus bias: float, plain integer or quantized."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dovetail import DType
from dovetail.layers import ActivationFunction, FullyConnected

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import quantized, samples
from ..references.products import LARGEST, WEIGHTED, WEIGHTED_QUANTITIES, Weighted, weighted_case
from ..references.quantized import EIGHT_BITS, FULLY_CONNECTED
from ..references.single_layer import layer_case
from ..references.whole_products import summed, whole_operand

_OF_WORDS = (("per_tensor", "int64"), ("per_axis", "int64"), ("per_tensor", "int32"), ("per_axis", None))
_PLAIN = tuple(dtype for dtype in samples.INTEGERS if dtype not in EIGHT_BITS)
_LABELS = tuple(dtype.label for dtype in _PLAIN)


def rows_by_weights(x: Array, weights: Array) -> Array:
    """Sum over the last axes: [..., K] and [N, K] give [..., N]."""
    return np.asarray(np.einsum("...k,nk->...n", x, weights))


def _input_shape(parameters: Parameters) -> tuple[int, ...] | None:
    rank, batch, inputs = (parameters[name] for name in ("input.rank", "batch", "inputs"))
    if rank < 1:
        return None
    return (*((*(1,) * (rank - 3), 2)[: rank - 2] if rank > 2 else ()), batch, inputs)[-rank:]


def _whole_case(parameters: Parameters, shape: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> Case | None:
    own = ("own", dtype.label)
    if parameters["weights.dtype"] not in own or parameters["bias.dtype"] not in (*own, None):
        return None
    if parameters["activation"] is not None or parameters["values"] != "plain":
        return None
    if parameters["weights quantization"] == "per_axis":
        return None
    inputs, outputs = parameters["inputs"], parameters["outputs"]
    x, weights = (whole_operand(dtype, one, inputs, rng) for one in (shape, (outputs, inputs)))
    bias = None if parameters["bias.dtype"] is None else samples.whole(dtype, (outputs,), rng, -9, 9)
    if x is None or weights is None:
        return None
    storage = np.int64 if dtype.is_signed else np.uint64
    total = rows_by_weights(x.astype(storage), weights.astype(storage))
    if bias is not None:
        total = total + bias.astype(storage)
    feeds = [
        Feed(x),
        Feed(weights, parameters["weights.constant"]),
        None if bias is None else Feed(bias, parameters["bias.constant"]),
    ]
    return layer_case(FullyConnected(), feeds, summed(total, dtype))


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, inputs, outputs = _input_shape(parameters), parameters["inputs"], parameters["outputs"]
    if shape is None or math.prod(shape) * outputs > LARGEST:
        return None
    if dtype in _PLAIN and not (dtype is DType.INT16 and parameters["weights.dtype"] == "int8"):
        return _whole_case(parameters, shape, dtype, rng)
    layer = Weighted(
        make=partial(FullyConnected),
        sums=lambda x, weights: rows_by_weights(x, weights),
        input_shape=shape,
        weights_shape=(outputs, inputs),
        terms=inputs,
        filters=outputs,
        output_axis=len(shape) - 1,
        weights_axis=0,
        litert=FULLY_CONNECTED,
    )
    return weighted_case(layer, parameters, dtype, rng)


OPERATOR = Operator(
    kind="dovetail.FullyConnected",
    dtypes=samples.NUMBERS,
    parameters={
        "input.rank": (2, 1, 3, 4, 5),
        "batch": (4, 1, 2, 7, 17, 0),
        "inputs": (8, 1, 7, 9, 33, 64),
        "outputs": (5, 1, 4, 8, 16, 37),
        **WEIGHTED,
        "weights.dtype": (*WEIGHTED["weights.dtype"], *_LABELS),
        "bias.dtype": (*WEIGHTED["bias.dtype"][:-1], *(label for label in _LABELS if label != "int32"), None),
    },
    make=_make,
    quantities={
        **WEIGHTED_QUANTITIES,
        "input.0": "batch",
        "output.0": "batch",
        "input.-2": "batch",
        "input.1": "inputs",
        "input.-1": "inputs",
        "weights.1": "inputs",
        "weights.0": "outputs",
        "bias.0": "outputs",
        "output.1": "outputs",
        "output.-1": "outputs",
        "output.rank": "input.rank",
    },
    reaching={f"weights.{fact}": lambda size: {"outputs": size} for fact in ("shape", "elements")},
    together=[
        {"batch": 1, "inputs": 1, "outputs": 1},
        {"inputs": 16, "outputs": 16},
        {"batch": 17, "inputs": 33, "outputs": 37},
        {"batch": 3, "input.rank": 3, "inputs": 11},
        {"batch": 2, "input.rank": 4, "bias.dtype": None},
        {"input.rank": 1, "outputs": 1},
        {"input.rank": 1, "bias.dtype": None, "inputs": 9},
        {"bias.dtype": None, "inputs": 16},
        {"weights.constant": False, "bias.constant": False},
        {"weights.constant": False, "bias.dtype": None},
        {"activation": ActivationFunction.RELU, "bias.dtype": None},
        {"activation": ActivationFunction.BOUNDED_RELU, "batch": 1},
        {"weights quantization": "per_axis", "inputs": 64},
        {"weights quantization": "per_axis", "activation": ActivationFunction.RELU},
        {"batch": 2, "weights quantization": "per_axis", "bias.dtype": None, "input.rank": 3},
        *({"weights.dtype": "int8", "weights quantization": how, "bias.dtype": bias} for how, bias in _OF_WORDS),
        {"weights.dtype": "int8", "values": quantized.TIES, "inputs": 64, "outputs": 37},
    ],
)
