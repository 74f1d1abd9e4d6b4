"""What a measurement holds for: everything that decides which way is fastest, and a digest of it.

That is the backend down to the bytes of its files, its options and device, the core's version, the processor, the number of
threads, and the part: kinds, attributes and infos. Of arrays it is shape and type: weights take as long whatever their values.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import sys
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..contract.backend_calls import device_names
from ..contract.subgraph import Choice
from ..discovery.content import Files, Stamp, files_of_module
from ..discovery.reasons import Refused
from ..graph.descriptor import Constant
from ..graph.layer import Layer, OutputSlot
from ..ground.version import core_version

if TYPE_CHECKING:
    from .assignment import Assigned

_CPU_FIELDS = {  # of /proc/cpuinfo: what stays the same from core to core and from start to start
    *("vendor_id", "cpu family", "model", "model name", "stepping", "cache size", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features", "isa", "uarch"),
}


class Surroundings:
    """What choices of one backend share: all that decides, besides the part itself.

    Attributes:
        facts: In JSON's terms; None where the backend has no files to know it by, so that nothing can be remembered.
    """

    def __init__(self, candidate: Assigned, threads: int) -> None:
        content = _content(candidate.backend)
        devices = device_names(f"backend {candidate.label}", candidate.backend)
        device = candidate.request.device
        self.facts: dict[str, Any] | None = None
        if content is not None:
            self.facts = {
                "backend": str(candidate.backend.id),
                "content": content,
                "options": _plain(candidate.options),
                "device": devices[device] if device < len(devices) else str(device),
                "core": core_version(),
                "processor": processor(),
                "threads": threads,
            }
        self._digest = hashlib.sha256(_text(self.facts).encode())

    def key(self, choice: Choice) -> str:
        """Return the digest of everything that decides which way to compute a part is fastest."""
        digest = self._digest.copy()
        digest.update(_text([part_facts(choice), choice.names]).encode())
        return digest.hexdigest()


def part_facts(choice: Choice) -> list[Any]:
    """Describe a part in JSON's terms, without names and values: how its layers are joined, kinds, attributes, infos."""
    number: dict[OutputSlot, int] = {}
    for slot in (*choice.part.inputs, *(slot for layer in choice.part.layers for slot in layer.outputs)):
        number.setdefault(slot, len(number))
    return [
        [_plain(slot.known_info) for slot in number],
        [number[slot] for slot in choice.part.outputs],
        [_layer_facts(layer, number) for layer in choice.part.layers],
    ]


@cache
def processor() -> Mapping[str, str]:
    """Describe the processor: model and instruction sets."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    fields = (line.partition(":") for line in lines)
    known = {name.strip(): value.strip() for name, _, value in fields if name.strip() in _CPU_FIELDS}
    return {"machine": platform.machine(), **(known or {"name": platform.processor()})}


def _layer_facts(layer: Layer, number: Mapping[OutputSlot, int]) -> list[Any]:
    reads: list[Any] = []
    for read in layer.inputs:
        is_constant = read.source is not None and isinstance(read.source.layer.descriptor, Constant)
        reads.append(None if read.source is None else _plain(read.info) if is_constant else number[read.source])
    return [layer.kind, layer.descriptor.version, _plain(layer.descriptor), reads]


def _text(facts: Any) -> str:
    return json.dumps(facts, sort_keys=True)


def _plain(value: Any) -> Any:
    """Return a value in JSON's terms, arrays by their type and shape.

    Raises:
        TypeError: It has no content that is the same in the next process.
    """
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, np.ndarray):
        return ["array", value.dtype.str, list(value.shape)]
    if isinstance(value, Enum):
        return [type(value).__name__, value.name]
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_plain(one) for one in value), key=_text)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
        return [type(value).__name__, fields]
    if "__repr__" not in {name for one in type(value).__mro__[:-1] for name in vars(one)}:
        raise TypeError(f"a {type(value).__name__} has no content to know it by; give it a __repr__, or make it a dataclass")
    return [type(value).__name__, repr(value)]


def _content(backend: Any) -> str | None:
    """Return the digest of the files of the package that a backend comes from; None if there are none."""
    name = type(backend).__module__.partition(".")[0]
    files = files_of_module(name, name)
    if not files.names:
        path = getattr(sys.modules.get(type(backend).__module__), "__file__", None)
        files = Files({Path(path).name: path}, ()) if path else files
    if not files.names:
        return None
    try:
        return _digest(tuple(sorted(files.names.items())), tuple(files.stamps()))
    except Refused:
        return None


@cache
def _digest(names: tuple[tuple[str, str], ...], stamps: tuple[Stamp, ...]) -> str:
    # Reading some megabytes takes milliseconds: once per process, as long as the stamps stay.
    return hashlib.sha256(_text(Files(dict(names), ()).digests()).encode()).hexdigest()
