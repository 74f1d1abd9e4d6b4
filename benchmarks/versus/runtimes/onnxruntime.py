"""ONNX Runtime on the CPU, all graph optimizations on."""

from __future__ import annotations

from importlib import import_module
from typing import Any

Arrays = dict[str, Any]


class Session:
    """An inference session.

    Args:
        model: ONNX file.
        shapes: Of the inputs; symbolic sizes are fixed by them before the graph is optimized, as
            dovetail does.
        threads: Within an operator; operators run one after another.
        options: None are known.
    """

    def __init__(self, model: str, shapes: dict[str, list[int]], threads: int, options: dict[str, Any]) -> None:
        onnxruntime = import_module("onnxruntime")
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
        settings.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        settings.log_severity_level = 3
        for symbol, size in options.get("symbols", {}).items():
            settings.add_free_dimension_override_by_name(symbol, size)
        self.session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])

    def bind(self, feeds: Arrays) -> Any:
        """Return a call with a dict in and a list of fresh arrays out."""
        run = self.session.run
        return lambda: run(None, feeds)

    def outputs(self, result: Any) -> list[Any]:
        """List the arrays."""
        return list(result)

    def facts(self) -> dict[str, Any]:
        """Say nothing more."""
        return {}
