"""A whole run: which peers are there, every model with every thread count, one report."""

from __future__ import annotations

import logging
import platform
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

import dovetail
from dovetail import BackendUnavailableError, DovetailError

from . import machine
from .measuring import Contestant, Settings, compare_runtimes
from .peak import PeakError, PeakMeter
from .peers import DOVETAIL, Peer, absent_reason, versions_of
from .problem import read_problem
from .results import Comparison, Report

logger = logging.getLogger("dovetail.sdk")


class NoPeersError(BackendUnavailableError):
    """None of the peers that were asked for is installed."""


def measure(
    models: Sequence[Path],
    peers: Sequence[Peer],
    threads: Sequence[int],
    settings: Settings,
    *,
    command: str = "",
    python: str | None = None,
    dovetail_options: Mapping[str, Any] | None = None,
    shape: Mapping[str, tuple[int, ...]] | None = None,
    after: Callable[[Report], None] = lambda report: None,
    step: Callable[[], None] = lambda: None,
) -> Report:
    """Measure dovetail and peers on models.

    Args:
        models: ONNX files.
        peers: Those asked for; what is not installed is noted and left out.
        threads: Each number of CPU threads.
        settings: How.
        command: The command line, for the report.
        python: Interpreter that has the peers, this one by default.
        dovetail_options: `backends` and `options`, as for `dovetail.load`.
        shape: Shapes and sizes by name, for models whose inputs are then random.
        after: Called with the report after each comparison, so that an interrupted run leaves
            something.
        step: Called for each block: models times threads times rounds times runtimes, what is left
            out included.

    Raises:
        NoPeersError: Peers were asked for, and none is there.
        OptionError: `python` cannot run peers.
    """
    interpreter = python or sys.executable
    pythons = {peer.name: sys.executable if peer.ours else interpreter for peer in peers}
    versions = {
        name: version
        for python in dict.fromkeys(pythons.values())
        for name, version in versions_of([peer for peer in peers if pythons[peer.name] == python], python).items()
    }
    present = [peer for peer in peers if versions[peer.name] is not None]
    absent = [f"{peer.name}: {absent_reason(peer, pythons[peer.name])}" for peer in peers if versions[peer.name] is None]
    if peers and not present:
        raise NoPeersError(
            f"none of the runtimes to compare with is there: {', '.join(peer.name for peer in peers)}",
            hint="\n     ".join(absent),
        )
    report = Report(
        date=datetime.now().astimezone().isoformat(timespec="seconds"),
        command=command,
        machine=machine.describe(),
        versions={
            "dovetail": dovetail.__version__,
            "Python": platform.python_version(),
            **{peer.name: str(versions[peer.name]) for peer in present},
        },
        settings={
            "rounds": settings.rounds,
            "block_seconds": settings.block_seconds,
            "starts": settings.starts,
            "threads": list(threads),
            **(dovetail_options or {}),
        },
        notes=absent,
    )
    for note in absent:
        logger.warning("note: %s", note)
    ours = Contestant(DOVETAIL, sys.executable, dict(dovetail_options or {}))
    contestants = [ours, *(Contestant(peer, pythons[peer.name]) for peer in present)]
    with tempfile.TemporaryDirectory(prefix="dovetail-versus-") as name:
        folder = Path(name)
        meter = _meter(folder, report)
        for model in models:
            try:
                problem = read_problem(model, shape or {})
            except (DovetailError, click.UsageError, OSError) as error:
                report.failures[model.name] = str(error) if isinstance(error, OSError) else error.message
                after(report)
                continue
            for count in threads:
                comparison = compare_runtimes(problem, contestants, count, settings, folder, meter, step)
                report.comparisons.append(comparison)
                _tell(comparison)
                after(report)
    return report


def _meter(folder: Path, report: Report) -> PeakMeter | None:
    try:
        meter = PeakMeter(folder)
        meter.measure(1)
    except PeakError as error:
        report.notes.append(f"percent of peak is left out: {error.message}{f'; {error.hint}' if error.hint else ''}")
        return None
    return meter


def _tell(comparison: Comparison) -> None:
    best, what = comparison.best_peer, f"{comparison.model}, {comparison.threads} thread{'s' * (comparison.threads > 1)}"
    ratio = comparison.ratio(best)
    logger.info("%s: %s", what, f"{best.runtime} / dovetail {ratio:.3g}" if best and ratio else "measured")
    for entry in comparison.entries:
        if entry.reason:
            logger.info("  %s: %s", entry.runtime, entry.reason)
