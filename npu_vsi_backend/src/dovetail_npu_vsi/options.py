"""What users may choose."""

from __future__ import annotations

from dovetail.ground.records import Record

from .chips import CHIPS

DRIVERS = ("model", "ovx")


class VsiNpuOptions(Record, frozen=True):
    """What users may choose.

    Attributes:
        device: A chip by name or target id, such as "i.MX 8M Plus" or "0x9f", of which a part
            suffices. Empty: the one of the request, such as ``VsiNpu:1``.
        driver: "model" computes in software what the NPU would; "ovx" drives the vendor's
            libraries, of a board or of the simulator.
        quantization: "per_tensor" lets weights with a scale for each channel be given one, so that
            the convolution engine takes them; results differ then, and `dovetail diff` says by how
            much. Empty: as the network has it.
        shader: False gives back layers that would run on the shader, each with the reason: it is
            slow, and the vendor's compiler takes seconds for each kind of layer on it.
        bytes_per_cycle: What external memory gives, for estimates; 0: what the vendor's driver
            supposes.
        artefacts: Folder in which compiled parts are kept; empty: none.
    """

    device: str = ""
    driver: str = "model"
    quantization: str = ""
    shader: bool = True
    bytes_per_cycle: float = 0.0
    artefacts: str = ""

    def __post_init__(self) -> None:
        for name, known in (("driver", DRIVERS), ("quantization", ("", "per_tensor"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(map(repr, known))}")
        if not 0 <= self.bytes_per_cycle < float("inf"):
            raise ValueError(f"bytes_per_cycle is {self.bytes_per_cycle}, expected a positive number, or 0")
        if self.device and device_named(self.device) is None:
            names = ", ".join(f"{chip.name} ({chip.target:#x})" for chip in CHIPS)
            raise ValueError(f"device is {self.device!r}, expected one of {names}")


def device_named(name: str) -> int | None:
    """Return the index of the chip that a name or an id is part of; None if there is none."""
    wanted = _plain(name)
    for index, chip in enumerate(CHIPS):
        if wanted and (wanted in _plain(chip.name) or wanted == f"{chip.target:#x}"):
            return index
    return None


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
