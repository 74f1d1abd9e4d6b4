"""Inputs of layers, in few words: what tests of shape inference say of them."""

from __future__ import annotations

from typing import Any

from dovetail import layers as kinds
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import Quantization, TensorInfo

F32, I8, I16, I32, I64, BOOL = DType.FLOAT32, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL


def info(given: Any) -> TensorInfo | None:
    """A shape, or (shape, dtype), as an info."""
    if given is None:
        return None
    if given and isinstance(given[0], tuple):
        return TensorInfo.of(*given)
    return TensorInfo.of(given)


def inferred(descriptor: Descriptor, *inputs: Any) -> list[tuple[tuple[int, ...], DType]]:
    infos = [info(one) for one in inputs]
    resolved = descriptor.resolve(infos, [None] * len(infos))
    return [(one.sizes, one.dtype) for one in resolved.infer(infos)]


def detector(**attributes: Any) -> kinds.DetectionPostProcess:
    return kinds.DetectionPostProcess(**{"max_detections": 5, "num_classes": 2, "max_classes_per_detection": 2, **attributes})


def quantized_lstm(hidden: int = 5, **changed: Any) -> list[Any]:
    """Infos of its inputs, for 3 elements of a step and 5 units; None for what is left out."""
    small, cell = Quantization.per_tensor(0.5), Quantization.per_tensor(2.0**-11)
    given: dict[str, Any] = {"input": ((7, 2, 3), I8, small), "initial_hidden": ((2, hidden), I8, small)}
    given["initial_cell"] = ((2, 5), I16, cell)
    for gate in ("input", "forget", "cell", "output"):
        given |= {f"{gate}_weights": ((5, 3), I8, small), f"{gate}_recurrent_weights": ((5, hidden), I8, small)}
        given[f"{gate}_bias"] = ((5,), I32)
    given |= changed
    return [given.get(name) for name in kinds.QuantizedLstm.input_names]


def quantized_svdf(**changed: Any) -> list[Any]:
    """Infos of its inputs: 3 elements, 6 filters of 4 steps, in pairs; None for those left out."""
    small = Quantization.per_tensor(0.5)
    given: dict[str, Any] = {
        "input": ((2, 3), I8, Quantization.per_tensor(0.5, 7)),
        "initial_state": ((2, 24), I16, small),
        "feature_weights": ((6, 3), I8, small),
        "time_weights": ((6, 4), I16, small),
        "bias": ((3,), I32),
    }
    return [(given | changed)[name] for name in kinds.QuantizedSvdf.input_names]


UNCOUPLED = dict.fromkeys(("input_weights", "input_recurrent_weights", "input_bias"))
BYTES = Quantization.per_tensor(0.5)
SEEN = ((5,), I16, Quantization.per_tensor(0.5))
