"""What the caller requires and forbids: `require=`, `forbid=` and `fallback=`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from .. import layers as all_layers
from ..contract.backend_id import BackendRequest
from ..graph.descriptor import Constant, Descriptor, Input, Output
from ..graph.graph import Graph
from ..graph.layer import Layer
from ..ground.close_names import suggestion
from ..ground.errors import ErrorCode, OptionError
from ..ground.records import NamedTuple

Require: TypeAlias = Mapping[str, str | BackendRequest]
Forbid: TypeAlias = Mapping[str, str | BackendRequest | Sequence[str | BackendRequest]]


class Rule(NamedTuple):
    """One entry: the key, its meaning, and the backends that it names.

    A device is named only where one was written.
    """

    option: str
    key: str
    rank: int
    targets: tuple[tuple[str, int | None], ...]

    def matches(self, layer: Layer) -> bool:
        """Say whether a rule for a kind or a glob is about a layer."""
        if self.rank == _KIND:
            return self.key in (layer.kind, _short(layer.kind))
        return any(fnmatchcase(name, self.key) for name in (layer.name, *layer.sources))

    def names(self, request: BackendRequest) -> bool:
        return any(id == request.id and device in (None, request.device) for id, device in self.targets)

    def __str__(self) -> str:
        targets = [f"{id}:{device}" if device else id for id, device in self.targets]
        return (
            f"{self.option}={{{self.key!r}: {targets[0]!r}}}"
            if len(targets) == 1
            else f"{self.option}={{{self.key!r}: {targets}}}"
        )


_NO_WORK = frozenset(name for kind in (Input, Output, Constant) for name in (kind.kind, kind.__name__))
_NAME, _GLOB, _KIND = 0, 1, 2  # the more specific rule wins


class _Rules:
    """Rules of one option.

    Those that name a layer are found by its name, since a caller may name every layer.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.by_name: dict[str, Rule] = {}
        self.others: list[Rule] = []
        for rule in rules:
            if rule.rank == _NAME:
                self.by_name[rule.key] = rule
            else:
                self.others.append(rule)

    def matching(self, layer: Layer) -> list[Rule]:
        """Return the rules for a layer, those that name it or what it stands for first."""
        if not self.by_name and not self.others:
            return []
        names = dict.fromkeys((layer.name, *layer.sources)) if self.by_name else ()
        named = [self.by_name[name] for name in names if name in self.by_name]
        return named + [rule for rule in self.others if rule.matches(layer)]


class Constraints:
    """Checked constraints: which backends may run which layer, and why others may not.

    A key is the name of a layer, a glob over names (``"decoder*"``), or a kind
    (``"dovetail.Softmax"`` or ``"Softmax"``). Layers are known by the names of the original
    network, through whatever was folded into them. Of several `require` rules the most specific one
    counts: name, then glob, then kind.

    Args:
        source: The network as the caller gave it.
        requests: Backends that were asked for, ready or not.
        require, forbid: As given to `optimize`.
        fallback: False: every layer must run on the first backend, apart from required ones.

    Raises:
        OptionError: A key or an id names nothing (`OPTION_UNKNOWN`), or what no backend runs, such
            as an input (`OPTION_INVALID`).
    """

    def __init__(
        self,
        source: Graph,
        requests: Sequence[BackendRequest],
        require: Require | None = None,
        forbid: Forbid | None = None,
        *,
        fallback: bool = True,
    ) -> None:
        self.fallback = fallback
        self._require = _Rules(
            _rule("require", key, [value], source, requests) for key, value in _mapping("require", require).items()
        )
        self._forbid = _Rules(
            _rule("forbid", key, [value] if isinstance(value, str | BackendRequest) else value, source, requests)
            for key, value in _mapping("forbid", forbid).items()
        )

    def required(self, layer: Layer) -> Rule | None:
        """Return the rule that pins a layer.

        Raises:
            OptionError: Two rules of the same rank pin it to different backends (`OPTION_INVALID`).
        """
        rules = self._require.matching(layer)
        if not rules:
            return None
        rules.sort(key=lambda rule: rule.rank)
        for other in rules[1:]:
            if other.rank == rules[0].rank and other.targets != rules[0].targets:
                raise OptionError(
                    f"layer {layer.name!r} is pinned twice: {rules[0]} and {other}",
                    code=ErrorCode.OPTION_INVALID,
                    hint="leave one of them, or name the layer itself",
                    layer=layer.name,
                )
        return rules[0]

    def objection(self, layer: Layer, request: BackendRequest, *, first: bool) -> tuple[str, str] | None:
        """Return (code, reason) if they keep a backend from a layer.

        `first` says that it is the first in the list.
        """
        for rule in self._forbid.matching(layer):
            if rule.names(request):
                return "forbidden", f"the caller forbids it: {rule}"
        rule_or_none = self.required(layer)
        if rule_or_none is not None:
            return None if rule_or_none.names(request) else ("required", f"the caller requires another: {rule_or_none}")
        if not first and not self.fallback:
            return "no_fallback", "the caller forbids fallback: fallback=False"
        return None


