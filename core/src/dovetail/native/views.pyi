from collections.abc import Iterable

from ..graph import Layer, OutputSlot
from .attribute_types import Attribute

class AttributesView:
    def __init__(self, attributes: list[Attribute]) -> None: ...

class SubgraphView:
    def __init__(
        self, layers: Iterable[Layer], inputs: Iterable[OutputSlot] = ..., outputs: Iterable[OutputSlot] = ...
    ) -> None: ...
