"""Quantities of a layer: what a claim may speak of, such as `stride` or `weights.quantization`.

A quantity is the name of an attribute, or a subject and a fact joined by a dot. It has one value,
several, or none:

- `<attribute>`: its value; of a list, each element. Also `<attribute>.<index>`, `.count` and
  `.product`; of a quantization `.axis`, none for one scale;
- `<slot>.<axis>`: the size of an axis, by number or name. A slot is the name of an input, `output`
  (the first result), or `outputs` (all of them). Of kinds with the attribute `layout`, axes of rank
  4 have names: batch, channels, height, width; of weights: filters, channels, height, width;
- `<slot>.shape`, `.rank`, `.elements`, `.dtype`, `.count` (of tensors), `.constant` (true or
  false);
- `<slot>.quantization` ("none", "per_tensor" or "per_axis"), `.scale`, `.zero_point`, and
  `.quantized_axis`: the name of the axis, its number if it has no name; none for one scale;
- `padded.height`, `padded.width`: of the first input, with the attribute `padding` around it;
- `window.height`, `window.width`: what a window reaches over, `dilation` included;
- `products`: how many products each result sums up;
- `device.<fact>`: what the device says of itself, such as `device.half_precision`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..graph.descriptor import Constant, Descriptor
from ..graph.element_types import DType
from ..graph.layer import Layer, OutputSlot
from ..graph.tensor import DataLayout, Quantization, TensorInfo
from .device import Device

IMAGE_AXES = ("batch", "channels", "height", "width")
WEIGHT_AXES = ("filters", "channels", "height", "width")
SLOT_FACTS = (
    *("shape", "rank", "elements", "dtype", "count", "constant"),
    *("quantization", "scale", "zero_point", "quantized_axis"),
)
"""What a tensor has besides axes."""
ATTRIBUTE_FACTS = ("count", "product", "axis")
DERIVED = ("padded.height", "padded.width", "window.height", "window.width", "products")
"""Quantities of no single attribute or tensor."""
DEVICE_FACTS = ("name", "memory_bytes", "half_precision", "revision")
"""What every device may say of itself; others are of a backend's own."""

Values: TypeAlias = Sequence[Any]
Reader: TypeAlias = Callable[[Layer], Values]
_NONE: Values = ()


class Quantity:
    """A quantity by its name. What reads it is worked out once for each class of descriptors.

    Attributes:
        name: As claims write it.
        subject: The attribute or the slot.
        fact: What of it; empty for an attribute as a whole.
    """

    __slots__ = ("_readers", "fact", "name", "subject")

    def __init__(self, name: str) -> None:
        self.name = name
        self.subject, _, self.fact = name.partition(".")
        self._readers: dict[type[Descriptor], Reader] = {}

    def values(self, layer: Layer, device: Device) -> Values:
        """Return its values in a layer whose infos are concrete.

        There are none if layer and device do not have the quantity.
        """
        if self.subject == "device":
            return _device_fact(device, self.fact)
        kind = type(layer.descriptor)
        reader = self._readers.get(kind)
        if reader is None:
            reader = self._readers[kind] = self._reader(kind)
        return reader(layer)

    def meanings(self, layer: Layer, device: Device) -> Values:
        """Return what is compared with another quantity's.

        That is whole shapes and quantizations of tensors, else the values.
        """
        whole = _WHOLE.get(self.fact)
        slots = None if whole is None else _slots_of(type(layer.descriptor), self.subject)
        if whole is None or slots is None:
            return self.values(layer, device)
        return [whole(slot.known_info) for slot in slots(layer)]

    def is_of_tensor(self, kind: type[Descriptor]) -> bool:
        """Tell whether it speaks of a tensor of this kind rather than of an attribute."""
        return bool(self.fact) and self._slots_of(kind) is not None

    def _slots_of(self, kind: type[Descriptor]) -> Callable[[Layer], Sequence[OutputSlot]] | None:
        """Return what finds the tensors that it speaks of.

        None if it speaks of none, as does an element of an attribute that an input may bring:
        attributes are resolved when a layer is asked about.
        """
        if _is_index(self.fact) and self.subject in getattr(kind, "__dataclass_fields__", ()):
            return None
        return _slots_of(kind, self.subject)

    def _reader(self, kind: type[Descriptor]) -> Reader:
        if self.name == "products":
            return _products
        if not self.fact:
            return _attribute(self.subject)
        if self.name in DERIVED:
            return _extent(self.subject, self.fact)
        slots = self._slots_of(kind)
        if slots is None:
            return _attribute_fact(self.subject, self.fact)
        if self.fact == "count":
            return lambda layer: (len(slots(layer)),)
        if self.fact == "constant":
            return lambda layer: [isinstance(slot.layer.descriptor, Constant) for slot in slots(layer)]
        if self.fact in _INFO_FACTS:
            return _info_fact(slots, _INFO_FACTS[self.fact])
        if self.fact == "quantized_axis":
            return _quantized_axis(slots, self.subject)
        return _axis(slots, self.subject, self.fact)


