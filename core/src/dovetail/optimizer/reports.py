"""What a placement report is made of, as data."""

from __future__ import annotations

from ..contract.device import Device
from ..ground.records import NamedTuple, Record
from .candidate import Refusal


class LayerReport(NamedTuple):
    """One layer of the optimized network.

    Attributes:
        name, kind: As in `OptimizedNetwork.graph`.
        backend: Id; None where the core runs it.
        device: Index of the device; None where the core runs it.
        partition: Index into `Placement.partitions`; None where the core runs it.
        sources: Layers of the original network that it stands for.
        reason: Why it is there: "first choice", "required", "fallback", "private" (made by its
            backend), "core".
        refusals: What the backends before this one said, of this layer or of those that it
            replaces.
        words: What it computes and how: in the words of its backend if it is private, else by its
            kind.
        tuned: How it is computed, if that was chosen by measuring on this machine: "tuned: direct,
            not winograd".
        steps: What its steps are, in the words of its backend: (name, words).
        output: What it computes first: "float32[1, 8, 112, 112]".
        macs: Multiply-accumulates of one run, of the layers that it stands for.
    """

    name: str
    kind: str
    backend: str | None
    device: int | None
    partition: int | None
    sources: tuple[str, ...]
    reason: str
    refusals: tuple[Refusal, ...] = ()
    tuned: str = ""
    words: str = ""
    steps: tuple[tuple[str, str], ...] = ()
    output: str = ""
    macs: int = 0


class BackendTotal(NamedTuple):
    """What one backend does of a network.

    Attributes:
        label: Its id, and the device where that is not the first; "core" for the core.
        layers: How many it runs.
        macs: Their multiply-accumulates in one run.
        bytes_in, bytes_out: What one run copies into its memory, and out of it.
    """

    label: str
    layers: int = 0
    macs: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class PartitionReport(Record, frozen=True):
    """Layers of one backend that form one convex piece.

    `index` is also the order in which they can run.
    """

    index: int
    backend: str
    device: int
    layers: tuple[str, ...]


class ConstantsReport(NamedTuple):
    """Layers of constants that were computed while the network was optimized.

    The core cannot evaluate them; a backend that declares itself an oracle did.

    Attributes:
        oracle: Id of that backend, and its version where it says one: "CpuRef 0.1.0".
        layers: Their names, in the order in which they were computed.
    """

    oracle: str
    layers: tuple[str, ...]


class LeftReport(NamedTuple):
    """A layer of constants that each run computes, although its result is always the same.

    Attributes:
        layer: Its name.
        reason: Why no oracle computed it beforehand, in a sentence.
    """

    layer: str
    reason: str


class DeviceReport(NamedTuple):
    """A device that was asked about layers, as its backend states it.

    Attributes:
        label: Id of the backend, and the device where it is not the first.
        device: What is known of it without opening it.
    """

    label: str
    device: Device

    def __str__(self) -> str:
        return f"device {self.label}: {self.device.description}"


class Crossing(NamedTuple):
    """Bytes that one run copies from host memory to devices, and back."""

    to_devices: int
    to_host: int

    def __str__(self) -> str:
        return f"{self.to_devices} bytes to devices, {self.to_host} bytes to the host"
