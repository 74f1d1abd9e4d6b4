"""A graph of ovxlib that is being made of a program, for the modules that add its nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...program import Operation, Program, Tensor, Weights

if TYPE_CHECKING:
    from ...chips import Chip
    from ..graph import Graph


class Making:
    """A program and the graph that it becomes.

    Attributes:
        program: What is compiled.
        graph: Has a tensor for each tensor of the program.
        chip: For which it is.
    """

    def __init__(self, program: Program, graph: Graph, chip: Chip) -> None:
        self.program, self.graph, self.chip = program, graph, chip
        outside = {*program.inputs, *program.outputs}
        self._numbers = [self._add(tensor, at not in outside) for at, tensor in enumerate(program.tensors)]

    def number(self, tensor: int) -> int:
        """Return the graph's number of a tensor of the program."""
        return self._numbers[tensor]

    def tensor(self, number: int) -> Tensor:
        """Return a tensor of the program."""
        return self.program.tensors[number]

    def output(self, operation: Operation) -> Tensor:
        """Return the tensor that an operation writes."""
        return self.program.tensors[operation.output]

    def between(self, tensor: Tensor) -> int:
        """Add a tensor like `tensor` that lies between two nodes of one operation."""
        return self._add(tensor, is_virtual=True)

    def constant_like(self, tensor: Tensor, shape: tuple[int, ...], value: int) -> int:
        """Add a constant quantized as `tensor`, of one integer."""
        values = np.full(shape, value, tensor.dtype)
        number: int = self.graph.constant(values, [tensor.scale], [tensor.zero_point])
        return number

    def quantized_as(self, number: int, wanted: Tensor) -> int:
        """Return a tensor of the program under another quantization: itself, or what it becomes."""
        tensor = self.tensor(number)
        if has_quantization(tensor, wanted):
            return self.number(number)
        made = self.between(replace(wanted, shape=tensor.shape))
        self.graph.simple("convert", (self.number(number),), made)
        return made

    def before_clamp(self, operation: Operation, low: int, high: int) -> int:
        """Return where a node writes what `clamp` then clamps: the output if nothing is to do."""
        tensor = self.output(operation)
        return self.number(operation.output) if (low, high) == tensor.limits else self.between(tensor)

    def clamp(self, before: int, operation: Operation, low: int, high: int) -> None:
        """Clamp what a node wrote to integers of the output.

        ovxlib has nodes for ReLU and ReLU6, which are exact. Its clip is a table, which is off by
        up to 3 next to the bounds, so that others are compared with constants, on the shader.
        """
        tensor, after = self.output(operation), self.number(operation.output)
        if before == after:
            return
        zero, (least, most) = tensor.zero_point, tensor.limits
        if low == zero and high == most:
            self.graph.simple("relu", (before,), after)
        elif low == zero and high == zero + round(6 / tensor.scale):
            self.graph.simple("relu6", (before,), after)
        elif high == most:
            self._compare("maximum", before, low, tensor, after)
        elif low == least:
            self._compare("minimum", before, high, tensor, after)
        else:
            between = self.between(tensor)
            self._compare("maximum", before, low, tensor, between)
            self._compare("minimum", between, high, tensor, after)

    def _compare(self, kind: str, before: int, bound: int, tensor: Tensor, after: int) -> None:
        other = self.constant_like(tensor, (1,) * len(axes_of(tensor)), bound)
        self.graph.simple(kind, (before, other), after)

    def weights(self, weights: Weights, shape: tuple[int, ...], x: Tensor, channel_axis: int) -> tuple[int, int]:
        """Add weights under a shape, with channels along an axis of it, and the bias."""
        factors = np.asarray(weights.scale, np.float32)
        values = self.graph.constant(weights.values.reshape(shape), factors, weights.zero_point, channel_axis)
        # ovxlib compares the bias's scale with this product of floats, and refuses others.
        products = factors * np.float32(x.scale)
        bias = self.graph.constant(weights.bias, products, [0] * len(factors), 0)
        return values, bias

    def _add(self, tensor: Tensor, is_virtual: bool) -> int:
        number: int = self.graph.tensor(axes_of(tensor), tensor.dtype, tensor.scale, tensor.zero_point, is_virtual)
        return number


def axes_of(tensor: Tensor) -> tuple[int, ...]:
    """Return the sizes that ovxlib is told: it has no tensors without axes."""
    return tensor.shape or (1,)


def has_quantization(tensor: Tensor, wanted: Tensor) -> bool:
    """Tell whether integers mean the same in two tensors."""
    return (tensor.dtype, np.float32(tensor.scale), tensor.zero_point) == (
        wanted.dtype,
        np.float32(wanted.scale),
        wanted.zero_point,
    )
