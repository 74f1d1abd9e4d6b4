"""What a backend's manifest claims: kinds, element types, and the limits within which they hold.

The claims decide which layers a backend is given (`IBackend.supports`). The page docs/claims.md
describes their language; in short::

    "claims": {
        "image": {"input.rank": 4, "input.batch": 1},
        "dovetail.Pooling2d, dovetail.GlobalPooling": [
            {
                "dtypes": ["float", "int8"],
                "where": ["image", {"function": ["max", "average"], "stride": {"min": 1, "max": 2}}]
            }
        ]
    }

A kind has one claim or several, of which any may hold. All conditions of a claim must hold, each
for every value of its quantity (`quantities.py`). A condition is one alternative, or a list of
which any may hold:

- a value; `null` fits what a layer does not have, such as an input that is left out;
- an object of `min`, `max` and `multiple_of`; a limit may be the name of another quantity;
- an object of `same_as`: the name of another quantity, whose values it must have.

A name without a dot is a set of conditions, for use in `where`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeGuard

from ..graph.element_types import DType
from ..graph.layer import Layer
from ..ground.close_names import close_names
from ..ground.foreign_text import shown
from ..ground.records import NamedTuple
from .conditions import Condition, Limit, Range, are, joined
from .device import DEFAULT_DEVICE, Device
from .quantities import Quantity
from .support import Support

DTYPE_GROUPS: Mapping[str, tuple[DType, ...]] = {
    "float": tuple(dtype for dtype in DType if dtype.is_float),
    "integer": tuple(dtype for dtype in DType if dtype.is_integer),
    "any": tuple(DType),
}
"""Names that stand for several element types."""
_MAX_NAMED = 4
"""Kinds that a refusal names, if there are no more."""
_RANGE = ("min", "max", "multiple_of")
_QUANTITY = re.compile(r"device\..+|[A-Za-z][A-Za-z0-9_]*(\.(-?[0-9]{1,4}|[A-Za-z][A-Za-z0-9_]*))?")
_NAMES: Mapping[str, tuple[DType, ...]] = {**DTYPE_GROUPS, **{dtype.label: (dtype,) for dtype in DType}}


class ClaimsError(Exception):
    """Claims are malformed; the text says where and how."""


class Claim(NamedTuple):
    """One way in which a kind is taken.

    Attributes:
        dtypes: Element types it is computed in, see `Descriptor.computes_in`.
        where: Conditions, all of which must hold.
    """

    dtypes: tuple[DType, ...]
    where: tuple[Condition, ...] = ()

    def holds(self, layer: Layer, device: Device) -> bool:
        """Tell whether a layer of the claim's kind, whose infos are concrete, fits."""
        dtype = layer.descriptor.computes_in(layer.input_infos, layer.output_infos)
        return dtype in self.dtypes and all(condition.holds(layer, device) for condition in self.where)


