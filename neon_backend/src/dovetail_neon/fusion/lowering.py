"""Track the growing replacement of a part of a graph: what exists, in which layouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from dovetail import Constant, DataLayout, Descriptor, Layer, SubgraphView, TensorInfo
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot

from ..geometry.layouts import Image, blocked_info, bytes_info, plain_info

if TYPE_CHECKING:
    from ..movement.kinds import Reorder
    from ..quantized.kinds import ReorderQuantized


class Lowering:
    """The replacement of a part while it grows.

    Every slot of the original graph that was emitted is known by the layouts in which it exists:
    "plain", "blocked", "last", which is plain with the channels innermost and the same as plain for
    images that already lie so, or "bytes".

    Attributes:
        view: What is replaced.
        graph: The replacement.
        lanes: Channels in a block.
        precision: That products will have.
    """

    def __init__(self, view: SubgraphView, lanes: int, precision: str = "float32") -> None:
        self.view, self.lanes, self.precision = view, lanes, precision
        self.graph = Graph("CpuAcc")
        self._known: dict[OutputSlot, dict[str, OutputSlot]] = {}
        self._data_layouts: dict[OutputSlot, DataLayout] = {}
        self._byte_layouts: dict[OutputSlot, DataLayout] = {}
        for number, slot in enumerate(view.inputs):
            info = slot.known_info
            inside = self.graph.input(f"input_{number}", info.shape, info.dtype, info.quantization)
            self._known[slot] = {"plain": inside}

    # --- what is there ----------------------------------------------------------------------------

    def layouts(self, slot: OutputSlot) -> frozenset[str]:
        """The layouts in which a slot exists by now."""
        return frozenset(self._known.get(slot, ()))

    def data_layout(self, slot: OutputSlot) -> DataLayout | None:
        """Return the order of axes in the shape of an image that exists in blocks; else None."""
        return self._data_layouts.get(slot)

    def byte_layout(self, slot: OutputSlot) -> DataLayout | None:
        """Return the order of axes in the shape of an image that exists in bytes; else None."""
        return self._byte_layouts.get(slot)

    def plain(self, slot: OutputSlot) -> OutputSlot:
        """Return a slot as its shape says; a constant is brought along."""
        known = self._known.setdefault(slot, {})
        if "plain" not in known:
            if isinstance(slot.layer.descriptor, Constant):
                descriptor = slot.layer.descriptor
                known["plain"] = self.graph.add(descriptor, name=slot.layer.name, quantization=slot.quantization).output
            else:
                known["plain"] = self._plain_of(known, slot)
        return known["plain"]

    def blocked(self, slot: OutputSlot, layout: DataLayout) -> OutputSlot:
        """Return an image in blocks of channels."""
        known = self._known.setdefault(slot, {})
        if "blocked" not in known:
            known["blocked"] = self._reordered(self.plain(slot), slot, layout, to_blocked=True)
            self._data_layouts[slot] = layout
        elif self._data_layouts[slot] is not layout:  # who made it counted the axes in another order
            return self._reordered(self.plain(slot), slot, layout, to_blocked=True)
        return known["blocked"]

    def bytes(self, slot: OutputSlot, layout: DataLayout) -> OutputSlot:
        """Return a quantized image in bytes."""
        known = self._known.setdefault(slot, {})
        if "bytes" in known and self._byte_layouts[slot] is layout:
            return known["bytes"]
        image = Image.of(slot.known_info, layout)
        info = bytes_info(image, slot.known_info.dtype)
        made = self._reorder(self.plain(slot), image, info, layout is DataLayout.NHWC, slot)
        if "bytes" not in known:
            known["bytes"], self._byte_layouts[slot] = made, layout
        return made

    def last(self, slot: OutputSlot, layout: DataLayout) -> OutputSlot:
        """Return an image with its channels innermost."""
        if layout is DataLayout.NHWC:
            return self.plain(slot)
        known = self._known.setdefault(slot, {})
        if "last" not in known:
            image = Image.of(slot.known_info, layout)
            known["last"] = self._reorder(
                self.blocked(slot, layout), image, plain_info(image.shape(DataLayout.NHWC)), True, slot
            )
        return known["last"]

    def define_last(self, slot: OutputSlot, made: OutputSlot, layout: DataLayout) -> None:
        """Record that an original image now exists with its channels innermost.

        It is brought to blocks for other readers.
        """
        if layout is DataLayout.NHWC:
            self.define(slot, made)
            return
        image = Image.of(slot.known_info, layout)
        self._known.setdefault(slot, {})["last"] = made
        self.define(slot, self._reorder(made, image, blocked_info(image, self.lanes), True, slot), "blocked", layout)

    # --- what is made -----------------------------------------------------------------------------

    def emit(
        self, descriptor: Descriptor, inputs: Iterable[OutputSlot | None], layers: Sequence[Layer], name: str | None = None
    ) -> Layer:
        """Add a layer that stands for original layers."""
        sources = [layer.name for layer in layers]
        return self.graph.add(descriptor, *inputs, name=name or layers[-1].name, sources_of=sources)

    def define(
        self, slot: OutputSlot, made: OutputSlot, layout: str = "plain", data_layout: DataLayout = DataLayout.NCHW
    ) -> None:
        """Say that an original slot exists now."""
        known = self._known.setdefault(slot, {})
        known[layout] = made
        if layout == "blocked":
            self._data_layouts[slot] = data_layout
        elif layout == "bytes":
            self._byte_layouts[slot] = data_layout

    def finish(self) -> Graph:
        """Give the replacement its outputs."""
        for number, slot in enumerate(self.view.outputs):
            self.graph.output(self.plain(slot), f"output_{number}")
        return self.graph

    def _plain_of(self, known: Mapping[str, OutputSlot], slot: OutputSlot) -> OutputSlot:
        if "blocked" in known:
            return self._reordered(known["blocked"], slot, self._data_layouts[slot], to_blocked=False)
        layout, info = self._byte_layouts[slot], slot.known_info
        image, plain = Image.of(info, layout), TensorInfo(info.shape, info.dtype, info.quantization)
        return self._reorder(known["bytes"], image, plain, layout is DataLayout.NHWC, slot)

    def _reordered(self, source: OutputSlot, slot: OutputSlot, layout: DataLayout, *, to_blocked: bool) -> OutputSlot:
        image = Image.of(slot.known_info, layout)
        info = blocked_info(image, self.lanes) if to_blocked else plain_info(slot.known_info.sizes)
        return self._reorder(source, image, info, layout is DataLayout.NHWC, slot)

    def _reorder(self, source: OutputSlot, image: Image, info: TensorInfo, last: bool, slot: OutputSlot) -> OutputSlot:
        # A reorder of something computed here stands for its layer; one of an input for the first
        # layer that reads it.
        origin = slot.layer if slot.layer in self.view else next(c.layer for c in slot.consumers if c.layer in self.view)
        descriptor = reorder_kind(info)(infos=(info,), image=image, channels_last=last)
        return self.emit(descriptor, [source], [origin], name=f"{origin.name}.reorder").output


def reorder_kind(info: TensorInfo) -> type[Reorder | ReorderQuantized]:
    """Return the kind that brings an image of these elements to another layout."""
    if info.dtype.is_float:
        from ..movement.kinds import Reorder

        return Reorder
    from ..quantized.kinds import ReorderQuantized

    return ReorderQuantized
