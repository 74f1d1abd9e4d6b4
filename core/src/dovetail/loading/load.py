"""From a model file to a network that is ready to run, in one call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..ground.gc_deferral import gc_deferred
from ..ground.limits import Limits, limited

if TYPE_CHECKING:
    from ..contract.backend_id import BackendRequest
    from ..contract.interfaces import IBackend
    from ..ground.progress import Listener
    from ..layers.network import Network
    from ..optimizer import NetworkSource
    from ..runtime import LoadedNetwork, Runtime
    from .parsing import ModelSource
    from .snapshots import ModelSnapshots

    BackendLike = str | BackendRequest | IBackend


def load(
    model: str | os.PathLike[str] | Network | Any,
    backends: Sequence[BackendLike] | BackendLike | None = None,
    *,
    threads: int | None = None,
    shapes: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    require: Mapping[str, str] | None = None,
    forbid: Mapping[str, Any] | None = None,
    fallback: bool = True,
    runtime: Runtime | None = None,
    progress: Listener | None = None,
    limits: Limits | None = None,
    plan_cache_bytes: int | None = None,
    **wanted: Any,
) -> LoadedNetwork:
    """Parse, optimize and load a model.

    Sizes that stay symbolic are fixed by each run: the network then plans anew for sizes that it
    has not met yet. What is planned for a model file is kept for later loads of it, in the cache
    folder, as Python keeps byte code: see docs/loading.md.

    Args:
        model: A model file, a network, or what `dovetail.parse` takes besides: the bytes of a model
            file, one that is open for reading, or a model as a package for its format holds it.
        backends: In order of preference, such as ``["AcmeNpu?", "CpuAcc"]``; default the installed
            CPU backends, fastest first.
        threads: At most this many CPU threads; default all of the runtime.
        shapes: Sizes of symbolic dimensions, or whole shapes of inputs, by name.
        options: Options of backends, by id.
        require: Backends that layers or kinds must get.
        forbid: Backends that layers or kinds must not get.
        fallback: False makes it an error if a layer does not get the first backend.
        runtime: Where to load it; default one runtime for the whole process.
        progress: Called with (backend id, fraction, what) while backends compile; what it raises
            ends the load.
        limits: How much it may take; plans that are made later, for other sizes, have the same
            limits.
        plan_cache_bytes: How many bytes the plans for different sizes may hold besides what they
            share; see `Runtime.load`.
        wanted: Whatever else is asked, by name: further attributes of `CompileRequest`.

    Raises:
        DovetailError: The file cannot be read, a backend is not there, or a layer gets no home.
        LimitError: It asks for more than its limits allow (`LIMIT_EXCEEDED`), or takes longer
            (`TIMEOUT`).
    """
    with gc_deferred(), limited(limits):
        from ..graph.graph import Graph
        from ..optimizer import CompileRequest, NetworkSource, OptimizedNetwork
        from ..optimizer.candidates import started_ahead

        if runtime is None:
            from ..runtime import default_runtime

            runtime = default_runtime()
        request = CompileRequest.of(
            {
                "backends": backends,
                "shapes": shapes,
                "options": options,
                "require": require,
                "forbid": forbid,
                "fallback": fallback,
                "progress": progress,
                **wanted,
            },
            caller="load",
            others=("threads", "runtime", "plan_cache_bytes"),
        )
        network: Any = model
        if isinstance(model, Graph | NetworkSource | OptimizedNetwork):
            return runtime.load(network, threads=threads, optimize=request, plan_cache_bytes=plan_cache_bytes)
        source: ModelSource | None = None
        snapshots: ModelSnapshots | None = None
        if isinstance(model, str | os.PathLike):
            from .parsing import ModelSource

            source = ModelSource(model, limits)
            if limits is None and runtime.keeps_plans:
                from .snapshots import snapshots_of

                snapshots = snapshots_of(source, request, threads, runtime.threads)
            kept = None if snapshots is None else snapshots.load(runtime, threads, plan_cache_bytes)
            if kept is not None:
                return kept
        with started_ahead(request.backends, request.options, request.registry, request.isolate):
            network = _read(model, source)
            return runtime.load(
                network, threads=threads, optimize=request, plan_cache_bytes=plan_cache_bytes, snapshots=snapshots
            )


def _read(model: Any, source: ModelSource | None) -> NetworkSource:
    """Read a model that has a source, if it is a file."""
    from ..optimizer import NetworkSource

    if source is None:
        from .parsing import parse

        return NetworkSource(parse(model), None)
    parsed = source.parse()
    # What functions of others made of a file, they may not make of it another time.
    is_read_again = parsed.files and not parsed.is_read_with_others
    return NetworkSource(parsed, source.parse_again if is_read_again else None)
