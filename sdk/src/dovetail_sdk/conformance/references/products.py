"""Cases of layers that sum products: convolutions, fully connected layers, products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dovetail import DataLayout, Descriptor, DType
from dovetail.layers import ActivationFunction

from ..cases import Array, Case, Feed, Operator, Parameters, Tolerance
from . import quantized, samples
from .fused import CLAMPS, PARAMETERS, activated, parameters_for
from .images import FILTER_QUANTITIES, image_from_nchw
from .precision import SMALLEST_NORMAL, UNIT
from .quantized_elementwise import ONE_QUANTUM
from .single_layer import layer_case

WEIGHTED: Mapping[str, Sequence[Any]] = {
    "weights.constant": (True, False),
    "weights.dtype": ("own", "int8", "uint8"),
    "weights quantization": ("per_tensor", "per_axis"),
    "bias.dtype": ("own", "int32", "int64", "float64", "float32", "float16", "bfloat16", None),
    "bias.constant": (True, False),
    "activation": tuple(PARAMETERS),
    "quantization": ("per_tensor",),
    "values": ("plain", quantized.TIES),
}
"""Parameters of what has weights; `own` is the element type that a plain layer has.

Floats know no quantization, and no ties.

The labels stand before None, so that of a claim such as `"bias.dtype": [null, "int32"]` the case
with a bias is the plain one.
"""

WEIGHTED_QUANTITIES: Mapping[str, str] = {
    "input.quantization": "quantization",
    "output.quantization": "quantization",
    "weights.quantization": "weights quantization",
}


def filtering_operator(
    kind: str,
    make: Callable[[Parameters, DType, np.random.Generator], Case | None],
    parameters: Mapping[str, Sequence[Any]],
    quantities: Mapping[str, str],
    **others: Any,
) -> Operator:
    """Describe a kind of dovetail's whose filters slide over images.

    Args:
        kind: Its name alone.
        make: Makes a case.
        parameters: Those besides the weights and the activation.
        quantities: What governs its own quantities.
        others: Further fields of the operator.
    """
    dtypes = (*samples.FLOATS, *quantized.EIGHT_BITS, DType.INT16)
    governed = {**FILTER_QUANTITIES, **WEIGHTED_QUANTITIES, **quantities}
    return Operator(f"dovetail.{kind}", dtypes, {**parameters, **WEIGHTED}, make, governed, **others)


LARGEST = 1 << 22
"""More products than this are not tried: steps over a claim's limit may ask for many."""

_STEPS = 6.0
_MOST_TERMS = 500
"""Products of words and bytes that a sum of 32 bits holds, whatever they are."""


def operand(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator, scale: float = 1.0) -> Array:
    """Make floats of magnitude 0.5 to 2 and either sign, times a power of two.

    None is so small that it could go missing unseen.
    """
    return samples.stored(rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape) * scale, dtype)


def weight_scale(terms: int) -> float:
    """Return the power of two that scales weights so that sums of so many products stay near 1."""
    return 2.0 ** -math.ceil(math.log2(math.sqrt(max(terms, 1))))


def sum_tolerance(terms: int, magnitude: float, dtype: DType) -> Tolerance:
    """Bound the error of products summed in any order in float32 (float64 of float64).

    Higham, Accuracy and Stability of Numerical Algorithms, 3.1: n terms err by n u sum |a b| at
    most; Higham and Mary 2019: beyond 6 sqrt(n) u sum |a b| with a probability below 1e-7.

    Args:
        terms: Products and the bias.
        magnitude: Greatest sum |a b|, bias included.
        dtype: Of the result.
    """
    rounding = 2.0**-53 if dtype is DType.FLOAT64 else 2.0**-24
    count = min(terms + 1.0, _STEPS * math.sqrt(terms + 1.0))
    single = "float64" if dtype is DType.FLOAT64 else "float32"
    reason = (
        f"{terms} terms of at most {magnitude:.3g} together, summed in {single} in any order: {count:.3g} roundings of them"
    )
    if dtype.bits == 16:
        reason += f"; the sum is then rounded to {dtype}, not necessarily to nearest: 1 unit"
    relative = UNIT[dtype] if dtype.bits == 16 else 0.0
    return Tolerance(relative, count * rounding * magnitude + SMALLEST_NORMAL[dtype], reason)


