"""A choice between two branches of a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..graph.descriptor import Descriptor, Infos, descriptor_class
from ..graph.element_types import DType
from ..graph.expressions import unknown_size
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import are_symbolic, differ, equal
from ..graph.tensor import TensorInfo
from ..ground.errors import ErrorCode, GraphError
from .arguments import Operand
from .shape_rules import present, require_dtype, require_same_dtype, shape_error


@descriptor_class
class Conditional(Descriptor, kind="dovetail.Conditional"):
    """The first of two tensors if a condition of one element holds, else the second.

    The other tensor need not be computed.

    No backend meets it. The optimizer takes the branch that a known condition names. Else, where
    the branches are alike, both are computed and one of them is chosen; what cannot be chosen so is
    planned once per value of the inputs that decide.
    """

    input_names: ClassVar[tuple[str, ...]] = ("condition", "then", "other")
    required_inputs: ClassVar[int] = 3
    dtype_of: ClassVar[tuple[str, int]] = ("input", 1)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        condition, then, other = (present(inputs, i) for i in range(3))
        require_dtype(condition, [DType.BOOL], "condition")
        require_same_dtype([then, other], "both branches")
        if differ(condition.elements, 1):
            raise shape_error(f"the condition has shape {condition.shape_text}", "one element decides")
        if are_symbolic((*then.shape, *other.shape)) and then.rank == other.rank:
            return [
                then.with_shape([a if equal(a, b) else unknown_size() for a, b in zip(then.shape, other.shape, strict=True)])
            ]
        if then != other:
            raise GraphError(
                f"one branch gives {then}, the other {other}",
                code=ErrorCode.VALUE_REQUIRED,
                hint="the value of the condition decides which it is",
            )
        return [then]


class BranchingLayers(Graph):
    """Builder methods."""

    def conditional(self, condition: Operand, then: Operand, other: Operand, *, name: str | None = None) -> OutputSlot:
        """Take `then` if the condition holds, else `other`."""
        return self.add(Conditional(), condition, then, other, name=name).output
