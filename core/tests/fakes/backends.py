"""Backends that take layers and make no workloads: what is placed with them never runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dovetail.contract.backend_id import BackendId
from dovetail.contract.interfaces import Capabilities, IBackend, Support
from dovetail.graph.layer import Layer

Answer = Callable[[Layer], Any]


class Willing(IBackend):
    """Takes every layer. A subclass says what is different."""

    def __init__(self, id: str) -> None:
        self.name = id

    @property
    def id(self) -> BackendId:
        return BackendId(self.name)

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return Support.yes()

    def create_workload_factory(self, *arguments: Any) -> Any:
        raise NotImplementedError


class Choosing(Willing):
    """Takes what `answer` says, by default everything, and notes what it was asked."""

    def __init__(self, id: str, answer: Answer = lambda layer: Support.yes(), **capabilities: bool) -> None:
        super().__init__(id)
        self.answer = answer
        self.asked: list[str] = []
        self._capabilities = Capabilities(**capabilities)

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        self.asked.append(layer.name)
        result: Support = self.answer(layer)
        return result

    def capabilities(self) -> Capabilities:
        return self._capabilities


def short_kind(layer: Layer) -> str:
    """Name a layer's kind without its family."""
    return layer.kind.rpartition(".")[2]


def only(*kinds: str) -> Answer:
    """Take these kinds; refuse others with a reason."""
    return lambda layer: Support.yes() if short_kind(layer) in kinds else Support.no("kind", f"no {layer.kind} here", "kind")


def all_but(*kinds: str) -> Answer:
    """Refuse these kinds with a reason; take the others."""
    return lambda layer: (
        Support.no("kind", f"no {short_kind(layer)} on this chip", "kind") if short_kind(layer) in kinds else Support.yes()
    )
