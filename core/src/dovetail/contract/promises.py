"""What a manifest promises beyond its claims: exact bits, known deviations, late failures.

The page docs/promises.md describes it; in short::

    "bit_exact": {
        "dovetail.Permute, dovetail.Pad": [{"dtypes": ["any"]}],
        "dovetail.Convolution2d": [{"dtypes": ["int8"], "standard": "litert"}]
    },
    "deviations": {
        "dovetail.Pooling2d": [
            {
                "dtypes": ["int8"], "where": {"function": "average"}, "absolute": 1,
                "what": "halves are rounded down", "why": "the pooling unit truncates"
            }
        ]
    },
    "late_failure": {"fail_at": 1}

`dtypes` and `where` are those of claims, and may name the sets of conditions of `claims`. The core
decides nothing by promises; tools show them, and the conformance kit judges by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..graph.layer import Layer
from ..ground.foreign_text import shown
from ..ground.records import NamedTuple
from .claims import Claim, Claims, ClaimsError, Sets, by_kind, is_number, listed, scope_of
from .device import Device

KIND = "kind"
STANDARDS: Mapping[str, str] = {
    KIND: "the kind leaves no choice: elements are moved, compared or computed in integers, or rounded as it says",
    "ieee": "IEEE 754: one operation, correctly rounded to nearest, ties to even",
    "litert": "the reference kernels of LiteRT (TensorFlow Lite)",
    "onnx": "the definitions of ONNX's operators",
}
"""What defines the bits that a backend promises."""

_SCOPE = ("dtypes", "where")
_BOUNDS = ("absolute", "relative", "nonfinite")
_WORDS = ("what", "why", "link")


class BitExact(NamedTuple):
    """Layers whose results have the bits that a standard defines.

    Attributes:
        scope: Which layers of the kind.
        standard: One of `STANDARDS`.
    """

    scope: Claim
    standard: str = KIND


class Deviation(NamedTuple):
    """A way in which results are known to differ from what they should be.

    Attributes:
        kind: Of the layers.
        scope: Which layers of the kind.
        what: What is different, for people.
        why: The reason, for people.
        absolute, relative: A result differs by at most absolute + relative * |expected|.
        nonfinite: Where NaN or an infinity is expected anything may come.
        link: Where more is to be read.
    """

    kind: str
    scope: Claim
    what: str
    why: str
    absolute: float = 0.0
    relative: float = 0.0
    nonfinite: bool = False
    link: str = ""

    @property
    def bound(self) -> str:
        """By how much results differ at most, for people."""
        parts = [f"{self.absolute:g}"] if self.absolute else []
        parts += [f"{self.relative:g} times the expected value"] if self.relative else []
        texts = [f"by at most {' + '.join(parts)}"] if parts else []
        texts += ["by anything where NaN or an infinity is expected"] if self.nonfinite else []
        return " and ".join(texts)

    def __str__(self) -> str:
        return f"{self.what} ({self.bound}), because {self.why}{f'; see {self.link}' if self.link else ''}"


class Promises(NamedTuple):
    """What a manifest promises beyond its claims.

    Attributes:
        bit_exact: By kind.
        deviations: In the order of the manifest.
        late_failure: Options under which work that was enqueued fails on the device; None if there
            are none such.
    """

    bit_exact: Mapping[str, tuple[BitExact, ...]]
    deviations: tuple[Deviation, ...] = ()
    late_failure: Mapping[str, Any] | None = None

    def standard_of(self, layer: Layer, device: Device) -> str | None:
        """Return the standard by which a layer's bits are promised; None if they are not."""
        entries = self.bit_exact.get(layer.kind, ())
        return next((one.standard for one in entries if one.scope.holds(layer, device)), None)

    def deviations_of(self, layer: Layer, device: Device) -> list[Deviation]:
        """Return the deviations that a layer may show."""
        return [one for one in self.deviations if one.kind == layer.kind and one.scope.holds(layer, device)]

    def scopes(self) -> Iterator[tuple[str, Claim]]:
        """Return every kind that is spoken of, with the layers that are meant."""
        for kind, entries in self.bit_exact.items():
            yield from ((kind, one.scope) for one in entries)
        yield from ((one.kind, one.scope) for one in self.deviations)


NOTHING = Promises({})


def read_promises(manifest: Mapping[str, Any] | None) -> Promises:
    """Read the promises of a manifest; what it has none of is empty.

    Raises:
        ClaimsError: They are malformed.
    """
    if manifest is None:
        return NOTHING
    sets = Claims(manifest.get("claims", {})).conditions_of
    exact = by_kind("bit_exact", manifest.get("bit_exact", {}))
    deviations = by_kind("deviations", manifest.get("deviations", {}))
    late = manifest.get("late_failure")
    if late is not None and (not isinstance(late, dict) or not late):
        raise ClaimsError("'late_failure' must be an object of the backend's options, by name, such as {\"fail_at\": 1}")
    return Promises(
        {
            kind: tuple(_bit_exact(kind, entry, sets) for entry in listed("bit_exact", kind, several))
            for kind, several in exact.items()
        },
        tuple(
            _deviation(kind, entry, sets)
            for kind, several in deviations.items()
            for entry in listed("deviations", kind, several)
        ),
        late,
    )


def _fields(field: str, kind: str, entry: Any, known: tuple[str, ...], needed: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(entry, dict):
        raise ClaimsError(f"an entry of {field!r} of {kind} must be an object of {', '.join(known)}")
    unknown = [name for name in entry if name not in known]
    if unknown:
        raise ClaimsError(f"an entry of {field!r} of {kind} takes {', '.join(known)}, not {', '.join(unknown)}")
    missing = [name for name in needed if name not in entry]
    if missing:
        raise ClaimsError(f"an entry of {field!r} of {kind} lacks {', '.join(missing)}")
    return entry


def _bit_exact(kind: str, entry: Any, sets: Sets) -> BitExact:
    fields = _fields("bit_exact", kind, entry, (*_SCOPE, "standard"), ("dtypes",))
    standard = fields.get("standard", KIND)
    if not isinstance(standard, str) or standard not in STANDARDS:
        raise ClaimsError(f"'standard' in 'bit_exact' of {kind} is {standard!r}; it must be one of {', '.join(STANDARDS)}")
    return BitExact(scope_of(kind, fields, sets), standard)


def _deviation(kind: str, entry: Any, sets: Sets) -> Deviation:
    fields = _fields("deviations", kind, entry, (*_SCOPE, *_BOUNDS, *_WORDS), ("dtypes", "what", "why"))
    for name in _WORDS:
        text = fields.get(name, "none" if name == "link" else "")
        if not isinstance(text, str) or not text.strip() or not text.isprintable():
            raise ClaimsError(f"{name!r} in 'deviations' of {kind} must be a line of text, not {text!r}")
    for name in ("absolute", "relative"):
        value = fields.get(name, 0)
        if not is_number(value) or value < 0:
            raise ClaimsError(f"{name!r} in 'deviations' of {kind} must be a finite number of at least 0, not {shown(value)}")
    if not isinstance(fields.get("nonfinite", False), bool):
        raise ClaimsError(f"'nonfinite' in 'deviations' of {kind} must be true or false")
    given = {name: fields[name] for name in (*_BOUNDS, *_WORDS) if name in fields}
    found = Deviation(kind, scope_of(kind, fields, sets), **given)
    if not found.bound:
        raise ClaimsError(f"a deviation of {kind} must say by how much: give {', '.join(_BOUNDS[:2])} or {_BOUNDS[2]}")
    return found
