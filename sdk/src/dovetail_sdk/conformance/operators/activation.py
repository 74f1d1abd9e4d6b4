"""Activation: functions of one element, of floats, plain integers (clamps), quantized tensors."""

from __future__ import annotations

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import Activation, ActivationFunction

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.activations import FUNCTIONS, GREAT, INFINITE, SUBTLE
from ..references.fused import activated
from ..references.quantized import EIGHT_BITS, QUANTIZATIONS, of_type
from ..references.quantized_elementwise import ONE_QUANTUM, quantized, real
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case

_CLAMPS = (ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)
_SCALES = {"scaled": (0.07, 0.05), "alike": (0.0625, 0.0625)}
"""Scales of input and result; no integer of the first is a threshold where a function jumps."""


def _floats(function: ActivationFunction, dtype: DType, shape: tuple[int, ...], values: str, rng: np.random.Generator) -> Array:
    plain = samples.uniform(dtype, shape, rng, -7.0, 7.0)
    if values == "plain":
        return samples.led_by(samples.stored(SUBTLE, dtype), plain)
    ends = INFINITE if FUNCTIONS[function].ends else ()
    return samples.led_by(samples.stored((*ends, *GREAT), dtype), plain)


def _make_quantized(
    parameters: Parameters, how: str, dtype: DType, shape: tuple[int, ...], rng: np.random.Generator
) -> Case | None:
    if dtype not in EIGHT_BITS or how not in (*_SCALES, "per_tensor"):
        return None
    function = FUNCTIONS[ActivationFunction(parameters["function"])]
    scales = _SCALES["scaled" if how == "per_tensor" else how]
    zero = -8 if dtype is DType.INT8 else 120
    given = Quantization.per_tensor(float(np.float32(scales[0])), zero)
    result = given if how == "alike" else Quantization.per_tensor(float(np.float32(scales[1])), zero - 20)
    x = samples.anything(dtype, shape, rng)
    expected = quantized(function.of(real(x, given)), result, dtype)
    return _case(parameters, x, dtype, expected, given, result)


def _case(
    parameters: Parameters,
    x: Array,
    dtype: DType,
    expected: Array,
    given: Quantization | None = None,
    result: Quantization | None = None,
) -> Case:
    kind = ActivationFunction(parameters["function"])
    function = FUNCTIONS[kind]
    descriptor = Activation(function=kind, alpha=function.alpha, beta=function.beta)
    tolerance = ONE_QUANTUM if given is not None else function.tolerance(dtype)
    feed = Feed(x, dtype=dtype, quantization=given)
    return layer_case(descriptor, [feed], expected, tolerance=tolerance, quantization=result)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    function, shape = ActivationFunction(parameters["function"]), shape_of(parameters)
    values, how = parameters["values"], of_type(parameters["quantization"], dtype)
    if shape is None or (values != "plain" and (not dtype.is_float or how != "none")):
        return None
    if how != "none":
        return _make_quantized(parameters, how, dtype, shape, rng)
    if dtype.is_float:
        x = _floats(function, dtype, shape, values, rng)
        with np.errstate(over="ignore"):
            expected = FUNCTIONS[function].of(samples.reals(x, dtype))
        return _case(parameters, x, dtype, np.asarray(expected))
    if function not in _CLAMPS:
        return None
    x = samples.anything(dtype, shape, rng)
    return _case(parameters, x, dtype, activated(x, function))


OPERATOR = Operator(
    kind="dovetail.Activation",
    dtypes=samples.NUMBERS,
    parameters={
        "function": (ActivationFunction.RELU, *(one for one in ActivationFunction if one is not ActivationFunction.RELU)),
        **SIZES,
        "values": ("plain", "special"),
        "quantization": (*QUANTIZATIONS, "alike"),
    },
    make=_make,
    quantities={
        **quantities_of("input", "output"),
        "input.quantization": "quantization",
        "output.quantization": "quantization",
    },
    together=[
        *({"function": function, "values": "special"} for function in FUNCTIONS),
        *({"function": function, "quantization": "none"} for function in _CLAMPS),
        *({"function": function, "quantization": "alike"} for function in (*_CLAMPS, ActivationFunction.HARD_SWISH)),
        *({"function": ActivationFunction.TANH, "rank": rank} for rank in (0, 1, 6)),
        *({"function": ActivationFunction.TANH, "channels": size} for size in (0, 1, 7, 17)),
        *({"quantization": "none", "channels": size} for size in (0, 1, 7, 17)),
        *({"quantization": "none", "rank": rank} for rank in (0, 1, 2)),
    ],
)