class Claims(Mapping[str, tuple[Claim, ...]]):
    """What a manifest claims, by kind.

    The claims of a kind are read when they are first asked for. `read_claims` reads all at once.

    Args:
        content: As it stands in the manifest.

    Raises:
        ClaimsError: It is malformed; what stands below a kind, when that is read.
    """

    def __init__(self, content: Any) -> None:
        if not isinstance(content, dict):
            raise ClaimsError(f"'claims' must be an object, by kind, not {type(content).__name__}")
        self._sets = {name: entry for name, entry in content.items() if "." not in name and isinstance(entry, dict)}
        for name, entry in content.items():
            if "." not in name and name not in self._sets and name.replace(",", " ").split() == [name]:
                raise ClaimsError(
                    f"{shown(name)} in 'claims' is no kind, as 'dovetail.Convolution2d' is, and no set of conditions, "
                    f"which is an object by quantity and names no other set, not {shown(entry)}"
                )
        self._named: dict[str, tuple[Condition, ...]] = {}
        self._unread = by_kind("claims", {names: entries for names, entries in content.items() if names not in self._sets})
        self._read: dict[str, tuple[Claim, ...]] = {}

    def __getitem__(self, kind: str) -> tuple[Claim, ...]:
        found = self._read.get(kind)
        if found is None:
            entries = listed("claims", kind, self._unread[kind])
            found = self._read[kind] = tuple([_claim(kind, entry, self.conditions_of) for entry in entries])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._unread)

    def __len__(self) -> int:
        return len(self._unread)

    def read(self) -> Claims:
        """Read all that was not asked for yet, conditions that no kind names included.

        Raises:
            ClaimsError: They are malformed.
        """
        for name in self._sets:
            self.conditions_of("", name)
        for kind in self:
            self[kind]
        return self

    def conditions_of(self, of: str, name: str) -> tuple[Condition, ...]:
        """Return a set of conditions that the claims of a kind name.

        Raises:
            ClaimsError: There is none of this name, or it is malformed.
        """
        if name not in self._sets:
            known = ", ".join(map(repr, self._sets)) or "there are none"
            raise ClaimsError(f"'where' of {of} names the conditions {name!r}, which 'claims' does not have: {known}")
        if name not in self._named:
            whose = f"the conditions {name!r}"
            self._named[name] = tuple([_condition(whose, *item) for item in self._sets[name].items()])
        return self._named[name]

    def _kinds(self) -> str:
        if len(self) > _MAX_NAMED:
            return f"{len(self)} other kinds are"
        names = joined(self)
        return f"{' and '.join(names)} {are(names)}"

    def support(self, layer: Layer, device: Device = DEFAULT_DEVICE) -> Support:
        """Say whether a layer whose infos are concrete is claimed for a device.

        A refusal speaks of the claim that came closest; of the element type only if no claim has
        it.
        """
        claims = self.get(layer.kind)
        if not claims:
            return Support.no("kind", f"{layer.kind} is not taken; {self._kinds()}")
        dtype = layer.descriptor.computes_in(layer.input_infos, layer.output_infos)
        fitting = [claim for claim in claims if dtype in claim.dtypes]
        if not fitting:
            known = joined(dict.fromkeys(one.label for claim in claims for one in claim.dtypes))
            return Support.no("dtype", f"{layer.kind} of {dtype} is not taken; {' and '.join(known)} {are(known)}")
        for claim in fitting:
            for condition in claim.where:
                if not condition.holds(layer, device):
                    break
            else:
                return _YES
        # Where other types are taken otherwise, the type is part of the reason.
        return _refusal(layer, device, fitting, "" if len(fitting) == len(claims) else f" for {dtype}")


_YES = Support.yes()


def _refusal(layer: Layer, device: Device, claims: Iterable[Claim], whose: str) -> Support:
    """Make the sentence of a refusal from the closest claim.

    It says what the first condition that fails found, and what would be taken.
    """
    broken = [[condition for condition in claim.where if not condition.holds(layer, device)] for claim in claims]
    fewest = min(map(len, broken))
    closest = [conditions for conditions in broken if len(conditions) == fewest]
    blamed = closest[0][0]
    others = [one for conditions in closest for one in conditions if one.quantity.name == blamed.quantity.name]
    taken = joined(dict.fromkeys(text for condition in others for text in condition.taken(layer, device)))
    name = blamed.quantity.name
    reason = f"{name} is {blamed.found(layer, device)}; {' or '.join(taken)} is taken{whose}"
    return Support.no(blamed.code(layer), reason, name.partition(".")[0])


# -- reading ---------------------------------------------------------------------------------------


def read_claims(content: Any) -> Claims:
    """Read all claims of a manifest.

    Raises:
        ClaimsError: They are malformed.
    """
    return Claims(content).read()


Sets = Callable[[str, str], tuple[Condition, ...]]
"""Returns the conditions of a name, given whose claims name them."""


def by_kind(field: str, content: Any) -> dict[str, Any]:
    """Split what a field of a manifest holds by kind; keys may name several.

    Raises:
        ClaimsError: It is no object, or a key names no kind, or one that stands there before.
    """
    if not isinstance(content, dict):
        raise ClaimsError(f"{field!r} must be an object, by kind, not {type(content).__name__}")
    found: dict[str, Any] = {}
    for names, entries in content.items():
        for kind in names.replace(",", " ").split():
            if "." not in kind:
                raise ClaimsError(f"{kind!r} in {field!r} is no kind; write it as 'dovetail.Convolution2d'")
            if kind in found:
                raise ClaimsError(f"{kind} stands in {field!r} twice; give it one list")
            found[kind] = entries
    return found


def listed(field: str, kind: str, entries: Any) -> list[Any]:
    """Return what a field of a manifest says of a kind.

    Raises:
        ClaimsError: It is no list.
    """
    if not isinstance(entries, list):
        raise ClaimsError(f"the {field} of {kind} must be a list")
    return entries


def _claim(kind: str, entry: Any, sets: Sets) -> Claim:
    if not isinstance(entry, dict) or not set(entry) <= {"dtypes", "where"} or "dtypes" not in entry:
        raise ClaimsError(f"a claim of {kind} must be an object of 'dtypes' and, optionally, 'where'")
    return scope_of(kind, entry, sets)


