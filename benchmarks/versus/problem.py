"""What is measured: a model, its inputs, and the outputs that are expected, if these are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dovetail
from dovetail import ErrorCode, InputError
from dovetail.layers import Dequantize, Quantize
from dovetail_sdk.feeding import Array, InputSpec, feeds_for, input_specs, load_npz
from dovetail_sdk.options import one_for_open_sizes, shapes_for
from dovetail_sdk.pictures import PictureSettings
from dovetail_sdk.summary import summarize, with_known_shapes

if TYPE_CHECKING:
    from dovetail import Network


@dataclass(frozen=True, slots=True)
class Problem:
    """A model with its inputs.

    Attributes:
        model: ONNX file.
        feeds: Arrays by input name, in the model's order.
        expected: Outputs in the model's order, if there are any beside the model.
        source: The file of inputs and outputs, or "random".
        symbols: Sizes of the symbols in the shapes of the inputs.
        macs: Multiply-accumulates, None if they cannot be counted.
        quantized: It computes in integers here and there.
    """

    model: Path
    feeds: Mapping[str, Array]
    expected: Sequence[Array] | None
    source: str
    symbols: Mapping[str, int]
    macs: int | None
    quantized: bool

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.model.name


def read_problem(model: Path, shape: Mapping[str, tuple[int, ...]]) -> Problem:
    """Read a model, and the .npz file beside it, if there is one and no shapes are asked for.

    That file names its arrays after the inputs, and after the outputs if these are known: ``x`` or
    ``in_x``; ``y``, ``ref_y``, or ``ref_0`` for the first output. Where it has no inputs, they are
    random.

    Args:
        model: File.
        shape: Shapes of inputs and symbolic sizes by name, from the command line.

    Raises:
        DovetailError: The model cannot be read, or the file has some of its inputs but not all.
    """
    network = dovetail.parse(model)
    beside = model.with_suffix(".npz")
    arrays = load_npz(beside) if beside.is_file() and not shape else {}
    feeds = _feeds(network, arrays, beside)
    expected, source = None, "random"
    if feeds:
        expected, source = _expected(network, arrays), beside.name
    else:
        feeds = _random(network, shape)
    graph, reason = with_known_shapes(network, {name: array.shape for name, array in feeds.items()})
    return Problem(
        model=model,
        feeds=feeds,
        expected=expected,
        source=source,
        symbols=_symbols(network, feeds),
        macs=summarize(graph, reason).macs,
        quantized=any(isinstance(layer.descriptor, Quantize | Dequantize) for layer in network),
    )


def _feeds(network: Network, arrays: Mapping[str, Array], beside: Path) -> dict[str, Array]:
    names = [layer.name for layer in network.inputs]
    found = {name: arrays[key] for name in names for key in (name, f"in_{name}") if key in arrays}
    if found and len(found) < len(names):
        missing = ", ".join(repr(name) for name in names if name not in found)
        raise InputError(
            f"{beside} has inputs for {network.name!r}, but none for {missing}; its arrays are {', '.join(arrays)}",
            code=ErrorCode.INPUT_NAME,
            hint="name an array in_NAME for each input, or move the file away for random ones",
        )
    return found


def _expected(network: Network, arrays: Mapping[str, Array]) -> list[Array] | None:
    """Return the expected outputs, or None unless all are there: half would pass for a whole."""
    found = []
    for index, layer in enumerate(network.outputs):
        keys = [key for key in (layer.name, f"ref_{layer.name}", f"ref_{index}") if key in arrays]
        if not keys:
            return None
        found.append(arrays[keys[0]])
    return found


def _random(network: Network, shape: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    shapes = shapes_for(network, shape)
    shapes |= one_for_open_sizes(network, shapes)
    infos = {layer.name: layer.outputs[0].known_info for layer in network.inputs}
    specs = [InputSpec(name, info.shape, info.dtype, info.quantization) for name, info in infos.items()]
    return feeds_for(input_specs(specs, shapes), ["random"], PictureSettings()).arrays


def _symbols(network: Network, feeds: Mapping[str, Array]) -> dict[str, int]:
    return {
        symbol: size
        for layer in network.inputs
        for symbol, size in zip(layer.output.shape, feeds[layer.name].shape, strict=False)  # another rank is refused later
        if isinstance(symbol, str)
    }
