"""Keep the plans of model files, so that a later load of the same file is a read.

A plan is known by everything that decided it: the model file (its path, inode, size and times), the
files of the parser, of the core and of the backends, the machine, the backends, options and threads
that were asked for, and the names of the operators that others translate for the parser. These
facts stand in the snapshot's name by their checksum, and in the file itself. The other files of a
model are compared when its snapshot is found. What cannot be known so, such as a backend that is an
object of the caller's, is not kept, and neither is a network that was read with the code of others:
so the names of what they translate are enough.

Plans are kept in the folder `plans` of the cache folder, like byte code beside modules: believed if
nobody but root and the user could have written them, and dropped, oldest first, beyond a number of
bytes in all. `DOVETAIL_PLANS=off` does without.
"""

from __future__ import annotations

import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any

from ..contract.backend_id import BackendRequest
from ..discovery import offers
from ..discovery.content import files_of_module
from ..discovery.registry import GROUP as BACKENDS
from ..discovery.registry import default_registry
from ..ground import settings
from ..ground.errors import DovetailError, LimitError, OptionError
from ..ground.host_exceptions import is_of_host
from ..ground.kept_files import KeptFiles
from ..ground.logs import Log
from ..ground.outside_translations import translations_of
from ..optimizer import NetworkSource
from ..optimizer.candidates import resolve
from ..optimizer.policy import FirstWilling
from ..runtime.plan_snapshot import NetworkFacts, Snapshot, read, written
from .parsers import GROUP as PARSERS

if TYPE_CHECKING:
    from ..graph.state import State
    from ..optimizer import CompileRequest, OptimizedNetwork, TensorSpec
    from ..optimizer.candidate import Assigned
    from ..runtime import LoadedNetwork, Runtime
    from ..runtime.backends_in_use import BackendKey, Factory
    from ..runtime.plan_parts import PlanParts
    from .parsing import ModelSource

_log = Log("dovetail")
_LARGEST = 128 << 20
"""Bytes of a plan that is kept."""
_ALL = 512 << 20
"""Bytes of all that are kept."""
_OF_SIZES = 16 << 20
"""Bytes that a network writes for further sets of sizes: each has all weights, and a run waits."""
_SETTLED_NS = 2_000_000_000
"""For so long after a file was written it may change again within the step of its clock."""


def snapshots_of(source: ModelSource, request: CompileRequest, threads: int | None, most: int) -> ModelSnapshots | None:
    """Return where plans of a model file are kept; None if they cannot be, or are not to be.

    Args:
        source: The file.
        request: What is asked.
        threads: At most so many CPU threads; None: all of the runtime.
        most: Threads of the runtime.
    """
    if not settings.plans() or type(threads) not in (int, NoneType):  # what is no count is refused later
        return None
    asked = _asked(request)
    stamp = source.stamp()
    if asked is None or stamp is None or not _is_settled(stamp, time.time_ns()):
        return None
    try:
        modules = [_module(PARSERS, source.suffix), *(_module(BACKENDS, str(one.id)) for one in _requests(request))]
    except LookupError:
        return None
    installed = _installed(tuple(modules))
    if installed is None:
        return None
    translations, translated = translations_of(modules[0])
    facts = repr((source.place, stamp, asked, min(threads or most, most), installed, translated, _tuned()))
    return ModelSnapshots(source, request, facts, lambda: translations_of(modules[0])[0] == translations)


