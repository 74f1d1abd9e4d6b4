"""What `dovetail benchmark` prints: tables that fit a terminal, and a word where it was noisy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dovetail.ground.foreign_text import printable

from .fitting import Column, fitted_table
from .layer_times import LayerSum, MeasuredLayer, sum_of, sums_by
from .rendering import bytes_text, count_text, room, seconds_text, shortened, table

_LABELS = 32
"""Columns that the left half of the report takes, at most."""


def report_table(report: Mapping[str, Any], width: int | None = None) -> Any:
    """Build the table of one measurement.

    Args:
        report: What `dovetail benchmark --json` prints.
        width: In characters; default that of standard output.
    """
    run = report["run_seconds"]
    peak, threads, requests = report["process_peak_bytes"], report["threads"], report["requests"]
    planned = bytes_text(report["plan_peak_bytes"])
    rows = [
        ("backends", ", ".join(report["backends"]) or "none"),
        ("threads of the kernels", f"{threads}"),
        ("requests at a time", f"{requests}"),
        ("measured", f"{_count(run['count'], 'run')} in {seconds_text(report['measured_seconds'])}"),
        ("throughput, runs per second", rate_text(report["runs_per_second"])),
        ("latency, minimum", seconds_text(run["minimum"])),
        ("latency, median", seconds_text(run["median"])),
        ("latency, mean", seconds_text(run["mean"])),
        ("latency, 90th percentile", seconds_text(run["p90"])),
        ("latency, 95th percentile", seconds_text(run["p95"])),
        ("latency, 99th percentile", seconds_text(run["p99"])),
        ("latency, maximum", seconds_text(run["maximum"])),
        ("load", seconds_text(report["load_seconds"])),
        ("first run", seconds_text(report["first_run_seconds"])),
        ("planned memory of a run", planned if requests == 1 else f"{planned}, {requests} times"),
        ("constants", bytes_text(report["constant_bytes"])),
        ("held by backends", bytes_text(report["private_bytes"])),
        *(
            (f"copied {way.replace('_', ' ')} in a run", bytes_text(nbytes))
            for way, nbytes in report["crossing_bytes"].items()
            if nbytes
        ),
        ("peak memory of the process", bytes_text(peak) if peak is not None else "not told by this system"),
    ]
    width = room() if width is None else width
    name = shortened(Path(report["model"]).name, max(width - _LABELS, 16))
    return table(("", name), rows, right=(name,))


def layer_tables(layers: Sequence[MeasuredLayer], width: int | None = None) -> list[Any]:
    """Build the tables of layers, slowest first, and of their sums by kind and by backend."""
    sums = [_sums_table("kind", sums_by(layers, _kind), layers, width)]
    if len({layer.backend for layer in layers}) > 1:
        sums.append(_sums_table("backend", sums_by(layers, lambda layer: layer.backend), layers, width))
    return [_layers_table(layers, width), *sums]


def _layers_table(layers: Sequence[MeasuredLayer], width: int | None) -> Any:
    told = any(layer.device_seconds is not None for layer in layers)
    several = len({layer.backend for layer in layers}) > 1
    columns = [
        Column("layer", least=24),
        Column("kind", least=18),
        Column("backend", leaves=None if several else 2),
        Column("output", leaves=1),
        *((Column("host", right=True, leaves=4), Column("device", right=True)) if told else (Column("time", right=True),)),
        Column("share", right=True),
        Column("MACs", right=True, leaves=3),
        Column("GFLOP/s", right=True),
        Column("note", leaves=0),
    ]
    return fitted_table(columns, [_cells(layer) for layer in sorted(layers, key=lambda one: -one.seconds)], width)


def _cells(layer: MeasuredLayer) -> dict[str, str]:
    device, copied = layer.device_seconds, layer.copied_bytes
    return {
        "layer": layer.name,
        "kind": _kind(layer),
        "backend": layer.backend,
        "output": ", ".join("x".join(map(str, info.shape)) or "scalar" for info in layer.outputs),
        "time": seconds_text(layer.seconds),
        "host": seconds_text(layer.host_seconds),
        "device": "-" if device is None else seconds_text(device),
        "share": f"{layer.share:.1%}",
        "MACs": _macs_text(layer.macs),
        "GFLOP/s": rate_text(layer.gflops),
        "note": layer.tuned or (f"copies {bytes_text(copied)}" if copied else ""),
    }


def _sums_table(heading: str, sums: Sequence[LayerSum], layers: Sequence[MeasuredLayer], width: int | None) -> Any:
    columns = [
        Column(heading, least=12),
        Column("layers", right=True),
        Column("time", right=True),
        Column("share", right=True),
        Column("MACs", right=True),
        Column("GFLOP/s", right=True),
    ]
    rows = [
        {
            heading: one.name,
            "layers": str(one.layers),
            "time": seconds_text(one.seconds),
            "share": f"{one.share:.1%}",
            "MACs": _macs_text(one.macs),
            "GFLOP/s": rate_text(one.gflops),
        }
        for one in (*sums, sum_of("all", layers))
    ]
    return fitted_table(columns, rows, width)


def noise_lines(noise: Sequence[Mapping[str, str]]) -> list[str]:
    """Say what disturbed a measurement, and what to do; nothing where nothing did."""
    if not noise:
        return []
    advice = dict.fromkeys(word for one in noise for word in one["advice"].split("; "))
    return ["noisy: these times may not be what this machine can do", *(f"  {one['text']}" for one in noise)] + [
        f"  -> {word}" for word in advice
    ]


def source_lines(layers: Sequence[MeasuredLayer]) -> list[str]:
    """Say who measured the times of devices, where their backends say so."""
    told = dict.fromkeys((layer.backend, layer.device_source) for layer in layers if layer.device_source)
    return [f"device times of {printable(backend)}: {printable(source)}" for backend, source in told]


def _kind(layer: MeasuredLayer) -> str:
    """Return a kind without the name of the core, or of the backend, which stands beside it."""
    return layer.kind.removeprefix("dovetail.").removeprefix(f"{layer.backend}.")


def _macs_text(macs: int | None) -> str:
    return "?" if macs is None else count_text(macs) if macs else ""


def rate_text(rate: float | None) -> str:
    """Print a rate: 0.123, 12.3, 123,456; nothing where it is not known."""
    if rate is None:
        return ""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
