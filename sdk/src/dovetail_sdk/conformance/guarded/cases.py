"""Random layers with edges first, and random networks.

Each is known by its number, and can be had again without the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from dovetail import DovetailError, DType, Guard, Runtime
from dovetail.graph.graph import Graph

from ..cases import Array, Operator
from ..catalogue import all_operators
from ..endings import NotApplicable
from ..samples import arrays_of
from ..subject import RUN_SECONDS, Subject
from ..trial_graphs import Judge, draw_for, same_bits, styles_of
from ..trials import Batch, Trial, prepare
from ..variants import Variant, label_of, variants

GUARDS = (Guard("end", 0xFF), Guard("start", 0x5A))
"""How each case is run.

First its ends are at a page and memory is full of NaN, then its starts, and memory is full of
numbers."""

_EDGES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 23, 31, 32, 33, 47, 48, 49, 63, 64, 65, 79)
_SMALL = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17)
_RANDOM_SIZES: Mapping[str, Sequence[int]] = {
    "batch": (0, 1, 2, 3),
    "height": _SMALL,
    "width": (*_SMALL, 31, 33),
    **dict.fromkeys(("channels", "filters", "rows", "inner", "columns", "inputs", "outputs"), _EDGES),
    **dict.fromkeys(("kernel height", "kernel width"), (1, 2, 3, 4, 5, 7)),
    "stride": (1, 2, 3, 4, 5),
    "padding": (0, 1, 2, 3, 4),
    "dilation": (1, 2, 3),
    "size": (1, 2, 3, 4, 5, 7),
}
"""Sizes beyond those of the operators' modules, by parameter: vector widths, one less, one more."""
_CHANNELS = (1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 40)
_FORMS = ("mixed", "deep", "diamond", "batchwise")
_TRIES = 12
"""Parameters tried for a case, before one that is known to be taken is used."""


Taken: TypeAlias = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class GuardedCase:
    """A network to be run between inaccessible pages.

    Attributes:
        id: Its number, such as "operator/12".
        text: What it computes: layers, element types, shapes.
        network: The network.
        feeds: For its inputs.
        problem: Says what is wrong with results; nothing if they are right.
        passes: The optimizer and the backend rewrite it.
        threads: How many it runs on.
    """

    id: str
    text: str
    network: Graph
    feeds: Mapping[str, Array]
    problem: Any
    passes: bool
    threads: int


