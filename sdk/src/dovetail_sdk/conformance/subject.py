"""The backend under test, as checks see it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from dovetail import (
    BackendError,
    Device,
    IBackend,
    Layer,
    LoadedNetwork,
    OptimizedNetwork,
    OptionError,
    Runtime,
    Support,
    optimize,
)
from dovetail.contract.claims import Claim, Claims, ClaimsError
from dovetail.contract.promises import NOTHING, Deviation, Promises, read_promises
from dovetail.graph.graph import Graph
from dovetail.optimizer import CompileRequest, NetworkSource, build_options
from dovetail.optimizer.assignment import is_workload

from .endings import BudgetExhausted, ConformanceFailure, Event
from .judging import Rule, rule_of
from .target import Target

if TYPE_CHECKING:
    from dovetail.runtime.plan_snapshot import PlanSnapshots, Snapshot

    from .cases import Operator

SEED = 0
RUN_SECONDS = 30.0
"""Longest time of a single run of a small network; the runtime then ends it with an error."""


@dataclass(frozen=True)
class Settings:
    """How a backend is tested.

    Attributes:
        options: Options of the backend, by name.
        seed: Of all random numbers.
        deadline: When the whole run should be over, on the clock of `time.monotonic`; None for
            never.
        cautious: One case a network, so that a crash names its case.
        operators: How further kinds are judged, such as a vendor's own.
        kinds: Where samples of what the backend takes are looked for; empty for all.
        tolerate: Ids, or globs over ids, of cases that are known to fail; they do not fail their
            check.
        late_failure: Options under which work that was enqueued fails on the device; None for those
            that the manifest names.
        bit_exact: Hold results to the bits that standards define even where they are not promised.
        isolate: Networks of the backend are loaded in a process of its own.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = SEED
    deadline: float | None = None
    cautious: bool = False
    operators: Sequence[Operator] = ()
    kinds: Sequence[str] = ()
    tolerate: Sequence[str] = ()
    late_failure: Mapping[str, Any] | None = None
    bit_exact: bool = False
    isolate: bool = False


