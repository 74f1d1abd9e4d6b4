"""What a layer multiplies: the lines, steps and batches of its operands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import Layer
from dovetail.ground.records import NamedTuple

from ..driver.arguments import Argument, Output
from ..elementwise import argument, input_info, reals
from ..elementwise.epilogue import NONE, Epilogue
from ..elementwise.epilogue import Operand as Added
from ..elementwise.functions import activation
from ..kernels import TYPES
from ..walking import broadcast, contiguous, merged


class Operand(NamedTuple):
    """A side of a product.

    Attributes:
        argument: Where it lies on the device.
        type: Of its elements, in OpenCL C.
        line: Elements between neighbouring rows of the result (of the left side) or columns.
        depth: Elements between neighbouring terms of a sum.
        elements: How many the whole tensor has.
        matrix: How many one of its matrices has.
        values: Its value if that is constant.
    """

    argument: Argument
    type: str
    line: int
    depth: int
    elements: int
    matrix: int
    values: npt.NDArray[Any] | None = None


class Batch(NamedTuple):
    """An axis of the batch.

    Attributes:
        size: How many matrices.
        steps: Elements between neighbouring ones of the left side, the right side and the result.
    """

    size: int
    steps: tuple[int, ...]


class Product(NamedTuple):
    """y[batch][row][column] = epilogue(sum of a[row][depth] b[depth][column]).

    Attributes:
        rows, columns, depth: Sizes.
        a, b: The sides.
        batch: What is left of the batch axes, outermost first.
        result: Where it goes; its rows follow one another.
        type: Of its elements, in OpenCL C.
        epilogue: What is made of each sum; its lines go along columns.
    """

    rows: int
    columns: int
    depth: int
    a: Operand
    b: Operand
    batch: tuple[Batch, ...]
    result: Argument
    type: str
    epilogue: Epilogue = NONE

    @property
    def matrices(self) -> int:
        """How many matrices the result has."""
        return math.prod(axis.size for axis in self.batch)

    def defined(self, width: int = 1) -> dict[str, Any]:
        """Return what the kernels that write the result are built for, `width` elements at once."""
        return {"Y": self.type, **self.epilogue.defined(width)}


def struct(batch: Sequence[Batch], wide: Mapping[str, int], numbers: Mapping[str, int]) -> npt.NDArray[Any]:
    """Return the `product` that a kernel takes.

    Args:
        batch: At least one axis of it is there, with size one.
        wide: Members of 64 bits that follow.
        numbers: Members of 32 bits that follow those.
    """
    rank = max(len(batch), 1)
    fields: list[Any] = [("size", np.uint64, rank), ("step", np.uint64, (rank, 3))]
    fields += [(name, np.uint64) for name in wide] + [(name, np.uint32) for name in numbers]
    made = np.zeros((), np.dtype(fields, align=True))
    made["size"] = 1
    for axis, (size, steps) in enumerate(batch):
        made["size"][axis], made["step"][axis] = size, steps
    for name, value in (*wide.items(), *numbers.items()):
        made[name] = value
    return made


def fully_connected(layer: Layer, epilogue: Epilogue) -> Product:
    """Return the product of a fully connected layer, and what is made of its result."""
    descriptor: Any = layer.descriptor
    rows, weights = input_info(layer, 0).sizes, input_info(layer, 1).sizes
    function = activation(descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta)
    epilogue = epilogue.preceded(function)
    if len(layer.input_infos) > 2 and layer.input_infos[2] is not None:
        way = "one" if weights[0] == 1 else "line"
        bias = Added(argument(layer, 2), TYPES[input_info(layer, 2).dtype], way)
        epilogue = epilogue.preceded("((v) + (w))", bias)
    return Product(
        math.prod(rows[:-1]),
        weights[0],
        weights[1],
        _side(layer, 0, weights[1], 1, math.prod(rows)),
        _side(layer, 1, weights[1], 1, math.prod(weights)),
        (),
        Output(),
        TYPES[layer.output.known_info.dtype],
        epilogue,
    )


def matmul(layer: Layer, epilogue: Epilogue) -> Product:
    """Return the product of a matrix product, and what is made of its result."""
    descriptor: Any = layer.descriptor
    left, right = (input_info(layer, index).sizes for index in (0, 1))
    rows, depth, a_line, a_depth = _lines(left, descriptor.transpose_a)
    columns, _, b_line, b_depth = _lines(right, not descriptor.transpose_b)
    a = _side(layer, 0, a_line, a_depth, rows * depth)
    b = _side(layer, 1, b_line, b_depth, columns * depth)
    sizes = np.broadcast_shapes(left[:-2], right[:-2])
    steps = (
        tuple(step * a.matrix for step in broadcast(left[:-2], sizes)),
        tuple(step * b.matrix for step in broadcast(right[:-2], sizes)),
        tuple(step * rows * columns for step in contiguous(sizes)),
    )
    batch = tuple(Batch(size, each) for size, each in merged(sizes, steps))
    type_ = TYPES[layer.output.known_info.dtype]
    return _folded(Product(rows, columns, depth, a, b, batch, Output(), type_, epilogue))


def _lines(sizes: Sequence[int], swap: bool) -> tuple[int, int, int, int]:
    """Return lines, depth and their steps of a matrix [line][depth]; a vector is one line."""
    if len(sizes) == 1:
        return 1, sizes[0], 0, 1
    rows, columns = sizes[-2:]
    return (columns, rows, 1, columns) if swap else (rows, columns, columns, 1)


def _side(layer: Layer, index: int, line: int, depth: int, matrix: int) -> Operand:
    info = input_info(layer, index)
    values = reals(layer, index)
    return Operand(argument(layer, index), TYPES[info.dtype], line, depth, info.elements, matrix, values)


def _folded(product: Product) -> Product:
    """Make rows of the innermost axis of the batch if its matrices share the right side."""
    if not product.batch:
        return product
    *outer, (size, (a_step, b_step, _)) = product.batch
    a = product.a
    if b_step or (product.rows != 1 and a_step != a.line * product.rows):
        return product
    line = a_step if product.rows == 1 else a.line
    return product._replace(rows=product.rows * size, a=a._replace(line=line), batch=tuple(outer))
