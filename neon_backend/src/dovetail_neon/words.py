"""What private layers are, in words for people: what they compute, then how."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from dovetail import Layer

from .elementwise.codes import FUNCTIONS

_NAMES = {code: name for name, code in FUNCTIONS.items()}
_SPOKEN = {"elu": "ELU", "selu": "SELU", "celu": "CELU", "gelu": "GELU", "gelu_tanh": "GELU (tanh)", "leaky_relu": "leaky ReLU"}
_OPERATIONS = {"add": "addition", "sub": "subtraction", "mul": "multiplication", "div": "division"}


def in_words(layer: Layer) -> str:
    """Say what a layer that CpuAcc put in the place of others computes, and how."""
    descriptor = layer.descriptor
    say = _WORDS.get(layer.kind)
    if say is None:  # of the core's kinds, which the core tells of
        return ""
    what, how = say(descriptor, len(layer.inputs))
    if what.startswith("convolution 1x1") and layer.output.known_info.rank < 4:
        what = what.replace("convolution 1x1", "matrix product", 1)
    precision = getattr(descriptor, "precision", "float32")
    hows = [how, _blocks(layer), "" if precision in ("float32", "int8", "int16") else f"factors in {precision}"]
    return ", ".join([what, *filter(None, hows)])


def function_words(function: Any) -> str:
    """Name a function that is applied to results: "ReLU6"; empty for none."""
    name = _NAMES[function.code]
    if name == "identity":
        return ""
    if name != "clamp":
        return _SPOKEN.get(name, name.replace("_", " "))
    if function.a == 0 and math.isinf(function.b):
        return "ReLU"
    return f"ReLU{function.b:g}" if function.a == 0 else f"clamp to {function.a:g} and {function.b:g}"


def _blocks(layer: Layer) -> str:
    layout = layer.outputs[0].known_info.opaque
    found = re.fullmatch(r"blocked(\d+)", layout.tag) if layout is not None else None
    return f"blocked by {found[1]}" if found else ""


def _chained(*parts: str) -> str:
    return " + ".join(filter(None, parts))


def _windows(geometry: Any, run: int = 1) -> str:
    rows, columns = geometry.kernel
    words = f"{rows}x{columns * run}"
    if geometry.stride != (1, 1):
        words += f" of stride {'x'.join(map(str, dict.fromkeys(geometry.stride)))}"
    if geometry.dilation != (1, 1):
        words += f" of dilation {'x'.join(map(str, dict.fromkeys(geometry.dilation)))}"
    return words


def _convolution(descriptor: Any, inputs: int) -> tuple[str, str]:
    groups = getattr(descriptor, "groups", 1)
    grouped = f" in {groups} groups" if groups > 1 else ""
    windows = _windows(descriptor.geometry, getattr(descriptor, "run", 1))
    added = "addition" if inputs > 1 else ""
    function = function_words(descriptor.function)
    return _chained(f"convolution {windows}{grouped}", added, function), _algorithm(descriptor)


def _algorithm(descriptor: Any) -> str:
    tile = getattr(descriptor, "tile", 0)
    return f"Winograd {tile}x{tile}" if tile else "direct"


def _depthwise(descriptor: Any, inputs: int) -> tuple[str, str]:
    return _chained(f"depthwise convolution {_windows(descriptor.geometry)}", function_words(descriptor.function)), ""


def _of_bytes(what: str) -> Callable[[Any, int], tuple[str, str]]:
    def say(descriptor: Any, inputs: int) -> tuple[str, str]:
        return f"{what} {_windows(descriptor.geometry)} + requantization", "in bytes"

    return say


def _of_shorts(what: str) -> Callable[[Any, int], tuple[str, str]]:
    def say(descriptor: Any, inputs: int) -> tuple[str, str]:
        return f"{what} {_windows(descriptor.geometry)} + requantization", "in int16"

    return say


def _strips(descriptor: Any, inputs: int) -> tuple[str, str]:
    *before, last = descriptor.stages
    words = [_WORDS[stage.kind](stage, 1)[0] for stage in before]
    return ", then ".join([*words, _WORDS[last.kind](last, inputs)[0]]), "strip by strip"


def _pool(descriptor: Any, inputs: int) -> tuple[str, str]:
    return f"{'max' if descriptor.factors is None else 'average'} pooling {_windows(descriptor.geometry)}", ""


def _pool_of_bytes(descriptor: Any, inputs: int) -> tuple[str, str]:
    return f"{'max' if descriptor.counts is None else 'average'} pooling {_windows(descriptor.geometry)}", "in bytes"


def _sum_of_bytes(descriptor: Any, inputs: int) -> tuple[str, str]:
    what = "addition" if min(descriptor.factors) >= 0 else "subtraction"
    return f"{what} + requantization", "in bytes"


def _apply(descriptor: Any, inputs: int) -> tuple[str, str]:
    return function_words(descriptor.function) or "copy", ""


def _scale(descriptor: Any, inputs: int) -> tuple[str, str]:
    return _chained("a factor for each channel", function_words(descriptor.function)), ""


def _combine(descriptor: Any, inputs: int) -> tuple[str, str]:
    operation = _OPERATIONS.get(descriptor.operation, str(descriptor.operation).replace("_", " "))
    return _chained(operation, function_words(descriptor.function)), ""


def _attention(descriptor: Any, inputs: int) -> tuple[str, str]:
    return f"attention of {descriptor.heads} heads", "row by row"


def _recurrence(descriptor: Any, inputs: int) -> tuple[str, str]:
    """Name a recurrent layer by its core kind: "LSTM"."""
    name = descriptor.kind_of_cell.rpartition(".")[2].upper()
    return name, "from the last step to the first" if descriptor.reverse else ""


def _fixed(what: str, how: str = "") -> Callable[[Any, int], tuple[str, str]]:
    return lambda descriptor, inputs: (what, how)


_WORDS: dict[str, Callable[[Any, int], tuple[str, str]]] = {
    f"CpuAcc.{name}": say
    for name, say in {
        "Convolve": _convolution,
        "ConvolveFloat16": _convolution,
        "ConvolveBfloat16": _convolution,
        "ConvolveGrouped": _convolution,
        "WinogradConvolve": _convolution,
        "Depthwise": _depthwise,
        "DepthwiseBfloat16": _depthwise,
        "ConvolveQuantized": _of_bytes("convolution"),
        "DepthwiseQuantized": _of_bytes("depthwise convolution"),
        "ConvolveShorts": _of_shorts("convolution"),
        "DepthwiseShorts": _of_shorts("depthwise convolution"),
        "PoolQuantized": _pool_of_bytes,
        "AddQuantized": _sum_of_bytes,
        "MultiplyQuantized": _fixed("multiplication + requantization", "in bytes"),
        "ExtremeQuantized": lambda descriptor, inputs: (
            f"the {'greater' if descriptor.greater else 'lesser'} of two",
            "in bytes",
        ),
        "MapQuantized": lambda descriptor, inputs: (descriptor.what.replace("_", " "), "table of bytes"),
        "PreluQuantized": _fixed("PReLU", "in bytes"),
        "ProductQuantized": _fixed("product of computed matrices", "in bytes"),
        "ReduceQuantized": lambda descriptor, inputs: (f"{descriptor.function} of pixels + requantization", "in bytes"),
        "SoftmaxQuantized": _fixed("softmax", "in bytes"),
        "Strips": _strips,
        "Pool": _pool,
        "QuantizedLstm": _fixed("LSTM", "in integers"),
        "QuantizedSvdf": _fixed("filters over time", "in integers"),
        "Recurrence": _recurrence,
        "Resample": _fixed("image of another size"),
        "MeanOfImage": _fixed("mean of each channel"),
        "Apply": _apply,
        "ScaleChannels": _scale,
        "Combine": _combine,
        "Attention": _attention,
        "Reorder": _fixed("layout of an image"),
        "ReorderQuantized": _fixed("layout of an image", "in bytes"),
        "QuantizeImage": _fixed("quantization", "into an image in bytes"),
        "Join": _fixed("images side by side along their channels"),
        "Frame": _fixed("image with zeros around it"),
        "Interleave": _fixed("phases of a transposed convolution side by side"),
        "Rearrange": _fixed("copy between strided views"),
        "View": _fixed("the same bytes under another shape"),
    }.items()
}
