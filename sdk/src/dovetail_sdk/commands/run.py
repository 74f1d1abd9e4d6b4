"""`dovetail run`: feed a network once and show what comes out."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import (
    backend_options_option,
    backends_option,
    in_folder,
    isolate_option,
    limits_option,
    model_argument,
    numbers_of,
    shape_option,
    threads_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from dovetail import Limits, LoadedNetwork, Network, Quantization

    from ..detections import Detector

MAX_ROWS = 8
"""Rows of a batch whose best classes are shown."""


@click.command()
@model_argument
@backends_option
@backend_options_option
@isolate_option
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]SOURCE",
    help="A .npy, .npz, .wav or picture file, or 'random'. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=in_folder,
    help="Write the outputs to this .npz (all) or .npy (one).",
)
@shape_option
@threads_option
@limits_option
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Give up after this long.")
@click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Names of the classes, one a line. Default: as the model says.",
)
@click.option(
    "--least", type=float, default=0.3, show_default=True, metavar="SCORE", help="Lowest score of detections that are shown."
)
@click.option(
    "--draw",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=in_folder,
    help="Draw the detections on the picture and write it to this .png.",
)
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    metavar="HZ",
    help="Sounds: refuse those of another rate. Default: as the model says, else any.",
)
@click.option("--top", type=click.IntRange(min=0), default=5, show_default=True, help="Best classes shown; 0 for none.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For random inputs.")
@click.option(
    "--mean",
    type=numbers_of,
    metavar="NUMBERS",
    help="Pictures: value = (pixel - mean) * scale; one number or one per channel. Default: as the model says, else 0.",
)
@click.option("--scale", type=numbers_of, metavar="NUMBERS", help="Pictures: see --mean. Default: 1/255, for plain integers 1.")
@click.option(
    "--layout",
    type=click.Choice(["auto", "nchw", "nhwc"], case_sensitive=False),
    default="auto",
    show_default=True,
    help="Pictures.",
)
@click.option(
    "--channels",
    type=click.Choice(["rgb", "bgr"], case_sensitive=False),
    default="rgb",
    show_default=True,
    help="Pictures: their order.",
)
@click.option(
    "--guarded",
    is_flag=True,
    help="Then run again with each tensor between inaccessible pages, to find a kernel that leaves its tensors.",
)
def command(
    model: Path,
    backends: list[str] | None,
    options: dict[str, dict[str, Any]] | None,
    isolate: list[str] | None,
    inputs: tuple[str, ...],
    output: Path | None,
    shape: dict[str, tuple[int, ...]],
    threads: int | None,
    limits: Limits | None,
    timeout: float | None,
    labels: Path | None,
    least: float,
    draw: Path | None,
    rate: int | None,
    top: int,
    seed: int,
    mean: tuple[float, ...] | None,
    scale: tuple[float, ...] | None,
    layout: str,
    channels: str,
    guarded: bool,
) -> None:
    """Run MODEL once and show its outputs."""
    import dovetail

    from ..detections import find_detector
    from ..feeding import feeds_for, input_specs
    from ..options import shapes_for, tell_assumed
    from ..pictures import PictureSettings
    from ..rendering import working

    _check_suffix(output)
    network = dovetail.parse(model, limits=limits)
    detector = find_detector(network)
    _check_draw(draw, detector)
    names = _lines(labels) if labels is not None else None
    shapes = shapes_for(network, shape)
    with working(f"loading {model.name}") as told:
        load = partial(
            dovetail.load,
            network,
            backends,
            threads=threads,
            shapes=shapes or None,
            options=options,
            limits=limits,
            isolate=isolate,
        )
        loaded = load(progress=told)
    with loaded:
        if output is not None and output.suffix.lower() == ".npy" and len(loaded.outputs) != 1:
            raise click.UsageError(f"the network has {len(loaded.outputs)} outputs; write them to a .npz")
        settings = PictureSettings(mean, scale, layout, channels)
        feeds = feeds_for(input_specs(loaded.inputs, shapes, network.meanings), inputs, settings, seed, rate)
        picture = next(iter(feeds.pictures.values())) if len(feeds.pictures) == 1 else None
        if draw is not None and picture is None:
            raise click.UsageError("--draw needs one picture among the inputs")
        tell_assumed(feeds.assumed)
        for name, note in feeds.notes.items():
            click.echo(f"{name} <- {note}")
        with working(f"running {model.name}"):
            results = loaded.run(feeds.arrays, timeout=timeout)
        known = {spec.name: names if names is not None else _labels(network, spec.name) for spec in loaded.outputs}
        _show(loaded, results, top, known, detector.outputs if detector is not None else ())
    if detector is not None:
        _show_detections(detector, results, known[detector.classes], least, picture, draw)
    if output is not None:
        save(output, results)
        click.echo(f"written to {output}")
    if guarded:
        _run_guarded(load, feeds.arrays, results, timeout)


def _run_guarded(
    load: Callable[..., LoadedNetwork],
    feeds: Mapping[str, npt.NDArray[Any]],
    expected: Mapping[str, npt.NDArray[Any]],
    timeout: float | None,
) -> None:
    """Run between inaccessible pages, on either side.

    A kernel that touches one ends the process, after a sentence about it.

    Raises:
        ClickException: An output changes with what lies in memory that nobody wrote.
    """
    from dovetail import Guard, Runtime

    results = []
    for guard in (Guard("end", 0xFF), Guard("start", 0x5A)):
        with Runtime(guard=guard) as runtime, load(runtime=runtime) as loaded:
            results.append(loaded.run(feeds, timeout=timeout))
    for name in expected:
        if results[0][name].tobytes() != results[1][name].tobytes():
            raise click.ClickException(f"guarded: output {name!r} changes with what lies in memory that nobody wrote")
        if results[0][name].tobytes() != expected[name].tobytes():
            click.echo(f"guarded: output {name!r} has other bits than in the plain run")
    click.echo("guarded: no kernel left its tensors")


def _check_suffix(output: Path | None) -> None:
    if output is not None and output.suffix.lower() not in (".npz", ".npy"):
        raise click.UsageError(f"--output {output}: the suffix must be .npz or .npy")


def save(path: Path, results: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the outputs; the file appears only once it is complete."""
    import numpy as np

    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            if path.suffix.lower() == ".npy":
                (array,) = results.values()
                np.save(file, array, allow_pickle=False)
            else:
                # Outputs may be called "file", which is a parameter of np.savez: so the archive is
                # written by hand.
                write_npz(file, results)
        partial.replace(path)
    except OSError as error:
        if error.strerror is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # the name that was asked for, not the partial file's
    finally:
        with suppress(OSError):  # what went wrong before is what matters
            partial.unlink(missing_ok=True)


