"""Try cases on a backend: many in one network, each judged by itself.

The guilty one of a batch that fails is searched for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dovetail import Constant, DovetailError, DType, Layer, LoadedNetwork, Network, Support
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot
from dovetail.optimizer import Chooser
from dovetail.optimizer.assignment import is_workload

from .cases import Array, Case, Feed, Operator
from .judging import RIGHT, Finding, Rule
from .subject import Subject, described
from .variants import Variant

BATCH = 64
"""Cases in one network: a device may need seconds to compile one."""
FIRST_BATCH = 8
"""Cases in the first network, which tells how long one takes."""
BATCH_SECONDS = 120.0
"""A batch is made smaller if it would take longer: what says nothing for long counts as hung."""
BATCH_RUN_SECONDS = 120.0
"""Longest time of a run of a batch: a vendor's simulator may need seconds for an operation."""
_POISON = 0xA5
"""Every byte of an output before a run, so that what is left unwritten is wrong in any type."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One case, ready to be tried.

    Attributes:
        id: Kind, element type and what differs from the defaults, such as
            "dovetail.Pooling2d/int8/stride=2x2".
        case: What to build, to feed and to expect.
        layer: The layer in a network of its own, for asking and for claims.
        support: What the backend says of the case's layers: yes, or its first refusal.
        rule: How its results are judged.
    """

    id: str
    case: Case
    layer: Layer
    support: Support
    rule: Rule

    @property
    def is_taken(self) -> bool:
        """True if the backend takes all layers of the case."""
        return self.support.supported

    @property
    def described(self) -> str:
        """The layer in one line."""
        return described(self.layer)


def prepare(subject: Subject, operator: Operator, dtype: DType, variant: Variant) -> Trial | None:
    """Make a case and ask the backend about it; None if the parameters make no sense.

    Raises:
        ConformanceFailure: The backend's answer is against the contract.
    """
    id = f"{operator.kind.removeprefix('dovetail.')}/{dtype}/{variant.label}"
    network = Network("case")
    try:
        case = operator.make(variant.parameters, dtype, subject.rng(id))
        if case is None:
            return None
        for number, slot in enumerate(add_case(network, case, "case")[1]):
            network.output(slot, f"output {number}")
    except Exception:
        if variant.invented:  # a step over a claim's boundary may leave what the kind can be
            return None
        raise
    layers = [layer for layer in network.topological_order() if is_workload(layer)]
    answers = [subject.ask(layer) for layer in layers]
    judged = [layer for layer in layers if layer.kind == operator.kind]
    if not judged:
        raise ValueError(f"the case {id} of the kit builds no layer of {operator.kind}")
    support = next((answer for answer in answers if not answer.supported), answers[0])
    return Trial(id, case, judged[0], support, subject.rule_of(judged[0]))


def add_case(graph: Graph, case: Case, prefix: str) -> tuple[dict[str, Feed], Sequence[OutputSlot]]:
    """Add a case to a network; returns its inputs by name, and its outputs."""
    feeds: dict[str, Feed] = {}
    slots: list[OutputSlot | None] = []
    for number, feed in enumerate(case.feeds):
        if feed is None:
            slots.append(None)
            continue
        name = f"{prefix} input {number}"
        dtype = feed.dtype or DType.of(feed.value.dtype)
        if feed.constant:
            slots.append(graph.constant(feed.value, name, dtype=dtype, quantization=feed.quantization, copy=True))
        else:
            feeds[name] = feed
            slots.append(graph.input(name, feed.value.shape, dtype, feed.quantization))
    return feeds, case.build(graph, slots)


