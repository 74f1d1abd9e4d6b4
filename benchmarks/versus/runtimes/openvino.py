"""OpenVINO on the CPU, at a precision that is asked for.

Left to itself it computes float32 networks in bfloat16 if it can.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

Arrays = dict[str, Any]


class Session:
    """A compiled model with one infer request.

    Args:
        model: ONNX file.
        shapes: Of the inputs; a dynamic model is reshaped to them before it is compiled, as
            dovetail does.
        threads: Of inference, in one stream.
        options: `precision`, "f32" or "bf16".

    Raises:
        RuntimeError: It computes at another precision than was asked for.
    """

    def __init__(self, model: str, shapes: dict[str, list[int]], threads: int, options: dict[str, Any]) -> None:
        openvino = import_module("openvino")
        wanted = options["precision"]
        core = openvino.Core()
        network = core.read_model(model)
        if network.is_dynamic():
            network.reshape(shapes)
        settings = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": threads}
        compiled = core.compile_model(network, "CPU", {**settings, "INFERENCE_PRECISION_HINT": wanted})
        self.precision = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        if self.precision != wanted:
            raise RuntimeError(f"OpenVINO computes in {self.precision} on this CPU, not in {wanted}")
        self.request = compiled.create_infer_request()

    def bind(self, feeds: Arrays) -> Any:
        """Return a call with a dict in; its results share OpenVINO's memory until the next call."""
        infer, ports = self.request.infer, self.request.model_outputs

        def call() -> list[Any]:
            found = infer(feeds, share_inputs=True, share_outputs=True)
            return [found[port] for port in ports]

        return call

    def outputs(self, result: Any) -> list[Any]:
        """List the arrays."""
        return list(result)

    def facts(self) -> dict[str, Any]:
        """Tell the precision."""
        return {"precision": self.precision}
