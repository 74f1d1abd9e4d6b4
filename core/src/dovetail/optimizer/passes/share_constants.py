"""Let the plans of a network for different sizes have the same arrays."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import ClassVar

from ...graph.descriptor import Array, Constant
from ...graph.graph import Graph
from ...ground.pieces import bits_equal
from .base import Pass

_SMALL = 4096


class SharedConstants:
    """The constants of what was made of one network, by layer; held weakly."""

    def __init__(self) -> None:
        self._arrays: weakref.WeakValueDictionary[tuple[object, ...], Array] = weakref.WeakValueDictionary()

    def the_same(self, layer: str, value: Array) -> Array:
        """Return an array of equal bits that this layer had before, or the array itself."""
        key = (layer, value.dtype.str, value.shape)
        known = self._arrays.get(key)
        if known is not None and (known is value or bits_equal(known, value)):
            return known
        self._arrays[key] = value
        return value


class ShareConstants(Pass):
    """Replace large computed constants by the equal ones of an earlier plan.

    Folded weights are an example. The network's own weights are the same arrays anyway.
    """

    name: ClassVar[str] = "share_constants"

    def __init__(self, shared: SharedConstants) -> None:
        self.shared = shared

    def run(self, graph: Graph) -> int:
        changes = 0
        for layer in graph:
            descriptor = layer.descriptor
            if isinstance(descriptor, Constant) and descriptor.value.nbytes > _SMALL:
                value = self.shared.the_same(layer.name, descriptor.value)
                if value is not descriptor.value:
                    graph.replace_descriptor(layer, replace(descriptor, value=value))
                    changes += 1
        return changes
