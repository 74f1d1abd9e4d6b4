"""What tuning found, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LayerTuning:
    """One part of the network that can be computed in several ways.

    Attributes:
        layers: Names of the layers that computed it when the network was loaded.
        sources: Layers of the original network that they stand for.
        backend: Id.
        default: What the backend does untuned.
        winner: What was fastest; the default, unless another was faster by more than chance.
        seconds: Least time of each way, in the network; parts that are alike have their mean.
        is_new: It was measured just now; else it was known.
    """

    layers: tuple[str, ...]
    sources: tuple[str, ...]
    backend: str
    default: str
    winner: str
    seconds: Mapping[str, float]
    is_new: bool

    @property
    def gain_seconds(self) -> float:
        """Time that the winner saves in a run."""
        return self.seconds[self.default] - self.seconds[self.winner]


@dataclass(frozen=True, slots=True)
class TuningReport:
    """What `tune` found.

    Attributes:
        network: Its name.
        threads: CPU threads that it holds for.
        layers: Everything that could be chosen.
        before_seconds, after_seconds: Least time of a run of the whole network untuned, and with
            the winners, alternating; None if nothing was measured, or every winner is the default.
        folder: Where it is kept; None if nowhere.
        notes: What else there is to know, as sentences.
    """

    network: str
    threads: int
    layers: tuple[LayerTuning, ...]
    before_seconds: float | None = None
    after_seconds: float | None = None
    folder: str | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        changed = sum(1 for layer in self.layers if layer.winner != layer.default)
        return f"<TuningReport of {self.network!r}: {changed} of {len(self.layers)} choices differ from the default>"

    @property
    def gain_seconds(self) -> float:
        """Time that all winners save in a run, summed over the layers: an estimate."""
        return sum(layer.gain_seconds for layer in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        rows = [{**asdict(layer), "seconds": dict(layer.seconds), "gain_seconds": layer.gain_seconds} for layer in self.layers]
        return {**asdict(self), "layers": rows, "gain_seconds": self.gain_seconds}
