"""`dovetail benchmark`: how long a network takes, and how much memory."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from ..options import (
    STDOUT,
    JsonToFile,
    in_folder,
    json_file_option,
    model_argument,
    placing_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from dovetail import LoadedNetwork

    from ..options import Placing


@click.command(cls=JsonToFile)
@model_argument
@placing_options
@click.option("--warm-up", type=click.IntRange(min=0), default=10, show_default=True, help="Runs before measuring.")
@click.option("--iterations", type=click.IntRange(min=1), default=100, show_default=True, help="Runs measured.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Give up a run after this long.",
)
@click.option("--profile", is_flag=True, help="Also measure each layer, in further runs.")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=in_folder,
    help="Write the profile as a Chrome trace.",
)
@json_file_option
def command(
    model: Path,
    placing: Placing,
    warm_up: int,
    iterations: int,
    timeout: float | None,
    profile: bool,
    trace: Path | None,
    json_file: Path | None,
) -> None:
    """Measure MODEL on random inputs."""
    import dovetail

    from ..feeding import feeds_for, input_specs
    from ..options import one_for_open_sizes, shapes_for
    from ..pictures import PictureSettings
    from ..rendering import progress, working
    from ..statistics import Timing

    begin = perf_counter()
    with working(f"loading {model.name}") as told:
        network = dovetail.parse(model)
        shapes = shapes_for(network, placing.shape)
        assumed = one_for_open_sizes(network, shapes)
        shapes |= assumed
        loaded = dovetail.load(
            network,
            placing.backends,
            threads=placing.threads,
            shapes=shapes or None,
            options=placing.options,
            isolate=placing.isolate,
            progress=told,
        )
    load_seconds = perf_counter() - begin
    with loaded:
        feeds = feeds_for(input_specs(loaded.inputs, shapes), ["random"], PictureSettings()).arrays
        begin = perf_counter()
        loaded.run(feeds, timeout=timeout)
        first_seconds = perf_counter() - begin
        with progress("measuring", warm_up + iterations) as step:
            _times(loaded, feeds, warm_up, timeout, step)
            timing = Timing.of(_times(loaded, feeds, iterations, timeout, step))
        report = {
            "model": str(model),
            "assumed": assumed,
            "backends": _backends_used(loaded),
            "load_seconds": load_seconds,
            "first_run_seconds": first_seconds,
            "run_seconds": asdict(timing),
            "process_peak_bytes": peak_memory(),
            "plan_peak_bytes": loaded.memory.peak_bytes,
            "constant_bytes": loaded.memory.constant_bytes,
            "crossing_bytes": loaded.placement.crossing._asdict(),
        }
        layers = _profiled(loaded, feeds, min(iterations, 20), timeout, trace) if profile or trace else None
    _print(report, layers if profile else None, json_file)
    if trace is not None and json_file != STDOUT:
        click.echo(f"trace written to {trace}; open it in https://ui.perfetto.dev")


def _write(document: Mapping[str, Any], file: Path | None) -> None:
    if file is not None and file != STDOUT:
        import json

        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _times(
    loaded: LoadedNetwork,
    feeds: Mapping[str, npt.NDArray[Any]],
    count: int,
    timeout: float | None,
    step: Callable[[], None],
) -> list[float]:
    times = []
    for _ in range(count):
        begin = perf_counter()
        loaded.run(feeds, timeout=timeout)
        times.append(perf_counter() - begin)
        step()
    return times


def _profiled(
    loaded: LoadedNetwork, feeds: Mapping[str, npt.NDArray[Any]], count: int, timeout: float | None, trace: Path | None
) -> list[dict[str, Any]]:
    with loaded.profiling() as profile:
        for _ in range(count):
            loaded.run(feeds, timeout=timeout)
    if trace is not None:
        profile.to_chrome_trace(trace)
    return [
        {"name": layer.name, "kind": layer.kind, "backend": layer.backend, "tuned": layer.tuned}
        | {"mean_seconds": layer.mean_ns / 1e9, "cost_seconds": layer.mean_cost_ns / 1e9}
        | {"device_seconds": None if layer.mean_device_ns is None else layer.mean_device_ns / 1e9}
        | {"copied_bytes": layer.copied_bytes}
        for layer in profile.layers
        if layer.calls
    ]


def _backends_used(loaded: LoadedNetwork) -> list[str]:
    """Backends of the steps, in the order in which they first run."""
    return list(dict.fromkeys(str(step.backend) for step in loaded.plan.steps if step.backend))


def peak_memory() -> int | None:
    """Return the most memory that this process has held, in bytes; None where it is not told."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes there, KiB elsewhere


def _print(report: dict[str, Any], layers: list[dict[str, Any]] | None, json_file: Path | None) -> None:
    document = {**report, **({"layers": layers} if layers is not None else {})}
    _write(document, json_file)
    if json_file == STDOUT:
        import json

        click.echo(json.dumps(document, indent=2))
        return
    from ..rendering import show

    show(report_table(report), *([layers_table(layers)] if layers is not None else []))


def report_table(report: Mapping[str, Any]) -> Any:
    """Build the table of one measurement."""
    from ..rendering import bytes_text, seconds_text, table

    run = report["run_seconds"]
    peak = report["process_peak_bytes"]
    rows = [
        ("backends", ", ".join(report["backends"]) or "none"),
        ("load, imports included", seconds_text(report["load_seconds"])),
        ("first run", seconds_text(report["first_run_seconds"])),
        (f"run, min of {run['count']}", seconds_text(run["minimum"])),
        ("run, median", seconds_text(run["median"])),
        ("run, 90th percentile", seconds_text(run["p90"])),
        ("runs per second, at the median", f"{1 / run['median']:.4g}" if run["median"] else "-"),
        ("planned memory of a run", bytes_text(report["plan_peak_bytes"])),
        ("constants", bytes_text(report["constant_bytes"])),
        *(
            (f"copied {way.replace('_', ' ')} in a run", bytes_text(nbytes))
            for way, nbytes in report["crossing_bytes"].items()
            if nbytes
        ),
        ("peak memory of the process", bytes_text(peak) if peak is not None else "not told by this system"),
    ]
    name = Path(report["model"]).name
    return table(("", name), rows, right=(name,))


def layers_table(layers: list[dict[str, Any]]) -> Any:
    """Build the table of layers, slowest first; times of devices where one tells them."""
    from ..rendering import bytes_text, seconds_text, table

    total = sum(layer["cost_seconds"] for layer in layers) or 1.0
    columns = {"layer": "", "kind": "", "backend": "", "host": "right", "device": "right", "share": "right", "": ""}
    rows = []
    for layer in sorted(layers, key=lambda layer: -layer["cost_seconds"]):
        device = layer["device_seconds"]
        copied = bytes_text(layer["copied_bytes"]) if layer["copied_bytes"] else ""
        rows.append(
            {
                "layer": layer["name"],
                "kind": layer["kind"].removeprefix("dovetail."),
                "backend": layer["backend"],
                "host": seconds_text(layer["mean_seconds"]),
                "device": "-" if device is None else seconds_text(device),
                "share": f"{layer['cost_seconds'] / total:.1%}",
                "": layer["tuned"] or copied,
            }
        )
    if all(layer["device_seconds"] is None for layer in layers):
        del columns["device"]
    right = tuple(name for name, side in columns.items() if side)
    return table(tuple(columns), [tuple(row[name] for name in columns) for row in rows], right=right)
