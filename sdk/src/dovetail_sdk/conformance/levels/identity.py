"""Level 0: the backend loads, and is what it says it is."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from dovetail import BackendError, BackendId, Capabilities, Descriptor, Device, OptionError, layers
from dovetail.contract.abi_version import ABI_VERSION, abi_refusal
from dovetail.contract.claims import Claim, ClaimsError, read_claims
from dovetail.contract.promises import read_promises
from dovetail.discovery.manifest import check as check_manifest
from dovetail.discovery.reasons import Refused
from dovetail.discovery.registry import BackendState, default_registry
from dovetail.optimizer import build_options

from ...coverage import doubts_about
from ..checks import check
from ..endings import ConformanceFailure, NotApplicable
from ..subject import Subject

_LISTING = """
import json, os, sys
import dovetail
before = set(sys.modules)
rows = dovetail.backends()
maps = open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else ""
opened = sorted({line.split()[-1] for line in maps.splitlines() if ".so" in line})
print(json.dumps({"ids": [row.id for row in rows], "modules": sorted(set(sys.modules) - before), "opened": opened}))
"""


@check(level=0, title="has a valid id, always the same")
def id_is_valid(subject: Subject) -> None:
    """Ask for the id twice.

    Troubleshooting: `id` must return the same `dovetail.BackendId` each time: a letter, then
    letters, digits and underscores.
    """
    first, second = subject.backend.id, subject.backend.id
    try:
        BackendId(first)
    except BackendError as error:
        raise ConformanceFailure(f"its id is {first!r}: {error.message}") from error
    if not isinstance(first, BackendId) or first != second:
        raise ConformanceFailure(f"its id is {first!r} ({type(first).__name__}), then {second!r}; expected one BackendId")


@check(level=0, title="is found under its id, once")
def is_listed(subject: Subject) -> None:
    """Look for the backend in the registry, as its users do.

    Troubleshooting: The name of the entry point in the group `dovetail.backends` is the id; the
    manifest and `id` say the same. After a change of either, install the distribution again:
    metadata are written at installation.
    """
    row = subject.target.row
    if row is None:
        raise NotApplicable("it was handed over as an object, not found by its id")
    same = [one for one in default_registry().rows() if one.id.casefold() == subject.id.casefold()]
    if row.id != subject.id:
        raise ConformanceFailure(f"it is listed as {row.id!r}, but its id is {subject.id!r}")
    if len(same) != 1:
        raise ConformanceFailure(f"its id is offered {len(same)} times: {'; '.join(one.source for one in same)}")
    if same[0].state is not BackendState.LOADED:
        raise ConformanceFailure(f"after loading, its row says {same[0].state}: {same[0].reason}")


@check(level=0, title="has a manifest that says what it is")
def manifest_is_valid(subject: Subject) -> None:
    """Check the manifest: all fields, the id, the version of the ABI.

    Troubleshooting: `dovetail-backend.json` lies beside the package's `__init__.py` and must be
    packaged with it: name it in `package-data`. `abi` is what the backend was built for; the build
    helper writes it.
    """
    manifest = subject.target.manifest
    if manifest is None:
        subject.note("it has no manifest: it is never a default, and its version of the ABI cannot be checked before it runs")
        raise NotApplicable("it has no manifest")
    try:
        check_manifest(dict(manifest))
    except Refused as error:
        raise ConformanceFailure(str(error)) from error
    if manifest["id"] != subject.id:
        raise ConformanceFailure(f"its manifest says {manifest['id']!r}, its id is {subject.id!r}")
    # An editable installation states none; what was built is compared when it is opened.
    refusal = abi_refusal(tuple(manifest.get("abi", ABI_VERSION)))
    if refusal:
        raise ConformanceFailure(f"it is {refusal}")
    if not manifest["description"].strip() or not manifest["device"].strip():
        raise ConformanceFailure("'description' and 'device' of its manifest must not be empty: people choose by them")


@check(level=0, title="claims kinds and quantities that exist")
def claims_are_wellformed(subject: Subject) -> None:
    """Read the claims, and look up every kind and quantity in them.

    Troubleshooting: See `dovetail.contract.claims` for how a claim is written. A quantity is an
    attribute of the kind, or `<input>.<axis>`; a misspelt one fits no layer, so that the claim
    would be void.
    """
    content = (subject.target.manifest or {}).get("claims")
    if content is None:
        raise NotApplicable("its manifest claims nothing")
    try:
        claims = read_claims(content)
    except ClaimsError as error:
        raise ConformanceFailure(str(error)) from error
    problems = doubts_about(claims)
    if problems:
        raise ConformanceFailure("\n".join(problems))


@check(level=0, title="promises what can be held against it")
def promises_are_wellformed(subject: Subject) -> None:
    """Read what the manifest promises beyond its claims, and look up every kind and quantity in it.

    Troubleshooting: docs/promises.md describes `bit_exact`, `deviations` and `late_failure`. A
    misspelt quantity fits no layer, so that the promise would be void; `late_failure` names options
    of the backend's `options_type`.
    """
    manifest = subject.target.manifest or {}
    if not any(name in manifest for name in ("bit_exact", "deviations", "late_failure")):
        raise NotApplicable("its manifest promises nothing beyond its claims")
    try:
        promises = read_promises(manifest)
    except ClaimsError as error:
        raise ConformanceFailure(str(error)) from error
    by_kind: dict[str, tuple[Claim, ...]] = {}
    for kind, scope in promises.scopes():
        by_kind[kind] = (*by_kind.get(kind, ()), scope)
    problems = doubts_about(by_kind)
    if problems:
        raise ConformanceFailure("\n".join(problems))
    if promises.late_failure is not None:
        try:
            build_options(subject.backend, {**subject.options, **promises.late_failure})
        except (BackendError, OptionError) as error:
            raise ConformanceFailure(f"the options of 'late_failure' in its manifest cannot be built: {error}") from error
    for deviation in subject.promises.deviations:
        subject.declared(deviation, looked_for=False)


@check(level=0, title="is listed without being imported or opened")
def listing_imports_nothing(subject: Subject) -> None:
    """List the backends in a fresh process, and look at what that imported and mapped.

    Troubleshooting: Nothing of a backend may run before it is asked for by id: no `.pth` file, no
    import in another package's `__init__.py`, and the manifest is a file rather than code.
    """
    row = subject.target.row
    if row is None or row.distribution is None:
        raise NotApplicable("no distribution offers it")
    package = row.origin.partition(":")[0].partition(".")[0]
    done = subprocess.run([sys.executable, "-c", _LISTING], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise ConformanceFailure(f"listing the backends ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if row.id not in found["ids"]:
        raise ConformanceFailure(f"a fresh process lists {', '.join(found['ids'])}, not {row.id}")
    imported = [name for name in found["modules"] if name.partition(".")[0] == package]
    opened = [name for name in found["opened"] if f"/{package}/" in name]
    if imported or opened:
        raise ConformanceFailure(
            f"listing imported {', '.join(imported) or 'nothing'} and opened {', '.join(opened) or 'nothing'}"
        )


@check(level=0, title="says what it promises")
def capabilities_are_wellformed(subject: Subject) -> None:
    """Ask for the capabilities twice.

    Troubleshooting: `capabilities` must return a `dovetail.Capabilities` of true booleans, always
    the same.
    """
    first, second = subject.backend.capabilities(), subject.backend.capabilities()
    if not isinstance(first, Capabilities):
        raise ConformanceFailure(f"capabilities() returned {first!r}, not a Capabilities")
    for name, value in first._asdict().items():
        if not isinstance(value, bool):
            raise ConformanceFailure(f"capability {name!r} is {value!r}, not a bool")
    if first != second:
        raise ConformanceFailure(f"capabilities() said {first}, then {second}")


@check(level=0, title="names its devices")
def devices_are_named(subject: Subject) -> None:
    """Ask for the devices twice.

    Troubleshooting: `devices` returns one `Device` per device, in order of their index, always with
    the same facts, and an empty tuple (never an error) on a machine without the device.
    """
    first, second = subject.backend.devices(), subject.backend.devices()
    if not isinstance(first, Sequence) or not all(isinstance(one, Device) and one.name for one in first):
        raise ConformanceFailure(f"devices() returned {first!r}, not a sequence of named Device")
    if [one.index for one in first] != list(range(len(first))):
        raise ConformanceFailure(f"devices() gave the indices {[one.index for one in first]}; expected 0, 1, ... in order")
    if list(first) != list(second):
        raise ConformanceFailure(f"devices() said {list(first)}, then {list(second)}")
    if not first:
        raise ConformanceFailure("it has no device on this machine, so nothing can be proven here")


@check(level=0, title="has options with defaults")
def options_have_defaults(subject: Subject) -> None:
    """Build the options from nothing, and from the options given to this run.

    Troubleshooting: `options_type` is a frozen dataclass all of whose fields have defaults;
    `__post_init__` raises ValueError for values that do not fit.
    """
    kind = subject.backend.options_type
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ConformanceFailure(f"options_type is {kind!r}, not a dataclass")
    if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # dataclasses keep their parameters there
        raise ConformanceFailure(
            f"options_type {kind.__name__} is not frozen: one instance is shared by all layers of a network"
        )
    try:
        built: list[Any] = [build_options(subject.backend), build_options(subject.backend)]
    except (BackendError, OptionError) as error:
        raise ConformanceFailure(f"its options cannot be built from nothing: {error}") from error
    if built[0] != built[1]:
        raise ConformanceFailure(f"its default options are {built[0]}, then {built[1]}")
    _ = subject.built_options


@check(level=0, title="knows no kind better than the core does")
def kind_versions_exist(subject: Subject) -> None:
    """Compare `kind_versions` with the versions of the core's kinds.

    Troubleshooting: A backend that says it knows a version that does not exist yet would be handed
    attributes that it cannot know. Write the version that you implemented.
    """
    versions = subject.backend.kind_versions
    if not isinstance(versions, Mapping):
        raise ConformanceFailure(f"kind_versions is {versions!r}, not a mapping of kind to version")
    public = [getattr(layers, name) for name in layers.__all__]
    known = {one.kind: one for one in public if isinstance(one, type) and issubclass(one, Descriptor)}
    for kind, version in versions.items():
        if not isinstance(kind, str) or not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise ConformanceFailure(f"kind_versions has {kind!r}: {version!r}; expected a kind and a positive integer")
        if kind in known and version > known[kind].version:
            raise ConformanceFailure(
                f"it says it knows version {version} of {kind}; the core's newest is {known[kind].version}"
            )