class Cases:
    """Makes the cases of one backend and runs them.

    Args:
        subject: The backend.
        taken: What `taken` said in another process.
    """

    def __init__(self, subject: Subject, taken: Taken | None = None) -> None:
        self.subject = subject
        self._runtimes: dict[tuple[Guard, int], Runtime] = {}
        self._operators = all_operators(subject.settings.operators)
        self._known: dict[tuple[str, DType], Trial | None] = {}
        if taken is not None:
            self.taken = taken

    @cached_property
    def taken(self) -> Taken:
        """Names of the element types that a backend takes, by kind; looked for once, being slow."""
        found = {}
        for kind, operator in self._operators.items():
            names = [dtype.name for dtype in operator.dtypes if self._first(operator, dtype) is not None]
            if names:
                found[kind] = names
        if not found:
            raise NotApplicable("it takes no case of any operator module")
        return found

    def make(self, id: str) -> GuardedCase:
        """Make a case anew.

        Raises:
            NotApplicable: The backend takes nothing that it could be made of.
            ValueError: There is no such case.
        """
        what, _, number = id.partition("/")
        if what not in ("operator", "network") or not number.isdecimal():
            raise ValueError(f"{id!r} is no guarded case: write operator/12 or network/3")
        return self._operator(int(number)) if what == "operator" else self._network(int(number))

    def run(self, case: GuardedCase) -> str:
        """Run a case with each guard; return what is wrong.

        A kernel that leaves its tensors ends the process.
        """
        results = []
        try:
            for guard in GUARDS:
                with self.subject.load(
                    case.network, runtime=self._runtime(guard, case.threads), passes=case.passes, threads=case.threads
                ) as net:
                    results.append(net.run(dict(case.feeds), timeout=RUN_SECONDS))
        except DovetailError as error:
            return f"{type(error).__name__} {error}"
        wrong: str = case.problem(results[0]) or case.problem(results[1])
        different = same_bits(*results)
        if different and self.subject.backend.capabilities().deterministic:
            told = f"; and {wrong}" if wrong else ""
            return f"output {different!r} changes with what lies in memory that nobody wrote, or with addresses{told}"
        return wrong

    def _runtime(self, guard: Guard, threads: int) -> Runtime:
        if (guard, threads) not in self._runtimes:
            self._runtimes[guard, threads] = self.subject.runtime(threads=threads, guard=guard)
        return self._runtimes[guard, threads]

    # -- single layers -----------------------------------------------------------------------------

    def _first(self, operator: Operator, dtype: DType) -> Trial | None:
        """Return a case that is taken, if one is near the operator's defaults or in the claims."""
        key = (operator.kind, dtype)
        if key not in self._known:
            claims = self.subject.claims_of(operator.kind)
            trials = (prepare(self.subject, operator, dtype, one) for one in variants(operator, dtype, claims)[:_TRIES])
            self._known[key] = next((trial for trial in trials if trial is not None and trial.is_taken), None)
        return self._known[key]

    def _operator(self, number: int) -> GuardedCase:
        random = self.subject.rng(f"guarded/operator/{number}")
        kind = list(self.taken)[number % len(self.taken)]
        trial = self._drawn(self._operators[kind], [DType[name] for name in self.taken[kind]], random)
        batch = Batch([trial])

        def problem(results: Mapping[str, Array]) -> str:
            return batch.judged(0, results).problem

        passes, threads = bool(random.integers(2)), int(random.choice([1, 1, 2]))
        return GuardedCase(
            f"operator/{number}",
            _told(trial.described, passes, threads),
            batch.network,
            arrays_of(batch),
            problem,
            passes,
            threads,
        )

    def _drawn(self, operator: Operator, dtypes: Sequence[DType], random: np.random.Generator) -> Trial:
        dtype = dtypes[0] if random.random() < 0.4 else dtypes[int(random.integers(len(dtypes)))]
        defaults = {name: values[0] for name, values in operator.parameters.items()}
        for _ in range(_TRIES):
            parameters = _parameters(operator, random)
            trial = prepare(self.subject, operator, dtype, Variant(parameters, label_of(parameters, defaults), invented=True))
            if trial is not None and trial.is_taken:
                return trial
        known = self._first(operator, dtype)
        assert known is not None  # `taken` found it
        return known

    # -- networks ----------------------------------------------------------------------------------

    def _network(self, number: int) -> GuardedCase:
        random = self.subject.rng(f"guarded/network/{number}")
        styles = styles_of(self.subject)
        known = styles[number % len(styles)][0]
        for attempt in range(_TRIES):
            style = known if attempt == _TRIES - 1 else replace(known, channels=int(random.choice(_CHANNELS)))
            graph = draw_for(self.subject, style, random, form=str(random.choice(_FORMS)))
            if graph.layers:
                break
        else:
            raise NotApplicable("no network can be made of the layers that it takes")
        graph.network.name = f"guarded_{number}"
        passes, threads = bool(random.integers(4)), int(random.choice([1, 1, 2]))
        kinds = ", ".join(graph.network.layer(name).kind.removeprefix("dovetail.") for name in graph.layers)
        text = _told(f"{style}: {kinds}", passes, threads)
        problem = Judge(graph, "between inaccessible pages").problem
        return GuardedCase(f"network/{number}", text, graph.network, graph.feeds, problem, passes, threads)


def _told(text: str, passes: bool, threads: int) -> str:
    return f"{text}{', rewritten' if passes else ''}, {threads} thread{'s' if threads > 1 else ''}"


def _parameters(operator: Operator, random: np.random.Generator) -> dict[str, Any]:
    """Draw parameters: the operator's own values, and sizes around the widths of vectors."""
    parameters = {name: values[0] for name, values in operator.parameters.items()}
    if operator.together and random.random() < 0.4:
        parameters.update(operator.together[int(random.integers(len(operator.together)))])
    for name, values in operator.parameters.items():
        luck = random.random()
        if luck < 0.25:
            parameters[name] = values[int(random.integers(len(values)))]
        elif luck < 0.55 and name in _RANDOM_SIZES:
            like = parameters[name]
            sizes = [int(one) for one in random.choice(_RANDOM_SIZES[name], len(like) if isinstance(like, tuple) else 1)]
            parameters[name] = tuple(sizes) if isinstance(like, tuple) else sizes[0]
    return parameters
