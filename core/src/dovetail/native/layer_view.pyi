"""Types of the C views."""

from __future__ import annotations

from typing import Any

from ..contract.interfaces import Device
from ..contract.subgraph import SubgraphView
from ..graph.layer import Layer
from ..graph.tensor import TensorInfo

class View:
    @staticmethod
    def of_layer(layer: Layer) -> View: ...
    @staticmethod
    def of_part(part: SubgraphView) -> View: ...
    @staticmethod
    def of_options(options: Any) -> View: ...
    @staticmethod
    def of_device(device: Device) -> View: ...
    @staticmethod
    def of_tensor(info: TensorInfo) -> View: ...