def _mapping(option: str, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise _invalid(
            f"{option} is {given!r} ({type(given).__name__})", f"give a mapping: {option}={{layer or kind: backend}}"
        )
    for key in given:
        if not isinstance(key, str):
            raise _invalid(
                f"{option}: the key {key!r} is a {type(key).__name__}", "give the name of a layer, a glob, or a kind"
            )
    return given


def _invalid(message: str, hint: str) -> OptionError:
    return OptionError(message, code=ErrorCode.OPTION_INVALID, hint=hint)


def _rule(
    option: str, key: str, values: Iterable[str | BackendRequest], source: Graph, requests: Sequence[BackendRequest]
) -> Rule:
    if not isinstance(values, Iterable):
        raise _invalid(f"{option}: the value of {key!r} is {values!r}", "give the id of a backend, or a sequence of them")
    targets = tuple(_target(option, key, value, requests) for value in values)
    if not targets:
        raise OptionError(f"{option}: {key!r} names no backend", code=ErrorCode.OPTION_INVALID, hint="give an id")
    return Rule(option, key, _rank(option, key, source), targets)


def _target(option: str, key: str, value: str | BackendRequest, requests: Sequence[BackendRequest]) -> tuple[str, int | None]:
    if not isinstance(value, str | BackendRequest):
        raise _invalid(f"{option}: {key!r} names the backend {value!r} ({type(value).__name__})", "give the id of a backend")
    wanted = BackendRequest.parse(value)
    device = wanted.device if isinstance(value, BackendRequest) or ":" in value else None
    if not any(request.id == wanted.id and device in (None, request.device) for request in requests):
        known = dict.fromkeys(name for r in requests for name in (str(r.id), str(r).rstrip("?")))
        raise OptionError(
            f"{option}={{{key!r}: {str(value)!r}}} names a backend that is not in backends=",
            hint=suggestion(str(value), known),
            key=key,
        )
    return str(wanted.id), device


def _rank(option: str, key: str, source: Graph) -> int:
    if key in source:
        _require_runs(option, key, [source.layer(key)])
        return _NAME
    if key in _NO_WORK:
        raise _invalid(f"{option}: {key!r} is a kind that no backend runs", "name layers or kinds that compute")
    if any(key in (layer.kind, _short(layer.kind)) for layer in source) or key in _all_kinds():
        return _KIND
    found = [layer for layer in source if fnmatchcase(layer.name, key)] if any(c in key for c in "*?[") else []
    if found:
        _require_runs(option, key, found)
        return _GLOB
    kinds = dict.fromkeys(name for layer in source for name in (layer.kind, _short(layer.kind)))
    raise OptionError(
        f"{option}: no layer and no kind of network {source.name!r} is called {key!r}",
        hint=suggestion(key, [*(layer.name for layer in source), *kinds]),
        key=key,
    )


def _require_runs(option: str, key: str, layers: Sequence[Layer]) -> None:
    if any(not isinstance(layer.descriptor, Input | Output | Constant) for layer in layers):
        return
    layer = layers[0]
    neighbours = [slot.source.layer for slot in layer.inputs if slot.source is not None]
    neighbours += [consumer.layer for slot in layer.outputs for consumer in slot.consumers]
    names = [one.name for one in neighbours if not isinstance(one.descriptor, Input | Output | Constant)]
    raise _invalid(
        f"{option}: {key!r} names {layer.name!r} ({layer.kind}), which no backend runs",
        f"name a layer that computes, such as {names[0]!r}" if names else "name a layer that computes",
    )


def _short(kind: str) -> str:
    return kind.rsplit(".", 1)[-1]


def _all_kinds() -> set[str]:
    for name in all_layers.__all__:
        getattr(all_layers, name)  # which imports its family
    kinds: set[str] = set()
    waiting: list[type[Descriptor]] = [Descriptor]
    while waiting:
        for subclass in waiting.pop().__subclasses__():
            waiting.append(subclass)
            if subclass.kind:
                kinds |= {subclass.kind, _short(subclass.kind)}
    return kinds
