"""Dovetail on the .tflite file of the same network, beside its ONNX file."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

import dovetail

Arrays = dict[str, Any]


def _sibling(name: str) -> Any:
    """Import a module beside this one by its file, as these modules are imported themselves."""
    spec = importlib.util.spec_from_file_location(f"{name}_runtime", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_litert = _sibling("litert")


def prepare(options: dict[str, Any]) -> None:
    """Import the parser and, by a network of one layer, the optimizer, runtime and backends."""
    importlib.metadata.entry_points(group="dovetail.parsers", name="tflite")["tflite"].load()
    network = dovetail.Network("one layer")
    network.output(network.relu(network.input("x", (1,))))
    dovetail.load(network).unload()


class Session(_sibling("dovetail").Session):  # type: ignore[misc]
    """A network, loaded from a .tflite file.

    Args:
        model: .tflite file.
        shapes: Of the inputs, by the names of the ONNX file.
        threads: CPU threads at most.
        options: None are known.
    """

    def __init__(self, model: str, shapes: dict[str, list[int]], threads: int, options: dict[str, Any]) -> None:
        parsed = dovetail.parse(model)
        infos = {layer.name: layer.output.known_info for layer in parsed.inputs}
        self.quantized = any(slot.quantization for layer in parsed for slot in layer.outputs)
        names = list(shapes) if set(shapes) == set(infos) else sorted(infos, key=_litert.natural)
        signatures = [[size if isinstance(size, int) else -1 for size in infos[name].shape] for name in names]
        given = [_litert.sizes_like(signature, shape) for signature, shape in zip(signatures, shapes.values(), strict=True)]
        super().__init__(model, dict(zip(names, given, strict=True)), threads, {})
        self.given, self.infos = dict(zip(names, given, strict=True)), infos

    def bind(self, feeds: Arrays) -> Any:
        """Return a call with inputs channels last, quantized where the network has them so."""
        arrays = {}
        for (name, shape), (theirs, array) in zip(self.given.items(), feeds.items(), strict=True):
            info = self.infos[name]
            scheme = info.quantization
            detail = {
                "name": name,
                "shape": shape,
                "dtype": info.dtype.numpy,
                "quantization": (scheme.scale[0], scheme.zero_point[0]) if scheme else (0.0, 0),
            }
            arrays[name] = _litert.fitted(np.asarray(array), detail, theirs)
        return super().bind(arrays)

    def outputs(self, result: Any) -> list[Any]:
        """List the arrays, quantized ones as the numbers they stand for."""
        schemes = {output.name: output.quantization for output in self.network.outputs}
        found = []
        for name, array in result.items():
            scheme = schemes[name]
            if scheme and array.dtype.kind in "iu":
                array = (array.astype(np.float32) - scheme.zero_point[0]) * np.float32(scheme.scale[0])
            found.append(array)
        return found

    def facts(self) -> dict[str, Any]:
        """Name the backends, and say whether the file is quantized: in its converter's own way."""
        return {**super().facts(), "quantized": self.quantized}