def scope_of(kind: str, entry: Mapping[str, Any], sets: Sets) -> Claim:
    """Read which layers of a kind an entry speaks of: its `dtypes`, and its `where` if it has one.

    Raises:
        ClaimsError: They are malformed.
    """
    labels = entry["dtypes"]
    if not isinstance(labels, list) or not labels or not all(isinstance(label, str) and label in _NAMES for label in labels):
        raise ClaimsError(f"'dtypes' of {kind} must be a list of {', '.join(_NAMES)}")
    dtypes = tuple(dict.fromkeys(dtype for label in labels for dtype in _NAMES[label]))
    return Claim(dtypes, _conditions(kind, entry.get("where", {}), sets))


def _conditions(of: str, where: Any, sets: Sets) -> tuple[Condition, ...]:
    found: list[Condition] = []
    for part in where if isinstance(where, list) else [where]:
        if isinstance(part, str):
            found += sets(of, part)
        elif isinstance(part, dict):
            found += [_condition(of, *item) for item in part.items()]
        else:
            raise ClaimsError(f"'where' of {of} must be an object, by quantity, or a list of such and of names of conditions")
    return tuple(found)


def _condition(of: str, quantity: str, wanted: Any) -> Condition:
    one_of: list[Any] = []
    ranges: list[Range] = []
    same_as: list[Quantity] = []
    own = _quantity(of, quantity)
    for alternative in wanted if isinstance(wanted, list) else [wanted]:
        if isinstance(alternative, dict) and "same_as" in alternative:
            same_as.append(_other(of, quantity, alternative))
        elif isinstance(alternative, dict):
            ranges.append(_range(of, quantity, alternative))
        elif alternative is None or isinstance(alternative, str | bool) or is_number(alternative):
            one_of += _values(quantity, alternative)
        else:
            raise ClaimsError(_expected(of, quantity))
    if not (one_of or ranges or same_as):
        raise ClaimsError(_expected(of, quantity))
    return Condition(own, one_of, ranges, same_as)


def is_number(value: Any) -> TypeGuard[int | float]:
    """Tell whether a value is a number, finite and not beyond the range of a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _quantity(of: str, name: str) -> Quantity:
    if not _QUANTITY.fullmatch(name):
        raise ClaimsError(
            f"{shown(name)} of {of} is no quantity; write the name of an attribute, or subject and fact as in 'input.rank'"
        )
    return Quantity(name)


def _expected(of: str, quantity: str) -> str:
    return (
        f"{quantity!r} of {of} must be a value, an object of {', '.join(_RANGE)}, an object of 'same_as', "
        "or a list of values and such objects"
    )


def _values(quantity: str, value: Any) -> list[Any]:
    """Return what a value stands for: of element types a name may stand for several."""
    fact = quantity.partition(".")[2]
    if (fact or quantity) == "dtype" and isinstance(value, str) and value in DTYPE_GROUPS:
        return [dtype.label for dtype in DTYPE_GROUPS[value]]
    if fact == "quantization" and value is None:
        return [None, "none"]  # the slot may be left out; a tensor without quantization says "none"
    return [value]


def _other(of: str, quantity: str, wanted: Mapping[str, Any]) -> Quantity:
    name = wanted["same_as"]
    if len(wanted) != 1 or not isinstance(name, str) or not name:
        raise ClaimsError(f"'same_as' of {quantity!r} of {of} must stand alone and be the name of a quantity")
    return _quantity(of, name)


def _range(of: str, quantity: str, wanted: Mapping[str, Any]) -> Range:
    unknown = [name for name in wanted if name not in _RANGE]
    if unknown or not wanted:
        close = close_names(unknown[0], (*_RANGE, "same_as"), count=1) if unknown else []
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ClaimsError(f"{quantity!r} of {of} takes {', '.join(_RANGE)}, not {', '.join(unknown) or 'nothing'}{hint}")
    step = wanted.get("multiple_of", 1)
    if not is_number(step) or not isinstance(step, int) or step < 1:
        raise ClaimsError(f"'multiple_of' of {quantity!r} of {of} must be a positive integer, not {shown(step)}")
    low, high = (_limit(of, quantity, name, wanted.get(name)) for name in _RANGE[:2])
    if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
        raise ClaimsError(f"'min' of {quantity!r} of {of} is {low}, above its 'max' of {high}: nothing fits")
    return Range(low, high, step)


def _limit(of: str, quantity: str, name: str, value: Any) -> Limit:
    if value is None or (isinstance(value, str) and value):
        return _quantity(of, value) if value else None
    if not is_number(value):
        raise ClaimsError(f"{name!r} of {quantity!r} of {of} must be a number or the name of a quantity, not {shown(value)}")
    return value
