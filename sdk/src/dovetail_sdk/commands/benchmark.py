"""`dovetail benchmark`: how long a network takes, and how much memory."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..options import (
    STDOUT,
    FiniteRange,
    JsonToFile,
    html_option,
    json_file_option,
    model_argument,
    of_suffix,
    placing_options,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dovetail import LoadedNetwork
    from dovetail.optimizer import Placement
    from dovetail.runtime import Profile

    from ..concurrent_runs import Amount, Request
    from ..layer_times import MeasuredLayer
    from ..options import ModelFile, Placing
    from ..statistics import Timing

SECONDS = 3.0
"""How long is measured where nothing says how much."""
MIN_RUNS = 10
"""So many runs are measured then, even if they take longer."""
PROFILED_RUNS = 100
"""Runs that are profiled, at most: the median of more hardly changes."""
PROFILED_SECONDS = 2.0
MIN_PROFILED = 5
TRACED_RUNS = 20
"""Runs of a trace, at most: a viewer takes long to open more."""


@click.command(cls=JsonToFile)
@model_argument
@placing_options
@click.option("--warm-up", type=click.IntRange(min=0), default=10, show_default=True, help="Runs of each request before.")
@click.option(
    "--duration",
    type=FiniteRange(min=0, min_open=True),
    metavar="SECONDS",
    help=f"How long to measure. Default: {SECONDS:g}, and at least {MIN_RUNS} runs.",
)
@click.option("--iterations", type=click.IntRange(min=1), help="Runs to measure, instead of --duration.")
@click.option(
    "--requests",
    type=click.IntRange(min=1, max=1024),
    default=1,
    show_default=True,
    help="Runs at the same time, each in a thread of its own.",
)
@click.option(
    "--timeout",
    type=FiniteRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Give up a run after this long.",
)
@click.option("--profile", is_flag=True, help="Also measure each layer, in further runs.")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=of_suffix(".json"),
    help="Write the profile as a Chrome trace.",
)
@json_file_option
@html_option
def command(
    model: ModelFile,
    placing: Placing,
    warm_up: int,
    duration: float | None,
    iterations: int | None,
    requests: int,
    timeout: float | None,
    profile: bool,
    trace: Path | None,
    json_file: Path | None,
    page: Path | None,
) -> None:
    """Measure MODEL on random inputs.

    Each request has inputs and outputs of its own, which stay where they are: a run allocates and
    copies nothing. It runs again as soon as it is done. --threads are those of the kernels; one run
    after the other has them, and where another run has them, a kernel takes the thread of its
    request alone. With several requests the default is as many as make all CPUs busy.

    \b
    Of the measurement:
      throughput   runs of all requests per second, from the first to the last
      latency      how long one run took; 99 of 100 took no longer than its
                   99th percentile
      held by      memory of weights as backends packed them, and of what else
      backends     they keep, once for all requests

    \b
    Of --profile, the medians of up to 100 further runs, the slowest layer first:
      time         on the device where it tells, else on the host
      host         on the calling thread: to compute, to enqueue, to wait
      device       how long the device worked; - where it does not tell
      share        part of the sum of all times
      MACs         multiply-accumulates of the layers that this one stands for
      GFLOP/s      two operations for each of them, in 10^9 per second
    """  # noqa: D301 - click's mark is the character itself
    amount = _amount(duration, iterations, requests)
    profile = profile or page is not None  # which shows the times of layers
    import dovetail
    from dovetail.runtime import default_runtime

    from ..concurrent_runs import measure, request_of
    from ..feeding import feeds_for, input_specs
    from ..layer_times import measured_layers, work_of
    from ..machine_state import MachineState, disturbances
    from ..options import one_for_open_sizes, shapes_for
    from ..pictures import PictureSettings
    from ..rendering import meter, working
    from ..statistics import Timing

    with working(f"loading {model.name}") as told:
        network = dovetail.parse(model)
        shapes = shapes_for(network, placing.shape)
        assumed = one_for_open_sizes(network, shapes)
        shapes |= assumed
        del network  # what is loaded from a file has its weights once, without those that this one holds
        usable = default_runtime().threads
        threads = min(placing.threads or max(1, usable - requests + 1), usable)
        begin = perf_counter()
        loaded = dovetail.load(
            model,
            placing.backends,
            threads=threads,
            shapes=shapes or None,
            options=placing.options,
            isolate=placing.isolate,
            progress=told,
        )
        load_seconds = perf_counter() - begin
    with loaded:
        feeds = feeds_for(input_specs(loaded.inputs, shapes), ["random"], PictureSettings()).arrays
        begin = perf_counter()
        asked = [request_of(loaded, feeds, timeout)]
        asked[0]()
        first_seconds = perf_counter() - begin
        while len(asked) < requests:  # the same values: they may decide what is computed
            asked.append(request_of(loaded, {name: array.copy() for name, array in feeds.items()}, timeout))
        before = MachineState.now()
        with meter("measuring") as told_part:
            measured = measure(asked, amount, warm_up=warm_up, told=told_part)
        after = MachineState.now()
        timing = Timing.of(measured.latencies)
        noise = disturbances(before, after, timing, measured.latencies, threads=threads, requests=requests)
        memory = loaded.memory
        report = {
            "model": str(model),
            "assumed": assumed,
            "backends": _backends_used(loaded),
            "threads": threads,
            "requests": requests,
            "warm_up_runs": warm_up,
            "load_seconds": load_seconds,
            "first_run_seconds": first_seconds,
            "measured_seconds": measured.wall_seconds,
            "runs_per_second": measured.throughput,
            "run_seconds": asdict(timing),
            "noise": [asdict(one) for one in noise],
            "process_peak_bytes": peak_memory(),
            "plan_peak_bytes": memory.peak_bytes,
            "constant_bytes": memory.constant_bytes,
            "private_bytes": memory.private_bytes,
            "crossing_bytes": loaded.placement.crossing._asdict(),
        }
        layers: list[MeasuredLayer] = []
        if profile or trace is not None:
            profiled = _profiled(loaded, asked, iterations)
            if profile:
                layers = measured_layers(loaded, profiled, work_of(dovetail.parse(model), shapes))
                report |= _of_layers(profiled, layers)
            if trace is not None:
                profiled.latest(TRACED_RUNS).to_chrome_trace(trace)
    _print(report, layers if profile else None, json_file)
    if page is not None:
        _write_page(page, model, shapes, loaded.placement, layers, timing)
    if trace is not None and json_file != STDOUT:
        click.echo(f"trace written to {trace}; open it in https://ui.perfetto.dev")


def _write_page(
    page: Path,
    model: ModelFile,
    shapes: Mapping[str, Any],
    placement: Placement,
    layers: Sequence[MeasuredLayer],
    timing: Timing,
) -> None:
    import dovetail

    from ..pages import write_page
    from ..pages.placement import placement_page
    from ..rendering import seconds_text
    from ..summary import with_known_shapes

    graph, _ = with_known_shapes(dovetail.parse(model), shapes)
    times = {layer.name: layer.seconds * 1e3 for layer in layers}
    line = f"a run takes {seconds_text(timing.median)} (median), of which these are the layers, each measured apart"
    write_page(placement_page(graph, placement, times, line), page)


def _amount(duration: float | None, iterations: int | None, requests: int) -> Amount:
    """Return how much to measure.

    Raises:
        click.UsageError: Both are given, or there are fewer runs than requests.
    """
    from ..concurrent_runs import Amount

    context = click.get_current_context()
    if duration is not None and iterations is not None:
        given = {name: context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in ("duration", "iterations")}
        if given["duration"] and not given["iterations"]:
            iterations = None  # a default, which the command line overrides
        elif given["iterations"] and not given["duration"]:
            duration = None
    if duration is not None and iterations is not None:
        raise click.UsageError("--duration and --iterations exclude each other: one of them ends the measurement")
    if iterations is not None:
        if iterations < requests:
            raise click.UsageError(f"--iterations {iterations} is less than --requests {requests}: some would never run")
        return Amount(runs=iterations)
    if duration is not None:
        return Amount(seconds=duration, min_runs=requests)
    return Amount(seconds=SECONDS, min_runs=max(MIN_RUNS, requests))


def _profiled(loaded: LoadedNetwork, asked: Sequence[Request], iterations: int | None) -> Profile:
    from ..concurrent_runs import Amount, measure
    from ..rendering import meter

    runs = PROFILED_RUNS if iterations is None else min(iterations, PROFILED_RUNS)
    amount = Amount(max(runs, len(asked)), PROFILED_SECONDS, max(MIN_PROFILED, len(asked)))
    with meter("profiling") as told, loaded.profiling() as profile:
        measure(asked, amount, told=told)
    return profile


def _of_layers(profile: Profile, layers: Sequence[MeasuredLayer]) -> dict[str, Any]:
    """Return what a report says of a profile."""
    from ..layer_times import sum_of, sums_by

    return {
        "profiled_runs": profile.runs,
        "layers": [layer.as_dict() for layer in layers],
        "kinds": [one.as_dict() for one in sums_by(layers, lambda layer: layer.kind)],
        "layer_backends": [one.as_dict() for one in sums_by(layers, lambda layer: layer.backend)],
        "all_layers": sum_of("all", layers).as_dict(),
    }


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


def _print(report: Mapping[str, Any], layers: Sequence[MeasuredLayer] | None, json_file: Path | None) -> None:
    if json_file is not None:
        import json

        text = json.dumps(report, indent=2)
        if json_file == STDOUT:
            click.echo(text)
            return
        json_file.write_text(text + "\n", encoding="utf-8")
    from ..benchmark_tables import layer_tables, noise_lines, report_table, source_lines
    from ..rendering import show

    show(report_table(report), *(layer_tables(layers) if layers is not None else ()))
    for line in (*source_lines(layers or ()), *noise_lines(report["noise"])):
        click.echo(line)
