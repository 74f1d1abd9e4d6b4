"""Compute layers of constants by the installed backends that declare themselves oracles.

Each layer runs as a network of its own, on one thread, and on the oracle alone: what the user asked
for the network that it comes from, options and constraints, does not reach it. So its result has
the bits that the oracle would compute in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from ..graph.layer import Layer
from ..ground.errors import LimitError, LoadTimeoutError, PlacementError, RunTimeoutError
from ..ground.foreign_text import described, one_line
from ..ground.host_exceptions import is_of_host
from ..ground.limits import Limits, budget, limited
from ..ground.logs import Log

if TYPE_CHECKING:
    from ..graph.descriptor import Array
    from ..isolation.parts import FlatPart
    from ..layers.network import Network
    from .constant_layers import Evaluation
    from .request import CompileRequest
    from .source import NetworkSource

RunOnce: TypeAlias = "Callable[[NetworkSource, CompileRequest, float], list[Array]]"
"""Runs a network without inputs on one thread, in so many seconds; returns its outputs."""
_log = Log("dovetail")
KEPT_BYTES = 1 << 20
"""Of results that are kept for further plans, all together, and of what one was computed from.

Larger ones take longer to compute than to ask for, and are held once, by who packs them.
"""
NONE_INSTALLED = "no backend that is installed declares itself an oracle"


class InstalledOracles:
    """Computes layers by the first oracle that takes them.

    A network is planned anew for each set of sizes: what does not depend on these is computed for
    the first alone, if it is not large.

    Args:
        run_once: Runs the network that a layer becomes.
        registry: Where oracles are looked for.
        isolate: Ids of backends that the user wants in processes of their own; None: those whose
            manifest asks for it.
    """

    def __init__(self, run_once: RunOnce, registry: Any, isolate: Sequence[str] | str | None = None) -> None:
        self._run_once = run_once
        self._registry = registry
        self._isolate = [isolate] if isinstance(isolate, str) else isolate
        self._oracles: list[tuple[str, str]] | None = None
        self._kept: dict[bytes, Evaluation] = {}
        self._room = KEPT_BYTES

    def evaluate(self, layer: Layer, barred: Collection[str], seconds: float) -> Evaluation:
        """Compute a layer, all of whose connected inputs are constants; see `ConstantEvaluator`."""
        from ..isolation.parts import flattened_layer
        from .constant_layers import Evaluation

        if self._oracles is None:
            tell = getattr(self._registry, "oracles", None)  # which a registry of the caller's need not have
            self._oracles = [] if tell is None else [(row.id, row.version or "") for row in tell()]
        if not self._oracles:
            return Evaluation(None, "", (NONE_INSTALLED,))
        part = flattened_layer(layer)
        key = _key(layer, part)
        if key in self._kept:
            return self._kept[key]
        reasons: list[str] = []
        failed: list[str] = []
        until = monotonic() + seconds
        for name, version in self._oracles:
            if name in barred:
                reasons.append(f"{name} failed too often to be asked again")
                continue
            try:
                arrays = self._run(layer, part, name, max(until - monotonic(), 1e-6))
                return self._keep(key, Evaluation(arrays, f"{name} {version}".rstrip()))
            except PlacementError as error:
                refusals = [one for several in error.details.get("refusals", {}).values() for one in several]
                reasons.append("; ".join(map(str, refusals)) or f"{name}: {one_line(error.message)}")
            except (LoadTimeoutError, RunTimeoutError):
                budget().check_time()
                late = "took longer than layers of constants may while a network is loaded"
                _log.warning("%s %s: layer %r (%s)", name, late, layer.name, layer.kind)
                reasons.append(f"{name} {late}")
                failed.append(name)
            except LimitError as error:
                budget().check_time()  # the layer had what was left of the load's time
                reasons.append(f"{name}: {one_line(error.message)}")
            except BaseException as error:  # whatever it raised, the runs compute the layer
                if is_of_host(error):
                    raise
                budget().check_time()
                text = one_line(described(error))
                _log.warning("%s computed no constants of layer %r (%s): %s", name, layer.name, layer.kind, text)
                reasons.append(f"{name} failed: {text}")
                failed.append(name)
        return Evaluation(None, "", tuple(reasons), tuple(failed))

    def _keep(self, key: bytes, evaluation: Evaluation) -> Evaluation:
        arrays = evaluation.arrays or ()
        nbytes = sum(array.nbytes for array in arrays) + len(key)
        if key and nbytes <= self._room:
            for array in arrays:
                array.flags.writeable = False  # several plans have it
            self._room -= nbytes
            self._kept[key] = evaluation
        return evaluation

    def _run(self, layer: Layer, part: FlatPart, name: str, seconds: float) -> list[Array]:
        """Return the outputs of a layer as a backend computes them.

        Raises:
            PlacementError: It does not take the layer.
            DovetailError: It failed.
        """
        from ..isolation.parts import network_of
        from .request import CompileRequest
        from .rewriting import release_constants
        from .source import NetworkSource

        def made() -> Network:
            return network_of(part, f"constants of {layer.name}")[0]

        network = made()
        source = NetworkSource(network, made)  # so that it is not copied, and may be emptied
        request = CompileRequest(
            backends=[name],
            registry=self._registry,
            fallback=False,
            passes=False,
            oracle=False,
            isolate=None if self._isolate is None else [one for one in self._isolate if one == name],
        )
        _keep_running(request, name)
        load = budget()
        seconds = seconds if load.seconds_left is None else min(load.seconds_left, seconds)
        left = Limits(
            memory=max(load.limits.memory - load.memory, 0) + network.bytes_of_constants() + 1,  # which are there already
            elements=load.limits.elements,
            layers=load.limits.layers,
            nesting=load.limits.nesting,
            seconds=seconds,
        )
        try:
            with limited(left):
                return self._run_once(source, request, seconds)
        finally:
            release_constants(network)


_kept_running: dict[int, tuple[ExitStack, set[str]]] = {}
"""By thread: what ends at the end of a block, and the names of the oracles that live until then."""


@contextmanager
def oracles_kept_running() -> Iterator[None]:
    """Let processes of isolated oracles live for the block, in this thread.

    Each would end with the only network that uses it, which is that of one layer.
    """
    thread = get_ident()
    if thread in _kept_running:  # this is the network of a layer
        yield
        return
    with ExitStack() as stack:
        _kept_running[thread] = stack, set()
        try:
            yield
        finally:
            del _kept_running[thread]


def _keep_running(request: CompileRequest, name: str) -> None:
    """Have the processes of an oracle, if it is isolated, live for the block of this thread."""
    stack, names = _kept_running.get(get_ident(), (None, set()))
    if stack is not None and name not in names:
        from .candidates import isolated_ones

        names.add(name)
        for one in isolated_ones([name], None, request.registry, request.isolate):
            stack.enter_context(one.in_use())


def _key(layer: Layer, part: FlatPart) -> bytes:
    """Tell layers of constants apart by all that decides their results.

    Empty if that is large, or cannot be pickled.
    """
    if sum(slot.source.known_info.nbytes for slot in layer.inputs if slot.source is not None) > KEPT_BYTES:
        return b""
    import pickle

    with suppress(pickle.PicklingError, TypeError, AttributeError):  # attributes may be of any type
        return pickle.dumps(part)
    return b""


def with_oracles(request: CompileRequest, run_once: RunOnce) -> CompileRequest:
    """Put the installed oracles into a request that leaves open who computes constants."""
    if request.oracle is not True or not request.passes:
        return request
    return request.replaced(oracle=InstalledOracles(run_once, request.registry, request.isolate))
