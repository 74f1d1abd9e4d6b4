#!/usr/bin/env python3
"""Make litert.npz for test_against_litert.py: LiteRT's reference outputs of random layers.

The layers are quantized.

    pip install ai-edge-litert==2.3.0
    python make_litert.py [--seed 0] [--each 3] [-o litert.npz]

Each case is one operator; its model is written here with the FlatBuffers schema that ships with
LiteRT, so no TensorFlow is needed. Weights, inputs, scales and zero points are random; every tensor
but weights and bias is an input of the model.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

_TYPES = {
    "float32": schema.TensorType.FLOAT32,
    "int8": schema.TensorType.INT8,
    "uint8": schema.TensorType.UINT8,
    "int16": schema.TensorType.INT16,
    "int32": schema.TensorType.INT32,
}
_FUSED = [  # LiteRT's name, our attributes
    ("NONE", {}),
    ("RELU", {"activation": "relu"}),
    ("RELU6", {"activation": "bounded_relu", "activation_alpha": 6.0, "activation_beta": 0.0}),
    ("RELU_N1_TO_1", {"activation": "bounded_relu", "activation_alpha": 1.0, "activation_beta": -1.0}),
]


@dataclass
class Tensor:
    """One operand: its values and quantization.

    `zeros` of all scales are equal where one is given.
    """

    value: np.ndarray
    scales: tuple[float, ...] = ()
    zeros: tuple[int, ...] = (0,)
    axis: int | None = None
    constant: bool = False

    @property
    def facts(self) -> dict[str, Any]:
        return {"dtype": self.value.dtype.name, "scales": self.scales, "zeros": self.zeros, "axis": self.axis}


@dataclass
class Case:
    """One operator, as LiteRT and dovetail say it; `result.value` is empty until the model ran."""

    name: str
    operator: str
    options: tuple[str, dict[str, Any]]
    kind: str
    attributes: dict[str, Any]
    inputs: list[Tensor]
    result: Tensor
    shape: tuple[int, ...]
    version: int = 2
    extra: list[Tensor] = field(default_factory=list)
    """Operands that LiteRT takes and dovetail has as attributes: behind the inputs."""
    first: list[Tensor] = field(default_factory=list)
    """The same, before the inputs."""
    swapped: bool = False
    """LiteRT takes the first two inputs in the other order."""


# -- models ----------------------------------------------------------------------------------------


def _tensor(tensor: Tensor, shape: tuple[int, ...], buffer: int, name: str) -> Any:
    made = schema.TensorT(shape=list(shape), type=_TYPES[tensor.value.dtype.name], buffer=buffer, name=name)
    if tensor.scales:
        zeros = tensor.zeros * (len(tensor.scales) if len(tensor.zeros) == 1 else 1)
        made.quantization = schema.QuantizationParametersT(
            scale=list(tensor.scales), zeroPoint=list(zeros), quantizedDimension=tensor.axis or 0
        )
    return made


def model_of(case: Case) -> bytes:
    """Write the model of one operator."""
    mine = list(case.inputs)
    if case.swapped:
        mine[0], mine[1] = mine[1], mine[0]
    operands = [*case.first, *mine, *case.extra]
    tensors, buffers = [], [schema.BufferT()]
    for index, operand in enumerate(operands):
        buffer = 0
        if operand.constant:
            buffer = len(buffers)
            buffers.append(schema.BufferT(data=np.frombuffer(operand.value.tobytes(), np.uint8)))
        tensors.append(_tensor(operand, operand.value.shape, buffer, f"t{index}"))
    tensors.append(_tensor(case.result, case.shape, 0, "result"))
    code = getattr(schema.BuiltinOperator, case.operator)
    name, values = case.options
    operator = schema.OperatorT(opcodeIndex=0, inputs=list(range(len(operands))), outputs=[len(operands)])
    if name != "NONE":
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
        operator.builtinOptions = getattr(schema, f"{name}T")(**values)
    graph = schema.SubGraphT(
        tensors=tensors,
        inputs=[i for i, operand in enumerate(operands) if not operand.constant],
        outputs=[len(operands)],
        operators=[operator],
        name="main",
    )
    model = schema.ModelT(
        version=3,
        operatorCodes=[
            schema.OperatorCodeT(deprecatedBuiltinCode=min(code, 127), version=case.version, builtinCode=code),
        ],
        subgraphs=[graph],
        buffers=buffers,
        description=case.name,
    )
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def run(case: Case, resolver: str = "BUILTIN_REF") -> np.ndarray:
    """Return what LiteRT computes."""
    interpreter = Interpreter(
        model_content=model_of(case), num_threads=1, experimental_op_resolver_type=getattr(OpResolverType, resolver)
    )
    interpreter.allocate_tensors()
    values = [t.value for t in ([*case.inputs[1::-1], *case.inputs[2:]] if case.swapped else case.inputs) if not t.constant]
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return np.array(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


# -- random values ---------------------------------------------------------------------------------


def _single(value: float) -> float:
    return float(np.float32(value))


def _limits(dtype: str) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    low, high = _limits(dtype)
    return rng.integers(low, high, shape, dtype, endpoint=True)


def _rounded(rng: np.random.Generator, scale: float) -> float:
    """Round to float32, often to a short decimal: its products come close to ties.

    There the arithmetic shows.
    """
    return _single(float(f"{scale:.0e}") if rng.random() < 0.7 else scale)


def _scale(rng: np.random.Generator, low: float = 0.004, high: float = 0.2) -> float:
    return _rounded(rng, float(np.exp(rng.uniform(np.log(low), np.log(high)))))


def _zero(rng: np.random.Generator, dtype: str) -> int:
    low, high = _limits(dtype)
    return int(rng.choice([low, high, rng.integers(low, high + 1), (low + high + 1) // 2]))


def _operand(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, scale: float | None = None) -> Tensor:
    return Tensor(_values(rng, shape, dtype), (scale or _scale(rng),), (_zero(rng, dtype),))


def _result(rng: np.random.Generator, dtype: str, scale: float) -> Tensor:
    return Tensor(np.empty(0, dtype), (_rounded(rng, scale),), (_zero(rng, dtype),))


def _filters(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, axis: int, *, per_axis: bool) -> Tensor:
    count = shape[axis] if per_axis else 1
    scales = tuple(_scale(rng, 0.001, 0.05) for _ in range(count))
    value = _values(rng, shape, dtype)
    if dtype == "int8":  # symmetric
        return Tensor(np.maximum(value, -127), scales, (0,), axis if per_axis else None, constant=True)
    return Tensor(value, scales, (_zero(rng, dtype),), None, constant=True)


def _bias(rng: np.random.Generator, x: Tensor, weights: Tensor, count: int, spread: float) -> Tensor:
    scales = tuple(_single(np.float32(x.scales[0]) * np.float32(s)) for s in weights.scales)
    value = rng.integers(int(-spread), int(spread), count, np.int32, endpoint=True)
    return Tensor(value, scales, (0,), 0 if len(scales) > 1 else None, constant=True)


def _spread(x: Tensor, depth: int) -> float:
    """About the size of a sum of `depth` products of integers."""
    return 74.0 * 74.0 * np.sqrt(depth) + abs(x.zeros[0]) * 74.0


def _fused(rng: np.random.Generator) -> tuple[int, dict[str, Any]]:
    name, attributes = _FUSED[rng.integers(len(_FUSED))]
    return getattr(schema.ActivationFunctionType, name), attributes


# -- cases -----------------------------------------------------------------------------------------


def _image(rng: np.random.Generator, channels: int) -> tuple[int, ...]:
    return int(rng.integers(1, 3)), int(rng.integers(3, 7)), int(rng.integers(3, 7)), channels


def _window(rng: np.random.Generator, kernel: tuple[int, int], *, dilates: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw options and attributes: stride, dilation, padding.

    LiteRT takes no stride together with a dilation.
    """
    stride, dilation = (1, 1), (1, 1)
    if dilates and rng.random() < 0.3:
        dilation = (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    else:
        stride = (int(rng.integers(1, 3)), int(rng.integers(1, 3)))
    same = dilation != (1, 1) or bool(rng.random() < 0.6)
    padding = schema.Padding.SAME if same else schema.Padding.VALID
    options = {"padding": padding, "strideH": stride[0], "strideW": stride[1]}
    if dilates:
        options |= {"dilationHFactor": dilation[0], "dilationWFactor": dilation[1]}
    attributes = {"stride": stride, "dilation": dilation, "layout": "NHWC"}
    return options, attributes | {"auto_padding": "same_upper" if same else "explicit"}


def _convolution(rng: np.random.Generator, name: str, dtype: str, *, per_axis: bool) -> Case:
    groups = int(rng.choice([1, 1, 2])) if dtype == "int8" else 1
    channels, filters = int(rng.integers(1, 5)) * groups, int(rng.integers(1, 4)) * groups
    kernel = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    x = _operand(rng, _image(rng, channels), dtype)
    weights = _filters(rng, (filters, *kernel, channels // groups), dtype, 0, per_axis=per_axis)
    options, attributes = _window(rng, kernel, dilates=True)
    return _product(
        rng, name, "CONV_2D", "Conv2DOptions", "Convolution2d", x, weights, options, attributes | {"groups": groups}, 3
    )


def _depthwise(rng: np.random.Generator, name: str, dtype: str, *, per_axis: bool) -> Case:
    channels, multiplier = int(rng.integers(1, 5)), int(rng.integers(1, 3))
    kernel = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    x = _operand(rng, _image(rng, channels), dtype)
    weights = _filters(rng, (1, *kernel, channels * multiplier), dtype, 3, per_axis=per_axis)
    options, attributes = _window(rng, kernel, dilates=True)
    if options["strideH"] != options["strideW"]:
        options["strideW"] = options["strideH"]
        attributes["stride"] = (options["strideH"],) * 2
    options["depthMultiplier"] = multiplier
    return _product(
        rng, name, "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", "DepthwiseConvolution2d", x, weights, options, attributes, 3
    )


def _product(
    rng: np.random.Generator,
    name: str,
    operator: str,
    options_name: str,
    kind: str,
    x: Tensor,
    weights: Tensor,
    options: dict[str, Any],
    attributes: dict[str, Any],
    version: int,
) -> Case:
    """Finish a convolution or fully connected layer: bias, activation, scale of the result."""
    dtype = x.value.dtype.name
    filters = weights.value.shape[3] if kind == "DepthwiseConvolution2d" else weights.value.shape[0]
    per_filter = weights.value.size // filters
    spread = _spread(x, per_filter)
    inputs = [x, weights]
    if "CONV_2D" in operator or rng.random() < 0.8:  # LiteRT wants a bias of these
        inputs.append(_bias(rng, x, weights, filters, spread / 2))
    scale = float(np.mean(weights.scales)) * x.scales[0] * spread / 60.0 * rng.uniform(0.5, 2.0)
    fused, ours = _fused(rng)
    return Case(
        name,
        operator,
        (options_name, options | {"fusedActivationFunction": fused}),
        kind,
        attributes | ours,
        inputs,
        _result(rng, dtype, scale),
        (0,),
        version,
    )


def _fully_connected(rng: np.random.Generator, name: str, dtype: str, *, per_axis: bool) -> Case:
    depth, lines = int(rng.integers(1, 24)), int(rng.integers(1, 8))
    x = _operand(rng, (int(rng.integers(1, 4)), depth), dtype)
    weights = _filters(rng, (lines, depth), dtype, 0, per_axis=per_axis)
    return _product(rng, name, "FULLY_CONNECTED", "FullyConnectedOptions", "FullyConnected", x, weights, {}, {}, 4)


def _transpose(rng: np.random.Generator, name: str, dtype: str, *, per_axis: bool) -> Case:
    channels, filters = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    kernel = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    stride = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    x = _operand(rng, _image(rng, channels), dtype)
    weights = _filters(rng, (filters, *kernel, channels), dtype, 0, per_axis=per_axis)
    same = all(k >= s for k, s in zip(kernel, stride, strict=True)) and bool(rng.random() < 0.6)
    n, height, width, _ = x.value.shape
    if same:
        size = height * stride[0], width * stride[1]
    else:
        size = tuple((d - 1) * s + k for d, s, k in zip((height, width), stride, kernel, strict=True))
    options = {"padding": schema.Padding.SAME if same else schema.Padding.VALID, "strideH": stride[0], "strideW": stride[1]}
    attributes = {"stride": stride, "layout": "NHWC", "output_size": size}
    case = _product(
        rng, name, "TRANSPOSE_CONV", "TransposeConvOptions", "TransposeConvolution2d", x, weights, options, attributes, 3
    )
    case.swapped = True
    case.first = [Tensor(np.array([n, *size, filters], np.int32), constant=True)]
    return case


_TIES = {  # operator, its options, our kind, version, axis of the filters, rank
    "fully_connected": ("FULLY_CONNECTED", "FullyConnectedOptions", "FullyConnected", 4, 0, 2),
    "convolution": ("CONV_2D", "Conv2DOptions", "Convolution2d", 3, 0, 4),
    "depthwise": ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", "DepthwiseConvolution2d", 3, 3, 4),
    "transpose_convolution": ("TRANSPOSE_CONV", "TransposeConvOptions", "TransposeConvolution2d", 3, 0, 4),
}


def _ties(rng: np.random.Generator, name: str, dtype: str, which: str, *, per_axis: bool) -> Case:
    """One pixel of zero: the sums are the biases, a few counts from what is scaled to a tie.

    So close to a tie it shows how often the scaling rounds, which way, and in which precision the
    scales were multiplied.
    """
    operator, option, kind, version, axis, rank = _TIES[which]
    filters = 48
    shape = [1] * rank
    shape[axis] = filters
    weights = _filters(rng, tuple(shape), dtype, axis, per_axis=per_axis)
    weights.zeros = (0,)
    pixel = (1,) * (rank - 1) + (filters if which == "depthwise" else 1,)
    x = _operand(rng, pixel, dtype)
    x.value = np.full(pixel, x.zeros[0], dtype)
    result = _result(rng, dtype, x.scales[0] * float(np.mean(weights.scales)) * rng.uniform(1e5, 1e6))
    result.zeros = (sum(_limits(dtype)) // 2,)
    bias = _bias(rng, x, weights, filters, 1.0)
    factors = x.scales[0] * np.array(weights.scales) / result.scales[0]
    ties = (rng.integers(-120, 120, filters) + 0.5) / factors
    bias.value = (np.round(ties) + rng.integers(-20, 21, filters)).astype(np.int32)
    options: dict[str, Any] = {}
    if rank == 4:
        options = {"padding": schema.Padding.SAME, "strideH": 1, "strideW": 1}
    if which == "depthwise":
        options["depthMultiplier"] = 1
    attributes = {"layout": "NHWC"} if rank == 4 else {}
    case = Case(name, operator, (option, options), kind, attributes, [x, weights, bias], result, (0,), version)
    if which == "transpose_convolution":
        case.swapped = True
        case.first = [Tensor(np.array([1, 1, 1, filters], np.int32), constant=True)]
    return case


def _pooling(rng: np.random.Generator, name: str, dtype: str, function: str) -> Case:
    x = _operand(rng, _image(rng, int(rng.integers(1, 5))), dtype)
    size = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    options, attributes = _window(rng, size, dilates=False)
    options |= {"filterHeight": size[0], "filterWidth": size[1]}
    result = Tensor(np.empty(0, dtype), x.scales, x.zeros)
    operator = "MAX_POOL_2D" if function == "max" else "AVERAGE_POOL_2D"
    attributes |= {"function": function, "size": size}
    return Case(name, operator, ("Pool2DOptions", options), "Pooling2d", attributes, [x], result, (0,))


def _binary(rng: np.random.Generator, name: str, dtype: str, operation: str) -> Case:
    shape = tuple(int(d) for d in rng.integers(1, 6, rng.integers(1, 5)))
    other = tuple(1 if rng.random() < 0.3 else d for d in shape)[int(rng.integers(0, len(shape))) :]
    shapes = [shape, other] if rng.random() < 0.5 else [other, shape]
    a, b = (_operand(rng, s, dtype) for s in shapes)
    if operation in ("maximum", "minimum"):
        b.scales, b.zeros = a.scales, a.zeros
        result = Tensor(np.empty(0, dtype), a.scales, a.zeros)
        return Case(
            name,
            operation.upper(),
            ("MaximumMinimumOptions", {}),
            "ElementwiseBinary",
            {"operation": operation},
            [a, b],
            result,
            (0,),
        )
    spread = 80.0 * a.scales[0] * b.scales[0] * 60 if operation == "mul" else 80.0 * max(a.scales[0], b.scales[0])
    fused, ours = _fused(rng)
    option = {"add": "AddOptions", "sub": "SubOptions", "mul": "MulOptions"}[operation]
    return Case(
        name,
        operation.upper(),
        (option, {"fusedActivationFunction": fused}),
        "ElementwiseBinary",
        {"operation": operation, **ours},
        [a, b],
        _result(rng, dtype, spread / 60.0 * rng.uniform(0.7, 2.0)),
        (0,),
    )


def _concat(rng: np.random.Generator, name: str, dtype: str) -> Case:
    rank = int(rng.integers(1, 5))
    axis = int(rng.integers(0, rank))
    shape = [int(d) for d in rng.integers(1, 5, rank)]
    inputs = []
    for _ in range(int(rng.integers(1, 4))):
        shape[axis] = int(rng.integers(1, 5))
        inputs.append(_operand(rng, tuple(shape), dtype))
    result = _result(rng, dtype, _scale(rng))
    if dtype == "int8":  # LiteRT joins int8 parts of one quantization alone
        for part in inputs:
            part.scales, part.zeros = result.scales, result.zeros
    options = {"axis": axis - rank if rng.random() < 0.5 else axis}
    return Case(name, "CONCATENATION", ("ConcatenationOptions", options), "Concat", {"axis": axis}, inputs, result, (0,))


_ACTIVATIONS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "relu": ("RELU", "NONE", {}, {"function": "relu"}),
    "relu6": ("RELU6", "NONE", {}, {"function": "bounded_relu", "alpha": 6.0}),
    "relu_n1_to_1": ("RELU_N1_TO_1", "NONE", {}, {"function": "bounded_relu", "alpha": 1.0, "beta": -1.0}),
    "leaky_relu": (
        "LEAKY_RELU",
        "LeakyReluOptions",
        {"alpha": _single(0.1)},
        {"function": "leaky_relu", "alpha": _single(0.1)},
    ),
    "sigmoid": ("LOGISTIC", "NONE", {}, {"function": "sigmoid"}),
    "tanh": ("TANH", "NONE", {}, {"function": "tanh"}),
    "hard_swish": ("HARD_SWISH", "HardSwishOptions", {}, {"function": "hard_swish"}),
}


def _activation(rng: np.random.Generator, name: str, dtype: str, function: str) -> Case:
    operator, option, options, attributes = _ACTIVATIONS[function]
    low, high = _limits(dtype)
    x = _operand(rng, (256,), dtype, _scale(rng, 0.01, 0.1))
    x.value = np.arange(low, high + 1).astype(dtype)
    result = _result(rng, dtype, x.scales[0] * rng.uniform(0.3, 2.0))
    if function == "sigmoid":
        result.scales, result.zeros = (1 / 256,), (low,)
    elif function == "tanh":
        result.scales, result.zeros = (1 / 128,), ((low + high + 1) // 2,)
    version = 1 if operator in ("RELU_N1_TO_1", "HARD_SWISH") else 2
    return Case(name, operator, (option, options), "Activation", attributes, [x], result, (0,), version)


def _prelu(rng: np.random.Generator, name: str, dtype: str) -> Case:
    shape = tuple(int(d) for d in rng.integers(1, 6, 4))
    x, slope = _operand(rng, shape, dtype), _operand(rng, (1, 1, shape[3]), dtype)
    result = _result(rng, dtype, x.scales[0] * rng.uniform(0.5, 2.0))
    slope.constant = True
    return Case(name, "PRELU", ("NONE", {}), "Prelu", {}, [x, slope], result, (0,), 1)


def _quantize(rng: np.random.Generator, name: str, dtype: str) -> Case:
    result = _result(rng, dtype, _scale(rng))
    if dtype == "int16":
        result.zeros = (0,)
    x = rng.uniform(-300, 300, 200) * result.scales[0]
    x[:100] = (rng.integers(-300, 300, 100) + 0.5) * result.scales[0]  # ties, as far as float32 has them
    floats = Tensor(x.astype(np.float32))
    return Case(name, "QUANTIZE", ("QuantizeOptions", {}), "Quantize", {"dtype": dtype}, [floats], result, (0,))


def _dequantize(rng: np.random.Generator, name: str, dtype: str) -> Case:
    x = _operand(rng, (64,), dtype)
    if dtype == "int16":
        x.zeros = (0,)
    result = Tensor(np.empty(0, np.float32))
    version = 3 if dtype == "int16" else 2
    return Case(name, "DEQUANTIZE", ("DequantizeOptions", {}), "Dequantize", {}, [x], result, (0,), version)


def _reduce(rng: np.random.Generator, name: str, dtype: str, function: str) -> Case:
    shape = tuple(int(d) for d in rng.integers(1, 6, 4))
    axes = tuple(int(a) for a in sorted(rng.choice(4, rng.integers(1, 4), replace=False)))
    x = _operand(rng, shape, dtype)
    operator = {"mean": "MEAN", "sum": "SUM", "max": "REDUCE_MAX", "min": "REDUCE_MIN"}[function]
    keep = bool(rng.random() < 0.5)
    count = int(np.prod([shape[a] for a in axes]))
    scale = {"mean": rng.uniform(0.4, 1.5), "sum": np.sqrt(count) * rng.uniform(0.7, 2.0)}.get(function, 1.0)
    result = _result(rng, dtype, x.scales[0] * scale)
    if function in ("max", "min") or rng.random() < 0.3:
        result = Tensor(np.empty(0, dtype), x.scales, x.zeros)
    extra = [Tensor(np.array(axes, np.int32), constant=True)]
    attributes = {"function": function, "axes": axes, "keep_dims": keep}
    return Case(name, operator, ("ReducerOptions", {"keepDims": keep}), "Reduce", attributes, [x], result, (0,), 2, extra)


def _softmax(rng: np.random.Generator, name: str, dtype: str) -> Case:
    low, _ = _limits(dtype)
    x = _operand(rng, (int(rng.integers(1, 4)), int(rng.integers(1, 90))), dtype, _scale(rng, 0.01, 2.0))
    beta = _single(float(rng.choice([1.0, 0.7, 2.0])))
    result = Tensor(np.empty(0, dtype), (1 / 256,), (low,))
    return Case(name, "SOFTMAX", ("SoftmaxOptions", {"beta": beta}), "Softmax", {"beta": beta}, [x], result, (0,))


def _matmul(rng: np.random.Generator, name: str, dtype: str) -> Case:
    batch, rows, depth, columns = (int(d) for d in rng.integers(1, 7, 4))
    left, right = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    a = _operand(rng, (batch, depth, rows) if left else (batch, rows, depth), dtype)
    b = _operand(rng, (batch, columns, depth) if right else (batch, depth, columns), dtype)
    b.zeros = (0,)
    result = _result(rng, dtype, a.scales[0] * b.scales[0] * _spread(a, depth) / 60.0)
    attributes = {"transpose_a": left, "transpose_b": right}
    return Case(
        name, "BATCH_MATMUL", ("BatchMatMulOptions", {"adjX": left, "adjY": right}), "MatMul", attributes, [a, b], result, (0,)
    )


def makers() -> dict[str, Callable[[np.random.Generator, str], Case]]:
    """One maker per name."""
    made: dict[str, Callable[[np.random.Generator, str], Case]] = {}

    def put(label: str, maker: Callable[..., Case], *arguments: Any, **keywords: Any) -> None:
        made[label] = lambda rng, name: maker(rng, name, *arguments, **keywords)

    for label, maker in (
        ("convolution", _convolution),
        ("depthwise", _depthwise),
        ("fully_connected", _fully_connected),
        ("transpose_convolution", _transpose),
    ):
        put(f"{label}_int8", maker, "int8", per_axis=False)
        put(f"{label}_int8_per_axis", maker, "int8", per_axis=True)
        put(f"{label}_uint8", maker, "uint8", per_axis=False)
        put(f"{label}_ties_int8", _ties, "int8", label, per_axis=False)
        put(f"{label}_ties_int8_per_axis", _ties, "int8", label, per_axis=True)
        put(f"{label}_ties_uint8", _ties, "uint8", label, per_axis=False)
    for dtype in ("int8", "uint8"):
        for function in ("average", "max"):
            put(f"{function}_pool_{dtype}", _pooling, dtype, function)
        for operation in ("add", "sub", "mul", "maximum", "minimum"):
            put(f"{operation}_{dtype}", _binary, dtype, operation)
        for function in _ACTIVATIONS:
            put(f"{function}_{dtype}", _activation, dtype, function)
        for function in ("mean", "sum", "max", "min"):
            put(f"reduce_{function}_{dtype}", _reduce, dtype, function)
        put(f"concat_{dtype}", _concat, dtype)
        put(f"prelu_{dtype}", _prelu, dtype)
        put(f"softmax_{dtype}", _softmax, dtype)
    put("matmul_int8", _matmul, "int8")
    for dtype in ("int8", "uint8", "int16"):
        put(f"quantize_{dtype}", _quantize, dtype)
        put(f"dequantize_{dtype}", _dequantize, dtype)
    return made


def cases(seed: int, each: int, only: str = "") -> Iterator[Case]:
    """All cases, by name; a case depends on seed, name and number alone."""
    for label, maker in makers().items():
        if only in label:
            for number in range(each):
                yield maker(np.random.default_rng([seed, number, *label.encode()]), label)


# -- the file --------------------------------------------------------------------------------------


def facts_of(case: Case) -> dict[str, Any]:
    """What the test needs besides the arrays."""
    return {
        "name": case.name,
        "kind": case.kind,
        "attributes": case.attributes,
        "inputs": [tensor.facts for tensor in case.inputs],
        "result": case.result.facts,
    }


# Where dovetail does not follow LiteRT's reference kernels: ties of Quantize go to the even number
# (ONNX); LiteRT's SUM of int8 is faulty, and its SUM of uint8 differs from its own optimized one,
# which rounds like ours.
_OTHERWISE = {"quantize_int8", "quantize_uint8", "quantize_int16", "reduce_sum_int8", "reduce_sum_uint8"}


def main() -> None:
    """Write litert.npz."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("-o", "--out", type=Path, default=Path(__file__).with_name("litert.npz"))
    arguments = parser.parse_args()
    # All arrays in one, for an entry of a .npz costs more than most of them.
    facts, pieces = [], []
    for case in cases(arguments.seed, arguments.each):
        if case.name in _OTHERWISE:
            continue
        arrays = [*(tensor.value for tensor in case.inputs), run(case)]
        facts.append(facts_of(case) | {"shapes": [list(array.shape) for array in arrays]})
        pieces += [np.frombuffer(array.tobytes(), np.uint8) for array in arrays]
    np.savez_compressed(arguments.out, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8), bytes=np.concatenate(pieces))
    print(f"{arguments.out}: {len(facts)} cases, {arguments.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
