"""Turn `backends=` and `options=` into backends that are ready."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

from ..contract.backend_calls import backend_call, devices_of
from ..contract.backend_id import BackendId, BackendRequest
from ..contract.interfaces import Device, IBackend
from ..ground.close_names import suggestion
from ..ground.errors import BackendError, BackendUnavailableError, DovetailError, ErrorCode, OptionError
from ..ground.foreign_text import shown
from ..ground.logs import Log
from ..ground.settings import variable
from .candidate import Absent, Assigned, Opened, Registry
from .options import build_options

_log = Log("dovetail")

BackendLike: TypeAlias = str | BackendRequest | IBackend
"""``"AcmeNpu"``, ``"AcmeNpu:1"`` (device), ``"AcmeNpu?"`` (may be absent), or a backend itself."""
Options: TypeAlias = Mapping[str, Mapping[str, Any] | object]
"""By backend id, or ``"AcmeNpu:1"`` for one device.

Each entry holds values by name, or an instance of the backend's `options_type`.
"""


_NOT_THERE = Device(name="not on this machine")


def resolve(
    backends: Sequence[BackendLike] | BackendLike | None,
    options: Options | None,
    registry: Registry,
    isolate: Sequence[str] | str | None = None,
) -> tuple[list[Assigned], list[Absent]]:
    """Return the backends that are ready, by preference, and the optional ones that are not.

    Those in `isolate` run in a process of their own; None: those whose manifest asks for it.

    Without `backends` the registry's defaults are used. Each of them may be absent, and those
    behind the first that is there are opened when they are needed.

    Raises:
        BackendUnavailableError: One that was asked for without ``?`` is not ready, or none is left.
        OptionError: The list is empty, names one backend twice, or `options` or `isolate` names
            none of it.
    """
    entries = _entries(backends, registry)
    requests = [_request(entry) for entry in entries]
    _refuse_doubles(requests)
    _refuse_strangers({} if options is None else options, requests)
    apart = None if isolate is None else _isolated_ids(isolate, requests)
    ready: list[Assigned] = []
    absent: list[Absent] = []
    for entry, request in zip(entries, requests, strict=True):
        given = _given(options, request)
        one = Assigned(request, registry, partial(_opened, entry, request, given, registry, backends is None, apart))
        # A default that nobody spoke of is opened when those before it refuse something.
        is_needed = backends is not None or not ready or given is not None
        try:
            is_absent = is_needed and one.absence is not None
        except BaseException:
            let_go(ready)
            raise
        if is_absent and one.absence is not None:
            absent.append(one.absence)
        else:
            ready.append(one)
    _refuse_doubles([one.request for one in ready])  # options may have named the device of another entry
    if not ready:
        raise BackendUnavailableError(
            "none of the backends is there: " + "; ".join(f"{a.request} ({a.state}): {a.reason}" for a in absent),
            hint="install one of them, or name one that is ready",
            absent=absent,
        )
    return ready, absent


@contextmanager
def started_ahead(
    backends: Sequence[BackendLike] | BackendLike | None,
    options: Options | None,
    registry: Registry,
    isolate: Sequence[str] | str | None,
) -> Iterator[None]:
    """Begin to start the processes of isolated backends, which takes as long as reading a model.

    The arguments are those of `resolve`. What is wrong with them, or with the processes, is said
    when the backends are asked. If the block raises, the processes end, unless another network uses
    them.
    """
    found: list[Any] = []
    try:
        with suppress(DovetailError):
            found += isolated_ones(backends, options, registry, isolate)
        for one in found:
            one.start_ahead()
        yield
    except BaseException:
        for one in found:
            one.end_if_idle()
        raise


def isolated_ones(backends: Any, options: Any, registry: Registry, isolate: Any) -> Iterator[Any]:
    """Yield the stand-ins of backends that are to be isolated, of those that were asked for.

    Raises:
        DovetailError: There is not what is asked for.
    """
    known = isinstance(backends, str | Sequence | IBackend) and isinstance(options, Mapping | None)
    if not known:  # the defaults are for CPUs, and what is no sequence may be read once
        return
    entries = _entries(backends, registry)
    requests = [_request(entry) for entry in entries]
    apart = None if isolate is None else _isolated_ids(isolate, requests)
    for entry, one in zip(entries, requests, strict=True):
        given = _given(options, one)
        if str(one.id) in apart if apart is not None else _asks_for_isolation(entry, one, given, registry):
            yield _isolated(entry, one, given, registry)[0]


def let_go(candidates: Iterable[Assigned]) -> None:
    """End processes of backends that serve nobody, after a compilation that failed."""
    for one in candidates:
        if isinstance(one.found, Opened):
            end = getattr(one.found.backend, "end_if_idle", None)  # an isolated backend's
            if end is not None:
                end()


def _opened(
    entry: BackendLike,
    request: BackendRequest,
    given: Any,
    registry: Registry,
    is_default: bool,
    apart: frozenset[str] | None,
) -> Opened | Absent:
    """Open a backend.

    Raises:
        BackendError: It is not there, and somebody asked for it.
    """
    try:
        if str(request.id) in apart if apart is not None else _asks_for_isolation(entry, request, given, registry):
            backend, options = _isolated(entry, request, given, registry)
        else:
            backend = entry if isinstance(entry, IBackend) else registry.get(request.id)
            options = build_options(backend, given)
        device = _device(backend, _with_device(backend, request, options))
    except BackendError as error:
        # Nobody asked for a default by name, so that one which is broken must not keep the
        # others from being used.
        if not request.optional or not (is_default or isinstance(error, BackendUnavailableError)):
            raise
        if is_default:
            _log.warning("%s is left out: %s", request.id, error.message)
        return Absent(request, str(error.details.get("state", "unavailable")), error.message)
    return Opened(backend, options, device)


def _given(options: Options | None, request: BackendRequest) -> Any:
    """Return the options of a backend and device as the caller gave them; None for none."""
    return (options or {}).get(str(request).rstrip("?"), (options or {}).get(str(request.id)))


def _isolated_ids(isolate: Sequence[str] | str, requests: Sequence[BackendRequest]) -> frozenset[str]:
    """Return the ids of the backends that run in processes of their own.

    Raises:
        OptionError: One is none of those that are asked for.
    """
    given = [isolate] if isinstance(isolate, str) else isolate
    if not isinstance(given, Iterable) or not all(isinstance(one, str) for one in given):
        raise OptionError(
            f"isolate={shown(isolate)} names no backends", code=ErrorCode.OPTION_INVALID, hint="give an id, or a list of ids"
        )
    known = [str(request.id) for request in requests]
    for one in given:
        if one not in known:
            raise OptionError(f"isolate names {one!r}, which is not in backends=", hint=suggestion(one, known), key=one)
    return frozenset(map(str, given))


def _asks_for_isolation(entry: BackendLike, request: BackendRequest, given: Any, registry: Registry) -> bool:
    """Say whether a manifest wants its backend in a process of its own, under these options.

    It does not where one of the environment variables is set that it names as exceptions.
    """
    if isinstance(entry, IBackend):
        with backend_call(f"backend {request.id}", "manifest"):
            manifest = entry.manifest
    else:
        tell = getattr(registry, "manifest_of", None)  # which a registry of the caller's need not have
        manifest = None if tell is None else tell(request.id)
    if not isinstance(manifest, Mapping) or any(map(variable, manifest.get("isolate_unless", ()))):
        return False
    wanted = manifest.get("isolate")
    if isinstance(wanted, Mapping):
        return any(
            _option(given, name) in (values if isinstance(values, list) else [values]) for name, values in wanted.items()
        )
    return wanted is True


def _option(given: Any, name: str) -> Any:
    """Return an option as the caller gave it; None where it was not."""
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def _isolated(entry: BackendLike, request: BackendRequest, given: Any, registry: Registry) -> tuple[IBackend, Any]:
    """Return the stand-in of a backend that runs in a process of its own, and its options."""
    from ..isolation.backend import IsolatedOptions, isolated, isolated_object  # few programs isolate

    holds = getattr(registry, "holds", None)
    if isinstance(entry, IBackend) and not (holds is not None and holds(entry)):
        return isolated_object(entry), IsolatedOptions(given)
    if not hasattr(registry, "admitted"):
        return isolated_object(registry.get(request.id)), IsolatedOptions(given)
    return isolated(registry, request.id), IsolatedOptions(given)


def _entries(backends: Sequence[BackendLike] | BackendLike | None, registry: Registry) -> list[BackendLike]:
    if backends is None:
        chosen = list(registry.default_preferences())
        if not chosen:
            raise BackendUnavailableError(
                "no backend is installed",
                hint="install one, such as the reference backend, or name one with backends=",
                state="not_installed",
            )
        return [BackendRequest(id, optional=True) for id in chosen]
    if isinstance(backends, str | BackendRequest | IBackend):
        return [backends]
    if not isinstance(backends, Iterable):
        raise OptionError(
            f"backends={shown(backends)} is neither a backend nor a list of them",
            code=ErrorCode.OPTION_INVALID,
            hint="give ids in order of preference, such as ['AcmeNpu?', 'CpuAcc']",
        )
    entries = list(backends)
    if not entries:
        raise OptionError(
            "backends is empty",
            code=ErrorCode.OPTION_INVALID,
            hint="name at least one backend, or leave backends= out for the defaults",
        )
    return entries


def _request(entry: BackendLike) -> BackendRequest:
    if not isinstance(entry, IBackend):
        return BackendRequest.parse(entry)
    with backend_call(f"backend of class {type(entry).__name__}", "id"):
        return BackendRequest(BackendId(entry.id))


def _refuse_doubles(requests: Sequence[BackendRequest]) -> None:
    seen: set[tuple[str, int]] = set()
    for request in requests:
        if (request.id, request.device) in seen:
            raise OptionError(
                f"backends names {str(request).rstrip('?')} twice",
                code=ErrorCode.OPTION_INVALID,
                hint="name each backend and device once",
            )
        seen.add((request.id, request.device))


def _refuse_strangers(options: Options, requests: Sequence[BackendRequest]) -> None:
    if not isinstance(options, Mapping):
        raise OptionError(
            f"options={shown(options)} is no mapping",
            code=ErrorCode.OPTION_INVALID,
            hint="give options by backend, as in options={'AcmeNpu': {name: value}}",
        )
    known = list(dict.fromkeys(name for r in requests for name in (str(r.id), str(r).rstrip("?"))))
    for key in options:
        if key not in known:
            raise OptionError(f"options names {key!r}, which is not in backends=", hint=suggestion(str(key), known), key=key)


def _with_device(backend: IBackend, request: BackendRequest, options: Any) -> BackendRequest:
    """Return a request for the device that options name, if they do.

    Raises:
        OptionError: It is another one than the request's.
    """
    if type(backend).device_of is IBackend.device_of:
        return request
    with backend_call(f"backend {request.id}", "device_of"):
        named = backend.device_of(options)
    if named is None:
        return request
    if request.device not in (0, named):
        raise OptionError(
            f"{str(request).rstrip('?')} is asked for, and its options name device {named}",
            code=ErrorCode.OPTION_INVALID,
            hint=f"name the device once: {request.id}:{named}, or by the option",
            backend=str(request.id),
        )
    return request._replace(device=named)


def _device(backend: IBackend, request: BackendRequest) -> Device:
    devices = devices_of(f"backend {request.id}", backend)
    if not devices and request.device == 0:
        return _NOT_THERE  # placing needs no device; loading says that there is none
    if request.device >= len(devices):
        names = [device.name for device in devices]
        raise BackendUnavailableError(
            f"backend {request.id} has no device {request.device}; it has {len(names)}: {', '.join(names) or 'none'}",
            hint="check its driver"
            if not names
            else f"name a device from 0 to {len(names) - 1}"
            if len(names) > 1
            else "name 0",
            state="no_device",
        )
    return devices[request.device]
