"""What attention reads and writes, and how its scores are finished."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail import DType, Layer

from ..driver.arguments import Argument, Output
from ..elementwise import argument
from ..elementwise.chains import Statement
from ..elementwise.epilogue import Operand, epilogue_of, operand_of
from ..elementwise.functions import literal
from ..kernels import TYPES


class Geometry:
    """Attention as its kernels take it.

    Args:
        layer: Of the kind `Attention`.

    Attributes:
        matrices: Batches times heads.
        rows, keys, depth, width: Sizes; see `Attention`.
        has_whole_rows: Elements of a row of k, and of v, are neighbours.
        type: Of all elements, in OpenCL C.
        epilogue: What is made of a score.
    """

    def __init__(self, layer: Layer) -> None:
        made: Any = layer.descriptor
        batches, self._heads, self.rows, self.keys, self.depth, self.width = made.sizes
        self.matrices = batches * self._heads
        self.type = TYPES[layer.output.known_info.dtype]
        self.has_whole_rows = made.k[3] == made.v[3] == 1
        self._steps = (*made.q, *made.k, *made.v, *made.y, *made.starts)
        self._tensors = [argument(layer, index) for index in made.tensors]
        given = max(made.tensors) + 1
        operands, steps = [], []
        for at, step in enumerate(made.steps, given):
            operands.append(operand_of(layer, at, "line" if step[3] else "one"))
            if isinstance(operands[-1], Operand):
                steps.append(step[:3])
        self._operand_steps = np.array([*steps, (0, 0, 0)], np.uint32)
        statements = [] if made.chain is None else list(made.chain.statements)
        if made.beta != 1:
            last = -len(statements) if statements else 0
            statements.append(Statement(f"({literal(made.beta)} * (v))", "v", (last,), DType.FLOAT32))
        self.epilogue = epilogue_of(operands, statements)

    def arguments(self, each: int = 0, block: int = 0) -> tuple[Argument, ...]:
        """Return what kernels take before all else; see attention.cl."""
        sizes = (self._heads, self.rows, self.keys, self.depth, self.width, self.matrices, each, block, 1)
        return (*self._tensors, Output(), np.array((*self._steps, *sizes), np.uint32), self._operand_steps)

    def defined(self, width: int = 1) -> dict[str, Any]:
        """Return what kernels are built for that treat `width` scores at once."""
        count = len(self.epilogue.operands)
        steps = "batch * at.step[{0}][0] + head * at.step[{0}][1] + (row) * at.step[{0}][2]"
        listed = "".join(f", x{number + 1} + ({steps.format(number)}), 0" for number in range(count))
        return {"T": self.type, "COUNT": count, "OPERANDS_OF(row)": listed, **self.epilogue.defined(width)}
