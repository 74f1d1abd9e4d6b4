"""Small networks for mutants, beside ONNX's single operators: what exporters write, in small."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

HEAD = '<ir_version: 9, opset_import: ["" : %d%s]>'

CONVOLUTIONS = """g (float[N,3,12,12] x) => (float[N,5] y) {
    c = Conv <pads = [1,1,1,1]> (x, w1, b1)  n = BatchNormalization(c, scale, shift, mean, variance)  r = Relu(n)
    d = Conv <group = 8, pads = [1,1,1,1]> (r, w2)  a = HardSwish(d)  p = Conv (a, w3)  s = Add(p, r)
    m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (s)  t = ConvTranspose <strides = [2,2]> (m, w4)
    v = AveragePool <kernel_shape = [3,3], pads = [1,1,1,1], strides = [2,2], ceil_mode = 1> (t)
    u = GlobalAveragePool(v)  f = Flatten(u)  l = Gemm <transB = 1> (f, w5, b5)  y = Softmax(l) }"""
CONVOLUTION_WEIGHTS = {
    "w1": (8, 3, 3, 3), "b1": (8,), "scale": (8,), "shift": (8,), "mean": (8,), "variance": (8,), "w2": (8, 1, 3, 3),
    "w3": (8, 8, 1, 1), "w4": (8, 4, 2, 2), "w5": (5, 4), "b5": (5,),
}  # fmt: skip

TRANSFORMER = """g (int64[B,T] tokens, float[T,T] mask) => (float[B,T,16] y) {
    e = Gather (table, tokens)  n = LayerNormalization(e, g1, o1)
    q0 = MatMul(n, wq)  k0 = MatMul(n, wk)  v0 = MatMul(n, wv)
    q1 = Reshape(q0, heads)  k1 = Reshape(k0, heads)  v1 = Reshape(v0, heads)
    q = Transpose <perm = [0,2,1,3]> (q1)  k = Transpose <perm = [0,2,3,1]> (k1)  v = Transpose <perm = [0,2,1,3]> (v1)
    a0 = MatMul(q, k)  a1 = Mul(a0, half)  a2 = Add(a1, mask)  a3 = Softmax <axis = -1> (a2)  a4 = MatMul(a3, v)
    a5 = Transpose <perm = [0,2,1,3]> (a4)  a6 = Reshape(a5, joined)  a7 = MatMul(a6, wo)  r = Add(a7, e)
    m = LayerNormalization(r, g1, o1)  f0 = MatMul(m, wf)  f1 = Gelu <approximate = "tanh"> (f0)  f2 = MatMul(f1, wg)
    y = Add(f2, r) }"""
TRANSFORMER_WEIGHTS = {
    "table": (11, 16), "g1": (16,), "o1": (16,), "wq": (16, 16), "wk": (16, 16), "wv": (16, 16), "wo": (16, 16),
    "wf": (16, 32), "wg": (32, 16), "half": (),
}  # fmt: skip

QUANTIZED = """g (float[1,4,8,8] x) => (float[1,6] y) {
    q = QuantizeLinear(x, s0, z0)  d = DequantizeLinear(q, s0, z0)  dw = DequantizeLinear <axis = 0> (w, sw, zw)
    c = Conv <pads = [1,1,1,1]> (d, dw)  r = Relu(c)  q1 = QuantizeLinear(r, s1, z1)  d1 = DequantizeLinear(q1, s1, z1)
    m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (d1)  a = Add(m, m)  q2 = QuantizeLinear(a, s1, z1)
    d2 = DequantizeLinear(q2, s1, z1)  p = GlobalAveragePool(d2)  f = Flatten(p)  q3 = QuantizeLinear(f, s1, z1)
    d3 = DequantizeLinear(q3, s1, z1)  dv = DequantizeLinear(v, s0, z0)  y = Gemm <transB = 1> (d3, dv) }"""

INTEGERS = """g (int8[1,4,8,8] x) => (float[1,4,4,4] y, int8[1,4,8,8] z) {
    z = Relu(x)  m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x)  d = DequantizeLinear(m, s0, z0)
    dw = DequantizeLinear(w, s0, z0)  c = Conv <pads = [1,1,1,1]> (d, dw)  q = QuantizeLinear(c, s1, z1)
    y = DequantizeLinear(q, s1, z1) }"""

PRODUCTS = """g (uint8[2,3] a, uint8[3,4] b) => (int32[2,4] y, uint8[2,4] z) {
    y = MatMulInteger(a, b, z0, z0)  z = QLinearMatMul(a, s0, z0, b, s0, z0, s1, z0) }"""

BRANCHES = """g (float[2,3] x, bool c) => (float[2,3] y) {
    y = If (c) <then_branch = a () => (float[2,3] t) { t = Relu(x) },
                else_branch = b () => (float[2,3] e) { s = Add(x, w)  e = Tanh(s) }> }"""

LOOP = """g (int64 n, bool c, float[3] x) => (float[3] y, float[K,3] all) {
    y, all = Loop (n, c, x) <body = b (int64 i, bool go, float[3] v) => (bool on, float[3] w, float[3] out) {
        on = Identity(go)  w = Add(v, v)  out = Relu(w) }> }"""

FIXED_LOOP = """g (float[3] x) => (float[3] y, float[K,3] all) {
    y, all = Loop (four, yes, x) <body = b (int64 i, bool go, float[3] v) => (bool on, float[3] w, float[3] out) {
        on = Identity(go)  w = Add(v, v)  out = Relu(w) }> }"""

SCAN = """g (float[2] s, float[5,2] x) => (float[2] y, float[5,2] all) {
    y, all = Scan <num_scan_inputs = 1, body = b (float[2] h, float[2] v) => (float[2] k, float[2] out) {
        k = Add(h, v)  out = Identity(k) }> (s, x) }"""

SIZES = """g (float[N,6] x, int64[2] shape) => (float[A,B] y, float[C,D] z) {
    s = Shape(x)  n = Gather(s, zero)  u = Unsqueeze(n, zeros)  t = Concat <axis = 0> (u, minus)  r = Reshape(x, t)
    e = Expand(one, shape)  y = Concat <axis = 0> (e, e)  w = Slice(r, zeros, minus, zeros)  z = Concat <axis = 0> (w, r) }"""

ELEMENTS = """g (float[4,N] x, float[N] z) => (float[4,N] y) {
    a = Mul(x, half)  b = Erf(a)  c = Add(b, one)  d = Mul(a, c)  e = Sub(d, z)  f = Div(e, two)  h = Clip(f, minus1, six)
    i = Pow(h, two)  j = Sqrt(i)  k = Max(j, z)  l = Where(mask, k, x)  m = Sigmoid(l)  n = Mul(l, m)  y = Neg(n) }"""

RESIZED = """g (float[1,2,5,5] x) => (float[1,2,A,B] y) {
    p = Pad <mode = "reflect"> (x, pads)  r = Resize <mode = "linear"> (p, empty, scales)
    s = Slice(r, starts, ends, axes)  t, i = TopK <axis = 3> (s, k)  y = Resize <mode = "nearest"> (t, empty, empty, sizes) }"""

FUNCTIONS = """g (float[2,3] x) => (float[2,3] y) { a = own.twice <times = 2.0> (x)  y = own.outer (a) }
    <domain: "own", opset_import: ["" : 18, "own" : 1]> twice <times> (v) => (w) {
        t = Constant <value_float: float = @times> ()  w = Mul(v, t) }
    <domain: "own", opset_import: ["" : 18, "own" : 1]> outer (v) => (w) { i = own.twice <times = 0.5> (v)  w = Relu(i) }"""

LOCATION = "weights.bin"
"""The file of external data that every mutant finds beside itself."""
LOCATION_BYTES = 1024


def networks() -> Iterator[tuple[str, ModelProto]]:
    """Make all of them, each with its name; their weights are drawn once and for all."""
    for name, (text, fill) in _TEXTS.items():
        domains = ', "own" : 1' if "own." in text else ""
        model = onnx.parser.parse_model(HEAD % (20 if "Gelu" in text else 18, domains) + text)
        for tensor, values in fill().items():
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(values), tensor))
        yield name, model
    yield "external data", _external()
    yield "sparse weights", _sparse()
    for size in (1, 3):
        yield f"GlobalLpPool {size}", _pooled(size)


def _drawn(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    return {
        name: (generator.random(shape) / math.sqrt(max(shape[1:], default=2))).astype(np.float32)
        for name, shape in shapes.items()
    }


def _integers(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(4)
    tensors: dict[str, np.ndarray] = {
        name: generator.integers(-90, 90, shape).astype(np.int8) for name, shape in shapes.items()
    }
    scales = {"s0": np.float32(0.02), "s1": np.float32(0.07), "z0": np.int8(0), "z1": np.int8(3)}
    return tensors | {name: np.asarray(value) for name, value in scales.items()}


def _quantized() -> dict[str, np.ndarray]:
    channels = {"sw": np.linspace(0.01, 0.03, 6).astype(np.float32), "zw": np.zeros(6, np.int8)}
    return _integers(w=(6, 4, 3, 3), v=(6, 6)) | channels


def _products() -> dict[str, np.ndarray]:
    return {"s0": np.asarray(np.float32(0.1)), "s1": np.asarray(np.float32(0.3)), "z0": np.asarray(np.uint8(2))}


def _transformer() -> dict[str, np.ndarray]:
    return _drawn(TRANSFORMER_WEIGHTS) | {"heads": np.array([0, -1, 2, 8]), "joined": np.array([0, -1, 16])}


def _sizes() -> dict[str, np.ndarray]:
    return {
        "zero": np.array(0), "zeros": np.array([0]), "minus": np.array([-1]), "one": np.ones((1, 1), np.float32),
    }  # fmt: skip


def _elements() -> dict[str, np.ndarray]:
    numbers = {"half": 0.70710678, "one": 1.0, "two": 2.0, "minus1": -1.0, "six": 6.0}
    mask = np.array([[True], [False], [True], [True]])
    return {name: np.asarray(np.float32(value)) for name, value in numbers.items()} | {"mask": mask}


def _resized() -> dict[str, np.ndarray]:
    return {
        "pads": np.array([0, 0, 1, 2, 0, 0, 1, 2]), "empty": np.zeros(0, np.float32), "k": np.array([3]),
        "scales": np.array([1, 1, 1.5, 0.5], np.float32), "starts": np.array([8, 0]), "ends": np.array([-20, 9]),
        "axes": np.array([2, 3]), "sizes": np.array([1, 2, 4, 5]),
    }  # fmt: skip


_TEXTS: dict[str, tuple[str, Callable[[], dict[str, np.ndarray]]]] = {
    "convolutions": (CONVOLUTIONS, lambda: _drawn(CONVOLUTION_WEIGHTS)),
    "transformer": (TRANSFORMER, _transformer),
    "quantized": (QUANTIZED, _quantized),
    "integers": (INTEGERS, lambda: _integers(w=(4, 4, 3, 3))),
    "integer products": (PRODUCTS, _products),
    "branches": (BRANCHES, lambda: _drawn({"w": (3,)})),
    "loop": (LOOP, dict),
    "fixed loop": (FIXED_LOOP, lambda: {"four": np.asarray(4), "yes": np.asarray(True)}),
    "scan": (SCAN, dict),
    "sizes": (SIZES, _sizes),
    "elements": (ELEMENTS, _elements),
    "resized": (RESIZED, _resized),
    "functions": (FUNCTIONS, dict),
}


def external(name: str, dims: tuple[int, ...], data_type: int, **entries: object) -> TensorProto:
    """Make a tensor whose bytes lie in a file."""
    tensor = TensorProto(name=name, data_type=data_type, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _ends(shape: tuple[int, ...]) -> tuple[list[onnx.ValueInfoProto], list[onnx.ValueInfoProto]]:
    inputs, outputs = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name in "xy")
    return inputs, outputs


def _model(nodes: list[onnx.NodeProto], shape: tuple[int, ...]) -> ModelProto:
    graph = helper.make_graph(nodes, "g", *_ends(shape))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _external() -> ModelProto:
    model = _model([helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "b"], ["y"])], (4, 4))
    model.graph.initializer.append(external("w", (4, 4), TensorProto.FLOAT, location=LOCATION, offset=64, length=64))
    model.graph.initializer.append(external("b", (4,), TensorProto.FLOAT, location=LOCATION))
    return model


def _sparse() -> ModelProto:
    model = _model([helper.make_node("Mul", ["x", "w"], ["y"])], (3, 4))
    sparse = model.graph.sparse_initializer.add(dims=(3, 4))
    sparse.values.CopyFrom(numpy_helper.from_array(np.array([1.5, -2.0], np.float32), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([1, 7]), "w_indices"))
    return model


def _pooled(size: int) -> ModelProto:
    return _model([helper.make_node("GlobalLpPool", ["x"], ["y"], p=2)], (1, 2, size, size))
