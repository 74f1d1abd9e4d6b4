"""Other runtimes that run the same file; what both run is compared."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from onnx.reference import ReferenceEvaluator


class Peer(Protocol):
    """Another runtime."""

    name: str

    def run(self, path: Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """Return its answers, or None if it refuses."""


class OnnxRuntime:
    """onnxruntime, one thread, without its own optimizations: we are not compared with these."""

    name = "onnxruntime"

    def __init__(self) -> None:
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        self._module = onnxruntime
        self._options = onnxruntime.SessionOptions()
        self._options.intra_op_num_threads = self._options.inter_op_num_threads = 1
        self._options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._options.log_severity_level = 4

    def run(self, path: Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        try:
            session = self._module.InferenceSession(str(path), self._options, providers=["CPUExecutionProvider"])
            names = [output.name for output in session.get_outputs()]
            answers: list[Any] = session.run(None, dict(feeds))
        except Exception:  # it has some ten types of exceptions, and a refusal is a refusal
            return None
        if any(not isinstance(answer, np.ndarray) for answer in answers):  # a sequence
            return None
        return dict(zip(names, answers, strict=True))


class OnnxEvaluator:
    """ONNX's own evaluator, in NumPy: slow and not always right.

    It was written from the definitions, by others than the peer.
    """

    name = "onnx.reference"

    def run(self, path: Path, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                evaluator = ReferenceEvaluator(str(path))
                answers = evaluator.run(None, dict(feeds))
        except Exception:  # it has no type of its own
            return None
        return {
            name: answer
            for name, answer in zip(evaluator.output_names, answers, strict=True)
            if isinstance(answer, np.ndarray | np.generic)
        }


def installed_peer() -> type[OnnxRuntime] | None:
    """Return the runtime to compare with, if one is installed."""
    return OnnxRuntime if importlib.util.find_spec("onnxruntime") else None
