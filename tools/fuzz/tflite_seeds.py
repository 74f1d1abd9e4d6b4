"""What mutants of .tflite files are made of: single operators, small networks, files beside us."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tflite_parser.tests.tflite_making import Model

from dovetail import ModelError
from dovetail_tflite import parse

from .seeds import LARGEST, Seed, digest_of

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "models" / "tflite_ops"
"""Where files of other makers lie, if they are there."""
IMAGE = (1, 4, 4, 2)
WINDOW = {"stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 2}
STEPS = {"stride_w": 1, "stride_h": 1}

UNARY = (
    "RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 LOGISTIC TANH ELU HARD_SWISH LOG_SOFTMAX ABS NEG EXP LOG SQRT RSQRT SQUARE SIN "
    "COS FLOOR CEIL ROUND SIGN ZEROS_LIKE L2_NORMALIZATION CAST QUANTIZE"
)
BINARY = "ADD SUB MUL DIV FLOOR_DIV FLOOR_MOD POW MAXIMUM MINIMUM SQUARED_DIFFERENCE ADD_N ATAN2"
COMPARING = "EQUAL NOT_EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL"
REDUCING = "MEAN SUM REDUCE_MAX REDUCE_MIN REDUCE_PROD"


@dataclass(frozen=True)
class TfliteSeeds:
    """All seeds, by where they are from."""

    made: list[Seed]
    beside: list[Seed]

    def draw(self, luck: random.Random) -> Seed:
        """Choose one: where there are files beside us, as often one of these."""
        return luck.choice(self.beside if self.beside and luck.random() < 0.5 else self.made)

    def all(self) -> list[Seed]:
        """List them."""
        return [*self.made, *self.beside]

    @functools.cached_property
    def digest(self) -> str:
        """Tell one set of seeds from another."""
        return digest_of(self.all())


@functools.cache
def load_tflite_seeds() -> TfliteSeeds:
    """Collect them, and parse each once: modules are imported with the first operator of theirs."""
    made = [Seed(name, model.build()) for name, model in _made()]
    paths = sorted(BESIDE.rglob("*.tflite")) if BESIDE.is_dir() else []
    beside = [Seed(path.stem, path.read_bytes()) for path in paths if path.stat().st_size <= LARGEST]
    for seed in [*made, *beside]:
        try:
            parse(seed.data)
        except ModelError:
            continue
    return TfliteSeeds(made, beside)


def single(operator: str, inputs: list[Any], outputs: list[Any], options: dict[str, Any] | None = None) -> Model:
    """Make a model of one operator.

    Args:
        operator: Its name.
        inputs: Shapes of floats, (dtype, shape), or arrays for constants.
        outputs: Shapes, or (dtype, shape).
        options: Of the operator.
    """
    model = Model()
    graph = model.main
    numbers = []
    for place, given in enumerate(inputs):
        if isinstance(given, np.ndarray):
            numbers.append(graph.constant(f"c{place}", given))
        else:
            numbers.append(graph.input(f"x{place}", *_typed(given), **_quantized(given)))
    results = [
        graph.output(graph.tensor(f"y{place}", *_typed(given), **_quantized(given))) for place, given in enumerate(outputs)
    ]
    graph.operator(operator, numbers, results, options)
    return model


def _typed(given: Any) -> tuple[Any, tuple[int, ...]]:
    return given if isinstance(given[0], str) else ("float32", given)


def _quantized(given: Any) -> dict[str, Any]:
    return {"quantization": (0.05, 3)} if given[0] in ("int8", "uint8") else {}


def _made() -> Iterator[tuple[str, Model]]:
    yield from _singles()
    yield "network", _network()
    yield "integers", _integers()
    yield "branches", _branches("IF")
    yield "loop", _branches("WHILE")
    yield "sparse", _sparse()


def _singles() -> Iterator[tuple[str, Model]]:
    rng = np.random.default_rng(5)
    flat, axes = (2, 3), np.array([1], np.int32)
    for name in UNARY.split():
        yield name, single(name, [flat], [flat])
        yield name, single(name, [("int8", flat)], [("int8", flat)])
    for name in BINARY.split():
        yield name, single(name, [flat, (3,)], [flat])
        yield name, single(name, [("int8", flat), ("int8", flat)], [("int8", flat)], _plain(name))
    for name in COMPARING.split():
        yield name, single(name, [flat, flat], [("bool", flat)])
    for name in REDUCING.split():
        yield name, single(name, [flat, axes], [(2,)], {"keep_dims": False})
    for name in ("REDUCE_ANY", "REDUCE_ALL"):
        yield name, single(name, [("bool", flat), axes], [("bool", (2, 1))], {"keep_dims": True})
    for name in ("LOGICAL_AND", "LOGICAL_OR"):
        yield name, single(name, [("bool", flat), ("bool", flat)], [("bool", flat)])
    yield "LOGICAL_NOT", single("LOGICAL_NOT", [("bool", flat)], [("bool", flat)])
    weights = rng.random((3, 2, 2, 2), np.float32)
    yield "CONV_2D", single("CONV_2D", [IMAGE, weights, np.ones(3, np.float32)], [(1, 4, 4, 3)], STEPS | {"padding": 0})
    depthwise = [IMAGE, rng.random((1, 3, 3, 2), np.float32), np.ones(2, np.float32)]
    yield "DEPTHWISE_CONV_2D", single("DEPTHWISE_CONV_2D", depthwise, [IMAGE], STEPS | {"depth_multiplier": 1})
    transposed = [np.array([1, 8, 8, 3], np.int32), weights, IMAGE]
    yield "TRANSPOSE_CONV", single("TRANSPOSE_CONV", transposed, [(1, 8, 8, 3)], {"stride_w": 2, "stride_h": 2})
    for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        yield name, single(name, [IMAGE], [IMAGE], WINDOW)
    dense = [flat, rng.random((4, 3), np.float32), np.ones(4, np.float32)]
    yield "FULLY_CONNECTED", single("FULLY_CONNECTED", dense, [(2, 4)], {"fused_activation_function": 1})
    yield "BATCH_MATMUL", single("BATCH_MATMUL", [(2, 3, 4), (2, 4, 5)], [(2, 3, 5)], {"adj_x": False})
    yield "SOFTMAX", single("SOFTMAX", [flat], [flat], {"beta": 1.0})
    yield "LEAKY_RELU", single("LEAKY_RELU", [flat], [flat], {"alpha": 0.1})
    yield "GELU", single("GELU", [flat], [flat], {"approximate": True})
    yield "PRELU", single("PRELU", [IMAGE, np.ones((1, 1, 2), np.float32)], [IMAGE])
    yield "RESHAPE", single("RESHAPE", [flat, np.array([3, -1], np.int32)], [(3, 2)], {"new_shape": [3, 2]})
    yield "SQUEEZE", single("SQUEEZE", [(1, 3, 1)], [(3,)], {"squeeze_dims": [0, 2]})
    yield "EXPAND_DIMS", single("EXPAND_DIMS", [flat, np.array(0, np.int32)], [(1, 2, 3)])
    yield "TRANSPOSE", single("TRANSPOSE", [flat, np.array([1, 0], np.int32)], [(3, 2)])
    yield "SHAPE", single("SHAPE", [flat], [("int32", (2,))], {"out_type": 2})
    yield "RANK", single("RANK", [flat], [("int32", ())])
    yield "TILE", single("TILE", [flat, np.array([2, 1], np.int32)], [(4, 3)])
    yield "BROADCAST_TO", single("BROADCAST_TO", [(3,), np.array([2, 3], np.int32)], [flat])
    yield "CONCATENATION", single("CONCATENATION", [flat, flat], [(4, 3)], {"axis": 0})
    yield "PACK", single("PACK", [flat, flat], [(2, 2, 3)], {"values_count": 2, "axis": 0})
    yield "UNPACK", single("UNPACK", [flat], [(3,), (3,)], {"num": 2, "axis": 0})
    yield "SPLIT", single("SPLIT", [np.array(1, np.int32), (2, 4)], [(2, 2), (2, 2)], {"num_splits": 2})
    lengths = [(2, 4), np.array([1, 3], np.int32), np.array(1, np.int32)]
    yield "SPLIT_V", single("SPLIT_V", lengths, [(2, 1), (2, 3)], {"num_splits": 2})
    pads = np.array([[1, 0], [0, 2]], np.int32)
    yield "PAD", single("PAD", [flat, pads], [(3, 5)])
    yield "PADV2", single("PADV2", [flat, pads, np.array(2, np.float32)], [(3, 5)])
    yield "MIRROR_PAD", single("MIRROR_PAD", [flat, pads], [(3, 5)], {"mode": 0})
    yield "GATHER", single("GATHER", [flat, ("int32", (2,))], [(2, 2)], {"axis": 1, "batch_dims": 0})
    yield "GATHER_ND", single("GATHER_ND", [flat, np.array([[0, 1]], np.int32)], [(1,)])
    scattered = [np.array([[1]], np.int32), (1, 3), np.array([2, 3], np.int32)]
    yield "SCATTER_ND", single("SCATTER_ND", scattered, [flat])
    yield "SLICE", single("SLICE", [flat, np.array([0, 1], np.int32), np.array([2, -1], np.int32)], [(2, 2)])
    strided = [flat, *(np.array(one, np.int32) for one in ([0, 0], [2, 3], [1, 2]))]
    yield "STRIDED_SLICE", single("STRIDED_SLICE", strided, [(2, 2)], {"begin_mask": 1, "shrink_axis_mask": 0})
    yield "REVERSE_V2", single("REVERSE_V2", [flat, axes], [flat])
    lengths = [flat, np.array([2, 3], np.int32)]
    yield "REVERSE_SEQUENCE", single("REVERSE_SEQUENCE", lengths, [flat], {"seq_dim": 1, "batch_dim": 0})
    yield "ARG_MAX", single("ARG_MAX", [flat, axes], [("int32", (2,))], {"output_type": 2})
    yield "TOPK_V2", single("TOPK_V2", [flat, np.array(2, np.int32)], [(2, 2), ("int32", (2, 2))])
    yield "CUMSUM", single("CUMSUM", [flat, np.array(1, np.int32)], [flat], {"exclusive": True})
    yield "SELECT_V2", single("SELECT_V2", [("bool", flat), flat, flat], [flat])
    yield "FILL", single("FILL", [np.array([2, 3], np.int32), np.array(7, np.float32)], [flat])
    yield "RANGE", single("RANGE", [np.array(one, np.int32) for one in (0, 6, 2)], [("int32", (3,))])
    hot = [("int32", (2,)), np.array(3, np.int32), np.array(1, np.float32), np.array(0, np.float32)]
    yield "ONE_HOT", single("ONE_HOT", hot, [flat], {"axis": -1})
    yield "SPACE_TO_DEPTH", single("SPACE_TO_DEPTH", [IMAGE], [(1, 2, 2, 8)], {"block_size": 2})
    yield "DEPTH_TO_SPACE", single("DEPTH_TO_SPACE", [(1, 2, 2, 8)], [IMAGE], {"block_size": 2})
    blocks = [np.array([2, 2], np.int32), np.zeros((2, 2), np.int32)]
    yield "SPACE_TO_BATCH_ND", single("SPACE_TO_BATCH_ND", [IMAGE, *blocks], [(4, 2, 2, 2)])
    yield "BATCH_TO_SPACE_ND", single("BATCH_TO_SPACE_ND", [(4, 2, 2, 2), *blocks], [IMAGE])
    for name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
        yield name, single(name, [IMAGE, np.array([8, 6], np.int32)], [(1, 8, 6, 2)], {"half_pixel_centers": True})
    normalized = {"radius": 2, "bias": 1.0, "alpha": 1.0, "beta": 0.5}
    yield "LOCAL_RESPONSE_NORMALIZATION", single("LOCAL_RESPONSE_NORMALIZATION", [IMAGE], [IMAGE], normalized)
    yield "DEQUANTIZE", single("DEQUANTIZE", [("int8", flat)], [flat])
    yield "EMBEDDING_LOOKUP", single("EMBEDDING_LOOKUP", [("int32", (2,)), rng.random((4, 3), np.float32)], [flat])


def _plain(operator: str) -> dict[str, Any] | None:
    return {"fused_activation_function": 0} if operator in ("ADD", "SUB", "MUL", "DIV") else None


def _network() -> Model:
    """A small image network with an open size, a signature and metadata."""
    rng = np.random.default_rng(6)
    model = Model("network")
    graph = model.main
    x = graph.input("x", "float32", (1, 4, 4, 2), signature=(-1, 4, 4, 2))
    w = graph.constant("w", rng.random((3, 3, 3, 2), np.float32))
    b = graph.constant("b", rng.random(3, np.float32))
    h = graph.tensor("h", "float32", (1, 2, 2, 3))
    graph.operator("CONV_2D", [x, w, b], [h], {"stride_w": 2, "stride_h": 2, "fused_activation_function": 3})
    p = graph.tensor("p", "float32", (1, 1, 1, 3))
    graph.operator("AVERAGE_POOL_2D", [h], [p], {**WINDOW, "padding": 1})
    v = graph.tensor("v", "float16", (4, 3), value=rng.random((4, 3), np.float32).astype(np.float16))
    wide = graph.tensor("wide", "float32", (4, 3))
    graph.operator("DEQUANTIZE", [v], [wide])
    y = graph.output(graph.tensor("y", "float32", (1, 4)))
    graph.operator("FULLY_CONNECTED", [p, wide, -1], [y], {})
    model.signature("serving_default", {"image": x}, {"scores": y})
    model.metadata("min_runtime_version", b"1.5.0")
    return model


def _integers() -> Model:
    """Convolution and matrix product of bytes, with scales per channel."""
    rng = np.random.default_rng(7)
    model = Model("integers")
    graph = model.main
    x = graph.input("x", "int8", IMAGE, quantization=(0.05, 3))
    w = graph.constant("w", rng.integers(-9, 9, (3, 1, 1, 2)).astype(np.int8), quantization=([0.1, 0.2, 0.3], [0] * 3, 0))
    b = graph.constant("b", np.arange(3, dtype=np.int32), quantization=([0.005, 0.01, 0.015], [0] * 3, 0))
    h = graph.tensor("h", "int8", (1, 4, 4, 3), quantization=(0.4, -5))
    graph.operator("CONV_2D", [x, w, b], [h], STEPS, version=3)
    v = graph.tensor("v", "int4", (2, 48), value=rng.integers(-8, 8, (2, 48)), quantization=(0.1, 0))
    y = graph.output(graph.tensor("y", "int8", (1, 2), quantization=(1.0, 0)))
    graph.operator("FULLY_CONNECTED", [h, v, -1], [y], {}, version=4)
    return model


def _branches(operator: str) -> Model:
    """A model of three subgraphs."""
    model = Model("branches")
    graph = model.main
    for place, name in enumerate(("EXP", "NEG")):
        inner = model.subgraph(name)
        x = inner.input("x", "float32", (2, 3))
        y = inner.output(inner.tensor("y", "bool" if operator == "WHILE" and not place else "float32", (2, 3)))
        inner.operator(
            "LESS" if operator == "WHILE" and not place else name, [x] * (1 + (operator == "WHILE" and not place)), [y]
        )
    x = graph.input("x", "float32", (2, 3))
    y = graph.output(graph.tensor("y", "float32", (2, 3)))
    if operator == "IF":
        condition = graph.input("condition", "bool", (1,))
        graph.operator("IF", [condition, x], [y], {"then_subgraph_index": 1, "else_subgraph_index": 2})
    else:
        graph.operator("WHILE", [x], [y], {"cond_subgraph_index": 1, "body_subgraph_index": 2})
    return model


def _sparse() -> Model:
    """A matrix product by a sparse matrix [4, 3]."""
    model = Model("sparse")
    graph = model.main
    x = graph.input("x", "float32", (2, 3))
    held = {"array_segments": [0, 1, 2, 2, 3], "array_indices": [0, 2, 1]}
    level: dict[str, Any] = {"format": 1}
    for name, values in held.items():
        level |= {f"{name}_type": 1, name: ("Int32Vector", {"values": values})}
    sparsity = {"traversal_order": [0, 1], "dim_metadata": [{"format": 0, "dense_size": 4}, level]}
    w = graph.tensor("w", "float32", (4, 3), value=np.ones(3, np.float32), sparsity=sparsity)
    dense = graph.tensor("dense", "float32", (4, 3))
    graph.operator("DENSIFY", [w], [dense])
    y = graph.output(graph.tensor("y", "float32", (2, 4)))
    graph.operator("FULLY_CONNECTED", [x, dense, -1], [y], {})
    return model
