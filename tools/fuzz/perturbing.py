"""Change a model's numbers and feeds in their last bits: what moves far is badly conditioned."""

from __future__ import annotations

import random

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from .message_mutations import messages

FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
STEPS = 8
"""By how many of its last steps a number moves at most."""
ROUNDING = ("QuantizeLinear", "Round")
"""What rounds: its input is between two integers as soon as scales, however changed, cancel out."""


def perturbed(luck: random.Random, value: np.ndarray) -> np.ndarray:
    """Change every float by some of its last bits."""
    if value.dtype.kind != "f" or not value.size:
        return value
    generator = np.random.default_rng(luck.getrandbits(32))
    with np.errstate(all="ignore"):
        factor = 1 + STEPS * np.finfo(value.dtype).eps * generator.uniform(-1, 1, value.shape)
        return np.asarray((value * factor).astype(value.dtype))


def perturb(luck: random.Random, model: ModelProto, rounding: bool) -> None:
    """Change a model in place.

    Args:
        luck: Decides.
        model: It.
        rounding: Whether what is rounded is changed too, as if it were float32.
    """
    for message in messages(model):
        if isinstance(message, TensorProto):
            _perturb_tensor(luck, message)
    if rounding:
        _perturb_rounded(luck, model)


def _perturb_tensor(luck: random.Random, tensor: TensorProto) -> None:
    if tensor.data_type in FLOATS and not tensor.external_data:
        try:
            value = numpy_helper.to_array(tensor)
        except Exception:  # onnx's reading of a broken tensor that ours took or never looked at: it stays as it is
            return
        tensor.CopyFrom(numpy_helper.from_array(perturbed(luck, value), tensor.name))


def _perturb_rounded(luck: random.Random, model: ModelProto) -> None:
    nodes: list[NodeProto] = []
    for place, node in enumerate(model.graph.node):
        if node.op_type in ROUNDING and node.input:
            name = f"perturbed {place}"
            factor = np.float32(1 + 8 * STEPS * np.finfo(np.float32).eps * luck.choice((-1, 1)))
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(factor), f"{name} by"))
            nodes.append(helper.make_node("Mul", [node.input[0], f"{name} by"], [name]))
            node.input[0] = name
        nodes.append(node)
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)
