"""Hold a graph that was made before a load to the limits of that load."""

from __future__ import annotations

from ..ground.limits import Budget
from .graph import Graph


def check_graph(budget: Budget, graph: Graph) -> None:
    """Refuse a graph made outside of this load that would not have been made inside of it.

    Its constants are counted, once; whoever makes a graph in this load counts them as they come.

    Raises:
        LimitError: It has too many layers, a tensor of too many elements, or too large constants
            (`LIMIT_EXCEEDED`).
    """
    budget.check_layers(len(graph), f"network {graph.name!r}")
    if graph.made_in is not budget.token and id(graph) not in budget.known_graphs:
        budget.known_graphs.add(id(graph))
        budget.take_memory(graph.bytes_of_constants(), f"the constants of network {graph.name!r}")
    if budget.limits_elements:
        for layer in graph:
            for slot in layer.outputs:
                if slot.info is not None:
                    budget.check_shape(slot.info.shape, slot.name)
