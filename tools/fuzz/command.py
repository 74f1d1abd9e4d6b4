"""The command line: `python -m tools.fuzz`, which is what `dev.py fuzz` starts."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import mutants, tflite_mutations
from .campaign import Campaign, replay, write_report
from .executor import CONFIGURATIONS, DEVICES
from .fork_server import Limits
from .mutants import Mutant
from .peers import installed_peer
from .seeds import Seeds, load_seeds
from .tflite_seeds import TfliteSeeds, load_tflite_seeds

FOREVER = 1 << 60


class Format(NamedTuple):
    """What mutants of a format are made of, and how, and what they are run with."""

    load_seeds: Callable[[], Seeds | TfliteSeeds]
    make: Callable[..., Mutant]
    configurations: Mapping[str, Mapping[str, Any]]
    has_peer: bool


FORMATS = {
    "onnx": Format(load_seeds, mutants.make, CONFIGURATIONS, True),
    # Kernels and optimizer are tried with ONNX's files, whose answers a peer and a judge compare;
    # here it is the reading of files.
    "tflite": Format(load_tflite_seeds, tflite_mutations.make, {"CpuRef": CONFIGURATIONS["CpuRef"]}, False),
}


def parser() -> argparse.ArgumentParser:
    """Make the parser of the arguments."""
    made = argparse.ArgumentParser("fuzz", description="Load and run mutated model files in children; 1 if any shows a defect.")
    made.add_argument("--format", choices=sorted(FORMATS), default="onnx", help="of the files (default onnx)")
    made.add_argument("--count", type=int, help="so many mutants (default 2000, or what the minutes allow)")
    made.add_argument("--minutes", type=float, help="stop after so many minutes")
    made.add_argument("--seed", type=int, default=1, help="mutant k of a seed is always the same (default 1)")
    made.add_argument("--start", type=int, default=0, help="number of the first mutant")
    made.add_argument("--jobs", type=int, default=1, help="children at a time")
    made.add_argument("--seconds", type=float, default=10.0, help="processor time of a mutant that counts as a hang")
    made.add_argument("--memory", type=int, default=1024, help="MiB that a mutant may take")
    made.add_argument("--peer", choices=["auto", "none"], default="auto", help="compare with onnxruntime, if installed")
    made.add_argument("--backend", choices=sorted(DEVICES), action="append", default=[], help="compare with a device, too")
    made.add_argument("--artefacts", type=Path, help="folder in which devices keep what they build, for the next run")
    made.add_argument("--corpus", type=Path, help="folder for what is found, minimized")
    made.add_argument("--minimize", type=float, default=30.0, help="seconds for making one finding smaller")
    made.add_argument("--report", type=Path, help="write a summary as JSON")
    made.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="run these model files instead")
    made.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="run these mutants instead, each in its own child")
    made.add_argument("--write", type=Path, help="with --only: write the mutants to this folder")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns 1 if something was found."""
    options = parser().parse_args(arguments)
    logging.disable(logging.CRITICAL)
    kind = FORMATS[options.format]
    seeds = Seeds({}, []) if options.replay and not options.only else kind.load_seeds()
    peer = installed_peer() if options.peer == "auto" and kind.has_peer else None
    limits = Limits(options.seconds, options.memory << 20, max(4 << 30, options.memory << 21))
    with Campaign(
        seeds,
        options.seed,
        jobs=options.jobs,
        limits=limits,
        peer=peer,
        say=_say,
        devices=options.backend,
        artefacts=options.artefacts,
        make=kind.make,
        configurations=kind.configurations,
    ) as campaign:
        if options.replay or options.only:
            return _single(campaign, options)
        begin = time.monotonic()
        until = begin + options.minutes * 60 if options.minutes is not None else None
        count = options.count if options.count is not None else FOREVER if until else 2000
        _say(
            f"{len(seeds.all())} seeds ({seeds.digest}), seed {options.seed}, compared with {peer.name if peer else 'no peer'}"
        )
        report = campaign.run(range(options.start, options.start + count), until)
        if options.corpus:
            campaign.keep(report, options.corpus, options.minimize)
    if options.report:
        write_report(report, options.report)
    return 1 if report.findings else 0


def _single(campaign: Campaign, options: argparse.Namespace) -> int:
    found = False
    for path, outcome in replay(campaign, options.replay or []).items():
        _say(f"{path}: {outcome.signature}\n    {outcome.text}")
        found |= outcome.verdict.is_finding
    for number in options.only or []:
        mutant = campaign.mutant(number)
        outcome = campaign.alone(mutant)
        _say(f"{number} ({', '.join(mutant.made)}): {outcome.signature}\n    {outcome.text}")
        found |= outcome.verdict.is_finding
        if options.write:
            options.write.mkdir(parents=True, exist_ok=True)
            (options.write / f"{number}{mutant.suffix}").write_bytes(mutant.data)
    return 1 if found else 0


def _say(line: str) -> None:
    print(line, flush=True)
    sys.stdout.flush()