class Batch:
    """Cases in one network.

    Args:
        trials: Which; all of them supported.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.trials = list(trials)
        self.network = Network(f"batch of {len(self.trials)}")
        self.feeds: list[dict[str, Feed]] = []
        self.outputs: list[list[str]] = []
        self.dtypes: dict[str, DType] = {}
        self.constants: list[list[tuple[Array, bytes]]] = []
        self.layers: list[set[str]] = []
        for number, trial in enumerate(self.trials):
            before = set(self.network.layers)
            feeds, slots = add_case(self.network, trial.case, f"case {number}")
            added = [layer for layer in self.network.layers if layer not in before]
            values = [layer.descriptor.value for layer in added if isinstance(layer.descriptor, Constant)]
            self.feeds.append(feeds)
            self.constants.append([(value, value.tobytes()) for value in values])
            self.layers.append({layer.name for layer in added if is_workload(layer)})
            names = [f"case {number} output {index}" for index in range(len(slots))]
            for name, slot in zip(names, slots, strict=True):
                self.network.output(slot, name)
                self.dtypes[name] = slot.dtype
            self.outputs.append(names)

    def run(self, loaded: LoadedNetwork, subject: Subject) -> dict[int, Finding]:
        """Run three times: as users do, into poisoned bound arrays, from awkward arrays.

        The result is what is found, by case.
        """
        arrays = {name: feed.value for feeds in self.feeds for name, feed in feeds.items()}
        plain = {name: _fresh(array) for name, array in arrays.items()}
        before = {name: array.tobytes() for name, array in plain.items()}
        found: dict[int, Finding] = {}

        def judge(results: dict[str, Array], how: str) -> None:
            for number in range(len(self.trials)):
                if number in found and found[number].problem:
                    continue
                finding = self.judged(number, results)
                touched = "" if finding.problem else self._touched(number, plain, before)
                if touched:
                    finding = Finding(touched)
                if finding.problem or (finding.text and number not in found):
                    found[number] = replace(finding, text=f"{finding.text}{how}")

        first = loaded.run(plain, timeout=BATCH_RUN_SECONDS)
        judge(first, "")
        poisoned = {name: _poisoned(array) for name, array in first.items()}
        binding = loaded.bind(plain, poisoned)
        second = binding.run(timeout=BATCH_RUN_SECONDS)
        judge(second, ", in a run into bound arrays that held other values before: is every element written, in every run?")
        awkward = {name: awkward_array(array, number) for number, (name, array) in enumerate(arrays.items())}
        judge(
            loaded.run(awkward, timeout=BATCH_RUN_SECONDS),
            ", from read-only inputs that are unaligned or not contiguous: is anything kept from the run before?",
        )
        if subject.backend.capabilities().deterministic:
            self._compare_bits(first, second, found)
        return found

    def judged(self, number: int, results: Mapping[str, Array]) -> Finding:
        """Judge the results of one case."""
        trial, names = self.trials[number], self.outputs[number]
        return trial.rule.judge(trial.case, [results[name] for name in names], [self.dtypes[name] for name in names])

    def _touched(self, number: int, arrays: dict[str, Array], before: dict[str, bytes]) -> str:
        for index, name in enumerate(self.feeds[number]):
            if arrays[name].tobytes() != before[name]:
                return f"the workload wrote to its input {index}, which belongs to the caller"
        for index, (value, content) in enumerate(self.constants[number]):
            if value.tobytes() != content:
                return f"the workload wrote to its constant {index}, which all plans and networks share"
        return ""

    def _compare_bits(self, first: dict[str, Array], second: dict[str, Array], found: dict[int, Finding]) -> None:
        text = "two runs of the same inputs differ in their bits, though the backend says it is deterministic"
        for number, names in enumerate(self.outputs):
            known = found.get(number, RIGHT).problem
            if not known and any(first[name].tobytes() != second[name].tobytes() for name in names):
                found[number] = Finding(text)

    def on_backend(self, loaded: LoadedNetwork, id: str) -> set[int]:
        """Return cases that the backend computes itself: neither folded nor left to the core."""
        mine = {source for row in loaded.placement.layers if row.backend == id for source in row.sources}
        return {number for number, names in enumerate(self.layers) if names & mine}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a trial.

    Attributes:
        trial: Which.
        ran: True if the backend computed it.
        finding: What is wrong with its results.
    """

    trial: Trial
    ran: bool
    finding: Finding = RIGHT

    @property
    def problem(self) -> str:
        """What is wrong; empty if nothing is, or if a declared deviation explains it."""
        return self.finding.problem


def try_all(subject: Subject, trials: Sequence[Trial], *, passes: bool, tuned: bool | Chooser = True) -> Iterator[Outcome]:
    """Try cases in batches; split one that cannot be loaded or run until the guilty case is found.

    Args:
        subject: The backend.
        trials: The cases.
        passes: Let the optimizer and the backend rewrite the network.
        tuned: Who chooses among the ways that the backend offers, as for `dovetail.optimize`.
    """
    start, size = 0, 1 if subject.settings.cautious else FIRST_BATCH
    while start < len(trials):
        subject.require_time(f"{len(trials) - start} cases from {trials[start].id} on")
        part = trials[start : start + size]
        rewritten = ", rewritten by the optimizer" if passes else ""
        subject.step(f"{part[0].id}{f' and {len(part) - 1} more' if len(part) > 1 else ''}{rewritten}")
        begin = time.monotonic()
        yield from _try_batch(subject, part, passes, tuned)
        start += len(part)
        if not subject.settings.cautious:
            seconds = (time.monotonic() - begin) / len(part)
            size = BATCH if seconds * BATCH <= BATCH_SECONDS else max(1, int(BATCH_SECONDS / seconds))


def _try_batch(subject: Subject, trials: Sequence[Trial], passes: bool, tuned: bool | Chooser) -> list[Outcome]:
    problem = ""
    try:
        batch = Batch(trials)
        with subject.load(batch.network, passes=passes, tuned=tuned) as loaded:
            mine = batch.on_backend(loaded, subject.id)
            found = batch.run(loaded, subject)
    except DovetailError as error:
        problem = f"{type(error).__name__} {error}"
    if not problem:
        return [
            Outcome(trial, number in mine or number in found, found.get(number, RIGHT)) for number, trial in enumerate(trials)
        ]
    if len(trials) == 1:
        return [Outcome(trials[0], True, Finding(f"it is accepted, but then: {problem}"))]
    middle = len(trials) // 2
    halves = [outcome for half in (trials[:middle], trials[middle:]) for outcome in _try_batch(subject, half, passes, tuned)]
    if not any(outcome.problem for outcome in halves):
        halves[0] = Outcome(trials[0], True, Finding(f"alone it is right, but with {len(trials) - 1} other cases: {problem}"))
    return halves


def _fresh(array: Array) -> Array:
    return np.array(array, order="C", copy=True)


def _poisoned(like: Array) -> Array:
    result = np.empty(like.shape, like.dtype)
    result.view(np.uint8).fill(_POISON) if result.ndim and result.size else result.reshape(-1).view(np.uint8).fill(_POISON)
    return result


def _strided(array: Array) -> Array:
    wide = np.zeros((*array.shape, 2), array.dtype)
    wide[..., 0] = array
    return wide[..., 0]


def _reversed(array: Array) -> Array:
    return np.asarray(np.flip(np.ascontiguousarray(np.flip(array)).reshape(array.shape)))


def _unaligned(array: Array) -> Array:
    storage = np.zeros(array.nbytes + 1, np.uint8)
    view = storage[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


_AWKWARD: tuple[Callable[[Array], Array], ...] = (_strided, _unaligned, _reversed)


def awkward_array(array: Array, number: int) -> Array:
    """Return the values in a read-only array: strided, unaligned or reversed, by the number."""
    result = _AWKWARD[number % len(_AWKWARD)](array)
    result.flags.writeable = False
    return result
