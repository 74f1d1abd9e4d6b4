"""What the environment and the user's `config.toml` say about finding and trying backends.

A process that runs with more rights than whoever started it (set-uid, `AT_SECURE`) takes neither:
both are the caller's. Its home folder is the one that the password database gives for the user
whose rights it has, whatever `HOME` says.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from .logs import Log
from .records import NamedTuple
from .trusted_files import read_trusted, shortened

_log = Log("dovetail")
_AT_SECURE = 23  # of <elf.h>
_MAX_CONFIGURATION = 1 << 20
_MAX_NAME = 255  # of Linux: bytes of one element of a path
_MAX_PATH = 4096 - 512  # bytes of a path, with room for the names below it

BACKEND_PATH = "DOVETAIL_BACKEND_PATH"
LOCK = "DOVETAIL_LOCK"
PROBE = "DOVETAIL_PROBE"
PROBE_TIMEOUT = "DOVETAIL_PROBE_TIMEOUT"
PROBE_MEMORY = "DOVETAIL_PROBE_MEMORY"
CACHE_DIR = "DOVETAIL_CACHE_DIR"
TUNING = "DOVETAIL_TUNING"
PLANS = "DOVETAIL_PLANS"


class SearchFolder(NamedTuple):
    """A folder that somebody asked to search.

    Attributes:
        path: As it was written.
        asked_by: Where it was written.
    """

    path: str
    asked_by: str


def is_secure() -> bool:
    """Tell whether this process has rights that whoever started it may not have."""
    if os.name != "posix":
        return False
    return os.getuid() != os.geteuid() or os.getgid() != os.getegid() or _began_secure()


@cache
def _began_secure() -> bool:
    try:
        import ctypes

        return bool(ctypes.CDLL(None).getauxval(_AT_SECURE))
    except (ImportError, OSError, AttributeError):  # no Linux
        return False


def variable(name: str) -> str:
    """Return an environment variable; empty if it is not set or must not be heeded."""
    text = os.environ.get(name, "")
    if text and is_secure():
        _warn_once(f"{name} is ignored: this process has more rights than whoever started it")
        return ""
    return text


def search_folders() -> list[SearchFolder]:
    """List the folders to search: those of the environment, then those of the configuration.

    An empty element is none.
    """
    folders = [SearchFolder(part, BACKEND_PATH) for part in variable(BACKEND_PATH).split(os.pathsep)]
    folders += [SearchFolder(part, "backend_path in config.toml") for part in _texts("backend_path")]
    return [folder for folder in folders if folder.path]


def trusted_paths() -> list[str]:
    """List the folders that the user answers for, whoever can write there.

    The place is not checked from there upwards.
    """
    return [path for path in _texts("trusted_path") if os.path.isabs(path)]


def lock_file() -> str | None:
    """Return the file that says what backends must consist of, if there is to be one."""
    if variable(LOCK):
        return variable(LOCK)
    found = configuration()
    problem = _problem_of("lock", found)
    if problem:
        _warn_once(problem)
        return None
    return found.get("lock") or None


def probing() -> bool:
    """Tell whether backends are tried in a child process before they are loaded."""
    return not _is_off(PROBE)


def tuning() -> bool:
    """Tell whether what was tuned on this machine is used."""
    return not _is_off(TUNING)


def plans() -> bool:
    """Tell whether plans of model files are kept, and used."""
    return not _is_off(PLANS)


def probe_timeout() -> float:
    """Return how long a backend may take in the child process, in seconds."""
    return _number(PROBE_TIMEOUT, 10.0, 0.05, 3600.0)


def probe_memory() -> int:
    """Return how much memory the child process may allocate, in bytes.

    The variable counts in MiB, 0 is without limit.
    """
    return int(_number(PROBE_MEMORY, 8192.0, 0.0, 1e9)) << 20


def cache_folder() -> str | None:
    """Return where verdicts and what was tuned are kept, or None if there is no such place.

    It need not exist.
    """
    text = variable(CACHE_DIR)
    if text:
        return _place(text)
    return _home("XDG_CACHE_HOME", ".cache")


def has_kept(kind: str) -> bool:
    """Tell whether there may be files of a kind that `KeptFiles` keeps."""
    folder = cache_folder()
    return folder is not None and os.path.isdir(os.path.join(folder, kind))


def configuration_path() -> str | None:
    """Return where the user's `config.toml` is looked for; None if none is heeded."""
    folder = _home("XDG_CONFIG_HOME", ".config")
    return None if folder is None or is_secure() else os.path.join(folder, "config.toml")


def configuration() -> dict[str, Any]:
    """Return the user's `config.toml`, empty if there is none that may be heeded.

    Why one is not heeded is told in a warning.
    """
    found, problem = _read()
    if problem:
        _warn_once(problem)
    return found


def configuration_problems() -> list[str]:
    """Say what of the user's `config.toml` is not heeded, and why; empty if nothing is so."""
    found, problem = _read()
    problems = [problem, *(_problem_of(key, found) for key in ("backend_path", "trusted_path", "lock"))]
    return [one for one in problems if one]


def _read() -> tuple[dict[str, Any], str]:
    """Return what is in `config.toml`, and why it is ignored, if it is."""
    path = configuration_path()
    if path is None:
        return {}, ""
    try:
        content = read_trusted(path, _MAX_CONFIGURATION + 1)
    except PermissionError as error:
        return {}, f"{path} is ignored: {error.strerror or error}"
    except OSError:
        return {}, ""
    if len(content) > _MAX_CONFIGURATION:
        return {}, f"{path} is ignored: it is larger than {_MAX_CONFIGURATION >> 20} MiB, the most that is read"
    import tomllib

    try:
        return tomllib.loads(content.decode("utf-8")), ""
    except ValueError as error:
        return {}, f"{path} is ignored: {error}"


def _problem_of(key: str, found: dict[str, Any]) -> str:
    """Say why the value of a key is ignored; empty if it is not."""
    value = found.get(key, "")
    if key == "lock":
        return "" if isinstance(value, str) else "lock in config.toml is ignored: it must be a text"
    are_texts = isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))
    return "" if are_texts else f"{key} in config.toml is ignored: it must be a list of texts"


def _texts(key: str) -> list[str]:
    found = configuration()
    problem = _problem_of(key, found)
    if problem:
        _warn_once(problem)
        return []
    value = found.get(key, [])
    return [value] if isinstance(value, str) else value


def _is_off(name: str) -> bool:
    return variable(name).lower() in ("off", "0", "no", "false")


def _number(name: str, default: float, minimum: float, maximum: float) -> float:
    text = variable(name)
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not minimum <= value <= maximum:
        _warn_once(f"{name}={text!r} is ignored: it must be a number from {minimum:g} to {maximum:g}")
        return default
    return value


def _home(variable_name: str, below: str) -> str | None:
    base = variable(variable_name)
    if not os.path.isabs(base):
        base = os.path.join(_user_folder(), below)
    return _place(os.path.join(base, "dovetail"))


def _user_folder() -> str:
    """Return the home folder of the user whose rights this process has; empty if there is none."""
    if not is_secure():
        return os.path.expanduser("~")
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def _place(path: str) -> str | None:
    """Return a path that files can lie below; None if relative, or longer than a path can be."""
    if not os.path.isabs(path):
        return None
    encoded = os.fsencode(path)
    if len(encoded) > _MAX_PATH or any(len(part) > _MAX_NAME for part in encoded.split(b"/")):
        _warn_once(f"{shortened(path)} is not used: the path is too long")
        return None
    return path


@cache
def _warn_once(text: str) -> None:
    _log.warning("%s", text)