class ModelSnapshots:
    """The plans of one model file, loaded in one way.

    Args:
        source: The file.
        request: What is asked.
        facts: All that decides a plan but sizes.
        is_current: Tells whether the file would still be read as when these facts were gathered.
    """

    def __init__(self, source: ModelSource, request: CompileRequest, facts: str, is_current: Callable[[], bool]) -> None:
        self._source = source
        self._request = request
        self._facts = facts
        self._is_current = is_current
        self._began = time.time_ns()
        self._largest = _LARGEST
        self._ready: Snapshot | None = None
        self._is_bare = False  # what is told of open sizes was written without a plan
        self._kept = KeptFiles("plans", lambda problem: _log.info("plans are not kept: %s", problem))
        self._backends: dict[str, Assigned] | None = None

    def load(self, runtime: Runtime, threads: int | None, plan_cache_bytes: int | None) -> LoadedNetwork | None:
        """Load the network as it was kept; None if it was not, or cannot be used."""
        snapshot = self.find()
        if snapshot is None:
            return None
        facts, self._source.stamps = snapshot.facts, dict(snapshot.facts.files)
        self._is_bare, self._ready = snapshot.symbols is None, snapshot if snapshot.symbols else None
        source = NetworkSource.unread(facts.name, facts.states, facts.metadata, self._source.parse_again)
        asked = self._request
        try:
            if facts.outputs is None:
                self._source.hold()  # it is read at the first sizes of which there is no plan
            return runtime.restore(snapshot, source, self, threads=threads, optimize=asked, plan_cache_bytes=plan_cache_bytes)
        except Exception as error:  # whatever came of what lay there
            if is_of_host(error) or isinstance(error, MemoryError | LimitError | OptionError):
                raise
            _log.info("a plan of %s that was kept cannot be used: %s", self._source.place, error)
            return None

    def find(self, symbols: Mapping[str, int] | None = None) -> Snapshot | None:
        """Return the plan for these sizes; without sizes what is told of the network.

        What is told of a network of open sizes lies with the plan for the sizes that were met
        first, so that one file is read for most.
        """
        ready, self._ready = self._ready, None
        if ready is not None and ready.symbols == symbols:
            return ready
        found = self._found(self._name(symbols))
        if symbols and found is None:
            found = self._found(self._name(None))
        return None if symbols is not None and found is not None and found.symbols != symbols else found

    def _found(self, name: str) -> Snapshot | None:
        try:
            with self._kept.opened(name) as file:
                if file is None:
                    return None
                nbytes = os.fstat(file.fileno()).st_size
                snapshot = read(file, nbytes, self._facts) if nbytes <= _LARGEST else None
        except OSError as error:
            _log.info("plan %s cannot be read: %s", name, error)
            return None
        if snapshot is None or snapshot.facts.oracles not in (None, _oracles()):
            return None
        return snapshot if self._source.is_unchanged(snapshot.facts.files) else None

    def backend(self, name: str) -> Assigned:
        """Return the backend of this name, of those that the user asked for."""
        if self._backends is None:
            ready, _ = resolve(self._request.backends, self._request.options, self._request.registry, self._request.isolate)
            self._backends = {str(one.request.id): one for one in ready}
        return self._backends[name]

    def keep(
        self,
        optimized: OptimizedNetwork,
        symbols: Mapping[str, int],
        parts: PlanParts,
        factories: Mapping[BackendKey, Factory],
    ) -> None:
        """Write a plan down that was made for these sizes, if it is one that can be."""
        placement = optimized.placement
        if placement.absent or any(one.device.facts or one.device.revision for one in placement.devices):
            return  # drivers come and change
        if any(one is not None and getattr(one.backend, "is_isolated", False) for one in optimized.assignment.values()):
            return  # its workloads lie in another process
        oracles = None
        if placement.constants or placement.left_constant:
            oracles = _oracles()
            if oracles is None or optimized.oracle_failed:
                return
        facts = NetworkFacts(
            optimized.name,
            optimized.inputs,
            None if symbols else optimized.outputs,
            optimized.output_names,
            optimized.source.states,
            self._source.stamps,
            placement.remarks(optimized.name),
            dict(optimized.source.metadata),
            oracles,
        )
        self._write(symbols, facts, parts, factories)

    def keep_open(
        self,
        name: str,
        inputs: tuple[TensorSpec, ...],
        output_names: tuple[str, ...],
        states: Mapping[str, State],
        metadata: Mapping[str, str],
    ) -> None:
        """Write down what is told of a network whose sizes are open."""
        self._is_bare = True
        facts = NetworkFacts(name, inputs, None, output_names, states, self._source.stamps, metadata=dict(metadata))
        self._write(None, facts)

    def _write(self, symbols: Mapping[str, int] | None, facts: NetworkFacts, *plan: Any) -> None:
        if not self._source.is_read_alone or not all(_is_settled(stamp, self._began) for stamp in facts.files.values()):
            return
        if not (self._is_current() and self._source.is_unchanged(facts.files)):
            return
        try:
            content = written(self._facts, facts, symbols or {}, *plan, largest=self._largest)
            name = self._name(None if self._is_bare else symbols)
            if content is not None and self._kept.write(name, content, lasting=False):
                self._kept.shrink(_ALL)
                self._is_bare = self._is_bare and not symbols
                if symbols:
                    self._largest = min(self._largest, _OF_SIZES + len(content)) - len(content)
        except Exception as error:  # such as a descriptor that cannot be pickled; the network runs without
            if is_of_host(error):
                raise
            _log.info("the plan of %s cannot be kept: %s: %s", self._source.place, type(error).__name__, error)

    def _name(self, symbols: Mapping[str, int] | None) -> str:
        text = repr((self._facts, sorted((symbols or {}).items())))
        return f"{zlib.crc32(text.encode('utf-8', 'surrogateescape')):08x}.plan"


