"""Programs: sources and what is defined for them, built once, and kept in the artefact store."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from typing import Any

from dovetail.contract.artefacts import ArtefactStore
from dovetail.ground.logs import Log

from .driver.device import Kernel
from .driver.errors import DriverError

_log = Log("dovetail")
_COMMON = "common.cl"


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
    own = {"FLOATS": floats, "INTEGERS": integers}
    begin = "".join(f"#define {name} {value}\n" for name, value in own.items())
    return begin + source_of(file) + "".join(f"#undef {name}\n" for name in own)


class Programs:
    """What is built for one device.

    Args:
        device: The opened device, which keeps what was built for all networks of the process.
        store: Where binaries are kept between processes.
    """

    def __init__(self, device: Any, store: ArtefactStore) -> None:
        self._device = device
        self._store = store
        facts = device.facts
        self._own = (
            f"#define ON_CPU {int(facts['kind'] == 'cpu')}\n#define HAS_HALF {int('cl_khr_fp16' in facts['extensions'])}\n"
        )
        self._options = "-cl-std=CL1.2"
        if facts["divides_exactly"]:
            self._options += " -cl-fp32-correctly-rounded-divide-sqrt"

    def check(self) -> None:
        """Build the least program, once: a compiler that fails is told of before any layer.

        Raises:
            DriverError: The device has no compiler, or it fails; the text has its log.
        """
        if not self._device.facts["has_compiler"]:
            raise DriverError(f"device {self._device.facts['name']!r} has no compiler for OpenCL C")
        self.kernel("check.cl", "check")

    def kernel(self, files: str, name: str, **defined: Any) -> Kernel:
        """Return a kernel of a source, built for these definitions.

        Args:
            files: The source, or several with spaces between them, in order; what all sources share
                stands before them. "file:float4:int4" is that file for vectors: with FLOATS as
                float4 and INTEGERS as int4.
            name: Of the kernel.
            defined: What is defined before the source, macros included: a name may have parameters,
                as in ``{"F(x)": "x + 1"}``.

        Raises:
            BuildError: The device's compiler refuses it.
        """
        lines = "".join(f"#define {key} {value}\n" for key, value in defined.items())
        text = self._own + lines + "".join(_source(one) for one in (_COMMON, *files.split()))
        built = self._device.programs
        if text not in built:
            with self._device.building:
                if text not in built:
                    built[text] = self._build(files, text)
        return Kernel(built[text], name)

    def _build(self, files: str, text: str) -> Any:
        key = self._store.key_of((hashlib.sha256(text.encode()).hexdigest(), ""), source=files, options=self._options)
        binary = self._store.read(key)
        program = self._device.restore(binary) if binary else None
        if program is None:
            _log.debug("GpuAcc: building %s: %s", files, self._store.why_miss(key))
            program = self._device.build(text.encode(), self._options.encode())
            if self._store.folder is not None and (binary := self._device.binary(program)):
                self._store.write(key, binary)
        return program
