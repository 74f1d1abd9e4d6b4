"""Give every layer a backend: the first preferred one that takes it. Every refusal is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..contract.backend_calls import backend_call, checked
from ..contract.interfaces import Capabilities, IBackend, Support
from ..graph.descriptor import Constant, Input, Output
from ..graph.element_types import DType
from ..graph.graph import Graph
from ..graph.layer import Layer
from ..graph.layer_state import LayerState
from ..ground.errors import ErrorCode, OptionError, PlacementError
from ..ground.foreign_text import described, one_line, shown
from ..ground.host_exceptions import is_of_host
from ..ground.limits import under_way
from ..ground.logs import Log
from .candidate import BY_THE_CALLER, Absent, Assigned, GivenBack, Opened, Refusal
from .constraints import Constraints
from .core_kinds import Debug, MemoryCopy
from .policy import Answers, FirstWilling, PlacementPolicy

_log = Log("dovetail.optimizer")


def _problem(answer: Support) -> str:
    """Name the field of an answer whose type differs from that in `Support`; empty if none does."""
    if not isinstance(answer.supported, int | np.bool_):
        return f"returned a Support whose supported is {shown(answer.supported)}, not yes or no"
    for name in ("code", "reason", "attribute"):
        value = getattr(answer, name)
        if not isinstance(value, str) and not (name == "attribute" and value is None):
            return f"returned a Support whose {name} is {shown(value)}, not a text"
    return ""


_WITHOUT_BACKEND = (Input, Output, Constant, Debug, MemoryCopy)


def is_workload(layer: Layer) -> bool:
    """Say whether a layer needs a backend: all but inputs, outputs, constants, debug and copies."""
    return not isinstance(layer.descriptor, _WITHOUT_BACKEND)


class Assigner:
    """Asks the backends, in order of preference, and remembers what they said.

    Attributes:
        candidates: Backends in order of preference.
        assigned: The backend of each layer.
        refusals: For each layer, what the backends before its own said; all of them where it has
            none.
    """

    def __init__(
        self,
        candidates: Sequence[Assigned],
        constraints: Constraints,
        policy: PlacementPolicy | None = None,
        given_back: Iterable[GivenBack] = (),
    ) -> None:
        self.candidates = tuple(candidates)
        self.constraints = constraints
        self.policy = policy or FirstWilling()
        self.assigned: dict[Layer, Assigned] = {}
        self.refusals: dict[Layer, list[Refusal]] = {}
        self._barred: dict[tuple[Layer, Assigned], str] = {}
        self.deleted: dict[str, str] = {}  # backends by the names of what they dropped as computing nothing
        self._given_back = {(part.backend, name): part.reason for part in given_back for name in part.sources}
        self._private: set[Layer] = set()

    @property
    def opened(self) -> list[Assigned]:
        """The backends that were looked at so far and are there; no other can have a layer."""
        return [one for one in self.candidates if isinstance(one.found, Opened)]

    @property
    def absent(self) -> list[Absent]:
        """The backends that are not there, as was found when they were needed."""
        return [one.found for one in self.candidates if isinstance(one.found, Absent)]

    def refusal(self, layer: Layer, candidate: Assigned) -> Refusal | None:
        """Ask one backend; None means yes. Constraints and bars are not looked at."""
        opened, label, kind = candidate.opened(), candidate.label, layer.descriptor.kind
        if isinstance(opened, Absent):
            return Refusal(label, "absent", opened.reason)
        backend = opened.backend
        budget = under_way()
        if budget is not None:
            budget.check_time()
        with backend_call(f"backend {label}", "kind_versions"):
            known = int(backend.kind_versions.get(kind, 1))
        newer = layer.descriptor.newer_attributes(known)
        if newer:
            reason = f"it knows version {known} of {kind}, now {layer.descriptor.version}; {', '.join(newer)} came later"
            return Refusal(label, "version", reason, newer[0])
        state = LayerState(layer)
        try:
            answer = backend.supports(layer, opened.options, opened.device)
            changed = state.restore()
        except BaseException as error:  # a backend's fault must cost that backend the layer, not the caller the network
            if is_of_host(error):
                raise
            state.restore()
            return self._against_contract(layer, label, f"raised {described(error)}")
        if changed:
            return self._against_contract(layer, label, "changed the layer that it was asked about")
        if not isinstance(answer, Support):
            return self._against_contract(layer, label, f"returned {shown(answer)}, not a Support")
        problem = _problem(answer)
        if problem:
            return self._against_contract(layer, label, problem)
        if answer.supported:
            return None
        if not answer.code or not answer.reason:
            _log.warning("backend %s: supports(%r) refused without a code and a reason", label, layer)
            said = " ".join(part for part in (answer.code, answer.reason) if part) or "nothing"
            return Refusal(
                label,
                "contract",
                f"supports() refused without a code and a reason; it said: {one_line(said)}",
                answer.attribute,
            )
        return Refusal(label, one_line(answer.code), one_line(answer.reason), answer.attribute and one_line(answer.attribute))

    @staticmethod
    def _against_contract(layer: Layer, label: str, problem: str) -> Refusal:
        _log.warning("backend %s: supports(%r) %s", label, layer, problem)
        return Refusal(label, "contract", f"supports() {problem}")

    def _objection(self, layer: Layer, candidate: Assigned) -> Refusal | None:
        constraint = self.constraints.objection(layer, candidate.request, first=candidate is self.candidates[0])
        if constraint is not None:
            return Refusal(candidate.label, *constraint)
        reason = self._barred.get((layer, candidate))
        if reason is None and self._given_back:
            names = ((candidate.label, name) for name in layer.sources)
            reason = next((self._given_back[name] for name in names if name in self._given_back), None)
        return None if reason is None else Refusal(candidate.label, "failed", reason)

    def allows(self, layer: Layer, candidate: Assigned) -> bool:
        """Say whether the caller's constraints let a backend run a layer, without asking it."""
        return self._objection(layer, candidate) is None

    def able(self, capability: str) -> list[Assigned]:
        """Return the backends that have a capability, named as an attribute of `Capabilities`."""
        found = []
        for one in self.candidates:
            if one.absence is not None:
                continue
            origin = f"backend {one.label}"
            with backend_call(origin, "capabilities"):
                answer = one.backend.capabilities()
            if getattr(checked(origin, "capabilities", answer, Capabilities), capability):
                found.append(one)
        return found

    def reducing(self, dtype: DType) -> list[Assigned]:
        """Return the open backends whose options want float32 layers converted to a type."""
        found = []
        for one in self.opened:
            if type(one.backend).reduces is not IBackend.reduces:
                with backend_call(f"backend {one.label}", "reduces"):
                    if one.backend.reduces(one.options) is dtype:
                        found.append(one)
        return found

    def first_willing(self, layer: Layer) -> Assigned | None:
        """Return the backend that a layer would go to; nothing is recorded."""
        return self._chosen(layer)[0]

    def assign(self, layer: Layer) -> Assigned | None:
        """Give one layer its backend, or record that it has none."""
        self.assigned.pop(layer, None)
        home, refusals = self._chosen(layer)
        self.refusals[layer] = refusals
        if home is not None:
            self.assigned[layer] = home
        return home

    def _chosen(self, layer: Layer) -> tuple[Assigned | None, list[Refusal]]:
        """Have the policy choose; return the backend, and the refusals of those before it.

        Raises:
            OptionError: The policy chose a backend that is not willing (`OPTION_INVALID`).
        """
        answers = Answers(self.candidates, lambda one: self._objection(layer, one) or self.refusal(layer, one), self.assigned)
        home = self.policy.choose(layer, answers)
        refusals: list[Refusal] = []
        is_willing = home is None
        for candidate, refusal in answers.given:
            if candidate is home:
                is_willing = refusal is None
                break
            if refusal is not None:
                refusals.append(refusal)
            elif home is None:
                refusals.append(Refusal(candidate.label, "policy", "the placement policy keeps it from the layer"))
        if not is_willing and not any(home is one.candidate and one.refusal is None for one in answers):
            assert home is not None
            raise OptionError(
                f"the placement policy gives layer {layer.name!r} to {home!r}, which is not willing to run it",
                code=ErrorCode.OPTION_INVALID,
                hint="return one of answers.willing(), or None",
                layer=layer.name,
            )
        return home, refusals

    def adopt(self, made: Iterable[Layer], home: Assigned, replaced: Iterable[Layer]) -> None:
        """Give private layers to the backend that made them, without asking.

        What was said of what they replace stays: with each, what was said of the layers that it
        stands for.
        """
        said = [(frozenset(old.sources), self.refusals[old]) for old in replaced if self.refusals.get(old)]
        for layer in made:
            self.assigned[layer] = home
            own = (several for names, several in said if not names.isdisjoint(layer.sources))
            self.refusals[layer] = list(dict.fromkeys(refusal for several in own for refusal in several))
            self._private.add(layer)

    def is_private(self, layer: Layer) -> bool:
        """Say whether a layer came from a substitution."""
        return layer in self._private

    def bar(self, layer: Layer, candidate: Assigned, reason: str) -> None:
        """Keep a backend from a layer from now on."""
        self._barred[layer, candidate] = reason

    def forget(self, layer: Layer) -> None:
        """Drop what is known of a layer that left the graph."""
        self.assigned.pop(layer, None)
        self.refusals.pop(layer, None)

    def assign_all(self, graph: Graph) -> int:
        """Give every layer that needs one a backend; return how many have one.

        `require_homes` tells about the others.
        """
        return sum(1 for layer in graph.topological_order() if is_workload(layer) and self.assign(layer) is not None)

    def is_homeless(self, layer: Layer) -> bool:
        """Say whether a layer needs a backend and has none."""
        return layer not in self.assigned and is_workload(layer)

    def require_homes(self, layers: Iterable[Layer]) -> None:
        """Refuse layers without a backend.

        Raises:
            PlacementError: Lists all of them, each with what every backend said;
                `PLACEMENT_FORBIDDEN` where the caller's own constraints were in the way of each.
        """
        homeless = [layer for layer in layers if self.is_homeless(layer)]
        if not homeless:
            return
        lines = [f"  {layer.name!r} ({layer.kind}): " + "; ".join(map(str, self.refusals.get(layer, []))) for layer in homeless]
        constrained = all(any(r.code in BY_THE_CALLER for r in self.refusals.get(layer, [])) for layer in homeless)
        count = "1 layer has" if len(homeless) == 1 else f"{len(homeless)} layers have"
        raise PlacementError(
            f"{count} no backend among {', '.join(c.label for c in self.candidates)}:\n" + "\n".join(lines),
            code=ErrorCode.PLACEMENT_FORBIDDEN if constrained else ErrorCode.NO_BACKEND_FOR_LAYER,
            hint="loosen require=, forbid= or fallback=False, or add a backend that takes these layers"
            if constrained
            else "name a backend that takes these layers behind the others: backends=[..., id]",
            refusals={layer.name: list(self.refusals.get(layer, [])) for layer in homeless},
        )
