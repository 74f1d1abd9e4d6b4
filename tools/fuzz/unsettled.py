"""What ONNX does not settle, or its definitions and the peer disagree on: nobody's defect."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from .comparing import Difference
from .message_mutations import messages

RANGES = {2: (256.0, 6.1e-5), 4: (1e15, 1e-18), 8: (1e15, 1e-18)}
"""What may be squared and summed without overflowing or vanishing, by bytes of an element."""
POOLS = ("MaxPool", "AveragePool", "LpPool")
QUANTIZING = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinearMatMul", "QLinearConv")
HIGH_POWER = 8
"""Of an Lp norm: such powers overflow in float32 from 65,536 up, and vanish below 1e-5."""


def has_extremes(model: ModelProto, feeds: Mapping[str, np.ndarray]) -> bool:
    """Tell whether any number is NaN, infinite, or too large or small to be squared in its type.

    Sums of squares overflow in float32 and not in float64. What is padded with zeros, or filled up
    with them, is NaN beside an infinite weight. ONNX does not say where a NaN is sorted to, nor
    which integer it becomes.
    """
    found = list(feeds.values())
    for message in messages(model):
        if isinstance(message, TensorProto):
            with contextlib.suppress(Exception):  # onnx's reading of a broken tensor
                found.append(numpy_helper.to_array(message))
        elif isinstance(message, AttributeProto):
            found += [np.asarray(message.f), np.asarray(message.floats)]
    return any(value.dtype.kind == "f" and _is_extreme(value) for value in found)


def _is_extreme(values: np.ndarray) -> bool:
    largest, smallest = RANGES.get(values.dtype.itemsize, RANGES[4])
    magnitudes = np.abs(values.astype(np.float64))
    return bool((~np.isfinite(magnitudes) | (magnitudes > largest) | ((magnitudes > 0) & (magnitudes < smallest))).any())


def is_unsettled(model: ModelProto, feeds: Mapping[str, np.ndarray], found: Difference) -> bool:
    """Tell whether an operator of a model leaves open what differs from the peer's answer."""
    nodes = [node for node in messages(model) if isinstance(node, NodeProto)]
    return any(
        _leaves_open(node, found) or _divides_by_zero(node, model, feeds, found) or _takes_no_steps(node, model, feeds)
        for node in nodes
    )


def _divides_by_zero(node: NodeProto, model: ModelProto, feeds: Mapping[str, np.ndarray], found: Difference) -> bool:
    """Tell whether a node rounds a NaN to an integer, or divides by a zero of undefined sign."""
    if node.op_type in QUANTIZING and found.kind == "integers":
        # A NaN becomes the zero point of a quantization, and 0 where its scale is none; the peer
        # takes what the machine gives.
        data, *others = read_by(model, feeds, node) or [np.zeros(())]
        scales = [value for value in others if value.dtype.kind == "f"]
        return bool(np.isnan(data).any()) or any((~np.isfinite(one) | (one == 0)).any() for one in scales)
    if node.op_type in ("Reciprocal", "Div") and found.kind == "non-finite":
        # ONNX says of no function whether it gives 0 or -0: selu(-0) is either, by how it is
        # written.
        read = read_by(model, feeds, node)
        infinities = found.text.count("inf") == 2 and found.text.count("-inf") == 1
        return infinities and read is not None and bool((read[-1] == 0).any())
    return False


def _takes_no_steps(node: NodeProto, model: ModelProto, feeds: Mapping[str, np.ndarray]) -> bool:
    """Tell whether a recurrent node has no steps.

    ONNX does not say what the last state is then. The peer gives what memory held before, and so
    does its RNN for single sequences of no steps.
    """
    if node.op_type not in ("LSTM", "GRU", "RNN"):
        return False
    read = read_by(model, feeds, node)  # ONNX's evaluator fails at no steps: then the node reads what is fed
    given = feeds if read is None else dict(zip([name for name in node.input if name], read, strict=True))
    x = given.get(node.input[0])
    lengths = given.get(node.input[4]) if node.op_type == "RNN" and len(node.input) > 4 else None
    return (x is not None and 0 in x.shape[:1]) or (lengths is not None and not lengths.all())


def read_by(model: ModelProto, feeds: Mapping[str, np.ndarray], node: NodeProto) -> list[np.ndarray] | None:
    """Return what a node of the outermost graph reads, by ONNX's evaluator, or else None."""
    part = ModelProto()
    part.CopyFrom(model)
    del part.graph.output[:]
    part.graph.output.extend(ValueInfoProto(name=name) for name in node.input if name)
    with contextlib.suppress(Exception), np.errstate(all="ignore"):  # it has no type of its own
        return [np.asarray(value) for value in ReferenceEvaluator(part).run(None, dict(feeds))]
    return None


def _leaves_open(node: NodeProto, found: Difference) -> bool:
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "OneHot":  # ONNX casts indices that are no integers to int64; the peer compares them as they are
        return found.kind in ("values", "integers")
    if node.op_type in ("Shrink", "ThresholdedRelu"):  # a NaN is no number of either side: ours goes through, the peer's is 0
        return found.kind == "non-finite"
    if node.op_type in (
        "MaxPool",
        "GlobalMaxPool",
    ):  # the largest of numbers and a NaN: ours is the NaN, as NumPy's and as that of
        return found.kind == "non-finite"  # ONNX's Max; the peer leaves it out, and its largest of -inf is the lowest number
    if node.op_type == "Pow":  # of integers, beyond what their type holds
        return found.kind == "integers"
    if node.op_type == "Celu" and "alpha" in attributes:  # 0 * exp(x / 0), which we do not compute where x is positive
        return attributes["alpha"].f == 0
    if node.op_type.endswith("Window") and "periodic" in attributes:  # ONNX's body of it and ONNX's evaluator differ
        return attributes["periodic"].i not in (0, 1)
    if node.op_type in ("LpPool", "GlobalLpPool") and "p" in attributes:
        return found.kind in ("values", "non-finite") and attributes["p"].i >= HIGH_POWER
    if node.op_type in POOLS and "dilations" in attributes and "auto_pad" in attributes:
        # ONNX defines the size of the result, ceil(size / stride). The peer misses it: its padding
        # leaves dilations out.
        is_same = attributes["auto_pad"].s in (b"SAME_UPPER", b"SAME_LOWER")
        return is_same and any(dilation > 1 for dilation in attributes["dilations"].ints)
    if node.op_type in POOLS and "strides" in attributes and "kernel_shape" in attributes:
        # Automatic padding would be negative: ONNX does not say what that means, the peer begins
        # inside of the image.
        pairs = zip(attributes["strides"].ints, attributes["kernel_shape"].ints, strict=False)
        return "auto_pad" in attributes and any(stride > kernel for stride, kernel in pairs)
    return False