def activated_tolerance(plain: Tolerance, greatest: float, function: ActivationFunction | None, dtype: DType) -> Tolerance:
    """Widen the tolerance of sums, `greatest` in magnitude, by what an activation makes of them."""
    if function in CLAMPS:
        return plain
    unit = UNIT[dtype]
    slope = 1.8 if function is ActivationFunction.SELU else 1.5
    absolute = slope * (plain.absolute + plain.relative * greatest) + 4 * unit
    reason = f"{plain.reason}; the activation has a slope of at most {slope} and errs by 4 units, of 1.0 near its zeros"
    return Tolerance(4 * unit, absolute, reason)


@dataclass(frozen=True, slots=True)
class Weighted:
    """A layer of weights, in a plain layout.

    Attributes:
        make: Makes the descriptor from the attributes of the fused activation.
        sums: Of input and weights, in float64 or int64.
        input_shape, weights_shape: In the plain layout.
        terms: Products that one sum has at most.
        filters: Count.
        output_axis: Axis of the sums that counts the filters.
        weights_axis: Axis of the placed weights that counts the filters.
        litert: How LiteRT's kernel of the kind rescales quantized sums.
        place_input, place_weights, place_output: Bring arrays from the plain layout into the
            layer's.
    """

    make: Callable[..., Descriptor]
    sums: Callable[[Array, Array], Array]
    input_shape: tuple[int, ...]
    weights_shape: tuple[int, ...]
    terms: int
    filters: int
    output_axis: int
    weights_axis: int
    litert: quantized.LitertScaling = quantized.CONVOLUTIONS
    place_input: Callable[[Array], Array] = np.ascontiguousarray
    place_weights: Callable[[Array], Array] = np.ascontiguousarray
    place_output: Callable[[Array], Array] = np.ascontiguousarray

    def along_filters(self, bias: Array, rank: int) -> Array:
        """Shape a bias so that it broadcasts to the sums."""
        return bias.reshape(tuple(self.filters if axis == self.output_axis % rank else 1 for axis in range(rank)))


def weighted_images(
    kind: Callable[..., Descriptor],
    sums: Callable[..., Array],
    sliding: Mapping[str, Any],
    layout: DataLayout,
    *,
    input_shape: tuple[int, ...],
    weights_shape: tuple[int, ...],
    terms: int,
    filters: int,
    weights_axis: int = 0,
    place_weights: Callable[..., Array] = image_from_nchw,
) -> Weighted:
    """Describe a layer of weights that slide over images.

    Args:
        kind: The descriptor's class.
        sums: Its definition for NCHW images.
        sliding: Attributes that both are given.
        layout: Of the layer's images.
        input_shape: In NCHW.
        weights_shape: In NCHW.
        terms: Products that one sum has at most.
        filters: Count.
        weights_axis: Axis of the placed weights that counts the filters.
        place_weights: Brings weights from NCHW into a layout.
    """
    placed = partial(image_from_nchw, layout=layout)
    return Weighted(
        make=partial(kind, layout=layout, **sliding),
        sums=partial(sums, **sliding),
        input_shape=input_shape,
        weights_shape=weights_shape,
        terms=terms,
        filters=filters,
        output_axis=1,
        weights_axis=weights_axis,
        place_input=placed,
        place_weights=partial(place_weights, layout=layout),
        place_output=placed,
    )