def _is_index(fact: str) -> bool:
    return fact.lstrip("-").isdecimal()


def _device_fact(device: Device, name: str) -> Values:
    value = getattr(device, name) if name in DEVICE_FACTS else device.facts.get(name)
    return _NONE if value is None else (value,)


def _slots_of(kind: type[Descriptor], subject: str) -> Callable[[Layer], Sequence[OutputSlot]] | None:
    """Return what finds the connected tensors of a slot; None if the kind has no such slot."""
    if subject == "output":
        return lambda layer: layer.outputs[:1]
    if subject == "outputs":
        return lambda layer: layer.outputs
    if subject not in kind.input_names:
        return None
    first = kind.input_names.index(subject)
    if kind.variadic and first == len(kind.input_names) - 1:
        return lambda layer: [slot.source for slot in layer.inputs[first:] if slot.source is not None]

    def one(layer: Layer) -> Sequence[OutputSlot]:
        source = layer.inputs[first].source if first < len(layer.inputs) else None
        return () if source is None else (source,)

    return one


def _attribute(name: str) -> Reader:
    def read(layer: Layer) -> Values:
        value = getattr(layer.descriptor, name, None)
        if value is None:
            return _NONE
        if isinstance(value, tuple):
            return value
        return (value.label if isinstance(value, DType) else value,)

    return read


def _attribute_fact(name: str, fact: str) -> Reader:
    whole = _attribute(name)
    if fact == "count":
        return lambda layer: (len(whole(layer)),) if getattr(layer.descriptor, name, None) is not None else _NONE
    if fact == "product":
        return lambda layer: _product(whole(layer))
    if fact == "axis":
        return _axis_of_quantization(name)
    if not _is_index(fact):
        return lambda layer: _NONE
    index = int(fact)

    def element(layer: Layer) -> Values:
        values = whole(layer)
        return (values[index],) if -len(values) <= index < len(values) else _NONE

    return element


def _product(values: Values) -> Values:
    return (math.prod(values),) if values and all(isinstance(value, int | float) for value in values) else _NONE


def _axis_of_quantization(name: str) -> Reader:
    def read(layer: Layer) -> Values:
        value = getattr(layer.descriptor, name, None)
        return (value.axis,) if isinstance(value, Quantization) and value.axis is not None else _NONE

    return read


def _quantization_word(info: TensorInfo) -> Values:
    if info.quantization is None:
        return ("none",)
    return ("per_axis",) if info.quantization.axis is not None else ("per_tensor",)


_INFO_FACTS: dict[str, Callable[[TensorInfo], Values]] = {
    "shape": lambda info: info.sizes,
    "rank": lambda info: (info.rank,),
    "elements": lambda info: (info.elements,),
    "dtype": lambda info: (info.dtype.label,),
    "quantization": _quantization_word,
    "scale": lambda info: _NONE if info.quantization is None else info.quantization.scale,
    "zero_point": lambda info: _NONE if info.quantization is None else info.quantization.zero_point,
}


