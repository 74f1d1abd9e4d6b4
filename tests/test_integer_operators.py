"""Mix ONNX's integer operators with quantized layers: integers stay what they are.

The reference is ONNX's own evaluator, and onnxruntime where it is installed and has the operators.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dovetail
from dovetail import Network
from dovetail_onnx import parse

Arrays = dict[str, np.ndarray[Any, Any]]
BACKENDS = [["CpuRef"], ["CpuAcc", "CpuRef"]]
INTEGER_LAYERS = [None, False, True]


def model_of(nodes: list[Any], inputs: Arrays, outputs: dict[str, int], constants: Arrays) -> onnx.ModelProto:
    """A model of operator set 21; constants that nobody reads are left out."""
    read = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "integers",
        [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()],
        [helper.make_tensor_value_info(name, code, None) for name, code in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items() if name in read],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def references(model: onnx.ModelProto, feeds: Arrays) -> Iterator[list[Any]]:
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        yield ReferenceEvaluator(model).run(None, feeds)  # type: ignore[misc]  # lists alone are asked for
    with contextlib.suppress(ImportError):  # it is in no group but bench
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            if "NOT_IMPLEMENTED" not in str(error):  # as some arithmetic of bytes is
                raise
            return
        yield session.run(None, feeds)


def assert_close(network: Network, feeds: Arrays, wanted: list[list[Any]], bounds: list[float], **options: Any) -> None:
    with dovetail.load(network, **options) as loaded:
        found = loaded.run(feeds)
    for expected in wanted:
        for (name, array), value, bound in zip(found.items(), expected, bounds, strict=True):
            assert (array.dtype, array.shape) == (value.dtype, value.shape), name
            difference = np.abs(array.astype(np.int64) - value.astype(np.int64)).max(initial=0)
            assert difference <= bound, f"{name} differs by {difference}, more than {bound}, with {options}"


# -- what was found --------------------------------------------------------------------------------

_RANDOM = np.random.default_rng(12)
CONSTANTS: Arrays = {
    "scale": np.array(0.05, np.float32),
    "zero": np.array(3, np.int8),
    "step": np.array(0.1, np.float32),
    "weights": _RANDOM.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8),
    "fine": np.array(0.02, np.float32),
    "five": np.array(5, np.int8),
    "low": np.array(-20, np.int8),
    "high": np.array(30, np.int8),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "shape": np.array([1, 3, 9, 4]),
    "where": _RANDOM.integers(0, 2, (1, 3, 6, 6)).astype(bool),
    "zeroth": np.array([0]),
    "second": np.array([2]),
    "third": np.array([3]),
    "one": np.array([1]),
}
HEADS: dict[str, list[Any]] = {
    "max pool": [helper.make_node("MaxPool", ["x"], ["t"], kernel_shape=[2, 2], strides=[2, 2])],
    "relu": [helper.make_node("Relu", ["x"], ["t"])],
    "concat": [
        helper.make_node("Slice", ["x", "zeroth", "second", "one"], ["a"]),
        helper.make_node("Slice", ["x", "second", "third", "one"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["t"], axis=1),
    ],
    "add": [helper.make_node("Add", ["x", "five"], ["t"])],
    "mul": [helper.make_node("Mul", ["x", "five"], ["t"])],
    "abs": [helper.make_node("Abs", ["x"], ["t"])],
    "max": [helper.make_node("Max", ["x", "five"], ["t"])],
    "clip": [helper.make_node("Clip", ["x", "low", "high"], ["t"])],
    "pad": [helper.make_node("Pad", ["x", "pads"], ["t"])],
    "where": [helper.make_node("Where", ["where", "x", "five"], ["t"])],
    "reshape": [helper.make_node("Reshape", ["x", "shape"], ["t"])],
    "transpose": [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 1, 3, 2])],
}
TAIL = [
    helper.make_node("DequantizeLinear", ["t", "scale", "zero"], ["real"]),
    helper.make_node("DequantizeLinear", ["weights", "fine"], ["filters"]),
    helper.make_node("Conv", ["real", "filters"], ["sums"], pads=[1] * 4),
    helper.make_node("QuantizeLinear", ["sums", "step", "zero"], ["y"]),
]


@pytest.mark.parametrize("quantized", [False, True], ids=["input of integers", "behind a quantize"])
@pytest.mark.parametrize("head", HEADS)
def test_integers_before_a_quantized_layer(head: str, quantized: bool) -> None:
    x = np.random.default_rng(3).integers(-128, 128, (1, 3, 6, 6)).astype(np.int8)
    first = [helper.make_node("QuantizeLinear", ["r", "scale", "zero"], ["x"])] if quantized else []
    feeds = {"r": (x.astype(np.float32) - 3) * np.float32(0.05)} if quantized else {"x": x}
    model = model_of([*first, *HEADS[head], *TAIL], feeds, {"y": TensorProto.INT8}, CONSTANTS)
    wanted = list(references(model, feeds))
    network = parse(model)
    for backends in BACKENDS:
        for layers in INTEGER_LAYERS:
            # One: an integer layer and the literal execution round the same real number, each in
            # its own way.
            assert_close(network, feeds, wanted, [1], backends=backends, integer_layers=layers)


def integer_layers(network: Network, **options: Any) -> int:
    placement = dovetail.optimize(network, ["CpuAcc", "CpuRef"], **options).placement
    return dict(placement.passes).get("integer_layers", 0)


@pytest.mark.parametrize("head", ["max pool", "concat", "pad", "reshape", "transpose", "where"])
def test_integers_that_are_only_moved_keep_the_layer_behind_them_an_integer_layer(head: str) -> None:
    x = np.zeros((1, 3, 6, 6), np.int8)
    model = model_of([*HEADS[head], *TAIL], {"x": x}, {"y": TensorProto.INT8}, CONSTANTS)
    assert integer_layers(parse(model)) == 1
    assert integer_layers(parse(model), forbid={"*": "CpuAcc"}) == 0


# -- random networks -------------------------------------------------------------------------------


class Tensor(NamedTuple):
    """A tensor of a random network.

    Attributes:
        shape: Always four axes.
        meaning: Names of scale and zero point under which integers were made; None for real
            numbers.
        bound: By how much it may differ from the reference.
    """

    name: str
    shape: tuple[int, ...]
    signed: bool = True
    meaning: tuple[str, str] | None = None
    bound: float = 0.0


class Mixture:
    """A random network of integer operators and quantized layers.

    Scales are powers of two, so that reals are exact up to where one is rounded: there an integer
    layer may differ by one. Operators that wrap come only where nothing differs yet.
    """

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([7, seed])
        self.nodes: list[Any] = []
        self.constants: Arrays = {}
        self.feeds: Arrays = {}
        shape = (1, int(self.random.integers(2, 5)), *self.random.integers(3, 7, 2).tolist())
        whole = self.random.integers(-128, 128, shape).astype(np.int8)
        self.feeds["whole"] = whole
        self.feeds["real"] = (self.random.integers(-200, 200, shape) / 32).astype(np.float32)
        self.wholes = [Tensor("whole", shape, True, self.scheme(True))]
        self.reals = [Tensor("real", shape)]
        for _ in range(int(self.random.integers(6, 24))):
            self.step()
        self.wholes.append(self.quantize(self.reals[-1]))

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def scheme(self, signed: bool) -> tuple[str, str]:
        low, high = (-100, 100) if signed else (20, 235)
        zero = 0 if self.random.random() < 0.2 else self.random.integers(low, high)
        return (
            self.constant(2.0 ** -self.random.integers(2, 6), np.float32),
            self.constant(zero, np.int8 if signed else np.uint8),
        )

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def pick(self, among: list[Tensor]) -> Tensor:
        return among[-1] if self.random.random() < 0.6 else among[int(self.random.integers(len(among)))]

    def step(self) -> None:
        if self.random.random() < 0.1:
            self.wholes.append(self.quantize(self.pick(self.reals)))
        elif self.random.random() < 0.4:
            self.layer(self.dequantize(self.pick(self.wholes)))
            if self.random.random() < 0.8:
                self.wholes.append(self.quantize(self.reals[-1]))
        else:
            self.operate(self.pick(self.wholes))

    def quantize(self, x: Tensor) -> Tensor:
        signed = bool(self.random.random() < 0.8)
        meaning = x.meaning
        if (
            meaning is None
            or self.random.random() < 0.5
            or self.constants[meaning[1]].dtype != (np.int8 if signed else np.uint8)
        ):
            meaning = self.scheme(signed)
        scale = float(self.constants[meaning[0]])
        bound = math.floor(x.bound / scale) + 1 if x.bound else 0
        return Tensor(self.node("QuantizeLinear", x.name, *meaning), x.shape, signed, meaning, bound)

    def dequantize(self, x: Tensor) -> Tensor:
        meaning = x.meaning if x.meaning is not None and self.random.random() < 0.8 else self.scheme(x.signed)
        scale = float(self.constants[meaning[0]])
        real = Tensor(self.node("DequantizeLinear", x.name, *meaning), x.shape, True, meaning, x.bound * scale)
        self.reals.append(real)
        return real

    def layer(self, x: Tensor) -> None:
        """Add a possible integer layer: its result is rounded in some way, and may be a tie."""
        kind, tiny = self.random.choice(["conv", "add", "max", "average"]), 1e-6
        if kind == "conv":
            filters = int(self.random.integers(2, 5))
            weights = self.random.integers(-9, 10, (filters, x.shape[1], 1, 1)).astype(np.int8)
            stored = self.node("DequantizeLinear", self.constant(weights, np.int8), self.constant(0.125, np.float32))
            growth = float(np.abs(weights.astype(int)).sum(axis=(1, 2, 3)).max()) * 0.125
            made = Tensor(self.node("Conv", x.name, stored), (1, filters, *x.shape[2:]), True, None, x.bound * growth + tiny)
            if self.random.random() < 0.3:
                made = made._replace(name=self.node("Relu", made.name))
        elif kind == "add":
            same = [one for one in self.reals if one.shape == x.shape]
            other = self.pick(same)
            made = Tensor(self.node("Add", x.name, other.name), x.shape, True, None, x.bound + other.bound + tiny)
        elif kind == "max":
            made = self.pooled(x)
        else:
            made = x._replace(name=self.node("AveragePool", x.name, kernel_shape=[1, 1]), bound=x.bound + tiny)
        self.reals.append(made)

    def pooled(self, x: Tensor) -> Tensor:
        # Strides that differ: where they do not ONNX's evaluator pads integers by NaN, and fails.
        n, c, h, w = x.shape
        kernel = [min(2, h), min(2, w)]
        name = self.node("MaxPool", x.name, kernel_shape=kernel, strides=[1, 2])
        return x._replace(name=name, shape=(n, c, h - kernel[0] + 1, (w - kernel[1]) // 2 + 1))

    def operate(self, x: Tensor) -> None:
        dtype = np.int8 if x.signed else np.uint8
        wraps = ["add", "mul", "abs", "sum"] if x.bound == 0 else []
        moves = ["max pool", "pad", "transpose", "reshape", "slice", "concat", "where", "gather", "split", "tile", "resize"]
        op = self.random.choice(["relu", "clip", "max", "min", "most", *moves, *wraps])
        number = self.constant(self.random.integers(-90, 90) if x.signed else self.random.integers(0, 255), dtype)
        n, c, h, w = x.shape
        like = self.pick([one for one in self.wholes if one.shape == x.shape and one.signed == x.signed])
        if op == "relu" and x.signed:
            made = x._replace(name=self.node("Relu", x.name))
        elif op == "clip":
            made = x._replace(name=self.node("Clip", x.name, number, self.constant(np.iinfo(dtype).max - 20, dtype)))
        elif op in ("max", "min"):
            made = x._replace(name=self.node(op.title(), x.name, number))
        elif op == "most":
            made = x._replace(name=self.node("Max", x.name, like.name), bound=max(x.bound, like.bound))
        elif op == "max pool" and min(h, w) > 1:
            made = self.pooled(x)
        elif op == "pad":
            made = x._replace(
                name=self.node("Pad", x.name, self.constant([0, 0, 1, 0, 0, 0, 0, 2]), number), shape=(n, c, h + 1, w + 2)
            )
        elif op == "transpose":
            made = x._replace(name=self.node("Transpose", x.name, perm=[0, 1, 3, 2]), shape=(n, c, w, h))
        elif op == "reshape":
            made = x._replace(name=self.node("Reshape", x.name, self.constant([1, c, w, h])), shape=(1, c, w, h))
        elif op == "slice" and h > 2:
            made = x._replace(
                name=self.node("Slice", x.name, self.constant([1]), self.constant([h]), self.constant([2])),
                shape=(n, c, h - 1, w),
            )
        elif op == "concat" and c < 5:
            made = x._replace(
                name=self.node("Concat", x.name, like.name, axis=1), shape=(n, 2 * c, h, w), bound=max(x.bound, like.bound)
            )
        elif op == "where":
            chosen = self.constant(self.random.integers(0, 2, x.shape), bool)
            made = x._replace(name=self.node("Where", chosen, x.name, like.name), bound=max(x.bound, like.bound))
        elif op == "gather":
            made = x._replace(name=self.node("Gather", x.name, self.constant(self.random.permutation(c)), axis=1))
        elif op == "split" and c % 2 == 0:
            name = self.node("Split", x.name, self.constant([c // 2, c // 2]), axis=1)
            self.nodes[-1].output.append(f"{name}_rest")
            self.wholes.append(x._replace(name=f"{name}_rest", shape=(n, c // 2, h, w)))
            made = x._replace(name=name, shape=(n, c // 2, h, w))
        elif op == "tile" and h < 5:
            made = x._replace(name=self.node("Tile", x.name, self.constant([1, 1, 2, 1])), shape=(n, c, 2 * h, w))
        elif op == "resize" and w < 5:
            scales = self.constant([1, 1, 1, 2], np.float32)
            attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            made = x._replace(name=self.node("Resize", x.name, "", scales, **attributes), shape=(n, c, h, 2 * w))
        elif op in ("add", "mul") and like.bound == 0:
            made = x._replace(name=self.node(op.title(), x.name, like.name))
        elif op == "abs":
            made = x._replace(name=self.node("Abs", x.name))
        elif op == "sum":
            made = x._replace(name=self.node("Add", x.name, number))
        else:
            return
        self.wholes.append(made)

    def outputs(self) -> list[Tensor]:
        """Return the last tensor and some others: what is read from outside must be right, too."""
        made = [tensor for tensor in self.wholes[1:] if self.random.random() < 0.2]
        return list(dict.fromkeys([*made, self.wholes[-1]]))


@pytest.mark.parametrize("seed", range(8))
def test_random_mixtures_of_integers_and_quantized_layers(seed: int) -> None:
    made = compared = 0
    for number in range(10):
        mixture = Mixture(100 * seed + number)
        outputs = mixture.outputs()
        codes = {tensor.name: TensorProto.INT8 if tensor.signed else TensorProto.UINT8 for tensor in outputs}
        model = model_of(mixture.nodes, mixture.feeds, codes, mixture.constants)
        wanted = list(references(model, mixture.feeds))
        network = parse(model)
        bounds = [tensor.bound for tensor in outputs]
        made += integer_layers(network)
        compared += sum(bound < 8 for bound in bounds)
        for backends in BACKENDS:
            for layers in INTEGER_LAYERS:
                assert_close(network, mixture.feeds, wanted, bounds, backends=backends, integer_layers=layers)
    assert made > 0
    assert compared >= 10
