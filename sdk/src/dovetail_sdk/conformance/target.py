"""What is tested: a backend, found by the name or the object that somebody gave."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from dovetail import BackendError, BackendUnavailableError, ErrorCode, IBackend
from dovetail.contract.backend_id import BackendRequest
from dovetail.discovery.manifest import manifest_of
from dovetail.discovery.reasons import Refused
from dovetail.discovery.registry import IN_PROCESS, BackendRow, default_registry


@dataclass(frozen=True, eq=False)
class Target:
    """What is tested.

    Attributes:
        backend: The backend.
        name: How another process finds it: an id, or "module:attribute", with the number of a
            device where one was named; None if it cannot.
        row: Its row in the registry, for one that was found there.
        manifest: What it says about itself; None if it says nothing.
        device: Index of the device on which it is tested.
    """

    backend: IBackend
    name: str | None = None
    row: BackendRow | None = None
    manifest: Mapping[str, Any] | None = None
    device: int = 0

    @property
    def asked_for(self) -> IBackend | BackendRequest:
        """What `backends` of a load names, so that it runs on the device that is tested."""
        return BackendRequest(self.backend.id, self.device) if self.device else self.backend

    @property
    def described_device(self) -> str:
        """The device that is tested, in a few words; what goes wrong with it, level 0 reports."""
        try:
            devices = self.backend.devices()
            return f"{self.device} ({devices[self.device].name})" if devices else "none on this machine"
        except Exception:
            return str(self.device)


def parted(what: str) -> tuple[str, int]:
    """Part "AcmeNpu:1" or "module:Class:1" into what is tested and the index of its device."""
    match = re.fullmatch(r"(.+?)(?::(\d{1,9}))?", what, re.ASCII | re.DOTALL)
    return (match[1], int(match[2] or 0)) if match else (what, 0)


def open_target(what: str | IBackend | Target, manifest: Mapping[str, Any] | None = None) -> Target:
    """Find the backend to test.

    Args:
        what: An id, as users write it; "module:attribute" for an `IBackend` class that no
            distribution offers; or a backend. ":1" behind the first two is its device 1.
        manifest: Of a backend that is handed over. Else an attribute `manifest` of it is taken, or
            what its package holds.

    Raises:
        BackendError: It cannot be loaded, or has no such device.
    """
    if isinstance(what, Target):
        return what
    if isinstance(what, IBackend):
        rows = [row for row in default_registry().rows() if row.id == what.id and row.distribution is None]
        if manifest is not None:
            what.manifest = manifest
        return Target(what, None, rows[0] if rows else None, what.manifest)
    name, device = parted(what)
    target = _from_module(name) if ":" in name else _installed(name)
    return _on_device(target, what, device) if device else target


def _installed(id: str) -> Target:
    backend = default_registry().get(id)
    row = next(row for row in default_registry().rows() if row.id == id)
    return Target(backend, id, row, row.manifest)


def _on_device(target: Target, name: str, device: int) -> Target:
    names = [one.name for one in target.backend.devices()]
    if device >= len(names):
        raise BackendUnavailableError(
            f"{name!r} is not there: backend {target.backend.id} has {len(names)} devices: {', '.join(names) or 'none'}",
            hint=f"name a device from 0 to {len(names) - 1}" if names else "check its driver",
            state="no_device",
        )
    if target.row is None:  # a load names it by its id, to say which device
        id = target.backend.id
        if any(row.id == id and row.origin == IN_PROCESS for row in default_registry().rows()):
            default_registry().unregister(id)  # of a run before this one
        default_registry().register(target.backend)
    return replace(target, name=name, device=device)


def _from_module(what: str) -> Target:
    module, _, attribute = what.partition(":")
    try:
        offered = getattr(import_module(module), attribute)
        backend = offered if isinstance(offered, IBackend) else offered()
    except Exception as error:
        raise BackendError(
            f"{what!r} cannot be loaded: {type(error).__name__}: {error}",
            hint="write module:Class, with the module's folder on PYTHONPATH, or the id of an installed backend",
        ) from error
    if not isinstance(backend, IBackend):
        raise BackendError(
            f"{what!r} gives {type(backend).__name__}, not an IBackend",
            code=ErrorCode.BACKEND_CONTRACT,
            hint="name a class derived from dovetail.IBackend",
        )
    try:
        facts = getattr(backend, "manifest", None) or manifest_of(module, str(backend.id))
    except Refused as error:
        raise BackendError(f"{what!r}: {error}", code=ErrorCode.BACKEND_CONTRACT) from error
    return Target(backend, what, None, facts)