def weighted_case(layer: Weighted, parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    """Make a case of a layer of weights; None if the parameters do not go together."""
    function = None if parameters["activation"] is None else ActivationFunction(parameters["activation"])
    if dtype.is_float:
        return _float_case(layer, function, parameters, dtype, rng)
    return _quantized_case(layer, _fused(layer, function, PARAMETERS[function]), function, parameters, dtype, rng)


def _fused(layer: Weighted, function: ActivationFunction | None, with_parameters: tuple[float, float]) -> Descriptor:
    alpha, beta = with_parameters
    return layer.make(activation=function, activation_alpha=alpha, activation_beta=beta)


def _float_case(
    layer: Weighted,
    function: ActivationFunction | None,
    parameters: Parameters,
    dtype: DType,
    rng: np.random.Generator,
) -> Case | None:
    own = ("own", dtype.label)
    if parameters["weights.dtype"] not in own or parameters["bias.dtype"] not in (*own, None):
        return None
    if parameters["values"] != "plain":
        return None
    if "per_axis" in (parameters["weights quantization"], parameters["quantization"]):
        return None
    x = operand(dtype, layer.input_shape, rng)
    weights = operand(dtype, layer.weights_shape, rng, weight_scale(layer.terms))
    bias = None if parameters["bias.dtype"] is None else operand(dtype, (layer.filters,), rng)
    wide = [samples.reals(one, dtype) for one in (x, weights)]
    total = layer.sums(*wide)
    magnitude = layer.sums(*map(np.abs, wide))
    if bias is not None:
        added = layer.along_filters(samples.reals(bias, dtype), total.ndim)
        total, magnitude = total + added, magnitude + np.abs(added)
    plain = sum_tolerance(layer.terms + (bias is not None), float(magnitude.max(initial=0.0)), dtype)
    greatest = float(np.abs(total).max(initial=0.0))
    feeds = (
        Feed(layer.place_input(x), dtype=dtype),
        Feed(layer.place_weights(weights), parameters["weights.constant"], dtype),
        None if bias is None else Feed(bias, parameters["bias.constant"], dtype),
    )
    with_parameters = parameters_for(function, total, plain.absolute + plain.relative * greatest)
    if with_parameters is None:
        return None
    descriptor = _fused(layer, function, with_parameters)
    expected = layer.place_output(activated(total, function, with_parameters))
    return layer_case(descriptor, feeds, expected, tolerance=activated_tolerance(plain, greatest, function, dtype))


def _quantized_case(
    layer: Weighted,
    descriptor: Descriptor,
    function: ActivationFunction | None,
    parameters: Parameters,
    dtype: DType,
    rng: np.random.Generator,
) -> Case | None:
    are_words = dtype is DType.INT16
    own = DType.INT8 if are_words else dtype
    stored = own if parameters["weights.dtype"] == "own" else DType.of(parameters["weights.dtype"])
    how = parameters["weights quantization"]
    if not (are_words or dtype in quantized.EIGHT_BITS) or stored not in quantized.EIGHT_BITS or function not in CLAMPS:
        return None
    wide = are_words and parameters["bias.dtype"] in ("own", "int64")
    if are_words and (stored is not DType.INT8 or (not wide and layer.terms > _MOST_TERMS)):
        return None
    if parameters["quantization"] != "per_tensor" or how not in ("per_tensor", "per_axis"):
        return None
    if parameters["bias.dtype"] not in ("own", "int64" if are_words else "int32", "int32", None) or (
        how == "per_axis" and not layer.filters
    ):
        return None
    if parameters["values"] == quantized.TIES:
        if how == "per_axis":
            return None
        shapes = (layer.input_shape, layer.weights_shape)
        x, weights, (given, weighed, result) = quantized.ties(dtype, stored, shapes, layer.terms, rng)
        unit = 32  # a bias moves no sum off its tie
    else:
        x = quantized.eight_bits(dtype, layer.input_shape, rng)
        weights = quantized.eight_bit_weights(stored, layer.weights_shape, rng)
        given = quantized.input_quantization(dtype)
        weighed = quantized.weights_quantization(stored, layer.filters, layer.weights_axis if how == "per_axis" else None, rng)
        result = quantized.result_quantization(weighed, layer.terms, dtype)
        unit = 1
    bias = None
    if parameters["bias.dtype"] is not None:
        maximum = int(4000 * math.sqrt(max(layer.terms, 1))) // unit // unit
        bias = samples.led_by(
            np.asarray([maximum, -maximum], np.int32), rng.integers(-maximum, maximum + 1, layer.filters, np.int32)
        )
        bias = (bias * np.int32(unit)).astype(np.int64 if wide else np.int32)
    expected, bits = quantized.quantized_sums(
        layer.sums, (x, weights), bias, (given, weighed, result), layer.output_axis, dtype, function, litert=layer.litert
    )
    scale_of_bias = quantized.bias_quantization(given, weighed)
    feeds = (
        Feed(layer.place_input(x), quantization=given),
        Feed(layer.place_weights(weights), parameters["weights.constant"], quantization=weighed),
        None if bias is None else Feed(bias, parameters["bias.constant"], quantization=scale_of_bias),
    )
    placed = {name: one.moved(layer.place_output) for name, one in bits.items()}
    return layer_case(descriptor, feeds, layer.place_output(expected), tolerance=ONE_QUANTUM, quantization=result, bits=placed)
