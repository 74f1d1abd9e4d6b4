"""Chains: elementwise layers of one shape, computed in one pass over memory."""

from __future__ import annotations

from typing import ClassVar

from dovetail import DType, Layer, PrivateLayer
from dovetail.graph.descriptor import descriptor_class

from ..elementwise import argument, input_info, overwritten
from ..elementwise.chains import Statement, chain
from ..kernels import Kernels, Work


@descriptor_class
class Chain(PrivateLayer, kind="GpuAcc.Chain"):
    """Some functions of elements, each of operands and of what came before.

    Attributes:
        functions: Parameters and expression of each, in OpenCL C.
        arguments: What each is applied to: the number of an operand, or -1 - the number of a
            function.
        dtypes: Of each result.
        words: What it is, for people.
    """

    input_names: ClassVar[tuple[str, ...]] = ("operands",)
    functions: tuple[tuple[str, str], ...]
    arguments: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    words: str

    def in_words(self) -> str:
        return self.words

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The functions, as kernels are given them."""
        return tuple(
            Statement(text, parameters, numbers, DType.of(dtype))
            for (parameters, text), numbers, dtype in zip(self.functions, self.arguments, self.dtypes, strict=True)
        )


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a chain."""
    made = layer.descriptor
    assert isinstance(made, Chain)
    info = layer.output.known_info
    operands = [(argument(layer, index), input_info(layer, index)) for index in range(len(layer.inputs))]
    return Work((chain(kernels, made.statements, operands, info),), aliases=overwritten(layer))
