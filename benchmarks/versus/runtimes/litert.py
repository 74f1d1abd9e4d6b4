"""LiteRT with its XNNPACK delegate, on by default; it needs a .tflite file of the same network.

Converters name inputs and outputs anew, put pictures channels last, and make int32 of int64: inputs
are brought into that form once, before anything is timed; whoever compares outputs has to look at
both layouts.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def natural(name: str) -> list[Any]:
    """Order args_2 before args_10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def fitted(array: Any, detail: dict[str, Any], name: str) -> Any:
    """Bring an input into the .tflite file's form: channels last, its integers, its quantization.

    Raises:
        ValueError: It does not fit.
    """
    shape, dtype = tuple(map(int, detail["shape"])), np.dtype(detail["dtype"])
    if array.ndim > 2 and array.shape != shape:
        array = np.moveaxis(array, 1, -1)
    if array.dtype == np.int64 and dtype == np.int32:
        array = array.astype(np.int32)
    scale, zero = detail["quantization"]
    if array.dtype == np.float32 and dtype.kind in "iu" and scale:
        limits = np.iinfo(dtype)
        array = np.clip(np.rint(array / scale) + zero, limits.min, limits.max).astype(dtype)
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"input {name!r} is {array.dtype}{list(array.shape)}, {detail['name']!r} of the .tflite file {dtype}{list(shape)}"
        )
    return np.ascontiguousarray(array)


def sizes_like(signature: Any, shape: list[int]) -> list[int]:
    """Return sizes in the order of a signature, in which -1 is any: as is, or channels last."""
    as_they_are = all(wanted in (-1, size) for wanted, size in zip(signature, shape, strict=True))
    return shape if as_they_are else [shape[0], *shape[2:], shape[1]]


class Session:
    """An interpreter.

    Args:
        model: .tflite file.
        shapes: Of the inputs, by the names of the ONNX file.
        threads: Of XNNPACK.
        options: None are known.

    Raises:
        ValueError: The file has another number of inputs.
    """

    def __init__(self, model: str, shapes: dict[str, list[int]], threads: int, options: dict[str, Any]) -> None:
        interpreter = import_module("ai_edge_litert.interpreter").Interpreter(model_path=model, num_threads=threads)
        details = {detail["name"]: detail for detail in interpreter.get_input_details()}
        if len(details) != len(shapes):
            raise ValueError(f"the .tflite file has {len(details)} inputs, the ONNX file {len(shapes)}")
        self.order = list(shapes) if set(shapes) == set(details) else sorted(details, key=natural)
        for given, name in zip(shapes, self.order, strict=True):
            if -1 in details[name]["shape_signature"]:
                interpreter.resize_tensor_input(
                    details[name]["index"], sizes_like(details[name]["shape_signature"], shapes[given])
                )
        interpreter.allocate_tensors()
        self.interpreter = interpreter
        self.inputs = {detail["name"]: detail for detail in interpreter.get_input_details()}
        self.results = sorted(interpreter.get_output_details(), key=lambda detail: natural(detail["name"]))

    def bind(self, feeds: Arrays) -> Any:
        """Return a call that copies the inputs in and the outputs out."""
        pairs = [
            (self.inputs[name]["index"], fitted(array, self.inputs[name], given))
            for name, (given, array) in zip(self.order, feeds.items(), strict=True)
        ]
        indices = [detail["index"] for detail in self.results]
        put, invoke, get = self.interpreter.set_tensor, self.interpreter.invoke, self.interpreter.get_tensor

        def call() -> list[Any]:
            for index, array in pairs:
                put(index, array)
            invoke()
            return [get(index) for index in indices]

        return call

    def outputs(self, result: Any) -> list[Any]:
        """List the arrays, quantized ones as the numbers they stand for."""
        found = []
        for array, detail in zip(result, self.results, strict=True):
            scale, zero = detail["quantization"]
            found.append((array.astype(np.float32) - zero) * np.float32(scale) if scale and array.dtype.kind in "iu" else array)
        return found

    def facts(self) -> dict[str, Any]:
        """Say whether the file is quantized, which its converter did in its own way."""
        details = self.interpreter.get_tensor_details()
        return {"quantized": any(detail["dtype"] in (np.int8, np.uint8) and detail["quantization"][0] for detail in details)}
