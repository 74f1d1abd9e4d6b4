"""What lowerings of layers are told beside the layer."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail import SubgraphView


@dataclass(frozen=True)
class Request:
    """How a part is to be lowered.

    Attributes:
        per_tensor: Weights with a scale for each channel may be given one scale.
        part: What is lowered.
    """

    per_tensor: bool
    part: SubgraphView
