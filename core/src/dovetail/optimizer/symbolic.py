"""Shapes of outputs while dimensions are still symbolic."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.graph import Graph
from ..graph.tensor import Dimension
from ..ground.errors import DovetailError, LimitError
from .optimized import TensorSpec
from .passes import FixShapes, FixValues, InferAndFold
from .passes.fix_inputs import Values

_TRIALS = ((2, 11), (16, 37), (64, 101), (224, 331))
"""First sizes of two trials; the symbols get consecutive ones. Later pairs are for networks that need larger sizes."""


def symbolic_outputs(network: Graph, values: Values | None = None) -> tuple[TensorSpec, ...] | None:
    """Infer the outputs twice, with different sizes for every symbol.

    What stays the same is a number, what follows a symbol has its name. A size that is worked out from symbols is named after
    the output and its axis.

    Returns:
        One spec per output; None if no trial gets through, as when a shape depends on a value.
    """
    network = network.copy()
    FixValues(values).run(network)  # first: what the values bind is no symbol any more
    symbols = sorted({d for layer in network.inputs for d in layer.output.known_info.shape if isinstance(d, str)})
    for first, second in _TRIALS:
        trials = [{symbol: start + i for i, symbol in enumerate(symbols)} for start in (first, second)]
        try:
            graphs = [_inferred(network, sizes) for sizes in trials]
        except LimitError as error:
            if error.details.get("limit") == "elements":  # a run may well have smaller sizes than a trial; it is checked itself
                continue
            raise
        except DovetailError:
            continue
        return tuple(
            TensorSpec(one.name, _named(one.name, a.shape, b.shape, trials), a.dtype, a.quantization)
            for one, other in zip(graphs[0].outputs, graphs[1].outputs, strict=True)
            for a, b in [(one.inputs[0].info, other.inputs[0].info)]
            if a is not None and b is not None
        )
    return None


def _inferred(network: Graph, sizes: dict[str, int]) -> Graph:
    graph = network.copy()
    for step in (FixShapes(sizes), InferAndFold(both=True)):
        step.run(graph)
    return graph


def _named(
    output: str, first: Sequence[Dimension], second: Sequence[Dimension], trials: Sequence[dict[str, int]]
) -> tuple[Dimension, ...]:
    if len(first) != len(second):
        return tuple(f"{output}_dim{axis}" for axis in range(len(first)))
    result: list[Dimension] = []
    for axis, (a, b) in enumerate(zip(first, second, strict=True)):
        if a == b:
            result.append(a)
            continue
        follows = [symbol for symbol in trials[0] if trials[0][symbol] == a and trials[1][symbol] == b]
        result.append(follows[0] if follows else f"{output}_dim{axis}")
    return tuple(result)
