"""Dovetail itself, as `dovetail.load` gives it."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import dovetail

Arrays = dict[str, Any]


def prepare(options: dict[str, Any]) -> None:
    """Import the parser and, by a network of one layer, the optimizer, runtime and backends."""
    importlib.metadata.entry_points(group="dovetail.parsers", name="onnx")["onnx"].load()
    network = dovetail.Network("one layer")
    network.output(network.relu(network.input("x", (1,))))
    dovetail.load(network, options.get("backends"), options=options.get("options")).unload()


class Session:
    """A loaded network.

    Args:
        model: ONNX file.
        shapes: Of the inputs.
        threads: CPU threads at most.
        options: `backends`, ids by preference, and `options`, those of backends by id; either may
            be None.
    """

    def __init__(self, model: str, shapes: dict[str, list[int]], threads: int, options: dict[str, Any]) -> None:
        sizes: dict[str, Any] = {name: tuple(shape) for name, shape in shapes.items()}
        self.network = dovetail.load(
            model, options.get("backends"), threads=threads, shapes=sizes or None, options=options.get("options")
        )

    def bind(self, feeds: Arrays) -> Any:
        """Return a call with a dict in and a dict of fresh arrays out."""
        run = self.network.run
        return lambda: run(feeds)

    def outputs(self, result: Any) -> list[Any]:
        """List the arrays."""
        return list(result.values())

    def facts(self) -> dict[str, Any]:
        """Name the backends in the order in which they first run."""
        return {"backends": list(dict.fromkeys(str(step.backend) for step in self.network.plan.steps if step.backend))}
