"""What a measurement holds for: everything that decides which way is fastest, and a digest of it.

That is the backend down to the bytes of its files, its options and device, the core's version, the
processor, the number of threads, and the part: kinds, attributes and infos. Of arrays it is shape
and type: weights take as long whatever their values.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ..contract.artefacts import option_facts
from ..contract.interfaces import IBackend
from ..contract.part_facts import part_facts, text
from ..contract.subgraph import Choice
from ..discovery.backend_files import content_of
from ..ground.version import core_version

if TYPE_CHECKING:
    from .candidate import Assigned

_CPU_FIELDS = {  # of /proc/cpuinfo: what stays the same from core to core and from start to start
    *("vendor_id", "cpu family", "model", "model name", "stepping", "cache size", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features", "isa", "uarch"),
}


class Surroundings:
    """What choices of one backend share: all that decides, besides the part itself.

    Attributes:
        facts: In JSON's terms; None where the backend has no files to know it by, so that nothing
            can be remembered.
    """

    def __init__(self, candidate: Assigned, threads: int) -> None:
        content = content_of(candidate.backend)
        self.facts: dict[str, Any] | None = None
        if content is not None:
            self.facts = {
                "backend": str(candidate.backend.id),
                "content": content,
                "options": option_facts(
                    candidate.options, names_device=type(candidate.backend).device_of is not IBackend.device_of
                ),
                "device": candidate.device.identity,
                "core": core_version(),
                "processor": processor(),
                "threads": threads,
            }
        self._digest = hashlib.sha256(text(self.facts).encode())

    def key(self, choice: Choice) -> str:
        """Return the digest of everything that decides which way to compute a part is fastest."""
        digest = self._digest.copy()
        digest.update(text([part_facts(choice.part), choice.names]).encode())
        return digest.hexdigest()


@cache
def processor() -> Mapping[str, str]:
    """Describe the processor: model and instruction sets."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read().partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    fields = (line.partition(":") for line in lines)
    known = {name.strip(): value.strip() for name, _, value in fields if name.strip() in _CPU_FIELDS}
    return {"machine": platform.machine(), **(known or {"name": platform.processor()})}
