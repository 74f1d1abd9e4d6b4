"""Read what a backend says about itself without loading it.

It stands in `dovetail-backend.json`, or as the same text in an ELF section.

A manifest is one object, or a list of them if a package holds several backends::

    {"id": "CpuAcme", "device": "cpu", "rank": 10, "description": "ACME kernels for AVX2"}

`device` is "cpu" for everything that computes on the host; only these are chosen when a caller
names no backend, highest `rank` first. A rank of 0 is for slow ones. Optional:

- `abi`: version of the kernel protocol that the backend was built for. The build writes it into
  wheels and into sections; a source tree that is installed in editable form has none, and is
  compared when it is opened;
- `library`: name of a shared library beside the manifest that exports the C table; then nothing is
  imported;
- `module`, `attribute`: in the section of a Python extension module, its name and the name of the
  `IBackend` in it ("Backend");
- `version`, `vendor`: for people;
- `claims`: which layers it takes, see `claims.py`; read when the backend is first used;
- `bit_exact`, `deviations`, `late_failure`: promises, see `promises.py`; read by tools;
- `isolate`: true if the backend is to run in a process of its own, unless the caller says
  otherwise; or the values of options under which it is, {"driver": ["native"]}; see
  docs/isolation.md;
- `oracle`: true if its results may stand in for those of any backend: layers that depend on
  constants alone are computed by it while a network is loaded, also where nobody names it;
- `drivers`: environment variables, and absolute paths of files and folders, by which it finds its
  drivers: where one changes, it is tried again before it is loaded.

Fields of other names are left to later versions of the format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

from ..contract.own_manifest import FILE_NAME
from ..ground.foreign_text import described, shown
from ..ground.host_exceptions import is_of_host
from .reasons import ReasonCode, Refused

if TYPE_CHECKING:
    from ..contract.claims import Claims

LARGEST = 64 * 1024
"""Bytes: a manifest is a few lines, and a huge one must not slow down every listing."""

_REQUIRED: dict[str, type] = {"id": str, "device": str, "rank": int, "description": str}
_OPTIONAL: dict[str, type | tuple[type, ...]] = {
    "abi": list,
    "library": str,
    "module": str,
    "attribute": str,
    "version": str,
    "vendor": str,
    "claims": dict,
    "bit_exact": dict,
    "deviations": dict,
    "late_failure": dict,
    "drivers": list,
    "oracle": bool,
    "isolate": (bool, dict),
    "isolate_unless": list,
    "threads_decide": bool,
}
_LARGEST_NUMBER = 1_000_000_000


def manifest_of(module: str, backend: str) -> Mapping[str, Any] | None:
    """Return the manifest for a backend whose entry point is in this module; None without one.

    Raises:
        Refused: It cannot be read, is malformed, or speaks of other backends only.
    """
    return find_manifest(module, backend)[0]


def find_manifest(module: str, backend: str) -> tuple[Mapping[str, Any] | None, str | None]:
    """Return the manifest for a backend whose entry point is in this module, and its folder.

    None twice if there is none.

    Only the top-level package is looked for, because finding a deeper module would import the
    packages above it.

    Raises:
        Refused: It cannot be read, is malformed, or speaks of other backends only.
    """
    try:
        spec = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):  # the import will say it better, if it is ever asked for
        return None, None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = os.path.join(folder, FILE_NAME)
        if os.path.isfile(path):
            return choose(parse(_read(path), path), backend, path), folder
    return None, None


def parse(text: bytes, path: str) -> Any:
    """Read the JSON of a manifest.

    Raises:
        Refused: It is too large or malformed.
    """
    if len(text) > LARGEST:
        raise Refused(ReasonCode.BAD_MANIFEST, f"the manifest is larger than {LARGEST} bytes", path=path)
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Refused(ReasonCode.BAD_MANIFEST, f"the manifest cannot be read: {shown(error)}", path=path) from error


def choose(content: Any, backend: str, path: str) -> Mapping[str, Any]:
    """Return the manifest of a backend from a text that may hold several.

    Raises:
        Refused: One is malformed, or none is of this backend.
    """
    manifests = [check(manifest, path) for manifest in (content if isinstance(content, list) else [content])]
    for manifest in manifests:
        if manifest["id"] == backend:
            return manifest
    found = ", ".join(shown(manifest["id"]) for manifest in manifests) or "nothing"
    raise Refused(ReasonCode.BAD_MANIFEST, f"the manifest describes {found}, not {backend!r}", path=path)


def _unprintable(value: Any) -> str | None:
    """Return a string or key inside a value of JSON that holds control characters; None if none."""
    try:
        if "\\" not in repr(value):  # which escapes them, much faster than strings are looked at
            return None
    except RecursionError:
        return "(nested too deeply)"
    inside = [value]
    while inside:
        one = inside.pop()
        if isinstance(one, dict):
            inside += [*one, *one.values()]
        elif isinstance(one, list):
            inside += one
        elif isinstance(one, str) and not one.isprintable():
            return one
    return None


def check(manifest: Any, path: str | None = None) -> Mapping[str, Any]:
    """Return a manifest if it has every field it must have, and each that it has of its type.

    Raises:
        Refused: It does not.
    """

    def malformed(text: str) -> Refused:
        return Refused(ReasonCode.BAD_MANIFEST, text, path=path)

    if not isinstance(manifest, dict):
        raise malformed(f"the manifest must hold an object, not {type(manifest).__name__}")
    for name, wanted in (_REQUIRED | _OPTIONAL).items():
        if name not in manifest:
            if name in _REQUIRED:
                raise malformed(f"the manifest lacks {name!r}; it must have {', '.join(_REQUIRED)}")
            continue
        value = manifest[name]
        kinds = wanted if isinstance(wanted, tuple) else (wanted,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise malformed(f"{name!r} in the manifest must be of type {names}, not {shown(value)}")
        if isinstance(value, str) and not value.isprintable():  # a listing must not move the cursor of a terminal
            raise malformed(f"{name!r} in the manifest holds control characters: {shown(value)}")
    for name, value in manifest.items():
        text = _unprintable({name: value})
        if text is not None:
            raise malformed(f"{shown(name)} in the manifest holds control characters: {shown(text)}")
    abi = manifest.get("abi", [0, 0])
    if len(abi) != 2 or not all(type(number) is int and 0 <= number <= _LARGEST_NUMBER for number in abi):
        raise malformed(f"'abi' in the manifest must be [major, minor], not {shown(abi)}")
    if abs(manifest["rank"]) > _LARGEST_NUMBER:
        raise malformed(f"'rank' in the manifest must be at most {_LARGEST_NUMBER}")
    library = manifest.get("library", "lib.so")
    if library in ("", ".", "..") or "/" in library or "\\" in library:
        raise malformed(f"'library' in the manifest must be the name of a file beside it, not {shown(library)}")
    for name, what in (("drivers", "variables and paths"), ("isolate_unless", "environment variables")):
        if not all(isinstance(one, str) and one and "\0" not in one for one in manifest.get(name, [])):
            raise malformed(f"{name!r} in the manifest must list {what}, not {shown(manifest[name])}")
    for name in ("module", "attribute"):
        if not all(part.isidentifier() for part in manifest.get(name, "some").split(".")):
            raise malformed(f"{name!r} in the manifest must be a Python name, not {shown(manifest[name])}")
    return manifest


def claims_of(manifest: Mapping[str, Any] | None, path: str | None = None, *, at_once: bool = True) -> Claims | None:
    """Read the claims of a manifest; None if it has none.

    This imports NumPy, so that listing leaves it to the first use.

    Args:
        manifest: Read from it.
        path: Where it lies, for messages.
        at_once: False: what stands below a kind is read when it is first asked for. For a manifest
            that was read as a whole before.

    Raises:
        Refused: They are malformed.
    """
    if manifest is None or "claims" not in manifest:
        return None
    from ..contract.claims import Claims, ClaimsError

    try:
        claims = Claims(manifest["claims"])
        return claims.read() if at_once else claims
    except Exception as error:  # whatever one vendor's manifest holds, the other backends must stay usable
        if is_of_host(error) or isinstance(error, MemoryError):
            raise
        text = str(error) if isinstance(error, ClaimsError) else f"'claims' cannot be read: {described(error)}"
        raise Refused(ReasonCode.BAD_MANIFEST, f"in the manifest {text}", path=path) from error


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise Refused(ReasonCode.BAD_MANIFEST, f"the manifest cannot be read: {shown(error)}", path=path) from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key stands there twice")
    return fields


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")
