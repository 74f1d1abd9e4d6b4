"""Shapes of outputs while dimensions are still symbolic."""

from __future__ import annotations

from ..graph.expressions import Expression
from ..graph.graph import Graph
from ..graph.symbolic_inference import SymbolicInference
from ..graph.tensor import Dimension
from .optimized import TensorSpec
from .passes import FixValues
from .passes.fix_inputs import Values


def symbolic_outputs(network: Graph, values: Values | None = None) -> tuple[TensorSpec, ...] | None:
    """Infer the outputs in terms of the symbols of the inputs.

    A size that follows from symbols is written so, as ``2*n + 1``. One that a value decides is named after the output and its
    axis.

    Returns:
        One spec per output; None if not even the rank of one is known, as where the value of an input decides it.
    """
    if values:
        network = network.copy()
        FixValues(values).run(network)
    inference = SymbolicInference()
    specs = []
    for layer in network.outputs:
        source = layer.inputs[0].source
        info = None if source is None else inference.info(source)
        if info is None:
            return None
        shape = tuple(_named(size, f"{layer.name}_dim{axis}") for axis, size in enumerate(info.shape))
        specs.append(TensorSpec(layer.name, shape, info.dtype, info.quantization))
    return tuple(specs)


def _named(size: Dimension, name: str) -> Dimension:
    if not isinstance(size, Expression):
        return size
    return str(size) if size.is_known else name
