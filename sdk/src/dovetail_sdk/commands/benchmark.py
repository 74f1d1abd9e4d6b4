"""`dovetail benchmark`: how long a network takes, and how much memory."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..options import (
    STDOUT,
    ListsAndFiles,
    backend_options_option,
    backends_option,
    in_folder,
    json_file_option,
    models_argument,
    shape_option,
    thread_counts_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from dovetail import LoadedNetwork

    from ..versus.peers import Peer
    from ..versus.results import Report

ALONE = ("warm_up", "iterations", "profile", "trace")
BESIDE = ("peer_python", "rounds", "block", "repeats", "starts", "as_markdown")


def _peers(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> list[Peer]:
    if not value:
        return []
    from ..versus.peers import PEERS

    names = list(dict.fromkeys(name.strip() for text in value for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise click.BadParameter(f"there is no runtime {unknown[0]!r} to compare with; choose from {', '.join(PEERS)}")
    return [PEERS[name] for name in names]


@click.command(cls=ListsAndFiles)
@models_argument
@backends_option
@backend_options_option
@shape_option
@thread_counts_option
@click.option("--warm-up", type=click.IntRange(min=0), default=10, show_default=True, help="Runs before measuring.")
@click.option("--iterations", type=click.IntRange(min=1), default=100, show_default=True, help="Runs measured.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Give up a run after this long; beside others, a runtime that does not answer for so long (120).",
)
@click.option("--profile", is_flag=True, help="Also measure each layer, in further runs.")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=in_folder,
    help="Write the profile as a Chrome trace.",
)
@click.option(
    "--versus",
    "peers",
    multiple=True,
    metavar="NAME[,NAME...]",
    callback=_peers,
    help="Measure these beside dovetail, alternating: onnxruntime, openvino (in float32), openvino-bf16, litert (needs a "
    ".tflite beside the model).",
)
@click.option("--peer-python", metavar="PATH", help="Interpreter that has these installed. Default: the one of dovetail.")
@click.option("--rounds", type=click.IntRange(min=1), default=10, show_default=True, help="Turns of each, beside others.")
@click.option(
    "--block",
    type=click.FloatRange(min=0, min_open=True),
    default=0.2,
    show_default=True,
    metavar="SECONDS",
    help="Length of a turn.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    help="Turns measured again, per model and number of threads, because other processes took CPU time.",
)
@click.option(
    "--starts",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Processes of each in which loading and the first run are timed.",
)
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the tables in Markdown.")
@json_file_option
@click.pass_context
def command(
    context: click.Context,
    models: list[Path],
    backends: list[str] | None,
    options: dict[str, dict[str, Any]] | None,
    shape: dict[str, tuple[int, ...]],
    threads: list[int],
    warm_up: int,
    iterations: int,
    timeout: float | None,
    profile: bool,
    trace: Path | None,
    peers: list[Peer],
    peer_python: str | None,
    rounds: int,
    block: float,
    repeats: int,
    starts: int,
    as_markdown: bool,
    json_file: Path | None,
) -> None:
    """Measure MODEL on random inputs, or beside other runtimes.

    With several models, several numbers of --threads, or --versus, each runtime runs in a process of its own, alternating, and
    answers are compared first. Inputs, and outputs to compare with, are then read from the file beside MODEL that has its name
    with the suffix .npz, if it is there.
    """
    if not (peers or len(models) > 1 or len(threads) > 1):
        _refuse(context, BESIDE, "measures beside other runtimes; add --versus")
        count = threads[0] if threads else None
        _alone(models[0], backends, options, shape, count, warm_up, iterations, timeout, profile, trace, json_file)
        return
    _refuse(context, ALONE, "measures dovetail alone; leave out --versus, and give one model and one number of --threads")

    if sys.platform == "win32":
        raise click.UsageError("beside other runtimes it measures on POSIX systems only: it stops and continues processes")
    from ..rendering import progress
    from ..tuning.interference import usable_cpus
    from ..versus.measuring import Settings
    from ..versus.run import measure

    counts = threads or [len(usable_cpus())]
    settings = Settings(rounds=rounds, block_seconds=block, repeats=repeats, starts=starts, patience_seconds=timeout or 120.0)
    with progress("measuring", len(models) * len(counts) * rounds * (len(peers) + 1)) as step:
        report = measure(
            models,
            peers,
            counts,
            settings,
            command=shlex.join(["dovetail", "benchmark", *context.meta["dovetail.arguments"]]),
            python=peer_python,
            dovetail_options={"backends": backends, "options": options},
            shape=shape,
            after=lambda report: _write(report.as_dict(), json_file),
            step=step,
        )
    _show(report, as_markdown, json_file)
    if not report.is_clean:
        context.exit(1)


def _refuse(context: click.Context, names: Sequence[str], why: str) -> None:
    for name in names:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            option = next(one.opts[0] for one in context.command.params if one.name == name)
            raise click.UsageError(f"{option} {why}")


def _write(document: Mapping[str, Any], file: Path | None) -> None:
    if file is not None and file != STDOUT:
        import json

        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _show(report: Report, as_markdown: bool, json_file: Path | None) -> None:
    from ..rendering import show
    from ..versus import tables

    if json_file == STDOUT:
        import json

        click.echo(json.dumps(report.as_dict(), indent=2))
    elif as_markdown:
        click.echo(tables.markdown(report))
    else:
        click.echo("\n".join(tables.heading(report)) + "\n")
        show(*(grid.for_terminal() for grid in tables.grids(report)))
        click.echo("\n".join([*tables.explanation(report), *tables.remarks(report)]))


def _alone(
    model: Path,
    backends: list[str] | None,
    options: dict[str, dict[str, Any]] | None,
    shape: dict[str, tuple[int, ...]],
    threads: int | None,
    warm_up: int,
    iterations: int,
    timeout: float | None,
    profile: bool,
    trace: Path | None,
    json_file: Path | None,
) -> None:
    import dovetail

    from ..feeding import feeds_for, input_specs
    from ..options import one_for_open_sizes, shapes_for
    from ..pictures import PictureSettings
    from ..rendering import progress, working
    from ..statistics import Timing

    begin = perf_counter()
    with working(f"loading {model.name}") as told:
        network = dovetail.parse(model)
        shapes = shapes_for(network, shape)
        assumed = one_for_open_sizes(network, shapes)
        shapes |= assumed
        loaded = dovetail.load(network, backends, threads=threads, shapes=shapes or None, options=options, progress=told)
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
        }
        layers = _profiled(loaded, feeds, min(iterations, 20), timeout, trace) if profile or trace else None
    _print(report, layers if profile else None, json_file)
    if trace is not None and json_file != STDOUT:
        click.echo(f"trace written to {trace}; open it in https://ui.perfetto.dev")


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
        | {"mean_seconds": layer.total_ns / layer.calls / 1e9}
        for layer in profile.layers
        if layer.calls
    ]


def _backends_used(loaded: LoadedNetwork) -> list[str]:
    """Backends of the steps, in the order in which they first run."""
    return list(dict.fromkeys(str(step.backend) for step in loaded.plan.steps if step.backend))


def peak_memory() -> int | None:
    """Return the largest amount of memory that this process has held, in bytes, or None where it is not told."""
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
        ("peak memory of the process", bytes_text(peak) if peak is not None else "not told by this system"),
    ]
    name = Path(report["model"]).name
    return table(("", name), rows, right=(name,))


def layers_table(layers: list[dict[str, Any]]) -> Any:
    """Build the table of layers, slowest first."""
    from ..rendering import seconds_text, table

    total = sum(layer["mean_seconds"] for layer in layers) or 1.0
    rows = [
        (
            layer["name"],
            layer["kind"].removeprefix("dovetail."),
            layer["backend"],
            seconds_text(layer["mean_seconds"]),
            f"{layer['mean_seconds'] / total:.1%}",
            layer.get("tuned", ""),
        )
        for layer in sorted(layers, key=lambda layer: -layer["mean_seconds"])
    ]
    return table(("layer", "kind", "backend", "mean", "share", ""), rows, right=("mean", "share"))
