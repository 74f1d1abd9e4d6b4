"""The order in which the layers of a network run."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph.layer import Layer


def execution_order(outputs: Sequence[Layer]) -> list[Layer]:
    """Order layers depth-first from the outputs, which keeps few tensors alive.

    A branch is finished before the next one begins. Layers that no output depends on do not run.
    """
    order: list[Layer] = []
    done: set[Layer] = set()
    stack: list[tuple[Layer, bool]] = [(layer, False) for layer in reversed(outputs)]
    while stack:
        layer, expanded = stack.pop()
        if layer in done:
            continue
        if expanded:
            done.add(layer)
            order.append(layer)
            continue
        stack.append((layer, True))
        stack.extend(
            (slot.source.layer, False) for slot in reversed(layer.inputs) if slot.source and slot.source.layer not in done
        )
    return order
