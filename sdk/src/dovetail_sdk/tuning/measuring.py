"""Measure the ways to compute that backends offer, inside the network that they are for.

A part alone would find its weights in the cache each time, and whatever trades multiplications for
larger weights would win. So the whole network is loaded several times, number i with the i-th way
of every part (the default of those that have fewer), and these networks take turns: a block of runs
each, in rounds; the first run of a block is not counted. What is compared is the least time of a
part's own steps: of the device where it tells when it worked, else of the host. Last, the network
with all winners is run against the untuned one; if it is not faster as a whole, the defaults stay.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import dovetail
from dovetail.contract.part_facts import part_facts
from dovetail.contract.subgraph import Choice
from dovetail.graph.descriptor import Array
from dovetail.graph.layer import Layer
from dovetail.ground.errors import ErrorCode, OptionError
from dovetail.ground.progress import Listener, listening, report
from dovetail.optimizer.tuned_choices import Finding, Findings
from dovetail.optimizer.tuned_keys import Surroundings

from .interference import busy_now, is_disturbed
from .report import LayerTuning, TuningReport

if TYPE_CHECKING:
    from dovetail import Network
    from dovetail.optimizer import Assigned
    from dovetail.optimizer.candidates import BackendLike
    from dovetail.runtime import LoadedNetwork, Runtime

ROUNDS = 10
"""Turns of each way."""
MIN_ROUNDS = 3
"""With fewer nothing is concluded."""
BLOCK_SECONDS, MIN_RUNS, MAX_RUNS = 0.05, 2, 200
"""Length of a turn."""
REPEATS = 60
"""Of turns in which other processes took CPU time, in one tuning."""
MIN_GAIN = 1.03
"""What is not faster by so much may be so by chance."""


class _Subject(NamedTuple):
    """One choice in one loaded network: what is to be known of it, without keeping its weights.

    Attributes:
        key, facts: What it is known by; no facts if nothing can be kept.
        id: Of the backend.
        names: The ways, the default first.
        sources: Layers of the original network.
        name: The way that is taken.
        layers: What computes it that way.
    """

    key: str
    facts: Mapping[str, Any] | None
    id: str
    names: tuple[str, ...]
    sources: tuple[str, ...]
    name: str
    layers: tuple[str, ...] = ()

    @property
    def default(self) -> str:
        return self.names[0]


class _Survey:
    """Chooses way `number` of each part, or the known one; a `Chooser` that notes its offers.

    Those of backends that are `blind` it leaves alone.
    """

    def __init__(
        self,
        number: int,
        threads: int,
        known: Mapping[str, Finding],
        findings: Findings | None,
        blind: frozenset[str] = frozenset(),
    ) -> None:
        self.number, self.threads, self.blind = number, threads, blind
        self.known = dict(known)
        self.findings = findings
        self.subjects: list[_Subject] = []
        self.asynchronous: set[str] = set()
        self._surroundings: dict[Assigned, Surroundings] = {}
        self._waiting: dict[tuple[Layer, ...], int] = {}

    def wants(self, candidate: Assigned) -> bool:
        id = str(candidate.backend.id)
        if id in self.blind:
            return False
        if candidate.backend.capabilities().asynchronous:
            self.asynchronous.add(id)
        self._surroundings[candidate] = Surroundings(candidate, self.threads)
        return True

    def choose(self, candidate: Assigned, choice: Choice) -> str:
        surroundings = self._surroundings[candidate]
        key, id = surroundings.key(choice), str(candidate.backend.id)
        if key not in self.known and self.findings is not None and surroundings.facts is not None:
            finding = self.findings.read(id, key, choice.names)
            if finding is not None:
                self.known[key] = finding
        if key in self.known:
            name = self.known[key].winner
        else:
            name = choice.names[self.number] if self.number < len(choice.names) else choice.taken
        # Looked at now: what is replaced is no longer joined to anything.
        facts = None if surroundings.facts is None else {**surroundings.facts, "part": part_facts(choice.part)}
        self._waiting[choice.part.layers] = len(self.subjects)
        self.subjects.append(_Subject(key, facts, id, choice.names, choice.part.sources, name))
        return name

    def placed(self, choice: Choice, name: str, layers: tuple[str, ...]) -> None:
        place = self._waiting.pop(choice.part.layers)
        self.subjects[place] = self.subjects[place]._replace(layers=layers)

    @property
    def ways(self) -> int:
        """The most ways that an unknown part has; 1 if there is nothing to find out."""
        return max((len(one.names) for one in self.subjects if one.key not in self.known), default=1)


class _Turn(NamedTuple):
    """A loaded network that takes turns with others."""

    network: LoadedNetwork
    subjects: Sequence[_Subject]


class _Progress:
    """Tells whoever listens how far tuning is: loading, measuring, comparing."""

    def __init__(self) -> None:
        self.id = ""
        self.low, self.high, self.done, self.total = 0.0, 0.2, 0, 1

    @property
    def fraction(self) -> float:
        return self.low + (self.high - self.low) * self.done / self.total

    def begin(self, low: float, high: float, total: int) -> None:
        self.low, self.high, self.done, self.total = low, high, 0, max(total, 1)

    def step(self, what: str) -> None:
        self.done += 1
        report(self.id, self.fraction, what)


def tune(
    model: str | os.PathLike[str] | Network,
    backends: Sequence[BackendLike] | BackendLike | None = None,
    *,
    threads: int | None = None,
    shapes: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    rounds: int = ROUNDS,
    again: bool = False,
    runtime: Runtime | None = None,
    progress: Listener | None = None,
    **optimize_options: Any,
) -> TuningReport:
    """Find the fastest way to compute each layer on this machine, and keep it for every later load.

    It needs the machine for itself, and memory for the network once for each way. When it is
    interrupted, what was found until then is kept. What was found earlier is not measured again.

    Args:
        model: A model file, or a network.
        backends: In order of preference, as for `dovetail.load`.
        threads: Number of CPU threads that what is found is for; default all of the runtime.
        shapes: Sizes of symbolic dimensions; what is found holds for layers of the same shapes, in
            any network.
        options: Options of backends, that what is found is for.
        rounds: Turns of each way, 3 or more.
        again: Measure also what is known.
        runtime: Where to load the network; default one runtime for the whole process.
        progress: Called with (backend id, fraction, what); what it raises ends the tuning.
        optimize_options: Further arguments of `dovetail.optimize`.

    Raises:
        DovetailError: The network cannot be loaded, or symbolic sizes are open (`SHAPE_UNKNOWN`).
    """
    if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < MIN_ROUNDS:
        raise OptionError(
            f"rounds={rounds!r} is no number of turns", code=ErrorCode.OPTION_INVALID, hint=f"{MIN_ROUNDS} or more"
        )
    if runtime is None:
        from dovetail.runtime import default_runtime

        runtime = default_runtime()
    if isinstance(model, str | os.PathLike):
        model = dovetail.parse(model)
    given = {"backends": backends, "shapes": shapes, "options": options}
    constraints = {name: value for name, value in given.items() if value is not None} | optimize_options
    with ExitStack() as loaded, listening(progress):
        return _Tuning(model, runtime, threads, constraints, rounds, loaded, progress).run(again=again)


class _Tuning:
    """One call of `tune`."""

    def __init__(
        self,
        model: Network,
        runtime: Runtime,
        threads: int | None,
        constraints: dict[str, Any],
        rounds: int,
        loaded: ExitStack,
        listener: Listener | None,
    ) -> None:
        self.model, self.runtime, self.constraints, self.rounds = model, runtime, constraints, rounds
        self.threads = min(threads or runtime.threads, runtime.threads)
        self.wanted_threads = threads
        self.loaded = loaded
        self.listener = listener
        self.repeats = REPEATS
        self.findings = Findings()
        self.progress = _Progress()
        self.notes: dict[str, None] = {}
        self._is_kept = True
        self.blind: frozenset[str] = frozenset()

    def run(self, *, again: bool) -> TuningReport:
        survey = _Survey(0, self.threads, {}, None if again else self.findings)
        untuned = self._load(survey)
        self._leave_out_blind(survey, untuned)
        if survey.subjects:
            self.progress.id = survey.subjects[0].id
        known = dict(survey.known)
        before = after = None
        if survey.ways > 1:
            turns = [_Turn(untuned, survey.subjects)]
            self.progress.begin(0.0, 0.2, survey.ways - 1)
            for number in range(1, survey.ways):
                other = _Survey(number, self.threads, known, None, self.blind)
                turns.append(_Turn(self._load(other), other.subjects))
                self.progress.step("loading")
            found = self._measured(turns, known)
            self.loaded.close()  # no more memory than for two of them at a time is needed from here on
            before, after = self._compared(known | found)
            if before is not None and after is not None and after >= before:
                self.notes["the network as a whole is not faster with the winners: the defaults stay"] = None
                found = self._defaults(survey.subjects, found)
            known |= found
        return TuningReport(
            self.model.name,
            self.threads,
            tuple(_row(one, known[one.key], one.key not in survey.known) for one in survey.subjects),
            before,
            after,
            self.findings.folder if self._is_kept else None,
            tuple(self.notes),
        )

    def _leave_out_blind(self, survey: _Survey, untuned: LoadedNetwork) -> None:
        """Measure nothing of asynchronous backends whose devices do not tell when they worked.

        Their steps end when they are enqueued: the times of the host say nothing.
        """
        plan = untuned.plan  # raises if sizes are open
        told = {step.backend for step in plan.steps if step.queue is not None and plan.queues[step.queue][0].tells_spans}
        self.blind = frozenset(survey.asynchronous - told)
        for id in sorted({one.id for one in survey.subjects} & self.blind):
            self.notes[f"{id} is asynchronous, and tells no times of its device: its choices cannot be measured"] = None
        survey.subjects = [one for one in survey.subjects if one.id not in self.blind]

    def _load(self, chooser: _Survey | bool) -> LoadedNetwork:
        network = dovetail.load(
            self.model,
            runtime=self.runtime,
            threads=self.wanted_threads,
            **{**self.constraints, "tuned": chooser, "progress": self._heard},
        )
        return self.loaded.enter_context(network)

    def _heard(self, backend: str, fraction: float, what: str) -> None:
        """Pass on what a backend says while it compiles; the progress of tuning stays the same."""
        if self.listener is not None:
            self.listener(backend, self.progress.fraction, what)

    def _measured(self, turns: Sequence[_Turn], known: Mapping[str, Finding]) -> dict[str, Finding]:
        """Measure all ways alternating; what was found is kept, also when it is interrupted."""
        samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        unknown = {one.key: one for one in turns[0].subjects if one.key not in known}
        feeds = _feeds(turns[0].network)
        self.progress.begin(0.2, 0.8, self.rounds * len(turns))
        found: dict[str, Finding] = {}
        try:
            for number in range(self.rounds):
                for index in range(len(turns)):
                    turn = turns[(index + number) % len(turns)]
                    times, _ = self._block(turn.network, feeds)
                    for key, name, seconds in _times_of(turn.subjects, times):
                        before = samples[key][name]
                        if len(before) == number:
                            before.append(seconds)
                        else:  # the default of a part with fewer ways is measured in several networks
                            before[number] = min(before[number], seconds)
                    self.progress.step(f"round {number + 1} of {self.rounds}")
        finally:
            for key, one in unknown.items():
                found.update(self._concluded(key, one, samples[key]))
        return found

    def _concluded(self, key: str, one: _Subject, samples: Mapping[str, Sequence[float]]) -> dict[str, Finding]:
        complete = min((len(samples.get(name, ())) for name in one.names), default=0)
        if complete < MIN_ROUNDS:
            return {}
        minimum = {name: min(samples[name][:complete]) for name in one.names}
        winner, default = min(minimum, key=minimum.__getitem__), one.default
        wins = sum(a < b for a, b in zip(samples[winner][:complete], samples[default][:complete], strict=True))
        if minimum[winner] * MIN_GAIN > minimum[default] or 2 * wins <= complete:
            winner = default
        finding = Finding(winner, minimum, one.facts or {})
        self._keep(key, one, finding)
        return {key: finding}

    def _keep(self, key: str, one: _Subject, finding: Finding) -> None:
        problem = "the backend has no files to know it by"
        if one.facts is not None:
            problem = self.findings.keep(one.id, key, finding)
        if problem:
            self._is_kept = False
            self.notes[f"what was found for {one.id} is not kept: {problem}"] = None

    def _defaults(self, subjects: Sequence[_Subject], found: Mapping[str, Finding]) -> dict[str, Finding]:
        settled = {}
        for one in subjects:
            if one.key in found:
                finding = found[one.key]
                settled[one.key] = Finding(one.default, finding.seconds, finding.facts)
                self._keep(one.key, one, settled[one.key])
        return settled

    def _block(self, network: LoadedNetwork, feeds: dict[str, Array]) -> tuple[dict[str, float], float]:
        """Take a turn, and again while disturbed, if worth it; return what `_block` does."""
        while True:
            busy, own, begin = busy_now(), process_time(), perf_counter()
            result = _block(network, feeds)
            later, own, wall = busy_now(), process_time() - own, perf_counter() - begin
            if busy is None or later is None or not is_disturbed((later - busy - own) / wall, self.threads):
                return result
            if self.repeats == 0:
                self.notes["other processes took CPU time while it was measured: what was found may be by chance"] = None
                return result
            self.repeats -= 1

    def _compared(self, findings: Mapping[str, Finding]) -> tuple[float | None, float | None]:
        """Run the network untuned and with all winners, alternating.

        The result is the least times, None if the two are the same.
        """
        survey = _Survey(0, self.threads, findings, None, self.blind)
        tuned = self._load(survey)
        if all(one.name == one.default for one in survey.subjects):
            return None, None
        both = (self._load(False), tuned)
        feeds = _feeds(tuned)
        minimum = [math.inf, math.inf]
        self.progress.begin(0.8, 1.0, 2 * self.rounds)
        for number in range(self.rounds):
            for index in (number % 2, 1 - number % 2):
                minimum[index] = min(minimum[index], self._block(both[index], feeds)[1])
                self.progress.step("comparing the whole network")
        return minimum[0], minimum[1]


def _row(one: _Subject, finding: Finding, is_new: bool) -> LayerTuning:
    return LayerTuning(one.layers, one.sources, one.id, one.default, finding.winner, finding.seconds, is_new)


def _feeds(network: LoadedNetwork) -> dict[str, Array]:
    """Make inputs: random from 0 to 1 for floats, else zeros, since these may be positions."""
    random = np.random.default_rng(0)
    feeds = {}
    for spec in network.plan.inputs.specs:
        dtype = spec.dtype.numpy
        feeds[spec.name] = random.random(spec.shape).astype(dtype) if dtype.kind == "f" else np.zeros(spec.shape, dtype)
    return feeds


def _block(network: LoadedNetwork, feeds: dict[str, Array]) -> tuple[dict[str, float], float]:
    """Run a network for a while; return the least seconds of each step, by name, and of a run."""
    network.run(feeds)  # the turn before left its own weights in the caches
    times: list[float] = []
    with network.profiling() as profile:
        while len(times) < MIN_RUNS or (sum(times) < BLOCK_SECONDS and len(times) < MAX_RUNS):
            begin = perf_counter()
            network.run(feeds)
            times.append(perf_counter() - begin)
    return {layer.name: layer.least_ns / 1e9 for layer in profile.layers}, min(times)


def _times_of(subjects: Sequence[_Subject], times: Mapping[str, float]) -> Iterator[tuple[str, str, float]]:
    """Yield (key, name, seconds) for each kind of part: the mean over those that are alike."""
    alike: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in subjects:
        # A step that has nothing left to do is gone: it takes no time.
        alike[one.key, one.name].append(sum(times.get(layer, 0.0) for layer in one.layers))
    for (key, name), seconds in alike.items():
        yield key, name, sum(seconds) / len(seconds)
