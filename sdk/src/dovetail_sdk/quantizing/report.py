"""What quantization costs: the error of each layer, worst first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..differences import Difference


@dataclass(slots=True)
class LayerRow:
    """One layer that computes with integers, or whose weights are stored in fewer bits.

    Attributes:
        name: Of the layer.
        kind: Without its namespace.
        difference: Between its result in the float network and in the quantized one.
        alone: SNR of the outputs if nothing but this layer is quantized, in dB; None if it was not
            measured.
    """

    name: str
    kind: str
    difference: Difference
    alone: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        alone = None if self.alone is None or math.isinf(self.alone) else self.alone
        return {"name": self.name, "kind": self.kind, "snr_of_outputs_alone_db": alone, **self.difference.as_dict()}


@dataclass(slots=True)
class Report:
    """What was done to a network.

    Attributes:
        scheme: By name.
        samples: With which the ranges were found, or, without ranges, which were compared.
        compared: Samples that the differences are of.
        layers: Worst first.
        outputs: Of the whole network, by name.
        kept: Layers that could have been quantized and were kept in float.
        passing: Number of layers that pass integers on.
        real: Number of the other layers, which compute with real numbers.
        bytes_before, bytes_after: Of all constants.
    """

    scheme: str
    samples: int
    compared: int
    layers: list[LayerRow]
    outputs: dict[str, Difference]
    kept: tuple[str, ...]
    passing: int
    real: int
    bytes_before: int
    bytes_after: int

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "scheme": self.scheme,
            "samples": self.samples,
            "compared": self.compared,
            "layers": [row.as_dict() for row in self.layers],
            "outputs": [{"name": name, **difference.as_dict()} for name, difference in self.outputs.items()],
            "kept": list(self.kept),
            "layers_passing_integers": self.passing,
            "layers_of_real_numbers": self.real,
            "bytes_of_constants": [self.bytes_before, self.bytes_after],
        }


def worst_first(rows: list[LayerRow]) -> list[LayerRow]:
    """Sort by SNR, ties in order of execution."""
    return sorted(rows, key=lambda row: row.difference.snr)
