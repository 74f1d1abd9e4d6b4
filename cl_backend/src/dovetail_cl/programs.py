"""Programs: sources and what is defined for them, built once, and kept in the artefact store."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from dovetail.contract.artefacts import ArtefactKey, ArtefactStore
from dovetail.ground.logs import Log
from dovetail.ground.progress import report

from .driver.device import Kernel
from .driver.errors import DriverError
from .refusing import ID

_log = Log("dovetail")
_COMMON = "common.cl"
_CHECK = "check.cl"
_WORKS = b"it builds"
_NEWER = {"#define SUBGROUPS 1\n": "subgroup_language", "#define DOTS 1\n": "dot_language"}
"""The fact that says in which OpenCL C a text is written where something is defined so."""
_FAST = "-cl-mad-enable -cl-no-signed-zeros -cl-denorms-are-zero"


@cache
def source_of(file: str) -> str:
    """Return a source that lies in this package, such as "elementwise/elementwise.cl"."""
    with open(os.path.join(os.path.dirname(__file__), *file.split("/")), encoding="utf-8") as source:
        return source.read()


def _source(named: str) -> str:
    """Return a source, for the types that are named with it."""
    file, *types = named.split(":")
    if not types:
        return source_of(file)
    floats, integers = types
    own = {"FLOATS": floats, "INTEGERS": integers, "NUMBER": floats.rstrip("0123456789")}
    begin = "".join(f"#define {name} {value}\n" for name, value in own.items())
    return begin + source_of(file) + "".join(f"#undef {name}\n" for name in own)


class Building:
    """How far a network is with what is built for it, for whoever listens.

    Args:
        coming: Returns the texts of all programs that the rest of the network wants; asked when
            the first is built.
    """

    def __init__(self, coming: Callable[[], list[str]]) -> None:
        self._coming = coming
        self._known: set[str] | None = None
        self._done = 0

    def begins(self, files: str, text: str, built: Any) -> None:
        """Tell that a program is built now.

        Args:
            files: Its sources.
            text: All of it.
            built: The texts of what is built already.
        """
        if self._known is None:
            self._known = {one for one in (text, *self._coming()) if one not in built}
        self._done += 1
        total = max(len(self._known), self._done)
        name = files.split()[-1].partition(":")[0].removesuffix(".cl")
        report(ID, (self._done - 1) / total, f"builds program {self._done} of {total}: {name}")


class Programs:
    """What is built for one device.

    Args:
        device: The opened device, which keeps what was built for all networks of the process.
        store: Where binaries are kept between processes.
        fast_math: Whether the compiler may follow relaxed rules.

    Attributes:
        device: See above.
        fast_math: See above.
    """

    def __init__(self, device: Any, store: ArtefactStore, *, fast_math: bool = False) -> None:
        self.device = device
        self.fast_math = fast_math
        self._store = store
        self._used: dict[str, tuple[str, set[str]]] = {}
        self._kept: dict[str, set[str]] = {}
        facts = device.facts
        self._own = ""
        self._options = ""
        if fast_math:
            self._options += f" {_FAST}"
            self._own += "#define FAST_MATH 1\n"  # what is built for others is found by its text
        elif facts["divides_exactly"]:
            self._options += " -cl-fp32-correctly-rounded-divide-sqrt"

    def check(self) -> None:
        """Build the least program, once: a compiler that fails is told of before any layer.

        Where artefacts are kept, once for each driver.

        Raises:
            DriverError: The device has no compiler, or it fails; the text has its log.
        """
        if not self.device.facts["has_compiler"]:
            raise DriverError(f"device {self.device.facts['name']!r} has no compiler for OpenCL C")
        text = self.text(_CHECK)
        with self.device.building:
            if text in self.device.programs:
                return
            key = self._key(_CHECK, text)
            if self._store.read(key) != _WORKS:
                self.device.programs[text] = self._build(_CHECK, text)
                self._store.write(key, _WORKS)

    def text(self, files: str, **defined: Any) -> str:
        """Return the whole source of a program; see `kernel`."""
        lines = "".join(f"#define {key} {value}\n" for key, value in defined.items())
        return self._own + lines + "".join(_source(one) for one in (_COMMON, *files.split()))

    def kernel(self, files: str, name: str, building: Building, **defined: Any) -> Kernel:
        """Return a kernel of a source, built for these definitions.

        Args:
            files: The source, or several with spaces between them, in order; what all sources share
                stands before them. "file:float4:int4" is that file for vectors: with FLOATS as
                float4, INTEGERS as int4 and NUMBER as float.
            name: Of the kernel.
            building: Hears of what is built.
            defined: What is defined before the source, macros included: a name may have parameters,
                as in ``{"F(x)": "x + 1"}``.

        Raises:
            BuildError: The device's compiler refuses it.
        """
        text = self.text(files, **defined)
        built = self.device.programs
        if text not in built:
            with self.device.building:
                if text not in built:
                    program = self._restored(files, text)
                    if program is None:
                        building.begins(files, text, built)
                        program = self._build(files, text)
                    built[text] = program
        self._used.setdefault(text, (files, set()))[1].add(name)
        if not self.device.facts["compiles_late"] and text not in self._kept:
            self._keep(text, built[text])
        return Kernel(built[text], name)

    def keep(self) -> None:
        """Keep what was used since, of a driver that finishes a kernel when it first runs.

        Its binaries hold what it had finished when they were asked for. Nothing is kept of a device
        that was lost, nor by a process that was forked.
        """
        device = self.device
        if not device.facts["compiles_late"] or self._store.folder is None or device.is_lost or device.process != os.getpid():
            return
        for text, (files, names) in list(self._used.items()):
            if not names <= self._kept.get(text, set()):
                try:
                    # A program that gave its binary, or was made of one, gives the same for ever.
                    self._keep(text, self._build(files, text) if text in self._kept else device.programs[text])
                except DriverError as error:
                    _log.debug("GpuAcc: %s is not kept: %s", files, error)

    def _key(self, files: str, text: str) -> ArtefactKey:
        digest = hashlib.sha256(text.encode()).hexdigest()
        return self._store.key_of((digest, ""), source=files, options=self._options_of(text))

    def _restored(self, files: str, text: str) -> Any:
        """Return the program that was kept, or None."""
        key = self._key(files, text)
        kept = self._store.read(key)
        if kept is None:
            _log.debug("GpuAcc: building %s: %s", files, self._store.why_miss(key))
            return None
        names, _, binary = kept.partition(b"\n")
        program = self.device.restore(binary)
        if program is None:
            _log.debug("GpuAcc: building %s: the driver refuses what was kept", files)
        else:
            self._kept[text] = set(names.decode().split())
        return program

    def _build(self, files: str, text: str) -> Any:
        return self.device.build(text.encode(), self._options_of(text).encode())

    def _options_of(self, text: str) -> str:
        """Return what the compiler is told: OpenCL C 1.2, but where a text wants a newer one."""
        language = next((self.device.facts[fact] for defined, fact in _NEWER.items() if defined in text), "CL1.2")
        return f"-cl-std={language}{self._options}"

    def _keep(self, text: str, program: Any) -> None:
        files, names = self._used[text]
        self._kept[text] = names = set(names)
        if self._store.folder is not None and (binary := self.device.binary(program)):
            self._store.write(self._key(files, text), " ".join(sorted(names)).encode() + b"\n" + binary)