def _is_settled(stamp: tuple[int, ...] | None, now: int) -> bool:
    """Tell whether a file that changes after `now`, in nanoseconds, will have another stamp."""
    return stamp is not None and now - max(stamp[-2:]) >= _SETTLED_NS


def _asked(request: CompileRequest) -> str | None:
    """Return what is asked as text; None if something is that no text stands for."""
    is_usual = (
        type(request.backends) in (NoneType, str, BackendRequest, list, tuple)
        and not (request.shapes or request.values or request.require or request.forbid or request.debug or request.given_back)
        and not request.isolate  # whose workloads lie in other processes
        and request.passes
        and request.apart is None
        and request.tuned is True
        and request.limits is None
        and type(request.policy) is FirstWilling
        and request.registry is default_registry()
    )
    values: tuple[Any, ...] = (
        request.backends,
        request.fallback,
        request.options,
        request.integer_layers,
        request.reduce_float,
        request.oracle,
    )
    values += (request.isolate,)
    return repr(values) if is_usual and all(map(_is_plain, values)) else None


def _is_plain(value: Any, depth: int = 8) -> bool:
    if type(value) is dict:
        return _is_plain([*value.keys(), *value.values()], depth)
    if type(value) in (list, tuple):
        return depth > 0 and all(_is_plain(one, depth - 1) for one in value)
    return value is None or type(value) in (bool, int, float, str, BackendRequest)


def _requests(request: CompileRequest) -> Iterable[BackendRequest]:
    given = request.backends
    if given is None:
        return [BackendRequest(one) for one in request.registry.default_preferences()]
    entries: Any = [given] if isinstance(given, str | BackendRequest) else given
    return [BackendRequest.parse(one) for one in entries]


def _module(group: str, name: str) -> str:
    """Return the package of an entry point.

    Raises:
        LookupError: There is none, or more than one.
    """
    found = [one for one in offers(group) if one.name.lower() == name.lower()]
    if len(found) != 1:
        raise LookupError(name)
    return found[0].value.partition(":")[0].partition(".")[0]


@cache
def _installed(modules: tuple[str, ...]) -> str | None:
    """Return a checksum of what tells one installation, on one machine, from another.

    None if it cannot be told, or changed since this process began to import it.
    """
    core = __name__.partition(".")[0]
    try:
        stamps = [files_of_module(module, module).stamps() for module in (core, *modules)]
    except DovetailError:
        return None
    if any(changed_ns >= sys.modules[core].IMPORTED_NS for files in stamps for _, _, _, changed_ns, _ in files):
        return None
    facts = sys.version, sys.executable, sys.modules["numpy"].__version__, stamps, _machine()
    text = repr(facts).encode("utf-8", "surrogateescape")
    return f"{zlib.crc32(text):08x}{zlib.adler32(text):08x}{len(text):x}"  # hashlib would load OpenSSL


def _oracles() -> str | None:
    """Return what tells the oracles of this installation from others; None if it cannot be told.

    Few networks have layers that an oracle computes, and only those plans ask.
    """
    try:
        modules = [_module(BACKENDS, row.id) for row in default_registry().oracles()]
    except LookupError:  # it is no distribution's
        return None
    installed = _installed(tuple(modules))
    return None if installed is None else f"{modules} {installed}"


def _tuned() -> tuple[Any, ...]:
    """Return what tells what was tuned from what is tuned later."""
    if not (settings.tuning() and settings.has_kept("tuning")):
        return ()
    kept = KeptFiles("tuning", lambda problem: None)
    return tuple((name, kept.stamp(name)) for name in kept.names())


def _machine() -> tuple[str, ...]:
    """Return what tells one kind of processor from another."""
    lines: list[str] = []
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                break
            if not line.startswith(("cpu MHz", "bogomips", "BogoMIPS", "apicid", "initial apicid", "core id", "processor")):
                lines.append(line)
    return os.uname().machine, os.uname().release, *lines
