"""Why a backend was not admitted: one stable code per reason, its step, and what to do."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Step(StrEnum):
    """The steps of the load pipeline, in their order."""

    LIST = "list"
    PLACE = "place"
    BYTES = "bytes"
    ABI = "abi"
    PROBE = "probe"
    LOAD = "load"
    DEVICE = "device"


class ReasonCode(StrEnum):
    """Stable codes, never renamed and never reused.

    Attributes:
        step: The step that finds it.
        meaning: What it says, as a sentence.
        remedy: The next step for whoever wants the backend.
    """

    step: Step
    meaning: str
    remedy: str

    def __new__(cls, value: str, step: Step, meaning: str, remedy: str) -> ReasonCode:
        member = str.__new__(cls, value)
        member._value_ = value
        member.step = step
        member.meaning = meaning
        member.remedy = remedy
        return member

    BAD_METADATA = (
        "BAD_METADATA",
        Step.LIST,
        "the metadata of a distribution is missing or cannot be read",
        "reinstall or remove the distribution",
    )
    BAD_ID = (
        "BAD_ID",
        Step.LIST,
        "the name is no backend id",
        "tell its makers: an id is a letter followed by letters, digits or underscores, at most 64 in all",
    )
    DUPLICATE_ID = (
        "DUPLICATE_ID",
        Step.LIST,
        "two backends have the same id, or ids that differ only in case",
        "uninstall, remove or unregister all but one",
    )
    BAD_MANIFEST = (
        "BAD_MANIFEST",
        Step.LIST,
        "the manifest is malformed or speaks of another backend",
        "tell its makers",
    )
    UNSAFE_PATH = (
        "UNSAFE_PATH",
        Step.PLACE,
        "others than root and you could put a file there",
        "change owner or permissions of what is named, or list a folder that you answer for under trusted_path in config.toml",
    )
    UNREADABLE = (
        "UNREADABLE",
        Step.PLACE,
        "a file or folder is missing or cannot be read",
        "check the path and its permissions",
    )
    NOT_ELF = ("NOT_ELF", Step.BYTES, "the file is no ELF shared library", "install the backend again, for this system")
    TRUNCATED = ("TRUNCATED", Step.BYTES, "the file ends before what its headers announce", "install the backend again")
    WRONG_ARCH = (
        "WRONG_ARCH",
        Step.BYTES,
        "the library is made for another kind of processor",
        "install the build for this machine",
    )
    HASH_MISMATCH = (
        "HASH_MISMATCH",
        Step.BYTES,
        "files are not those of the lock file",
        "install the locked version again; if the change is wanted, run: dovetail lock",
    )
    ABI_MAJOR = (
        "ABI_MAJOR",
        Step.ABI,
        "built for another major version of the kernel ABI",
        "install versions of the backend and of dovetail-core that fit each other",
    )
    ABI_MINOR_NEWER = (
        "ABI_MINOR_NEWER",
        Step.ABI,
        "built for a newer minor version of the kernel ABI",
        "upgrade dovetail-core, or install an older version of the backend",
    )
    PROBE_CRASHED = (
        "PROBE_CRASHED",
        Step.PROBE,
        "a signal ended the child process in which it was tried",
        "tell its makers; after a change outside its files, such as a driver, release it and try again",
    )
    PROBE_TIMEOUT = (
        "PROBE_TIMEOUT",
        Step.PROBE,
        "it did not come back within the deadline in the child process",
        "give it more time with DOVETAIL_PROBE_TIMEOUT, or tell its makers",
    )
    PROBE_EXITED = (
        "PROBE_EXITED",
        Step.PROBE,
        "it ended the child process in which it was tried",
        "tell its makers: a library must not end the program",
    )
    PROBE_LIMIT = (
        "PROBE_LIMIT",
        Step.PROBE,
        "it wanted more memory than the child process may have",
        "raise the limit with DOVETAIL_PROBE_MEMORY, in MiB, or tell its makers",
    )
    SELF_TEST_FAILED = (
        "SELF_TEST_FAILED",
        Step.PROBE,
        "it computed a wrong result for a tiny network whose result is known",
        "do not use it; tell its makers",
    )
    SIDE_EFFECT = (
        "SIDE_EFFECT",
        Step.PROBE,
        "loading it changes the state of the process; a note, no refusal",
        "tell its makers; what can be restored is restored",
    )
    ENTRY_POINT_BROKEN = (
        "ENTRY_POINT_BROKEN",
        Step.LOAD,
        "the entry point points at nothing",
        "reinstall the distribution, or tell its makers",
    )
    IMPORT_FAILED = (
        "IMPORT_FAILED",
        Step.LOAD,
        "it raised while it was imported",
        "reinstall it, or tell its makers",
    )
    CREATE_FAILED = (
        "CREATE_FAILED",
        Step.LOAD,
        "it raised while it was created",
        "tell its makers",
    )
    MISSING_DEPENDENCY = (
        "MISSING_DEPENDENCY",
        Step.LOAD,
        "a library or module that it needs is missing or too old",
        "install what is named",
    )
    UNDEFINED_SYMBOL = (
        "UNDEFINED_SYMBOL",
        Step.LOAD,
        "it needs a symbol that no library has",
        "install the version of the named library that it was built against, or tell its makers",
    )
    PY_ABI = (
        "PY_ABI",
        Step.LOAD,
        "built for another Python, or against another version of a compiled module",
        "install the build for this Python, or build it again",
    )
    NOT_A_BACKEND = ("NOT_A_BACKEND", Step.LOAD, "what it offers is no IBackend", "tell its makers")
    ID_MISMATCH = ("ID_MISMATCH", Step.LOAD, "its id differs from the one it is listed by", "tell its makers")
    ABI_MISMATCH = (
        "ABI_MISMATCH",
        Step.LOAD,
        "the library was built for another ABI than its manifest says",
        "tell its makers: the manifest must be of the same build",
    )
    CHANGED_DURING_LOAD = (
        "CHANGED_DURING_LOAD",
        Step.LOAD,
        "the file was replaced between the checks and the end of loading",
        "start again when nothing is being installed",
    )
    DRIVER_MISSING = (
        "DRIVER_MISSING",
        Step.DEVICE,
        "the driver of its device is missing",
        "install the driver",
    )
    NO_DEVICE = ("NO_DEVICE", Step.DEVICE, "there is no such device", "check the device, or name another backend")
    DEVICE_BUSY = ("DEVICE_BUSY", Step.DEVICE, "the device is in use", "try again later, or name another backend")
    UNAVAILABLE = (
        "UNAVAILABLE",
        Step.DEVICE,
        "it says that it cannot be used now, for a reason of its own",
        "see its own words",
    )


QUARANTINING = frozenset({ReasonCode.PROBE_CRASHED, ReasonCode.PROBE_TIMEOUT, ReasonCode.PROBE_EXITED, ReasonCode.PROBE_LIMIT})
"""What a backend is not tried again for, until it is released or its content changes."""


class Refused(Exception):
    """A step of the pipeline refuses a backend.

    Only the registry sees it, and makes a row and an error of it.

    Attributes:
        code: Why.
        text: What was found and what was expected.
        hint: The next step.
        path: The file or folder to blame, or None.
        phase: Which part of loading: "import", "create", "id", "check", or the name of the step.
        facts: Further facts by name, all JSON.
    """

    def __init__(
        self, code: ReasonCode, text: str, *, hint: str = "", path: str | None = None, phase: str = "", **facts: Any
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.hint = hint or code.remedy
        self.path = path
        self.phase = phase or str(code.step)
        self.facts = facts
