"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import Constant, DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Dequantize

from ..node import Node
from ..registry import builtin
from ..tensors import Tensor, made_of

_FOLDED = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)
"""Types whose constants NumPy can transpose and scale here."""


@builtin("MatMul")
def matmul(node: Node) -> OutputSlot:
    """Translate a matrix product."""
    return node.network.matmul(node.input(0), node.input(1), name=node.label())


@builtin("Gemm", ignored=["broadcast"])
def gemm(node: Node) -> OutputSlot:
    """Translate alpha * A * B + beta * C; constant weights make it a fully connected layer."""
    a = node.input(0)
    if node.flag("transA"):
        a = node.network.permute(a, [1, 0], name=node.label("transposed"))
    weights = node.input(1)
    if isinstance(weights.layer.descriptor, Constant) and weights.dtype in _FOLDED and len(weights.shape) == 2:
        return _fully_connected(node, a, weights)
    return _of_stored_weights(node, a) or _composed(node, a)


def _of_stored_weights(node: Node, a: OutputSlot) -> OutputSlot | None:
    """Return a fully connected layer on weights that are stored as integers, None where it is none.

    What dequantizes them stays between: backends that compute with integers take both together.
    """
    weights, bias = node.input(1), node.optional(2)
    stored = weights.layer.inputs[0].source if isinstance(weights.layer.descriptor, Dequantize) else None
    if stored is None or not isinstance(stored.layer.descriptor, Constant) or len(stored.shape) != 2 or not node.flag("transB"):
        return None
    if node.floating("alpha", 1.0) != 1.0 or node.floating("beta", 1.0) != 1.0:
        return None
    if bias is not None and (bias.info is None or bias.info.shape != stored.shape[:1]):
        return None
    return node.network.fully_connected(a, weights, bias, name=node.label())


def _fully_connected(node: Node, a: OutputSlot, weights: OutputSlot) -> OutputSlot:
    net, dtype = node.network, weights.dtype
    alpha, beta, is_in_rows = node.floating("alpha", 1.0), node.floating("beta", 1.0), node.flag("transB")
    shape = weights.known_info.sizes if is_in_rows else weights.known_info.sizes[::-1]
    filters, operand = shape[0], weights
    if alpha != 1.0 or not is_in_rows:

        def scaled_rows(value: npt.NDArray[Any]) -> npt.NDArray[Any]:
            rows = value if is_in_rows else value.T
            return np.ascontiguousarray(rows if alpha == 1.0 else rows * dtype.numpy.type(alpha))

        operand = net.constant(made_of(weights, shape, scaled_rows), node.label("weights"), dtype=dtype)
    addend = node.optional(2)
    if addend is None or beta == 0.0:
        return net.fully_connected(a, operand, name=node.label())
    bias = _bias(node, addend, filters, beta, dtype)
    if bias is not None:
        return net.fully_connected(a, operand, bias, name=node.label())
    product = net.fully_connected(a, operand, name=node.label("product"))
    return net.addition(product, _scaled(node, addend, beta, "addend"), name=node.label())


def _bias(node: Node, addend: OutputSlot, filters: int, beta: float, dtype: DType) -> OutputSlot | None:
    """Return the addend as one number per filter, or None if it differs between the rows."""
    if beta == 1.0 and addend.info is not None and addend.info.shape == (filters,):
        return addend
    constant = _constant(addend)
    if (
        constant is None
        or constant.dtype not in _FOLDED
        or constant.value.shape not in ((), (1,), (1, 1), (filters,), (1, filters))
    ):
        return None
    node.check_affordable(filters, "the bias")
    value = np.broadcast_to(constant.value.reshape(-1), (filters,)) * dtype.numpy.type(beta)
    return node.network.constant(value, node.label("bias"), dtype=dtype)


def _composed(node: Node, a: OutputSlot) -> OutputSlot:
    alpha, beta, addend = node.floating("alpha", 1.0), node.floating("beta", 1.0), node.optional(2)
    adds = addend is not None and beta != 0.0
    scales = alpha != 1.0
    name = node.label("product" if adds or scales else "")
    product = node.network.matmul(a, node.input(1), transpose_b=node.flag("transB"), name=name)
    if scales:
        factor = node.scalar(alpha, product, "alpha")
        product = node.network.multiplication(product, factor, name=node.label("scaled" if adds else ""))
    if addend is None or not adds:
        return product
    return node.network.addition(product, _scaled(node, addend, beta, "addend"), name=node.label())


def _scaled(node: Node, x: OutputSlot, factor: float, part: str) -> OutputSlot:
    if factor == 1.0:
        return x
    return node.network.multiplication(x, node.scalar(factor, x, "beta"), name=node.label(part))


def _constant(slot: OutputSlot) -> Tensor | None:
    descriptor = slot.layer.descriptor
    return Tensor(descriptor.value, slot.dtype) if isinstance(descriptor, Constant) else None
