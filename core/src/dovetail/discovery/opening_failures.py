"""Find out why a backend cannot be loaded, from what its code raised; imported when one failed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..ground.errors import DovetailError, ErrorCode
from ..ground.foreign_text import described
from .candidates import Candidate, Form
from .content import is_of_another_python
from .reasons import ReasonCode, Refused

_NO_LIBRARY = re.compile(r"(?P<library>[^:\s]+): cannot open shared object file")
_OLD_LIBRARY = re.compile(r"version `(?P<version>[^']+)' not found(?: \(required by (?P<by>[^)]+)\))?")
_NO_NAME = re.compile(r"cannot import name '(?P<name>\w+)' from (partially initialized module )?'(?P<module>[\w.]+)'")
_NO_SYMBOL = re.compile(r"undefined symbol: (?P<symbol>[^\s,]+)")
_OTHER_BUILD = re.compile(
    r"size changed, may indicate binary incompatibility|has wrong signature|does not export expected C|"
    r"compiled against (ABI|API) version|compiled using NumPy 1\.x|_ARRAY_API not found|multiarray failed to import"
)


def failure(candidate: Candidate, phase: str, error: BaseException) -> Refused:
    """Return the refusal for what a backend's code raised.

    Args:
        candidate: Whose code it was.
        phase: "import", "create" or "id": what the code was to do.
        error: What it raised.
    """
    code, facts = _classified(candidate, phase, error)
    if isinstance(error, DovetailError):
        text, hint = error.message.removeprefix(f"{candidate.library} cannot be loaded: "), error.hint or ""
    else:
        text, hint = described(error), ""
    what = {"import": "cannot be imported", "create": "cannot be created", "id": "does not tell its id"}[phase]
    if candidate.form is Form.LIBRARY:
        what = "cannot be loaded"
    return Refused(code, f"{what}: {text}", hint=hint, path=candidate.library or candidate.path, phase=phase, **facts)


def _classified(candidate: Candidate, phase: str, error: BaseException) -> tuple[ReasonCode, dict[str, Any]]:
    if isinstance(error, DovetailError):
        given = error.details.get("reason_code")
        if isinstance(given, str) and given in ReasonCode.__members__:
            return ReasonCode[given], {}
        if error.code is ErrorCode.ABI_MISMATCH:
            return ReasonCode.ABI_MISMATCH, {}
        if error.details.get("phase") == "dlopen":  # the text is that of the dynamic loader
            return _classified(candidate, phase, OSError(error.message))
        if error.code is ErrorCode.BACKEND_CONTRACT or error.details.get("phase") == "symbol":
            return ReasonCode.NOT_A_BACKEND, {}
        return ReasonCode.CREATE_FAILED if error.details.get("phase") == "open" else ReasonCode.IMPORT_FAILED, {}
    try:
        text = str(error)
    except BaseException:
        text = ""
    if isinstance(error, ModuleNotFoundError):
        return _missing_module(candidate, error.name or "")
    if isinstance(error, AttributeError) and phase == "import" and error.name and _is_named(candidate, error):
        return ReasonCode.ENTRY_POINT_BROKEN, {"missing": error.name}
    if isinstance(error, ImportError | OSError):
        if (match := _NO_NAME.search(text)) and _has_other_build(candidate, f"{match['module']}.{match['name']}"):
            return ReasonCode.PY_ABI, {"missing": f"{match['module']}.{match['name']}"}
        if match := _OLD_LIBRARY.search(text):
            return ReasonCode.MISSING_DEPENDENCY, {"version": match["version"]}
        if match := _NO_LIBRARY.search(text):
            return ReasonCode.MISSING_DEPENDENCY, {"library": match["library"]}
        if match := _NO_SYMBOL.search(text):
            is_python = match["symbol"].startswith(("Py", "_Py"))
            return ReasonCode.PY_ABI if is_python else ReasonCode.UNDEFINED_SYMBOL, {"symbol": match["symbol"]}
        if "does not define module export function" in text:
            return ReasonCode.ENTRY_POINT_BROKEN, {}
    if isinstance(error, ImportError | ValueError | TypeError | RuntimeError | AttributeError) and _OTHER_BUILD.search(text):
        return ReasonCode.PY_ABI, {}
    return {"import": ReasonCode.IMPORT_FAILED}.get(phase, ReasonCode.CREATE_FAILED), {}


def _missing_module(candidate: Candidate, name: str) -> tuple[ReasonCode, dict[str, Any]]:
    if _has_other_build(candidate, name):
        return ReasonCode.PY_ABI, {"missing": name}
    own = name == candidate.module or name.startswith(f"{candidate.module}.")
    return ReasonCode.ENTRY_POINT_BROKEN if own else ReasonCode.MISSING_DEPENDENCY, {"missing": name}


def _has_other_build(candidate: Candidate, name: str) -> bool:
    """Tell whether a module of the backend's package is there, though built for another Python."""
    package, *folders = name.split(".")
    if package != candidate.module or candidate.path is None or not folders:
        return False
    *folders, stem = folders
    return any(is_of_another_python(str(file)) for file in Path(candidate.path, *folders).glob(f"{stem}.*.so"))


def _is_named(candidate: Candidate, error: AttributeError) -> bool:
    """Tell whether a missing attribute is the one that the entry point, or the manifest, names."""
    wanted = candidate.value.partition(":")[2].partition("[")[0].strip() if candidate.value else None
    if wanted is None:
        wanted = (candidate.manifest or {}).get("attribute", "Backend")
    module = getattr(error.obj, "__name__", None)
    named = candidate.value.partition(":")[0].strip() if candidate.value else (candidate.manifest or {}).get("module")
    return error.name in wanted.split(".") and (module == named or isinstance(error.obj, type))
