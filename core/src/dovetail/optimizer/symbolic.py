"""Infer shapes in terms of symbols: of outputs before sizes are fixed, and for errors afterwards.

Errors tell what does not fit once sizes are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..graph.expressions import Expression
from ..graph.graph import Graph
from ..graph.size_rules import are_symbolic
from ..graph.symbolic_inference import SymbolicInference, output_infos
from ..graph.tensor import Dimension, TensorInfo
from ..ground.errors import GraphError
from .optimized import TensorSpec
from .passes import FixValues
from .passes.fix_inputs import Values


def symbolic_outputs(
    network: Graph, values: Values | None = None, labels: Mapping[str, str] | None = None
) -> tuple[TensorSpec, ...] | None:
    """Infer the outputs in terms of the symbols of the inputs.

    A size that follows from symbols is written so, as ``2*n + 1``. One that a value decides is
    named after the output and its axis.

    Args:
        network: The network.
        values: Inputs that are known beforehand.
        labels: What callers call outputs, by the name of the layer, where it is another.

    Returns:
        One spec per output; None if not even the rank of one is known, as where the value of an
        input decides it.
    """
    if values:
        network = network.copy()
        FixValues(values).run(network)
    return open_specs(output_infos(network), labels or {})


def open_specs(infos: Mapping[str, TensorInfo | None], labels: Mapping[str, str]) -> tuple[TensorSpec, ...] | None:
    """Describe outputs whose sizes are open, as `symbolic_outputs` does.

    Args:
        infos: What is known of each, by the name of its layer.
        labels: What callers call them, where it is another name.
    """
    specs = []
    for name, info in infos.items():
        if info is None:
            return None
        specs.append(output_spec(labels.get(name, name), info, None))
    return tuple(specs)


def output_spec(name: str, info: TensorInfo | None, planned: TensorInfo | None) -> TensorSpec:
    """Describe an output.

    Args:
        name: Its name.
        info: What is known of it in terms of symbols.
        planned: What it is for the sizes at hand; None: sizes are open.
    """
    known = info or planned
    assert known is not None
    shape = tuple(
        _named(size, f"{name}_dim{axis}" if planned is None else planned.shape[axis]) for axis, size in enumerate(known.shape)
    )
    return TensorSpec(name, shape, known.dtype, known.quantization)


def name_symbols(error: GraphError, network: Graph) -> None:
    """Add the inputs in terms of symbols to an error about a layer, where there are some.

    Args:
        error: Raised for sizes that are fixed; it names the layer.
        network: As it was before they were.
    """
    name = error.details.get("layer")
    if not isinstance(name, str) or name not in network or "symbolic_inputs" in error.details:
        return
    inference = SymbolicInference()
    sources = [slot.source for slot in network.layer(name).inputs if slot.source is not None]
    infos = [inference.info(source) for source in sources]
    if not any(info is not None and are_symbolic(info.shape) for info in infos):
        return
    shapes = ["unknown" if info is None else info.shape_text for info in infos]
    error.details["symbolic_inputs"] = shapes
    error.message = f"{error.message}; in symbols its inputs are {', '.join(shapes)}"
    error.args = (error.message,)


def _named(size: Dimension, otherwise: Dimension) -> Dimension:
    if not isinstance(size, Expression):
        return size
    return str(size) if size.is_known else otherwise