def write_npz(file: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays of any names into an open .npz."""
    import zipfile

    import numpy as np

    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _check_draw(draw: Path | None, detector: Detector | None) -> None:
    if draw is not None and draw.suffix.lower() != ".png":
        raise click.UsageError(f"--draw {draw}: the suffix must be .png")
    if draw is not None and detector is None:
        raise click.UsageError("--draw: no outputs of the network are those of a dovetail.DetectionPostProcess")


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(line.strip() for line in path.read_text("utf-8", "replace").splitlines())


def _labels(network: Network, output: str) -> Sequence[str]:
    """Return the names of classes that the model file has for an output."""
    meaning = network.meanings.get(output)
    return () if meaning is None else meaning.labels


def _show_detections(
    detector: Detector,
    results: Mapping[str, npt.NDArray[Any]],
    labels: Sequence[str],
    least: float,
    picture: Path | None,
    output: Path | None,
) -> None:
    from ..detections import detections, detections_table, draw, picture_size
    from ..rendering import show

    found = detections(detector, results, labels, least)
    if found:
        show(detections_table(found, None if picture is None else picture_size(picture)))
    else:
        click.echo(f"nothing was detected with a score of {least:g} or more")
    if output is not None and picture is not None:
        draw(picture, found, output)
        click.echo(f"drawn to {output}")


def _show(
    loaded: LoadedNetwork,
    results: Mapping[str, npt.NDArray[Any]],
    top: int,
    labels: Mapping[str, Sequence[str]],
    of_detector: Sequence[str],
) -> None:
    from ..rendering import show

    dtypes = {spec.name: spec.dtype.label for spec in loaded.outputs}
    meant = {spec.name: spec.quantization for spec in loaded.outputs}
    show(outputs_table(results, dtypes))
    for name, array in results.items():
        if top and name not in of_detector and is_classification(array.shape):
            scores = array.reshape(len(array), -1)
            is_bfloat16 = dtypes[name] == "bfloat16"
            show(classes_table(name, scores, top, labels.get(name, ()), bfloat16=is_bfloat16, meant=meant.get(name)))


def outputs_table(results: Mapping[str, npt.NDArray[Any]], dtypes: Mapping[str, str]) -> Any:
    """Build the table of outputs."""
    from ..rendering import table
    from ..statistics import summary_of

    rows = []
    for name, array in results.items():
        dtype = dtypes.get(name, str(array.dtype))
        summary = summary_of(array, bfloat16=dtype == "bfloat16")
        numbers = ["-" if value is None else f"{value:.6g}" for value in (summary.minimum, summary.mean, summary.maximum)]
        shape = f"[{', '.join(map(str, array.shape))}]"
        rows.append((name, shape, dtype, *numbers, f"{summary.not_finite} not finite" if summary.not_finite else ""))
    return table(("output", "shape", "dtype", "min", "mean", "max", ""), rows, right=("min", "mean", "max"))


def is_classification(shape: Sequence[int]) -> bool:
    """Return whether a shape looks like one row of scores per picture: [N, 10], [N, 10, 1, 1]."""
    return len(shape) >= 2 and shape[0] >= 1 and math.prod(shape[1:]) == max(shape[1:]) >= 2


def classes_table(
    name: str,
    scores: npt.NDArray[Any],
    top: int,
    labels: Sequence[str] = (),
    *,
    bfloat16: bool = False,
    meant: Quantization | None = None,
) -> Any:
    """Build the table of the best classes of each row.

    Args:
        name: The output.
        scores: A row for each picture.
        top: Classes of a row.
        labels: Names of classes, as far as they are known.
        bfloat16: Whether the elements are bits of that type.
        meant: What integers stand for, which is shown beside them.
    """
    from ..rendering import table
    from ..statistics import as_real, top_classes

    scale, zero = (meant.scale[0], meant.zero_point[0]) if meant is not None and not meant.is_per_axis else (0.0, 0)
    rows = [
        (
            str(number) if place == 0 else "",
            str(index),
            f"{value:.6g}",
            *([f"{(value - zero) * scale:.4g}"] if scale else []),
            labels[index] if index < len(labels) else "",
        )
        for number, row in enumerate(as_real(scores[:MAX_ROWS], bfloat16=bfloat16))
        for place, (index, value) in enumerate(top_classes(row, top))
    ]
    if len(scores) > MAX_ROWS:
        rows.append(("...", "", "", *([""] if scale else []), ""))
    columns = (f"{name}: row", "class", "value", *(["stands for"] if scale else []), "label" if labels else "")
    return table(columns, rows, right=("class", "value", "stands for"))