_WHOLE: dict[str, Callable[[TensorInfo], Any]] = {
    "shape": lambda info: info.sizes,
    "quantization": lambda info: info.quantization,
}


def _info_fact(slots: Callable[[Layer], Sequence[OutputSlot]], fact: Callable[[TensorInfo], Values]) -> Reader:
    def read(layer: Layer) -> Values:
        found = slots(layer)
        if len(found) == 1:
            return fact(found[0].known_info)
        return [value for slot in found for value in fact(slot.known_info)]

    return read


def _axis(slots: Callable[[Layer], Sequence[OutputSlot]], slot: str, name: str) -> Reader:
    number = int(name) if _is_index(name) else None

    def read(layer: Layer) -> Values:
        sizes = []
        for one in slots(layer):
            info = one.known_info
            axis = number if number is not None else axis_named(layer.descriptor, slot, name, info.rank)
            if axis is None or not -info.rank <= axis < info.rank:
                return _NONE
            sizes.append(info.shape[axis])
        return sizes

    return read


def axis_names(descriptor: Descriptor, slot: str, rank: int) -> tuple[str, ...]:
    """Return the names of a slot's axes in order; none if they have no names."""
    layout = getattr(descriptor, "layout", None)
    if layout is None or rank != len(IMAGE_AXES):
        return ()
    rows, columns = DataLayout(layout).spatial_axes(rank)
    channels = DataLayout(layout).channel_axis % rank
    if slot == "weights":
        filters = getattr(descriptor, "filter_axis", 0)
        order = {filters: "filters", rows: "height", columns: "width"}
        return tuple(order.get(axis, "channels") for axis in range(rank))
    order = {channels: "channels", rows: "height", columns: "width"}
    return tuple(order.get(axis, "batch") for axis in range(rank))


def axis_named(descriptor: Descriptor, slot: str, name: str, rank: int) -> int | None:
    """Return the axis of a slot that has a name; None if none has."""
    names = axis_names(descriptor, slot, rank)
    return names.index(name) if name in names else None


def _quantized_axis(slots: Callable[[Layer], Sequence[OutputSlot]], slot: str) -> Reader:
    def read(layer: Layer) -> Values:
        found: list[Any] = []
        for one in slots(layer):
            info = one.known_info
            quantization: Quantization | None = info.quantization
            if quantization is not None and quantization.axis is not None:
                axis = quantization.axis % max(info.rank, 1)
                names = axis_names(layer.descriptor, slot, info.rank)
                found.append(names[axis] if names else axis)
        return found

    return read


def _extent(subject: str, name: str) -> Reader:
    at = ("height", "width").index(name)

    def padded(layer: Layer) -> Values:
        padding = getattr(layer.descriptor, "padding", None)
        image = layer.inputs[0].info if layer.inputs else None
        axis = None if image is None else axis_named(layer.descriptor, "input", name, image.rank)
        if padding is None or image is None or axis is None:
            return _NONE
        return (image.sizes[axis] + padding[at] + padding[at + 2],)

    def window(layer: Layer) -> Values:
        descriptor: Any = layer.descriptor
        weights = layer.inputs[1].info if len(layer.inputs) > 1 else None
        if hasattr(descriptor, "kernel_size"):
            size = None if weights is None else descriptor.kernel_size(weights)
        else:
            size = getattr(descriptor, "size", None)
        if size is None or not hasattr(descriptor, "dilation"):
            return _NONE
        return (descriptor.dilation[at] * (size[at] - 1) + 1,)

    return padded if subject == "padded" else window


def _products(layer: Layer) -> Values:
    results = layer.output_infos
    return (layer.descriptor.macs(layer.input_infos, results) // max(sum(info.elements for info in results), 1),)
