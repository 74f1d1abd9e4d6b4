"""Operators that make tensors: constants, fills, ranges."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.graph.layer import OutputSlot

from ..node import Node
from ..registry import builtin
from ..tensors import Tensor
from ..unsupported import Unsupported


@builtin("Constant")
def constant(node: Node) -> OutputSlot:
    """Translate a constant, in any of the forms of its value."""
    value = _constant_value(node)
    return node.network.constant(value.value, node.label(), dtype=value.dtype)


def _constant_value(node: Node) -> Tensor:
    if node.has("value_float"):
        return Tensor(np.asarray(node.floating("value_float"), np.float32), DType.FLOAT32)
    if node.has("value_floats"):
        return Tensor(np.asarray(node.floats("value_floats"), np.float32), DType.FLOAT32)
    if node.has("value_int"):
        return Tensor(np.asarray(node.integer("value_int"), np.int64), DType.INT64)
    if node.has("value_ints"):
        return Tensor(np.asarray(node.integers("value_ints"), np.int64), DType.INT64)
    for name in ("value_string", "value_strings"):
        if node.has(name):
            raise Unsupported("the constant is a string", attribute=name)
    value = node.tensor("value") or node.sparse_tensor("sparse_value")
    if value is None:
        raise node.malformed("has no value")
    return value


@builtin("ConstantOfShape")
def constant_of_shape(node: Node) -> OutputSlot:
    """Translate a fill."""
    value = node.tensor("value") or Tensor(np.zeros(1, np.float32), DType.FLOAT32)
    if value.value.size != 1:
        raise node.malformed(f"has a value of {value.value.size} elements, expected one")
    number = value.value.reshape(-1)[0]
    if value.dtype is DType.BFLOAT16:
        number = np.asarray(int(number) << 16, np.uint32).view(np.float32)
    shape = node.integers_of(0)
    return node.network.fill(node.input(0) if shape is None else shape, number.item(), value.dtype, name=node.label())


@builtin("Range", ignored=["stash_type"])
def counting(node: Node) -> OutputSlot:
    """Translate a range of numbers.

    A narrow float is counted in float32, ONNX's default stash type, and rounded once.
    """
    dtype, net = node.dtype(), node.network
    if dtype not in (DType.FLOAT16, DType.BFLOAT16):
        return net.range(node.input(0), node.input(1), node.input(2), name=node.label())
    wide = [net.cast(node.input(i), DType.FLOAT32, name=node.label(part)) for i, part in enumerate(("start", "limit", "delta"))]
    return net.cast(net.range(wide[0], wide[1], wide[2], name=node.label("float32")), dtype, name=node.label())


@builtin("EyeLike")
def eye_like(node: Node) -> OutputSlot:
    """Translate a matrix of ones on one diagonal: what two triangles leave of a fill."""
    dtype, k = node.dtype_attribute("dtype", node.dtype()), node.integer("k", 0)
    net, rank = node.network, node.rank_of(node.input(0))
    if rank not in (None, 2):
        raise node.malformed(f"has an input of rank {rank}; only a matrix has a diagonal")
    sizes = net.shape_of(node.input(0), name=node.label("shape"))
    ones = net.fill(sizes, 1.0 if dtype.is_float else 1, dtype, name=node.label("ones"))
    return net.trilu(net.trilu(ones, k, name=node.label("upper")), k, upper=False, name=node.label())
