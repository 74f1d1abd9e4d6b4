"""What a backend's manifest claims: kinds, element types and the limits within which it takes them, as data.

In a manifest::

    "claims": {
        "dovetail.Convolution2d": [
            {
                "dtypes": ["int8"],
                "where": {"layout": "NHWC", "stride": {"min": 1, "max": 2}, "input.channels": {"multiple_of": 8}}
            }
        ]
    }

A kind has one claim or several, of which any may hold. A condition is a value, a list of values, or an object of `min`, `max`
and `multiple_of`. It speaks of a quantity:

- the name of an attribute; of a list, every element must fit;
- `<slot>.<axis>`, where a slot is the name of an input, or `output`, and the axis is a number or, of images with the attribute
  `layout`, one of batch, channels, height and width (of weights: filters, channels, height, width);
- `<slot>.rank`, `<slot>.elements`, `<slot>.dtype`, `<slot>.constant` (true or false), `<slot>.quantization` ("none",
  "per_tensor", "per_axis").

What a layer does not have (a left-out input, an attribute of another kind) fits no condition but `null`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..graph.tensor import DataLayout, DType
from ..ground.close_names import close_names

if TYPE_CHECKING:
    from ..graph.layer import Layer
    from ..graph.tensor import TensorInfo
    from .interfaces import Support

IMAGE_AXES = ("batch", "channels", "height", "width")
WEIGHT_AXES = ("filters", "channels", "height", "width")
_LIMITS = ("min", "max", "multiple_of")


class ClaimsError(Exception):
    """Claims are malformed; the text says where and how."""


class Condition(NamedTuple):
    """What the values of one quantity must be.

    Attributes:
        quantity: What it speaks of.
        one_of: Values allowed, or None for any.
        minimum, maximum: Bounds, both inclusive, or None.
        multiple_of: Every value is a multiple of it; 1 for any.
    """

    quantity: str
    one_of: tuple[Any, ...] | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    multiple_of: int = 1

    def holds(self, values: Sequence[Any]) -> bool:
        """Tell whether every value fits; an absent quantity has no values and fits `null` alone."""
        if not values:
            return self.one_of is not None and None in self.one_of
        return all(map(self._fits, values))

    def _fits(self, value: Any) -> bool:
        if self.one_of is not None:
            return any(value == allowed and isinstance(value, bool) == isinstance(allowed, bool) for allowed in self.one_of)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        above = self.minimum is None or value >= self.minimum
        below = self.maximum is None or value <= self.maximum
        return above and below and value % self.multiple_of == 0

    def __str__(self) -> str:
        if self.one_of is not None:
            allowed = ", ".join(str(value) for value in self.one_of)
            return (
                f"{self.quantity} must be {allowed}" if len(self.one_of) == 1 else f"{self.quantity} must be one of {allowed}"
            )
        limits = [f"at least {self.minimum}"] * (self.minimum is not None) + [f"at most {self.maximum}"] * (
            self.maximum is not None
        )
        limits += [f"a multiple of {self.multiple_of}"] * (self.multiple_of != 1)
        return f"{self.quantity} must be {' and '.join(limits)}"


class Claim(NamedTuple):
    """One way in which a kind is taken.

    Attributes:
        dtypes: Element types it is computed in, see `Descriptor.computes_in`.
        where: Conditions, all of which must hold.
    """

    dtypes: tuple[DType, ...]
    where: tuple[Condition, ...] = ()


Claims = Mapping[str, tuple[Claim, ...]]


def read_claims(content: Any) -> dict[str, tuple[Claim, ...]]:
    """Read the claims of a manifest.

    Raises:
        ClaimsError: They are malformed.
    """
    if not isinstance(content, dict):
        raise ClaimsError(f"'claims' must be an object, by kind, not {type(content).__name__}")
    claims: dict[str, tuple[Claim, ...]] = {}
    for kind, entries in content.items():
        if "." not in kind:
            raise ClaimsError(f"{kind!r} in 'claims' is no kind; write it as 'dovetail.Convolution2d'")
        if not isinstance(entries, list):
            raise ClaimsError(f"the claims of {kind} must be a list")
        claims[kind] = tuple(_claim(kind, entry) for entry in entries)
    return claims


def _claim(kind: str, entry: Any) -> Claim:
    if not isinstance(entry, dict) or not set(entry) <= {"dtypes", "where"} or "dtypes" not in entry:
        raise ClaimsError(f"a claim of {kind} must be an object of 'dtypes' and, optionally, 'where'")
    labels = {dtype.label: dtype for dtype in DType}
    dtypes, where = entry["dtypes"], entry.get("where", {})
    if not isinstance(dtypes, list) or not dtypes or not all(isinstance(label, str) and label in labels for label in dtypes):
        raise ClaimsError(f"'dtypes' of {kind} must be a list of {', '.join(labels)}")
    if not isinstance(where, dict):
        raise ClaimsError(f"'where' of {kind} must be an object, by quantity")
    return Claim(tuple(labels[label] for label in dtypes), tuple(_condition(kind, *item) for item in where.items()))


def _condition(kind: str, quantity: str, wanted: Any) -> Condition:
    if not isinstance(wanted, dict):
        allowed = tuple(wanted) if isinstance(wanted, list) else (wanted,)
        if not allowed or not all(value is None or isinstance(value, str | int | float) for value in allowed):
            raise ClaimsError(f"{quantity!r} of {kind} must be a value, a list of values, or an object of {', '.join(_LIMITS)}")
        return Condition(quantity, allowed)
    unknown = [name for name in wanted if name not in _LIMITS]
    if unknown or not wanted:
        close = close_names(unknown[0], _LIMITS, count=1) if unknown else []
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ClaimsError(f"{quantity!r} of {kind} takes {', '.join(_LIMITS)}, not {', '.join(unknown) or 'nothing'}{hint}")
    for name, value in wanted.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or (name == "multiple_of" and (not isinstance(value, int) or value < 1)):
            raise ClaimsError(
                f"{name!r} of {quantity!r} of {kind} must be a {'positive integer' if name == _LIMITS[2] else 'number'}"
            )
    return Condition(quantity, None, wanted.get("min"), wanted.get("max"), wanted.get("multiple_of", 1))


def quantity_values(layer: Layer, quantity: str) -> list[Any]:
    """Return the values of a quantity of a layer whose infos are concrete; none if the layer does not have it."""
    slot, dot, what = quantity.partition(".")
    if not dot:
        return _attribute_values(getattr(layer.descriptor, quantity, None))
    info, is_constant = _slot_info(layer, slot)
    if info is None:
        return []
    simple = {
        "rank": info.rank,
        "elements": info.elements if info.is_concrete else None,
        "dtype": info.dtype.label,
        "constant": is_constant,
        "quantization": _quantization(info),
    }
    if what in simple:
        return [simple[what]]
    axis = int(what) if what.lstrip("-").isdecimal() else _named_axis(layer, slot, what, info.rank)
    return [info.shape[axis]] if axis is not None and -info.rank <= axis < info.rank else []


def _attribute_values(value: Any) -> list[Any]:
    if value is None:
        return []
    values = list(value) if isinstance(value, tuple) else [value]
    return [str(one) if isinstance(one, str) else one for one in values]


def _slot_info(layer: Layer, slot: str) -> tuple[TensorInfo | None, bool]:
    if slot == "output":
        return (layer.output_infos[0] if layer.outputs else None), False
    names = layer.descriptor.input_names
    if slot not in names or names.index(slot) >= len(layer.inputs):
        return None, False
    index = names.index(slot)
    return layer.input_infos[index], layer.constant(index) is not None


def _quantization(info: TensorInfo) -> str:
    if info.quantization is None:
        return "none"
    return "per_axis" if info.quantization.is_per_axis else "per_tensor"


def _named_axis(layer: Layer, slot: str, name: str, rank: int) -> int | None:
    layout = getattr(layer.descriptor, "layout", None)
    names = WEIGHT_AXES if slot == "weights" else IMAGE_AXES
    if layout is None or name not in names or rank != len(names):
        return None
    order = names if DataLayout(layout) is DataLayout.NCHW else (names[0], names[2], names[3], names[1])
    return order.index(name)


def refusal_of(layer: Layer, claims: Claims) -> Support:
    """Say whether claims cover a layer, for a backend's `supports` that lets its manifest decide, and for tools.

    The refusal of the claim that came closest is given: the dtype is named only if no claim has it.
    """
    from .interfaces import Support

    kind = claims.get(layer.kind)
    if not kind:
        return Support.no("kind", f"{layer.kind} is not among the {len(claims)} kinds that are claimed")
    dtype = layer.descriptor.computes_in(layer.input_infos, layer.output_infos)
    fitting = [claim for claim in kind if dtype in claim.dtypes]
    if not fitting:
        known = ", ".join(dict.fromkeys(one.label for claim in kind for one in claim.dtypes))
        return Support.no("dtype", f"{layer.kind} of {dtype} is not claimed; it is claimed for {known}")
    broken = [[c for c in claim.where if not c.holds(quantity_values(layer, c.quantity))] for claim in fitting]
    closest = min(broken, key=len)
    if not closest:
        return Support.yes()
    condition = closest[0]
    slot, dot, what = condition.quantity.partition(".")
    found = ", ".join(map(str, quantity_values(layer, condition.quantity))) or "none"
    code = "attribute" if not dot else "dtype" if what == "dtype" else "shape"
    return Support.no(code, f"{condition}, found {found}", slot)
