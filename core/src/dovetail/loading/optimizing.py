"""Optimize a network as a load does, without loading it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..graph.graph import Graph
from ..optimizer import CompileRequest, OptimizedNetwork
from ..optimizer import optimize as optimize_alone
from ..optimizer.candidates import BackendLike
from ..optimizer.oracles import oracles_kept_running, with_oracles

if TYPE_CHECKING:
    from ..graph.descriptor import Array
    from ..optimizer import NetworkSource


def optimize(network: Graph, backends: Sequence[BackendLike] | BackendLike | None = None, **wanted: Any) -> OptimizedNetwork:
    """Optimize a network and give every layer a backend; the network itself is not changed.

    Args:
        network: What a parser or the builder made.
        backends: Ids in order of preference, ``"AcmeNpu:1"`` for a device, ``"AcmeNpu?"`` if it may
            be absent, or backends themselves. Default: those that the registry prefers.
        wanted: Whatever else is asked, by name: `shapes`, `values`, `require`, `forbid`,
            `fallback`, `options`, `passes` and the other attributes of `CompileRequest`.

    Raises:
        GraphError: The network is wrong, or sizes or values are missing (`SHAPE_UNKNOWN`,
            `VALUE_REQUIRED`).
        BackendUnavailableError: A backend that was asked for is not ready.
        OptionError: A name in one of the arguments means nothing, or its value does not fit.
        PlacementError: Layers have no backend; all are listed, with what each backend said.
        BackendError: A backend broke its contract.
        LimitError: It asks for more than its limits allow (`LIMIT_EXCEEDED`), or takes longer
            (`TIMEOUT`).
    """
    request = with_oracles(CompileRequest.of({"backends": backends, **wanted}), _run_once)
    with oracles_kept_running():
        return optimize_alone(network, backends, **{**wanted, "oracle": request.oracle})


def _run_once(source: NetworkSource, request: CompileRequest, seconds: float) -> list[Array]:
    from ..runtime.runtime import run_once  # few networks have layers that an oracle computes

    return run_once(source, request, seconds)
