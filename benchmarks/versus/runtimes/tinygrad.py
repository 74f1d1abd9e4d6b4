"""tinygrad on the first OpenCL device of its own choice, its kernels captured and replayed.

PoCL makes that the CPU; both then have as many threads as PoCL takes (`POCL_MAX_PTHREAD_COUNT`).
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

Arrays = dict[str, Any]
_CAPTURING_RUNS = 3  # of TinyJit: one as it is, one that is captured, the first that is replayed


class Session:
    """A model whose kernels are captured when it is bound.

    Args:
        model: ONNX file.
        shapes: Of the inputs; left to the model.
        threads: Left to the driver.
        options: `device`, as the environment variable DEV takes it.
    """

    def __init__(self, model: str, shapes: dict[str, list[int]], threads: int, options: dict[str, Any]) -> None:
        os.environ["DEV"] = options["device"]
        self.tinygrad = import_module("tinygrad")
        self.runner = import_module("tinygrad.nn.onnx").OnnxRunner(model)

    def bind(self, feeds: Arrays) -> Any:
        """Return a call that brings the feeds to the device and the results back."""
        tensor, names = self.tinygrad.Tensor, list(feeds)

        def compute(*inputs: Any) -> list[Any]:
            return [result.realize() for result in self.runner(dict(zip(names, inputs, strict=True))).values()]

        captured = self.tinygrad.TinyJit(compute)

        def call() -> list[Any]:
            return [result.numpy() for result in captured(*[tensor(feeds[name]).realize() for name in names])]

        for _ in range(_CAPTURING_RUNS):
            call()
        return call

    def outputs(self, result: Any) -> list[Any]:
        """List the arrays."""
        return list(result)

    def facts(self) -> dict[str, Any]:
        """Tell the device."""
        return {"device": self.tinygrad.Device.DEFAULT}