class Subject:
    """The backend under test, for one check. Runtimes made here are closed when the check ends.

    Attributes:
        target: What is tested, with its row and manifest.
        backend: The backend.
        settings: Options, seed, deadline.
    """

    def __init__(self, target: Target, settings: Settings | None = None, emit: Callable[[Event], None] | None = None) -> None:
        self.target = target
        self.backend = target.backend
        self.settings = settings or Settings()
        self._emit = emit or (lambda event: None)
        self._runtimes: list[Runtime] = []

    # -- what it is --------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The backend's id."""
        return str(self.backend.id)

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the backend, by name, as its users would give them."""
        return self.settings.options

    @cached_property
    def device(self) -> Device:
        """The device that is tested; one without facts where the backend has none."""
        devices = self.backend.devices()
        return devices[self.target.device] if devices else Device()

    @cached_property
    def built_options(self) -> Any:
        """An instance of the backend's `options_type`.

        Raises:
            ConformanceFailure: It cannot be built, which is the vendor's fault or that of the
                options given.
        """
        try:
            return build_options(self.backend, self.options or None)
        except (BackendError, OptionError) as error:
            raise ConformanceFailure(f"the options {dict(self.options)} cannot be built: {error}") from error

    @cached_property
    def claims(self) -> Claims | None:
        """What the manifest claims; None for no claims or malformed ones, which level 0 reports."""
        try:
            return self.backend.claims
        except ClaimsError:
            return None

    @cached_property
    def promises(self) -> Promises:
        """What the manifest promises; nothing if that is malformed, which level 0 reports."""
        try:
            return read_promises(self.target.manifest)
        except ClaimsError:
            return NOTHING

    def rule_of(self, layer: Layer) -> Rule:
        """Return how the results of a layer are judged."""
        return rule_of(self.promises, layer, self.device, bit_exact=self.settings.bit_exact)

    def deviations_of(self, layer: Layer) -> Sequence[Deviation]:
        """Return the deviations that the manifest declares for a layer."""
        return self.promises.deviations_of(layer, self.device)

    def claims_of(self, kind: str) -> tuple[Claim, ...]:
        """Return what the manifest claims of a kind."""
        return () if self.claims is None else self.claims.get(kind, ())

    def claimed(self, layer: Layer) -> bool:
        """Tell whether the manifest claims a layer on the device that is tested."""
        return self.claims is not None and self.claims.support(layer, self.device).supported

    @property
    def rewrites(self) -> bool:
        """Whether `optimize_subgraph` is overridden: its results for networks are judged too."""
        return type(self.backend).optimize_subgraph is not IBackend.optimize_subgraph

    # -- asking and loading ------------------------------------------------------------------------

    def rng(self, name: str) -> np.random.Generator:
        """Return a generator seeded by the run's seed and a name.

        So one case can be repeated without the others.
        """
        digest = hashlib.sha256(f"{self.settings.seed}/{name}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "little"))

    def runtime(self, **arguments: Any) -> Runtime:
        """Return a runtime that closes when the check ends; for arguments see `Runtime`."""
        runtime = Runtime(**arguments)
        self._runtimes.append(runtime)
        return runtime

    def forget(self, runtime: Runtime) -> None:
        """Leave a runtime to the collector, for a check of what happens when nobody closes it."""
        self._runtimes.remove(runtime)

    @cached_property
    def _own_runtime(self) -> Runtime:
        return self.runtime()

    def load(
        self,
        network: Graph,
        *,
        extra_backends: Sequence[str | IBackend] = (),
        passes: bool = True,
        fallback: bool = False,
        runtime: Runtime | None = None,
        threads: int | None = None,
        snapshots: PlanSnapshots | None = None,
        **keywords: Any,
    ) -> LoadedNetwork:
        """Load a network with this backend first, in a private runtime.

        Args:
            network: What to load.
            extra_backends: Backends after this one.
            passes: Let the optimizer rewrite the network; else only what is needed to run at all.
            fallback: Let layers fall back to `extra_backends`.
            runtime: Another than the check's own.
            threads: At most this many of the runtime's threads.
            snapshots: Where its plans are kept.
            keywords: Further arguments of `dovetail.optimize`.

        Raises:
            DovetailError: Whatever loading reports.
        """
        arguments = self._arguments(extra_backends, {"passes": passes, "fallback": fallback, **keywords})
        used = runtime or self._own_runtime
        return used.load(network, threads=threads, optimize=arguments, snapshots=snapshots)  # type: ignore[arg-type]  # a Graph has all that is used

    def restore(self, snapshot: Snapshot, source: NetworkSource, snapshots: PlanSnapshots) -> LoadedNetwork:
        """Load a network from what was written down when this backend loaded it alone.

        Raises:
            DovetailError: Whatever restoring reports.
        """
        asked = CompileRequest.of(self._arguments((), {"fallback": False}))
        return self._own_runtime.restore(snapshot, source, snapshots, optimize=asked)

    def optimize(self, network: Graph, **keywords: Any) -> OptimizedNetwork:
        """Optimize a network for this backend alone; `keywords` are further arguments of that."""
        return optimize(network, **self._arguments((), {"fallback": False, **keywords}))

    def _arguments(self, extra_backends: Sequence[str | IBackend], keywords: Mapping[str, Any]) -> dict[str, Any]:
        # An oracle's results would say nothing of this backend.
        arguments = {"backends": [self.target.asked_for, *extra_backends], "oracle": False, **keywords}
        if self.settings.isolate:
            arguments["isolate"] = [self.id]
        if self.options:
            arguments["options"] = {self.id: self.options, **keywords.get("options", {})}
        return arguments

    def ask(self, layer: Layer) -> Support:
        """Ask about one layer, all of whose infos are known.

        Raises:
            ConformanceFailure: The answer is against the contract: it raised, is no `Support`, or
                refuses without code or text.
        """
        newer = layer.descriptor.newer_attributes(self.backend.kind_versions.get(layer.kind, 1))
        if newer:  # the core refuses on the backend's behalf
            return Support.no("version", f"{', '.join(newer)} came later than the version it knows", newer[0])
        try:
            answer = self.backend.supports(layer, self.built_options, self.device)
        except Exception as error:
            raise ConformanceFailure(
                f"supports() raised {type(error).__name__} for {described(layer)}: {error}; it must answer, never raise"
            ) from error
        if not isinstance(answer, Support):
            raise ConformanceFailure(f"supports() returned {answer!r} for {described(layer)}, not a Support")
        if not answer.supported and not (_is_text(answer.code) and _is_text(answer.reason)):
            raise ConformanceFailure(
                f"supports() refused {described(layer)} without a code and a reason; "
                f"it said code={answer.code!r}, reason={answer.reason!r}"
            )
        return answer

    def support(self, network: Graph) -> dict[Layer, Support]:
        """Ask about each layer of a graph whose shapes are all known; see `ask`."""
        return {layer: self.ask(layer) for layer in network.topological_order() if is_workload(layer)}

    # -- telling -----------------------------------------------------------------------------------

    def step(self, text: str) -> None:
        """Say what is being done now, for the progress line and for the report of a crash."""
        self._emit({"event": "step", "text": text})

    def note(self, text: str) -> None:
        """Say what a vendor may want to know although it is no failure."""
        self._emit({"event": "note", "text": text})

    def count(self, kind: str = "", dtype: str = "", **numbers: int) -> None:
        """Count cases: `claimed`, `run`, `refused`, `failed`, `unclaimed`.

        They are counted by kind and element type where there is one.
        """
        self._emit({"event": "count", "kind": kind, "dtype": dtype, "numbers": numbers})

    def not_judged(self, kind: str, dtype: str, what: str = "", reason: str = "") -> None:
        """Report that a kind is claimed in an element type in which nothing could judge it.

        Args:
            kind: The kind.
            dtype: The element type.
            what: The value or the limit of a claim that no case reached; empty: nothing of it was
                judged.
            reason: Why no case can reach it; empty if nothing stands against one.
        """
        self._emit({"event": "not judged", "kind": kind, "dtype": dtype, "what": what, "reason": reason})

    def held_to(self, kind: str, dtype: str, standard: str) -> None:
        """Report that a case was held, with zero tolerance, to the bits that a standard defines."""
        self._emit({"event": "bits", "kind": kind, "dtype": dtype, "standard": standard})

    def declared(self, deviation: Deviation, *, looked_for: bool) -> None:
        """Report a deviation that the manifest declares, and whether this check looks for it."""
        self._emit({"event": "declared", **self._named(deviation), "looked_for": looked_for})

    def deviating_case(self, id: str, deviation: Deviation, text: str) -> None:
        """Report a case that differs as the manifest declares; it fails nothing."""
        self._emit({"event": "deviates", **self._named(deviation), "id": id, "text": text})

    def _named(self, deviation: Deviation) -> dict[str, Any]:
        facts = {name: getattr(deviation, name) for name in ("kind", "what", "why", "bound", "link")}
        dtypes = [dtype.label for dtype in deviation.scope.dtypes]
        where = [str(condition) for condition in deviation.scope.where]
        return {"number": self.promises.deviations.index(deviation), "facts": {**facts, "dtypes": dtypes, "where": where}}

    def failed_case(self, id: str, text: str) -> None:
        """Report a case that went wrong; the check goes on and fails at its end."""
        self._emit({"event": "case", "id": id, "text": text})

    # -- time --------------------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """When the whole run should be over, on the clock of `time.monotonic`; None for never."""
        return self.settings.deadline

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline; infinite without one."""
        return float("inf") if self.deadline is None else self.deadline - time.monotonic()

    def require_time(self, what_is_left: str) -> None:
        """Stop here if the run's time is over.

        Raises:
            BudgetExhausted: It is; the report says that `what_is_left` was not run.
        """
        if self.seconds_left <= 0:
            raise BudgetExhausted(f"the budget is used up; not run: {what_is_left}")

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the runtimes, the latest first."""
        while self._runtimes:
            self._runtimes.pop().close()

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def described(layer: Layer) -> str:
    """Say in one line what a layer is: kind, element types and shapes, attributes."""
    inputs = ", ".join("none" if info is None else str(info) for info in layer.input_infos)
    attributes = ", ".join(f"{name}={value!r}" for name, value in layer.descriptor.attributes().items())
    return f"{layer.kind}({attributes}) of {inputs or 'nothing'}"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
