"""`dovetail quantize`: turn a float model into one that computes with integers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import (
    STDOUT,
    JsonToFile,
    backends_option,
    json_file_option,
    limits_option,
    model_argument,
    of_suffix,
    shape_option,
    value_option,
)
from . import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dovetail import Limits, Network

    from ..options import ModelFile
    from ..quantizing.report import Report

_PICTURES = ("mean", "scale", "layout", "channels")
"""Options of `dovetail run` that say how pictures are read."""


@click.command(cls=JsonToFile)
@model_argument
@click.option(
    "--calibration",
    "data",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    metavar="DATA",
    help="A .npz of samples, named after the inputs, or a folder of pictures, sounds or .npz of one sample each.",
)
@click.option(
    "--scheme",
    type=click.Choice(["int8", "int16x8", "float16", "dynamic"], case_sensitive=False),
    default="int8",
    show_default=True,
    help="int8: weights and tensors; int16x8: tensors in 16 bits; float16, dynamic (int8): weights as they are stored.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=of_suffix(".onnx"),
    required=True,
    help="Write the ONNX model to this file.",
)
@click.option(
    "--activations",
    type=click.Choice(["int8", "uint8"], case_sensitive=False),
    help="Scheme int8: the type between layers. Default: int8.",
)
@click.option(
    "--method",
    type=click.Choice(["minmax", "percentile", "mse"], case_sensitive=False),
    default="minmax",
    show_default=True,
    help="How a range is chosen from what was seen.",
)
@click.option(
    "--percentile",
    type=click.FloatRange(50, 100, min_open=True),
    default=99.99,
    show_default=True,
    help="Share of the elements that method percentile keeps.",
)
@click.option("--no-bias-correction", is_flag=True, help="Leave the mean error of rounded weights in the biases.")
@click.option("--keep", multiple=True, metavar="NAME", help="Keep these layers in float; NAME may hold * and ?. Repeatable.")
@click.option(
    "--keep-worst",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Quantize each layer alone, and keep the N in float that cost the outputs most.",
)
@click.option("--samples", type=click.IntRange(min=1), metavar="N", help="Use N of the samples, spread evenly. Default: all.")
@backends_option
@shape_option
@value_option
@limits_option
@json_file_option
def command(
    model: ModelFile,
    data: Path,
    scheme: str,
    output: Path,
    activations: str | None,
    method: str,
    percentile: float,
    no_bias_correction: bool,
    keep: tuple[str, ...],
    keep_worst: int,
    samples: int | None,
    backends: list[str] | None,
    shape: dict[str, tuple[int, ...]],
    values: dict[str, str],
    limits: Limits | None,
    json_file: Path | None,
    mean: tuple[float, ...] | None,
    scale: tuple[float, ...] | None,
    layout: str,
    channels: str,
) -> None:
    """Quantize MODEL after training, and report what that costs, worst layer first.

    Scales are found by running MODEL on the samples of --calibration. The result is ONNX, whose
    integer layers stand between nodes that dequantize and quantize. Inputs whose value is given are
    constants of it.
    """
    import dovetail
    from dovetail import DType
    from dovetail.optimizer.passes import FixValues

    from ..feeding import input_specs
    from ..options import shapes_for, values_for
    from ..pictures import PictureSettings
    from ..quantizing.calibration import Method
    from ..quantizing.quantizer import Quantizer, Settings
    from ..quantizing.ranges import Calibration
    from ..quantizing.samples import read_samples, sizes_of
    from ..quantizing.schemes import Scheme
    from ..rendering import progress
    from ..summary import open_symbols

    if activations is not None and scheme != Scheme.INT8:
        raise click.UsageError(f"--activations is for scheme int8, not for {scheme}")
    export = _exporter()
    network = dovetail.parse(model, limits=limits)
    FixValues(values_for(network, values)).run(network)
    given = shapes_for(network, shape)
    specs = input_specs(_described(network), given, network.meanings)
    found = read_samples(data, specs, PictureSettings(mean, scale, layout, channels), samples)
    symbols = open_symbols(network, given)
    sizes = sizes_of(found, specs)
    settings = Settings(
        scheme=Scheme(scheme),
        method=Method(Calibration(method), percentile),
        dtype=DType.INT16 if scheme == Scheme.INT16X8 else DType.of(activations or "int8"),
        correct=not no_bias_correction,
        keep=keep,
        keep_worst=keep_worst,
    )
    quantizer = Quantizer(network, {**given, **sizes}, found, settings, backends, progress, limits)
    make, report = quantizer.run()
    written = export(lambda chosen: make({**given, **chosen}), symbols, {name: sizes[name] for name in symbols})
    output.write_bytes(written.SerializeToString())
    _print(report, output, json_file)


command.params += [parameter for parameter in run.command.params if parameter.name in _PICTURES]


def _exporter() -> Callable[..., Any]:
    try:
        from dovetail_onnx import export_network
    except ImportError as error:
        raise click.ClickException(
            "the quantized model is written by dovetail-onnx-parser, which is not installed; pip install dovetail-onnx-parser"
        ) from error
    return export_network


def _described(network: Network) -> list[Any]:
    from ..feeding import InputSpec

    return [
        InputSpec(layer.name, layer.output.shape, layer.output.dtype, layer.output.known_info.quantization)
        for layer in network.inputs
    ]


def _print(report: Report, output: Path, json_file: Path | None) -> None:
    import json

    document: Mapping[str, Any] = {"output": str(output), **report.as_dict()}
    text = json.dumps(document, indent=2)
    if json_file == STDOUT:
        click.echo(text)
        return
    if json_file is not None:
        json_file.write_text(text + "\n", encoding="utf-8")
    from ..rendering import bytes_text, say, show

    for one in _tables(report):
        show(one)
    if report.kept:
        say(f"kept in float: {', '.join(report.kept)}")
    counts = [
        _counted(len(report.layers), "layer quantized", "layers quantized"),
        _counted(report.passing, "passes integers on", "pass integers on"),
        _counted(report.real, "computes in float", "compute in float"),
    ]
    say(", ".join(counts))
    say(
        f"{report.samples} samples; constants took {bytes_text(report.bytes_before)}, now {bytes_text(report.bytes_after)}; "
        f"written to {output}"
    )


def _counted(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _tables(report: Report) -> list[Any]:
    from ..rendering import table

    measured = any(row.alone is not None for row in report.layers)
    columns = ("layer", "kind", "SNR dB", "max abs", *(("alone dB",) if measured else ()))
    rows = []
    for row in report.layers:
        found = row.difference
        alone = () if not measured else (f"{row.alone:.1f}" if row.alone is not None else "-",)
        rows.append((row.name, row.kind, decibels(found), f"{found.max_abs:.3g}", *alone))
    outputs = [(name, decibels(one), f"{one.max_abs:.3g}", f"{one.cosine:.6f}") for name, one in report.outputs.items()]
    return [
        table(columns, rows, right=columns[2:], long=("layer",)),
        table(("output", "SNR dB", "max abs", "cosine"), outputs, right=("SNR dB", "max abs", "cosine"), long=("output",)),
    ]


def decibels(difference: Any) -> str:
    """Print a ratio of signal to noise."""
    return f"{difference.snr:.1f}" if difference.max_abs else "exact"
